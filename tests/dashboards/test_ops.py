"""Page Ops: the numbers of the report, filters of the URL, and the panel of an op."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tpuprof_dashboards.text import plain

import tpuprof
from tests.dashboards.harness import SAMPLES, page_test, problems, sample, sample_report, texts
from tests.dashboards.odd import WILD, many_ops
from tpuprof.report import build_report
from tpuprof.roofline import roofline
from tpuprof.roofline.table import bound
from tpuprof.units import format_percent, format_ps

RUN = SAMPLES / "tpu_loop_async"
RUNS = ("tpu_loop_async", "tpu_two_hosts", "cpu_demo")


def table(test: Any) -> Any:
    return test.dataframe[0].value


@pytest.mark.parametrize("name", RUNS)
def test_the_table_is_that_of_the_report(name: str) -> None:
    report = sample_report(name)
    test = page_test("ops", SAMPLES / name)
    assert problems(test) == []
    assert table(test)["name"].tolist() == [op["name"] for op in report["ops"]]
    total = sum(op["self_ps"] for op in report["ops"])
    assert f"{len(report['ops'])} ops: {format_ps(total)} of self time" in texts(test)
    shares = [op["self_ps"] / total for op in report["ops"]]
    assert table(test)["self_fraction"].tolist() == pytest.approx(shares)
    known = [op["roofline_efficiency"] for op in report["ops"]]
    if any(known):
        found = table(test)["roofline_efficiency"].tolist()
        assert [round(x, 6) for x in found if x == x] == [round(100 * x, 6) for x in known if x is not None]


@pytest.mark.parametrize("by", ["kind", "scope"])
def test_groups_are_those_of_the_tables(by: str) -> None:
    test = page_test("ops", RUN, by=by)
    assert problems(test) == []
    expected = sample("tpu_loop_async").op_stats(by)
    assert table(test)["name"].tolist() == expected["name"].tolist()
    assert table(test)["self_fraction"].tolist() == pytest.approx(expected["self_fraction"].tolist())


def test_filters_of_the_url_narrow_the_table() -> None:
    ops = sample_report("tpu_loop_async")["ops"]
    matmuls = [op["name"] for op in ops if op["kind"] == "matmul"]
    assert table(page_test("ops", RUN, kind="matmul"))["name"].tolist() == matmuls
    inside = [op["name"] for op in ops if "/layer/up/" in (op["scope"] or "")]
    test = page_test("ops", RUN, scope="layer/up")
    assert table(test)["name"].tolist() == inside
    assert [button.label for button in test.button if button.label.startswith("scope")] == ["scope: layer/up"]
    searched = table(page_test("ops", RUN, q="TRAIN.PY:36"))["name"].tolist()
    assert searched == [op["name"] for op in ops if op["source"] == "train.py:36"]
    by_count = table(page_test("ops", RUN, sort="mean"))["mean_ps"].tolist()
    assert by_count == sorted(by_count, reverse=True)


def test_a_source_line_is_a_filter_and_so_is_its_group() -> None:
    ops = sample_report("tpu_loop_async")["ops"]
    test = page_test("ops", RUN, source="train.py:36")
    assert table(test)["name"].tolist() == [op["name"] for op in ops if op["source"] == "train.py:36"]
    assert "source: train\\.py\\:36" in [button.label for button in test.button]
    assert not table(page_test("ops", RUN, by="source")).empty


def test_one_step_of_one_core() -> None:
    trace = sample("tpu_loop_async")
    device, step = trace.devices[1].id, 2
    rows = trace.ops[(trace.ops["device"] == device) & (trace.ops["step"] == step)]
    test = page_test("ops", RUN, device=device, step=str(step))
    assert problems(test) == []
    assert table(test)["occurrences"].sum() == len(rows) > 0
    assert {"step: 2", f"core: {plain(device)}"} <= {button.label for button in test.button}
    whole = table(page_test("ops", RUN, step="<b>"))["occurrences"].sum()
    assert whole == len(trace.ops)  # a step that is no number narrows nothing


def test_a_chip_takes_its_filter_away() -> None:
    test = page_test("ops", RUN, scope="layer/up")
    before = len(table(test))
    next(button for button in test.button if button.label.startswith("scope")).click().run()
    assert len(table(test)) > before
    assert "scope" not in test.query_params


@pytest.mark.parametrize("view", ["cost", "steps", "cores", "hlo"])
def test_the_panel_of_an_op(view: str) -> None:
    test = page_test("ops", RUN, op="fusion.7", view=view)
    assert problems(test) == []
    trace = sample("tpu_loop_async")
    limits = roofline(trace)
    shown = texts(test)
    work = next(work for work in limits.works if work.info.name == "fusion.7")
    assert f"Self time {format_ps(work.self_ps)}" in shown
    assert "layer/up/dot_general" in shown
    if view == "cost":
        assert limits.rates is not None
        seconds = bound(work.cost, limits.rates).t_bound_s
        assert seconds is not None
        assert plain(format_ps(seconds * 1e12, 6)) in shown
        row = limits.table[limits.table["op"] == "fusion.7"].iloc[0]
        assert f"Of its bound {format_percent(row['efficiency'], 1)}" in shown
    if view == "cores":
        assert test.dataframe[1].value["occurrences"].tolist() == [16, 16]
    if view == "hlo":
        assert any("fusion.7" in code.value for code in test.code)


def test_a_collective_is_sent_to_its_page_and_a_wait_has_no_bound() -> None:
    assert "page Collectives" in texts(page_test("ops", RUN, op="all-reduce.27"))
    assert "no roofline applies" in texts(page_test("ops", RUN, op="copy-done.8"))
    assert "There is no bound." in texts(page_test("ops", SAMPLES / "cpu_demo", op="ynn_fusion.19"))


@pytest.mark.real
def test_of_several_ops_of_one_name_the_url_says_which(real_traces: Path) -> None:
    ops = build_report(tpuprof.load(real_traces / "mi300-gemm"), analyzers=())["ops"]
    alike = [op for op in ops if op["name"] == "custom-call.1"]
    assert len(alike) > 2
    for op in (alike[0], alike[2]):
        test = page_test("ops", real_traces, run="mi300-gemm", op="custom-call.1", of=op["module"])
        assert problems(test) == []
        assert op["module"] in texts(test)
    assert alike[0]["module"] in texts(page_test("ops", real_traces, run="mi300-gemm", op="custom-call.1"))


def test_source_lines_become_links() -> None:
    settings = {"source_link": "vscode://file/{path}:{line}"}
    test = page_test("ops", RUN, settings, op="fusion.7")
    assert "vscode://file/train.py:34" in texts(test)
    assert table(test)["source_url"].iloc[0] == "vscode://file/train.py:34"


def test_many_ops_are_cut_with_the_total_said(tmp_path: Path) -> None:
    test = page_test("ops", many_ops(tmp_path))
    assert problems(test) == []
    assert len(table(test)) == 1000
    assert "The first 1,000 of 1,500 rows" in texts(test)


def test_hostile_names_are_text(odd: Path) -> None:
    for params in ({}, {"op": f"{WILD}.1", "view": "hlo"}, {"by": "source"}, {"scope": WILD}):
        test = page_test("ops", odd, run="hostile_ops", **params)
        assert problems(test) == []
        written = "\n".join(element.value for kind in ("markdown", "caption", "subheader", "info", "warning")
                            for element in getattr(test, kind))  # fmt: skip
        obeyed = re.sub(r"`[^`\n]*`", "", written)  # code is shown as it is
        assert "<img" in obeyed or not params.get("op")
        assert "<img" not in obeyed.replace("\\<img", "")
        assert "](javascript" not in obeyed


def test_empty_runs_and_garbage_are_sentences(odd: Path) -> None:
    test = page_test("ops", odd, run="no_devices")
    assert problems(test) == []
    assert "no device work" in texts(test)
    garbage = {
        "by": "x" * 99,
        "sort": "1; drop",
        "kind": "\x00",
        "op": "nothing",
        "module": "no",
        "view": "?",
        "q": "[",
    }
    test = page_test("ops", RUN, **garbage)
    assert problems(test) == []
    assert "There is no op" in texts(test)
    assert "No op fits" in texts(page_test("ops", RUN, scope="nothing/at/all"))
