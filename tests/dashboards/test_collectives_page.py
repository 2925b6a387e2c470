"""Page Collectives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.harness import SAMPLES, charts, page_test, problems, sample_report, texts
from tests.dashboards.odd import HOSTILE, ODD
from tpuprof.units import format_percent

RUNS = ("tpu_two_hosts", "tpu_loop_async", "cpu_demo")
SCOPE = "jit(train_step)/jit(main)/grads"


@pytest.mark.parametrize("run", RUNS)
def test_its_rows_are_those_of_the_report(run: str) -> None:
    report = sample_report(run)
    test = page_test("collectives", SAMPLES / run)
    assert problems(test) == []
    breakdown = report["breakdown"]
    shown = {metric.label: metric.value for metric in test.metric}
    assert shown["Exposed"] == format_percent(breakdown["parts"]["collective_exposed_ps"] / breakdown["step_ps"], 1)
    assert shown["Collectives"] == str(len(report["collectives"]))
    table = test.dataframe[0].value
    assert list(table["name"]) == [row["name"] for row in report["collectives"]]
    unit = report["collectives"][0]["exposed_ps"] / table["exposed_ps"].iloc[0]
    assert list(table["exposed_ps"] * unit) == pytest.approx([row["exposed_ps"] for row in report["collectives"]])


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("kind", "all_reduce"),
        ("scope", "grads"),
        ("junk", "all-reduce.3"),
    ],
)
def test_the_url_says_how_they_are_grouped(group: str, name: str) -> None:
    test = page_test("collectives", SAMPLES / "tpu_two_hosts", group=group)
    assert problems(test) == []
    assert name in charts(test)[0]
    assert "exposed: no compute beside it" in charts(test)[0]


@pytest.mark.parametrize(("split", "text"), [("wait", "waiting for the last core"), ("bound", "least the links allow")])
def test_the_url_says_how_they_are_divided(split: str, text: str) -> None:
    test = page_test("collectives", SAMPLES / "tpu_two_hosts", split=split)
    assert problems(test) == []
    assert text in charts(test)[0]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"coll": "all_gather"}, ["all-gather.5"]),
        ({"scope": SCOPE}, ["all-reduce.3"]),
        ({"source": "train.py:17", "device": "worker-1/TPU:1", "step": "2"}, ["all-reduce.3"]),
    ],
)
def test_filters_of_the_url_narrow_it_down(filters: dict[str, str], names: list[str]) -> None:
    test = page_test("collectives", SAMPLES / "tpu_two_hosts", **filters)
    assert problems(test) == []
    assert list(test.dataframe[0].value["name"]) == names
    assert len([button for button in test.button if ": " in button.label]) == len(filters)


def test_one_collective_is_shown_occurrence_by_occurrence() -> None:
    program = "jit_train_step(3202034522624059733)"
    test = page_test("collectives", SAMPLES / "tpu_two_hosts", op="all-reduce.3", of=program, step="1")
    assert problems(test) == []
    found = test.dataframe[1].value
    assert list(found["device"]) == ["worker-0/TPU:0", "worker-0/TPU:1", "worker-1/TPU:0", "worker-1/TPU:1"]
    assert list(found["wait_ps"]) == [40, 30, 40, 0]
    assert "4 occurrences" in texts(test)


@pytest.mark.parametrize("filters", [{"coll": "'; --"}, {"step": "<b>☃"}])
def test_filters_that_fit_nothing_say_so(filters: dict[str, str]) -> None:
    test = page_test("collectives", SAMPLES / "tpu_two_hosts", **filters)
    assert problems(test) == []
    assert "No collective fits these filters." in texts(test)
    test = next(button for button in test.button if ": " in button.label).click().run()
    assert len(test.dataframe[0].value) == 2


@pytest.mark.parametrize("run", ODD)
def test_odd_runs_are_shown_or_say_why_not(odd: Path, run: str) -> None:
    test = page_test("collectives", odd, run=run, group="scope")
    assert problems(test) == []
    if run == "hostile":
        assert list(test.dataframe[0].value["name"]) == ["all-reduce.2"]
    else:
        assert "This run has no collectives." in texts(test)
    assert HOSTILE not in texts(test)
