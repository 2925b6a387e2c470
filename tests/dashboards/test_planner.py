"""Page Planner: the answers are those of the commands, and nothing of the server can be read through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tpuprof_dashboards.planner.commands import (
    NOT_OFFERED,
    arguments_of,
    calculator,
    plan_serve,
    plan_train,
    run,
    shown_command,
)
from tpuprof_dashboards.planner.forms import fields_of

from tests.dashboards.harness import SAMPLES, Dashboard, page_test, problems, settled, texts
from tpuprof.cli import main
from tpuprof.cli.calc import SUBCOMMANDS
from tpuprof.errors import UsageError

SMALL = {"model_name": "llama3-8b", "topology": "4x4x4", "batch_tokens": "1048576"}
TRAIN = ["--chip", "v5p", "--topology", "4x4x4", "--batch-tokens", "1048576", "--seq", "4096", "--tokens", "15T"]


def test_a_plan_is_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "train", "llama3-8b", *TRAIN, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    test = page_test("planner", SAMPLES, train=urlencode(SMALL))
    assert problems(test) == []
    table = test.dataframe[0].value
    assert list(table["layout"])[:10] == [row["layout"] for row in document["candidates"]][:10]
    assert table["mfu"].iloc[0] == pytest.approx(100 * document["candidates"][0]["mfu"])
    assert f"{document['fitting']:,} of {document['tried']:,}" in texts(test).replace("\\", "")
    assert "tpuprof plan train --chip=v5p --topology=4x4x4" in test.code[0].value


def test_serving_is_planned_too() -> None:
    asked = {"model": "llama3-8b", "topology": "2x2"}
    test = page_test("planner", SAMPLES, plan="serve", serve=urlencode(asked))
    assert problems(test) == []
    assert "Smallest slice" in texts(test)
    assert set(test.dataframe[0].value["slice"]) == {"v5e:2x2"}


def test_a_number_comes_with_its_derivation() -> None:
    asked = {"lhs": "bf16[1024,2048]", "rhs": "bf16[2048,4096]", "chip": "v5e"}
    test = page_test("planner", SAMPLES, plan="calc", calc="matmul", calc_matmul=urlencode(asked))
    assert problems(test) == []
    assert "87.2075 us" in texts(test)
    assert "padded FLOPs" in texts(test)


@pytest.mark.parametrize(
    "asked",
    [
        {"topology": "3x5x7"},
        {"topology": "<script>alert(1)</script>"},
        {"batch_tokens": "-1"},
        {"batch_tokens": "nan"},
        {"sequence": "99999999999999"},
        {"chips": "0", "topology": ""},
        {"mesh": "data=7"},
        {"dtype": "int1"},
    ],
)
def test_what_cannot_be_planned_is_said_in_words(asked: dict[str, str]) -> None:
    test = page_test("planner", SAMPLES, train=urlencode({**SMALL, **asked}))
    assert not test.exception
    shown = problems(test)
    assert len(shown) <= 1
    assert shown or "No layout is possible" in texts(test)
    assert "could not be drawn" not in "".join(shown)


def test_no_file_of_the_server_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "config.json"
    secret.write_text('{"secret": "hunter2"}')
    for asked in ({"model_name": str(secret)}, {"hardware_files": str(secret)}, {"from_run": str(tmp_path)}):
        test = page_test("planner", SAMPLES, train=urlencode({**SMALL, **asked}))
        assert problems(test) == []  # what is not offered does not count
        assert str(tmp_path) not in texts(test) + test.code[0].value
    asked = urlencode({"model_name": str(secret)})
    test = page_test("planner", SAMPLES, plan="calc", calc="flops", calc_flops=asked)
    assert str(tmp_path) not in texts(test) + "".join(problems(test)) + test.code[0].value
    for name in SUBCOMMANDS:
        command = calculator(name)
        offered = {field.name for field in fields_of(command)}
        assert not offered & NOT_OFFERED


def test_values_are_never_options() -> None:
    arguments = arguments_of(plan_train(), {**SMALL, "model_name": "--output=/x", "sequence": "--y"})
    assert arguments[-2:] == ["--", "--output=/x"]
    assert "--seq=--y" in arguments
    with pytest.raises(UsageError):
        run(plan_train(), arguments, "json")


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_every_calculator_has_a_form_that_makes_its_command(name: str) -> None:
    command = calculator(name)
    fields = fields_of(command)
    assert {field.name for field in fields} == {p.name for p in command.params} - NOT_OFFERED - {"help"}
    defaults = {field.name: field.default for field in fields}
    assert [word for word in arguments_of(command, defaults) if word != "--"] == []
    assert shown_command(f"calc {name}", command, defaults).strip() == f"tpuprof calc {name}"


def test_every_option_of_the_plans_is_offered_or_left_out_on_purpose() -> None:
    for command in (plan_train(), plan_serve()):
        assert {field.name for field in fields_of(command)} == {p.name for p in command.params} - NOT_OFFERED - {"help"}


def test_what_is_sent_is_in_the_url_and_a_link_asks_it_again(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("planner", train=urlencode(SMALL)))
    tab.get_by_text("layouts fit").wait_for()
    settled(tab)
    tab.get_by_role("textbox", name="Topology").fill("2x4x4")
    tab.get_by_role("button", name="Plan", exact=True).click()
    tab.wait_for_function("() => location.search.includes('2x4x4')")
    tab.get_by_text("layouts fit v5p:2x4x4").wait_for()
    tab.reload()
    tab.get_by_text("layouts fit v5p:2x4x4").wait_for()
    settled(tab)
    assert tab.get_by_role("textbox", name="Topology").input_value() == "2x4x4"
