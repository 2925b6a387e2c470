"""The example of the documentation works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.analyzers.builtin import ROOT
from tests.inputs.clean import f00_trace, tpu_of
from tpuprof.testing.contract import check_analyzer

PAGE = (ROOT / "docs" / "analyzers.md").read_text(encoding="utf-8")


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's Python blocks define, with the package that they speak of on the path."""
    rules = tmp_path / "my_package" / "rules"
    rules.mkdir(parents=True)
    (rules.parent / "__init__.py").touch()
    (rules / "__init__.py").touch()
    (rules / "TPU299.md").write_text("# TPU299 Sorting takes time\n\nSorts are slow.\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/analyzers.md", "exec"), names)
    return names


def test_the_example_keeps_the_contract_and_finds_sorts(example: dict[str, Any], tmp_path: Path) -> None:
    example["test_contract"](tmp_path / "edges")
    builder = f00_trace()
    for event in tpu_of(builder)["XLA Ops"]:
        if event.name == "copy.4":
            event.name = "sort.4"
    trace = tpuprof.load(builder.write(tmp_path / "sorts"))
    assert check_analyzer(example["Sorting"](), trace) is not None
    (finding,) = tpuprof.analyze(trace, [example["Sorting"]()]).findings
    assert finding.message == "1 sorts take 5.0% of a step."
    assert finding.impact_ps == 50_000_000


def test_the_needs_are_explained_where_the_page_says() -> None:
    from tpuprof import registry

    source = Path(registry.__file__).read_text(encoding="utf-8")
    assert all(f"``{need}``" in source for need in registry.NEEDS)
