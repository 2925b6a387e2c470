"""Page Memory: the figures of the tables, programs of the URL, and reasons where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tests.dashboards.harness import SAMPLES, page_test, problems, sample, texts
from tests.hlo.buffer_helper import PADDED
from tests.tables.test_memory import F, buffers_of, trace_of
from tpuprof.report.memory import UNKNOWN_MEMORY
from tpuprof.units import format_bytes

RUN = SAMPLES / "cpu_demo"


def test_it_shows_the_peak_and_what_is_live_at_it() -> None:
    trace = sample("cpu_demo")
    (row,) = trace.memory_summary.to_dict("records")
    test = page_test("memory", RUN)
    assert problems(test) == []
    shown = texts(test)
    assert f"Peak {format_bytes(row['peak_bytes'])}" in shown
    assert f"Temp {format_bytes(row['temp_bytes'])}" in shown
    assert f"{row['live_buffers']} buffers of {row['live_buffers']} buffers, {format_bytes(row['peak_bytes'])}" in shown
    assert test.dataframe[0].value["peak_fraction"].sum() == pytest.approx(1)
    assert "The hosts recorded no allocations" in shown


@pytest.mark.parametrize("by", ["scope", "kind"])
def test_groups_add_up_to_the_peak(by: str) -> None:
    test = page_test("memory", RUN, by=by)
    assert problems(test) == []
    groups = test.dataframe[0].value
    assert groups["peak_fraction"].sum() == pytest.approx(1)
    assert groups["buffers"].sum() == len(sample("cpu_demo").memory)
    sizes = groups["bytes"].tolist()
    assert sizes == sorted(sizes, reverse=True)


def test_the_scope_of_the_url_narrows_what_is_live() -> None:
    test = page_test("memory", RUN, scope="mlp")
    assert problems(test) == []
    assert {path.partition("/")[0] for path in test.dataframe[0].value["path"]} == {"mlp"}
    assert "Nothing of this scope is live" in texts(page_test("memory", RUN, scope="nothing"))


def test_chips_say_that_steps_and_cores_do_not_apply() -> None:
    test = page_test("memory", RUN, step="2", scope="mlp")
    assert problems(test) == []
    labels = [button.label for button in test.button]
    assert labels == ["scope: mlp", "step: 2 (not used here)", "All away"]
    assert "needs the same in every step" in test.button[1].help
    test = test.button[1].click().run()
    assert "step" not in test.query_params
    assert "scope" in test.query_params


def test_a_chip_gives_the_capacity(tmp_path: Path) -> None:
    trace_of(tmp_path, (F, buffers_of()))
    test = page_test("memory", tmp_path, chip="v5p")
    assert problems(test) == []
    assert "Capacity of one device: v5p" in texts(test).replace("\\", "")
    assert f"Peak {format_bytes(5 * PADDED)}" in texts(test)


@pytest.mark.parametrize("name", ["tpu_two_hosts"])
def test_it_says_why_nothing_is_known(name: str) -> None:
    test = page_test("memory", SAMPLES / name)
    assert problems(test) == []
    assert UNKNOWN_MEMORY["buffers_missing"].partition(";")[0] in texts(test).replace("\\", "")


def test_odd_runs_and_garbage(odd: Path) -> None:
    test = page_test("memory", odd, run="no_devices")
    assert problems(test) == []
    assert "No program ran" in texts(test)
    assert problems(page_test("memory", odd, run="hostile_ops")) == []
    test = page_test("memory", RUN, module="no(1)", space="x", by="?", op="<b>", scope="")
    assert problems(test) == []
    assert "Peak" in texts(test)


@pytest.mark.real
def test_the_url_picks_a_program_and_a_memory(real_traces: Path) -> None:
    summary = tpuprof.load(real_traces / "v6e-4-host-offload").memory_summary
    for row in summary[summary["peak_bytes"].notna()].to_dict("records")[:3]:
        params = {"module": row["module"], "space": row["memory_space"]}
        test = page_test("memory", real_traces, run="v6e-4-host-offload", **params)
        assert problems(test) == []
        assert f"Peak {format_bytes(row['peak_bytes'])}" in texts(test)


@pytest.mark.real
def test_allocators_of_a_real_run(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    test = page_test("memory", real_traces, run="v6e-4-host-offload")
    assert problems(test) == []
    fullest = trace.allocators.iloc[0]
    assert f"Fullest: {fullest['allocator']}, {format_bytes(fullest['max_bytes'])}" in texts(test).replace("\\", "")
    assert "What a program needs" not in texts(test)
    assert len(test.dataframe[-1].value) == len(trace.allocators)
