"""Every built-in analyzer keeps the contract, on sample traces and at the edges; and the contract can be broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import tpuprof
from tests.analyzers.builtin import ROOT, builtin, declared
from tpuprof.analysis import AnalysisResult, Analyzer, Context
from tpuprof.registry import analyze
from tpuprof.testing.contract import check_analyzer, check_declaration, contract_traces
from tpuprof.trace import Trace

SAMPLES = sorted(path.name for path in (ROOT / "sample_traces").iterdir() if path.is_dir())
REAL = ["v6e-4-host-offload", "v5e-1-matmul", "v7x-2-prefill", "mi300-gemm"]


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    return {trace.hosts[0]: trace for trace in contract_traces(tmp_path_factory.mktemp("edges"))}


@pytest.fixture(scope="module")
def samples() -> dict[str, Trace]:
    return {name: tpuprof.load(ROOT / "sample_traces" / name) for name in SAMPLES}


def test_entry_points_are_named_as_the_analyzers_are() -> None:
    assert [found.name for found in builtin()] == sorted(declared())


def test_no_two_analyzers_share_a_rule() -> None:
    rules = [rule for found in builtin() for rule in found.rules]
    assert len(rules) == len(set(rules))


@pytest.mark.parametrize("found", builtin(), ids=lambda a: a.name)
def test_the_contract_holds_on_the_samples(found: Analyzer, samples: dict[str, Trace]) -> None:
    results = [check_analyzer(found, trace) for trace in samples.values()]
    assert len(results) == 3


@pytest.mark.parametrize("found", builtin(), ids=lambda a: a.name)
def test_the_contract_holds_at_the_edges(found: Analyzer, edges: dict[str, Trace]) -> None:
    for trace in edges.values():
        check_analyzer(found, trace)
    assert check_analyzer(found, edges["host-no-device"]) is None
    assert check_analyzer(found, edges["host-many-steps"]) is not None or found.name == "input_pipeline"


@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_the_contract_holds_on_real_traces(name: str, real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / name)
    for found in builtin():
        check_analyzer(found, trace)


def test_edges_are_what_they_say(edges: dict[str, Trace]) -> None:
    assert {name: (len(t.devices), t.n_steps, t.step_source) for name, t in edges.items()} == {
        "host-no-device": (0, 0, "none"),
        "host-no-steps": (1, 0, "none"),
        "host-one-step": (1, 1, "steps_line"),
        "host-two-steps": (1, 2, "steps_line"),
        "host-many-steps": (2, 9, "steps_line"),
    }


def test_every_analyzer_finds_something_somewhere(edges: dict[str, Trace], samples: dict[str, Trace]) -> None:
    """Else the contract would hold for want of findings. The host's analyzers have tests of their own."""
    rules = {f.rule for t in (*edges.values(), *samples.values()) for f in analyze(t, builtin()).findings}
    assert {"TPU201", "TPU301", "TPU303", "TPU311", "TPU404", "TPU405", "TPU411", "TPU441", "TPU502"} <= rules
    assert {"TPU213", "TPU222", "TPU224", "TPU231"} <= rules


class Good:
    """A correct analyzer, to be broken."""

    name = "good"
    rules: Any = ("TPU201",)
    needs: Any = ("breakdown",)
    pages = "tpuprof_analyzers.rules"
    change: Any = MappingProxyType({})

    def run(self, context: Context) -> AnalysisResult:
        finding = context.finding("TPU201", "title", "message", "suggestion", 1.0, confidence="low", evidence={"n": 1})
        return AnalysisResult((replace(finding, **self.change),))


def broken(**attributes: Any) -> Analyzer:
    return type("Broken", (Good,), attributes)()


def test_a_correct_one_passes(edges: dict[str, Trace]) -> None:
    result = check_analyzer(Good(), edges["host-two-steps"])
    assert result is not None
    assert result.findings[0].evidence[0].value == 1


@pytest.mark.parametrize(
    ("fault", "attributes"),
    [
        ("no identifier", {"name": "Not Good"}),
        ("declares no rule", {"rules": ()}),
        ("or one twice", {"rules": ("TPU201", "TPU201")}),
        ("needs 'moonlight'", {"needs": ("moonlight",)}),
        ("which it does not declare", {"change": {"rule": "TPU301"}}),
        ("with an impact of", {"change": {"impact_ps": 1e30}}),
        ("with an impact of", {"change": {"impact_ps": -1.0}}),
        ("with the fraction", {"change": {"impact_fraction": None}}),
        ("without a message", {"change": {"message": " "}}),
        ("with the severity", {"change": {"severity": "fatal"}}),
        ("with the confidence", {"change": {"confidence": "sure"}}),
        ("no plain data", {"change": {"scope": {"op": object()}}}),
        ("no plain data", {"change": {"scope": {"op": float("nan")}}}),
        ("no plain data", {"change": {"scope": {1: "op"}}}),
        ("bytes of evidence", {"change": {"scope": {"op": "x" * 100_000}}}),
        ("not AnalysisResult", {"run": lambda self, context: None}),
    ],
)
def test_each_fault_is_named(fault: str, attributes: dict[str, Any], edges: dict[str, Trace]) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_analyzer(broken(**attributes), edges["host-two-steps"])


def test_a_rule_without_a_page_is_refused() -> None:
    with pytest.raises(tpuprof.errors.UsageError, match="has no page"):
        check_declaration(broken(rules=("TPU999",)))


def test_an_analyzer_that_changes_the_trace_is_found(tmp_path: Path) -> None:
    def run(self: Good, context: Context) -> AnalysisResult:
        context.trace.ops.loc[0, "duration_ps"] = 1
        return AnalysisResult()

    trace = list(contract_traces(tmp_path))[3]
    with pytest.raises(AssertionError, match="changes the trace"):
        check_analyzer(broken(run=run), trace)


def test_an_analyzer_that_is_not_deterministic_is_found(edges: dict[str, Trace]) -> None:
    calls = iter(range(10))

    def run(self: Good, context: Context) -> AnalysisResult:
        return AnalysisResult(unmet=(f"call {next(calls)}",))

    with pytest.raises(AssertionError, match="the second time"):
        check_analyzer(broken(run=run), edges["host-two-steps"])
