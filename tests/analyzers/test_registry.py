"""Analyzers are found, run in a stable order, and cannot hurt each other."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.builtin import builtin
from tests.inputs.clean import f00_trace
from tpuprof import registry
from tpuprof.analysis import AnalysisResult, Context, Evidence, Finding
from tpuprof.quality import Quality
from tpuprof.registry import Outcome, analyze, discover, unmet
from tpuprof.report import build_report
from tpuprof.trace import Trace, load


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return load(f00_trace().write(tmp_path_factory.mktemp("f00")))


class Fake:
    """An analyzer that gives what it is told."""

    rules = ("TPU201", "TPU301")
    pages = "tpuprof_analyzers.rules"

    def __init__(self, name: str = "fake", result: Any = None, needs: tuple[str, ...] = ()) -> None:
        self.name, self.needs = name, needs
        self.result = AnalysisResult() if result is None else result

    def run(self, context: Context) -> AnalysisResult:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result(context) if callable(self.result) else self.result


def found(rule: str, impact: float | None, title: str = "t") -> AnalysisResult:
    return AnalysisResult((Finding(rule, "info", title, "m", "s", impact),))


def test_findings_come_by_impact_and_unknown_impacts_last(trace: Trace) -> None:
    analyzers = [
        Fake("a", found("TPU201", 5.0)),
        Fake("b", found("TPU301", None)),
        Fake("c", found("TPU301", 7.0)),
    ]
    assert [f.impact_ps for f in analyze(trace, analyzers).findings] == [7.0, 5.0, None]
    assert analyze(trace, analyzers) == analyze(trace, analyzers[::-1])
    assert [o.name for o in analyze(trace, analyzers[::-1]).outcomes] == ["a", "b", "c"]


def test_a_crash_becomes_a_finding_and_the_others_go_on(trace: Trace) -> None:
    analysis = analyze(trace, [Fake("bad", ZeroDivisionError("by zero")), Fake("good", found("TPU201", 1.0))])
    assert [f.rule for f in analysis.findings] == ["TPU201", "TPU190"]
    failed = analysis.findings[1]
    assert (failed.severity, failed.impact_ps) == ("warning", None)
    assert failed.message == "The analyzer 'bad' failed. ZeroDivisionError: by zero"
    assert [(o.name, o.status) for o in analysis.outcomes] == [("bad", "failed"), ("good", "ran")]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([1], "TypeError: run returned list, not AnalysisResult"),
        (found("TPU999", 1.0), "TypeError: a finding has the rule TPU999, which the analyzer does not declare"),
    ],
)
def test_a_wrong_result_is_a_crash_too(trace: Trace, result: Any, message: str) -> None:
    analysis = analyze(trace, [Fake("odd", lambda _: result)])
    assert [f.rule for f in analysis.findings] == ["TPU190"]
    assert message in analysis.findings[0].message


def test_needs_that_cannot_be_looked_at_are_a_crash_of_that_analyzer_alone(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(trace: Trace) -> str | None:
        raise AttributeError("no such table")

    monkeypatch.setitem(registry.NEEDS, "steps", broken)
    analysis = analyze(trace, [Fake("bad", needs=("steps",)), Fake("good", found("TPU201", 1.0))])
    assert [(o.name, o.status) for o in analysis.outcomes] == [("bad", "failed"), ("good", "ran")]
    assert [f.rule for f in analysis.findings] == ["TPU201", "TPU190"]


def test_interrupts_are_not_swallowed(trace: Trace) -> None:
    def stop(context: Context) -> AnalysisResult:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze(trace, [Fake("slow", stop)])


def test_unmet_needs_are_told_with_their_reason(trace: Trace) -> None:
    analysis = analyze(trace, [Fake("pods", found("TPU201", 1.0), ("several_cores", "breakdown", "moonlight"))])
    assert analysis.findings == ()
    assert analysis.outcomes == (
        Outcome(
            "pods",
            "skipped",
            ("The trace holds 1 core(s): none to compare with.", "This version knows nothing of 'moonlight'."),
        ),
    )


def test_needs_of_a_whole_trace_and_of_an_empty_one(trace: Trace, tmp_path: Path) -> None:
    def reasons(of: Trace) -> dict[str, str | None]:
        return {need: (unmet(Fake(needs=(need,)), of) or (None,))[0] for need in registry.NEEDS}

    assert reasons(trace) == {
        "breakdown": None,
        "steps": None,
        "several_steps": "The run has 3 counted steps; it takes 4 to compare them.",
        "several_cores": "The trace holds 1 core(s): none to compare with.",
        "host_causes": None,
    }
    empty = f00_trace([])
    empty["hostA"].drop_plane("/device:TPU:0")
    nothing = reasons(load(empty.write(tmp_path)))
    assert nothing["breakdown"] == nothing["steps"] == nothing["several_steps"] == "No device op was recorded."


def test_entry_points_are_loaded_and_bad_ones_told(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    group = registry.GROUP
    entries = [
        EntryPoint("idle", "tpuprof_analyzers.idle:Idle", group),
        EntryPoint("gone", "no_such_package_anywhere:X", group),
        EntryPoint("wrong", "pathlib:Path", group),
        EntryPoint("idle", "zz_other.idle:Idle", group),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    installed = discover()
    assert [a.name for a in installed] == ["gone", "idle", "idle (zz_other.idle:Idle)", "wrong"]
    assert type(installed[1]).__module__ == "tpuprof_analyzers.idle"
    analysis = analyze(trace, installed)
    assert [(o.name, o.status) for o in analysis.outcomes] == [
        ("gone", "failed"), ("idle", "ran"), ("idle (zz_other.idle:Idle)", "failed"), ("wrong", "failed"),
    ]  # fmt: skip
    messages = "\n".join(f.message for f in analysis.findings if f.rule == "TPU190")
    assert "It cannot be loaded: ModuleNotFoundError: No module named 'no_such_package_anywhere'" in messages
    assert "pathlib:Path is no analyzer: it needs name, rules, needs, pages, run." in messages


def test_a_name_twice_runs_the_first(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    value = "tpuprof_analyzers.idle:Idle"
    entries = [EntryPoint("idle", value, registry.GROUP), EntryPoint("idle", value, registry.GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    first, second = discover()
    assert not isinstance(first, Outcome)
    assert isinstance(second, Outcome)
    assert second.name == f"idle ({value})"
    assert second.reasons == ("Another package has an analyzer 'idle'; this one is not run.",)


def test_the_report_holds_findings_and_what_became_of_each_analyzer(trace: Trace) -> None:
    result = AnalysisResult(
        (Finding("TPU201", "info", "t", "m", "s", 1.0, 0.5, "low", (Evidence("n", 3),), {"op": "x"}),)
    )
    report = build_report(trace, [Fake("one", result), Fake("two", needs=("several_cores",))])
    assert report["findings"] == [
        {
            "rule": "TPU201", "severity": "info", "title": "t", "message": "m", "impact_ps": 1.0,
            "impact_fraction": 0.5, "confidence": "low", "evidence": {"n": 3}, "suggestion": "s", "scope": {"op": "x"},
        }
    ]  # fmt: skip
    assert report["analyzers"] == [
        {"name": "one", "status": "ran", "reasons": []},
        {"name": "two", "status": "skipped", "reasons": ["The trace holds 1 core(s): none to compare with."]},
    ]


def test_a_higher_floor_silences(trace: Trace) -> None:
    def rules(floor: float) -> list[str]:
        return [f.rule for f in analyze(trace, builtin(), floor=floor).findings]

    # Per step of 1000: fusion.1 380 above its bound and 20 for its bytes, collectives 200, copy 50, idle 50.
    assert rules(0.0) == rules(0.02) == ["TPU221", "TPU301", "TPU201", "TPU405", "TPU222"]
    assert rules(0.06) == ["TPU221", "TPU301"]
    assert rules(0.38) == []


def test_means_are_over_counted_steps_and_fractions_of_the_mean_step(trace: Trace) -> None:
    context = Context(trace)
    assert (context.step_ps, context.pairs) == (1e9, 3)
    assert context.fraction(2e7) == 0.02
    assert context.matters(2e7)
    assert not context.matters(1.9e7)
    assert (context.severity(9.9e7), context.severity(1e8)) == ("info", "warning")
    assert int(context.op_groups["self_ps"].sum()) == 3 * 950_000_000


def test_rows_outside_counted_steps_are_left_out(tmp_path: Path) -> None:
    builder = f00_trace()
    builder["hostA"]["/device:TPU:0"]["XLA Ops"].event("late.9", 5000, 100)
    trace = load(builder.write(tmp_path))
    assert "late.9" in set(trace.ops["op"])
    kept = Context(trace).counted(trace.ops)
    assert "late.9" not in set(kept["op"])
    assert len(kept) == 12


@pytest.mark.parametrize(
    ("entries", "aspects", "level"),
    [
        ((), ("steps",), "high"),
        ((("hlo_missing", "warning"),), ("steps",), "high"),
        ((("hlo_missing", "warning"),), ("steps", "hlo"), "medium"),
        ((("planes_without_ops", "info"),), ("cores",), "high"),
        ((("truncated", "error"),), (), "low"),
        ((("something_new", "warning"),), ("steps",), "medium"),
        ((("sidecar_unreadable", "warning"),), ("steps",), "high"),
    ],
)
def test_confidence_follows_from_quality(
    trace: Trace, entries: tuple[tuple[str, Any], ...], aspects: tuple[str, ...], level: str
) -> None:
    doubtful = replace(trace, quality=tuple(Quality(name, severity, "m") for name, severity in entries))
    assert Context(doubtful).confidence(*aspects) == level
    assert Context(doubtful).confidence(*aspects, at_most="low") == "low"
