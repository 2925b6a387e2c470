"""The component's script is one module made of several, and none of it can read a name as markup."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from tpuprof_dashboards.timeline.component import SCRIPTS, script

ASSETS = files("tpuprof_dashboards.timeline") / "assets"


def test_the_modules_are_joined_without_imports() -> None:
    text = script()
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert re.findall(r"^export (\w+)", text, re.MULTILINE) == ["default"]
    for name in SCRIPTS:
        assert (ASSETS / name).read_text("utf-8").splitlines()[0] in text


def test_every_module_is_joined_and_needs_only_earlier_ones() -> None:
    assert {entry.name for entry in ASSETS.iterdir() if entry.name.endswith(".js")} == set(SCRIPTS)
    for at, name in enumerate(SCRIPTS):
        needed = re.findall(r'from "\./([\w.]+)"', (ASSETS / name).read_text("utf-8"))
        assert set(needed) <= set(SCRIPTS[:at]), name


def test_no_two_modules_name_the_same_thing() -> None:
    names = [
        found
        for name in SCRIPTS
        for found in re.findall(
            r"^(?:export )?(?:const|function|class) (\w+)", (ASSETS / name).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "danger",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http://", "https://"],
)
def test_no_name_can_become_markup_and_nothing_is_fetched(danger: str) -> None:
    assert danger not in script()
