"""Small traces with known truth: which rule fires, for how much, and what it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tpuprof
from tests.analyzers.builtin import ROOT, analyzer, builtin
from tests.inputs.clean import f00_trace, tpu_of
from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.registry import analyze
from tpuprof.testing import TraceBuilder
from tpuprof.trace import Trace, load

US = 1_000_000
CATEGORY = {"fusion": "loop fusion", "conv": "convolution fusion", "all-reduce": "all-reduce", "copy": "copy"}
Ops = list[tuple[str, float, float]]


def tpu_trace(steps: list[list[Ops]], lengths: list[float], host: Ops | None = None) -> TraceBuilder:
    """Cores with these ops (name, start in the step, length) in steps of these lengths; host events at times of the
    whole. ``steps[n][core]`` are the ops of step n on a core. Times in us; host and device clocks agree."""
    trace = TraceBuilder()
    builder = trace.add_host("h")
    python = builder.add_thread("python")
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    cores = len(steps[0])
    for core in range(cores):
        tpu = builder.add_tpu(core)
        marks, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            marks.event(str(number), start, length)
            for name, at, duration in steps[number][core]:
                ops.event(name, start + at, duration, meta={"hlo_category": CATEGORY[name.partition(".")[0]]})
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        python.step(number, start, length)
    for name, at, duration in host or []:
        python.event(name, at, duration)
    return trace


def found(trace: Trace, name: str) -> dict[str, Finding]:
    return {f.rule: f for f in analyzer(name).run(Context(trace)).findings}


def evidence(finding: Finding) -> dict[str, Any]:
    return {item.name: item.value for item in finding.evidence}


def test_the_clean_run(tmp_path: Path) -> None:
    analysis = analyze(load(f00_trace().write(tmp_path)), builtin())
    # fusion.1 moves 16.8 MB, which 819 GB/s carry in 20.5 us.
    bytes_ps = 2 * 2 * 4096 * 1024 / 819e9 * 1e12
    assert [(f.rule, f.impact_ps, f.impact_fraction, f.severity) for f in analysis.findings] == [
        ("TPU221", pytest.approx(400 * US - bytes_ps), pytest.approx(0.3795, abs=1e-4), "warning"),
        ("TPU301", 200 * US, 0.2, "warning"),
        ("TPU201", 50 * US, 0.05, "info"),
        ("TPU405", 50 * US, 0.05, "info"),
        ("TPU222", pytest.approx(bytes_ps), pytest.approx(0.0205, abs=1e-4), "info"),
    ]
    exposed = analysis.findings[1]
    assert exposed.scope["op"] == "all-reduce.3"
    assert evidence(exposed)["collectives"][0]["per_step_ps"] == 200 * US
    assert evidence(exposed)["kinds"] == {"all_reduce": 200 * US}
    copies = analysis.findings[2]
    assert evidence(copies)["hbm_bytes_per_step"] == 2 * 2 * 4096 * 3584
    assert evidence(copies)["at_bandwidth_ps"] == pytest.approx(2 * 2 * 4096 * 3584 / 819e9 * 1e12)
    assert "move 58.72 MB of HBM, which takes 71.7 us at its full bandwidth" in copies.message


def test_a_run_of_compute_alone_is_silent(tmp_path: Path) -> None:
    busy: list[list[Ops]] = [[[("conv.1", 0, 990)]] for _ in range(8)]
    assert analyze(load(tpu_trace(busy, [1000.0] * 8).write(tmp_path)), builtin()).findings == ()


@pytest.mark.real
def test_waits_for_host_memory_come_first(real_traces: Path) -> None:
    trace = load(real_traces / "v6e-4-host-offload")
    first = analyze(trace, builtin()).findings[0]
    assert first.rule == "TPU501"
    assert first.impact_fraction == pytest.approx(0.969, abs=0.001)
    assert first.scope["op"] == "copy-done.4"
    assert evidence(first)["memory_space"] == "host_memory"
    assert evidence(first)["waits"][0]["per_step_ps"] == pytest.approx(194_433.04 * US, rel=1e-6)
    assert "97" in first.message or "96.93 %" in first.message


def test_a_wait_for_on_chip_memory_is_another_rule() -> None:
    trace = load(ROOT / "sample_traces" / "tpu_loop_async")
    assert found(trace, "breakdown") == {}, "12 of 760 us are below the floor"
    finding = {f.rule: f for f in analyzer("breakdown").run(Context(trace, floor=0.01)).findings}
    assert set(finding) == {"TPU502"}
    assert finding["TPU502"].impact_ps == 12 * US
    assert evidence(finding["TPU502"])["memory_spaces"] == ["vmem"]


def test_an_async_collective_that_hides_nothing(tmp_path: Path) -> None:
    def run(hidden_us: float, name: str) -> dict[str, Finding]:
        builder = f00_trace()
        line, asyncs = tpu_of(builder)["XLA Ops"], tpu_of(builder)["Async XLA Ops"]
        line.keep(lambda event: event.name in ("fusion.1", "copy.4"))
        for step in range(3):
            start = 1000 * step + 400 - hidden_us
            asyncs.event("all-gather.5", start, 400)
        return found(load(builder.write(tmp_path / name)), "collectives")

    bare = run(0, "bare")
    assert bare["TPU302"].impact_ps == 400 * US
    assert evidence(bare["TPU302"])["collectives"][0]["op"] == "all-gather.5"
    assert set(run(100, "some")) == {"TPU301"}


def test_what_could_hide_a_synchronous_collective() -> None:
    trace = load(ROOT / "sample_traces" / "cpu_demo")
    finding = found(trace, "collectives")["TPU303"]
    rows = evidence(finding)["collectives"]
    assert rows[0]["could_hide_ps"] <= min(rows[0]["per_step_ps"], rows[0]["independent_compute_ps"]) + 1
    assert finding.impact_ps < trace.breakdown()["parts"]["collective_exposed_ps"]
    assert all(row["form"] == "sync" for row in rows)


def gaps_of(host: Ops, tmp_path: Path, steps: int = 12, work: float = 600) -> Trace:
    """Steps of 1000 us in which the device works first and is idle for the rest."""
    one: list[Ops] = [[("conv.1", 0, work)]]
    return load(tpu_trace([one] * steps, [1000.0] * steps, host).write(tmp_path))


def test_input_every_fourth_step(tmp_path: Path) -> None:
    host: Ops = [("next_batch", 1000 * n + 600, 400) for n in (3, 7, 11)]
    trace = gaps_of(host, tmp_path)
    finding = found(trace, "input_pipeline")["TPU421"]
    assert finding.impact_ps == 100 * US
    assert evidence(finding)["period_steps"] == 4
    assert evidence(finding)["steps"] == [3, 7, 11]
    assert finding.scope["host_call"] == "next_batch"
    gap = evidence(finding)["gaps"][0]
    assert (gap["step"], gap["host_step"], gap["duration_ps"], gap["host_cause"]) == (3, 3, 400 * US, "input")
    idle = found(trace, "idle")
    assert idle["TPU405"].impact_ps == 300 * US
    assert "TPU406" not in idle


def test_a_fetch_in_every_step(tmp_path: Path) -> None:
    # The fetch begins while the device works and comes back in the gap; then the program writes the value down.
    host: Ops = [("np.asarray(jax.Array)", 1000 * n + 100, 550) for n in range(12)]
    finding = found(gaps_of(host, tmp_path), "idle")
    assert finding["TPU401"].impact_ps == 400 * US
    assert finding["TPU401"].scope["host_call"] == "np.asarray(jax.Array)"
    assert (evidence(finding["TPU401"])["steps"], evidence(finding["TPU401"])["of_steps"]) == (12, 12)
    assert "TPU405" not in finding


def test_a_fetch_under_compute_costs_nothing(tmp_path: Path) -> None:
    host: Ops = [("np.asarray(jax.Array)", 1000 * n + 100, 400) for n in range(12)]
    finding = found(gaps_of(host, tmp_path), "idle")
    assert set(finding) == {"TPU405"}


def test_rare_fetches_count_for_their_own_time(tmp_path: Path) -> None:
    host: Ops = [("np.asarray(jax.Array)", 1000 * n + 600, 360) for n in (2, 5)]
    finding = found(gaps_of(host, tmp_path), "idle")
    assert finding["TPU401"].impact_ps == pytest.approx(2 * 360 / 12 * US)
    assert "2 of 12 steps (steps 2, 5)" in finding["TPU401"].message


def test_launches_and_pauses(tmp_path: Path) -> None:
    host: Ops = [("PjitFunction(f)", 1000 * n + 700, 300) for n in range(12)]
    host += [("gc.collect", 1000 * n + 600, 100) for n in (1, 5, 9)]
    finding = found(gaps_of(host, tmp_path), "idle")
    assert finding["TPU402"].impact_ps == 300 * US
    assert evidence(finding["TPU402"])["causes"] == {"dispatch": 300 * US, "host_python": 0.0}
    assert evidence(finding["TPU402"])["gaps"][0]["host_call"] == "PjitFunction(f)"
    assert finding["TPU403"].impact_ps == 25 * US
    assert evidence(finding["TPU403"])["period_steps"] == 4


def test_a_stall_without_a_cause_has_its_period(tmp_path: Path) -> None:
    lengths = [1500.0 if n % 5 == 2 else 1000.0 for n in range(20)]
    steps: list[list[Ops]] = [[[("conv.1", 0, 950)]] for _ in lengths]
    trace = load(tpu_trace(steps, lengths).write(tmp_path))
    finding = found(trace, "idle")["TPU406"]
    assert finding.impact_ps == 100 * US
    assert evidence(finding)["period_steps"] == 5
    assert evidence(finding)["steps"] == [2, 7, 12, 17]
    assert evidence(finding)["likely_cause"] == "unexplained"


def test_compilation_in_the_loop(tmp_path: Path) -> None:
    host: Ops = []
    for n in (2, 6, 10):
        host += [("PjitFunction(loss)", 1000 * n + 600, 400), ("backend_compile_and_load", 1000 * n + 650, 300)]
    trace = gaps_of(host, tmp_path)
    finding = found(trace, "recompile")["TPU431"]
    assert finding.impact_ps == 75 * US
    assert finding.scope == {"function": "loss", "step": 2}
    assert evidence(finding)["period_steps"] == 4
    assert [(row["function"], row["step"], row["compile_ps"]) for row in evidence(finding)["compilations"]] == [
        ("loss", 2, 300 * US), ("loss", 6, 300 * US), ("loss", 10, 300 * US),
    ]  # fmt: skip


def test_clocks_that_do_not_compare_give_reasons_not_causes(tmp_path: Path) -> None:
    builder = tpu_trace([[[("conv.1", 0, 600)]]] * 6, [1000.0] * 6, [("next_batch", 600, 400)])
    builder["h"]["/host:CPU"]["python"].keep(lambda event: "step_num" not in event.stats)
    trace = load(builder.write(tmp_path))
    assert set(found(trace, "idle")) == {"TPU405"}
    assert found(trace, "idle")["TPU405"].impact_ps == 400 * US
    assert analyzer("recompile").run(Context(trace)) == AnalysisResult(
        unmet=("Compilation cannot be placed between device work: clocks do not compare.",)
    )
    outcome = next(o for o in analyze(trace, builtin()).outcomes if o.name == "input_pipeline")
    assert outcome.status == "skipped"
    assert "nothing in the trace links device work" in outcome.reasons[0]


def with_straggler(late: list[int | None], tmp_path: Path) -> Trace:
    """Four cores: 400 us of work each, 300 more on the late core of each step; all leave the collective at 800."""
    steps: list[list[Ops]] = []
    for core in late:
        work = [700 if n == core else 400 for n in range(4)]
        steps.append([[("conv.1", 0, w), ("all-reduce.2", w, 800 - w)] for w in work])
    return load(tpu_trace(steps, [800.0] * len(late)).write(tmp_path))


def test_a_chronic_straggler(tmp_path: Path) -> None:
    finding = found(with_straggler([2] * 9 + [None], tmp_path), "stragglers")
    assert set(finding) == {"TPU311"}
    chronic = finding["TPU311"]
    assert chronic.scope == {"device": "h/TPU:2"}
    # Nine steps after the first one; in one of them nobody is late.
    assert chronic.impact_ps == pytest.approx(300 * US * 8 / 9)
    assert evidence(chronic)["steps"] == 8
    assert evidence(chronic)["more_work"] == [{"part": "matmul", "more_ps": pytest.approx(270 * US)}]


def test_a_core_that_is_late_once(tmp_path: Path) -> None:
    finding = found(with_straggler([None, None, None, 3, None, None, None, None], tmp_path), "stragglers")
    assert set(finding) == {"TPU312"}
    assert finding["TPU312"].scope == {"device": "h/TPU:3", "step": 3}
    assert finding["TPU312"].impact_ps == pytest.approx(300 * US / 7)


def test_a_late_start_of_the_capture_is_no_straggler(tmp_path: Path) -> None:
    assert found(with_straggler([1, None, None, None, None, None], tmp_path), "stragglers") == {}


def test_cores_that_take_turns_are_no_chronic_straggler(tmp_path: Path) -> None:
    assert found(with_straggler([0, 1, 2, 3, 0, 1, 2, 3], tmp_path), "stragglers") == {}


def with_arrivals(trace: Trace, rows: list[tuple[int | None, int, int, int, bool]]) -> Trace:
    """The trace with this table of arrivals: (step, core, late us, wait us, transient), one collective per step."""
    frame = pd.DataFrame(
        {
            "device": pd.Categorical([f"h/TPU:{row[1]}" for row in rows], categories=[d.id for d in trace.devices]),
            "step": pd.array([row[0] for row in rows], dtype="Int64"),
            "op": pd.Categorical(["all-reduce.2"] * len(rows)),
            "arrival_ps": pd.Series([n * US for n in range(len(rows))], dtype="int64"),
            "late_ps": pd.Series([row[2] * US for row in rows], dtype="int64"),
            "wait_ps": pd.array([row[3] * US for row in rows], dtype="Int64"),
            "group_size": pd.Series([4] * len(rows), dtype="int32"),
            "transient": pd.Series([row[4] for row in rows], dtype="bool"),
        }
    )
    vars(trace)["arrivals"] = frame  # as the cached property of the same name would
    return trace


def test_arrivals_decide_where_they_are_known(tmp_path: Path) -> None:
    trace = with_straggler([2] * 10, tmp_path)
    rows = [(step, core, 150 if core == 1 and step else 0, 0, step == 0) for step in range(10) for core in range(4)]
    result = analyzer("stragglers").run(Context(with_arrivals(trace, rows)))
    (chronic,) = result.findings
    assert (chronic.rule, chronic.scope) == ("TPU311", {"device": "h/TPU:1"})
    assert chronic.impact_ps == 150 * US
    assert "In 9 of 9 steps h/TPU:1 arrives last at collectives" in chronic.message
    assert result.unmet == ()


def test_without_arrivals_in_steps_work_decides_and_the_reason_is_told(tmp_path: Path) -> None:
    trace = with_arrivals(
        with_straggler([2] * 10, tmp_path), [(0, core, 500 * (core == 3), 0, True) for core in range(4)]
    )
    result = analyzer("stragglers").run(Context(trace))
    assert [(f.rule, f.scope["device"]) for f in result.findings] == [("TPU311", "h/TPU:2")]
    assert "judged by its work" in result.unmet[0]


def test_a_late_core_outside_steps_is_named(tmp_path: Path) -> None:
    waits = [(None, 0, 0, 5, True), (None, 1, 0, 300, True), (None, 2, 40, 1, True), (None, 3, 0, 41, True)]
    later = [(None, core, 0, 20 - core, True) for core in range(4)]
    trace = with_arrivals(with_straggler([None] * 8, tmp_path), [*waits, *later])
    (finding,) = analyzer("stragglers").run(Context(trace)).findings
    assert (finding.rule, finding.impact_ps) == ("TPU313", None)
    assert finding.scope == {"device": "h/TPU:2", "op": "all-reduce.2"}
    assert "h/TPU:2 comes last to all-reduce.2, outside all steps: h/TPU:1 waits 300 us for it" in finding.message
    assert [row["wait_ps"] for row in evidence(finding)["waits"]] == [1 * US, 5 * US, 41 * US, 300 * US]


def test_short_waits_outside_steps_are_not_worth_telling(tmp_path: Path) -> None:
    trace = with_arrivals(
        with_straggler([None] * 8, tmp_path), [(None, core, 0, 79 * (core > 0), True) for core in range(4)]
    )
    assert analyzer("stragglers").run(Context(trace)).findings == ()


def timed(lengths: list[float], tmp_path: Path) -> dict[str, Finding]:
    steps: list[list[Ops]] = [[[("conv.1", 0, length)]] for length in lengths]
    return found(load(tpu_trace(steps, lengths).write(tmp_path)), "steptime")


def test_light_and_heavy_steps(tmp_path: Path) -> None:
    finding = timed([1000, 1010, 990, 1600] * 4, tmp_path)
    assert set(finding) == {"TPU441"}
    assert evidence(finding["TPU441"])["light"]["count"] == 12
    assert evidence(finding["TPU441"])["heavy"] == {"count": 4, "median_ps": 1600 * US}
    assert evidence(finding["TPU441"])["period_steps"] == 4
    assert finding["TPU441"].impact_ps == pytest.approx(600 * US / 4)
    assert evidence(finding["TPU441"])["differences"][0]["part"] == "matmul"
    assert finding["TPU441"].severity == "info"


def test_a_slow_step(tmp_path: Path) -> None:
    finding = timed([1000, 1010, 990, 1000, 3000, 1000, 1010, 1000, 990, 1000], tmp_path)
    assert set(finding) == {"TPU442"}
    assert finding["TPU442"].scope == {"step": 4}
    assert finding["TPU442"].impact_ps == pytest.approx(200 * US)


def test_drift(tmp_path: Path) -> None:
    finding = timed([1000.0 + 20 * n for n in range(20)], tmp_path)
    assert set(finding) == {"TPU443"}
    assert evidence(finding["TPU443"])["slope_ps_per_step"] == pytest.approx(20 * US)
    assert evidence(finding["TPU443"])["change_ps"] == pytest.approx(380 * US)


def test_noise_is_neither(tmp_path: Path) -> None:
    assert timed([1000, 1030, 980, 1010, 990, 1020, 1000, 1040, 970, 1010, 1000, 990, 1015, 985], tmp_path) == {}


@pytest.mark.real
def test_the_late_chip_before_the_first_all_reduce_is_named(real_traces: Path) -> None:
    trace = load(real_traces / "v6e-4-host-offload")
    finding = found(trace, "stragglers")["TPU313"]
    assert finding.scope == {"device": "host/TPU:0", "op": "all-reduce"}
    assert [round(row["wait_ps"] / 1e9, 2) for row in evidence(finding)["waits"]] == [0.0, 11.78, 26.65, 340.98]


@pytest.mark.real
def test_nothing_is_claimed_that_a_trace_without_steps_cannot_tell(real_traces: Path) -> None:
    analysis = analyze(tpuprof.load(real_traces / "mi300-gemm"), builtin())
    assert [f.rule for f in analysis.findings] == ["TPU402"]
    skipped = {o.name for o in analysis.outcomes if o.status == "skipped"}
    assert skipped == {"steptime", "stragglers"}
    assert "a step of" not in analysis.findings[0].message
