"""The contract of analyzers, as checks that any package can run over its own.

def test_contract(tmp_path):
    for trace in contract_traces(tmp_path):
        check_analyzer(MyAnalyzer(), trace)
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tpuprof.analysis import CONFIDENCES, AnalysisResult, Analyzer, Context, Finding
from tpuprof.quality import SEVERITIES
from tpuprof.registry import NEEDS, unmet
from tpuprof.rules import analyzer_page
from tpuprof.testing.builder import TraceBuilder
from tpuprof.trace import Trace, load

RULE = re.compile(r"TPU[1-9][0-9]{2}\Z")
MAX_SECONDS = 5.0
"""A small trace must not take longer; the bar is wide, so that busy machines pass."""
MAX_FINDING_BYTES = 64_000
_TABLES = ("steps", "partition", "ops", "gaps", "collectives", "modules", "host_events")


def check_analyzer(analyzer: Analyzer, trace: Trace) -> AnalysisResult | None:
    """Checks an analyzer on a trace and returns what it found; null if its needs are not met.

    Raises:
        AssertionError: it breaks the contract; the message says how.
    """
    check_declaration(analyzer)
    if unmet(analyzer, trace):
        return None
    before = _fingerprint(trace)
    began = time.perf_counter()
    returned: Any = analyzer.run(Context(trace))
    seconds = time.perf_counter() - began
    _must(seconds < MAX_SECONDS, analyzer, f"takes {seconds:.1f} s on a small trace")
    _must(isinstance(returned, AnalysisResult), analyzer, f"returns {type(returned).__name__}, not AnalysisResult")
    result: AnalysisResult = returned
    _must(_fingerprint(trace) == before, analyzer, "changes the trace")
    step_ps = Context(trace).step_ps
    for finding in result.findings:
        _check_finding(analyzer, finding, step_ps)
    again = analyzer.run(Context(trace))
    same = [f.to_json() for f in result.findings] == [f.to_json() for f in again.findings]
    _must(same and result.unmet == again.unmet, analyzer, "gives another result the second time")
    _must(all(reason.strip() for reason in result.unmet), analyzer, "has an empty reason")
    return result


def check_declaration(analyzer: Analyzer) -> None:
    """Checks what an analyzer says of itself: name, rules with pages, and needs that exist.

    Raises:
        AssertionError: something is missing or wrong.
        UsageError: a rule has no page.
    """
    _must(bool(re.fullmatch(r"[a-z][a-z0-9_]*", analyzer.name)), analyzer, "has a name that is no identifier")
    _must(len(set(analyzer.rules)) == len(analyzer.rules) > 0, analyzer, "declares no rule, or one twice")
    for rule in analyzer.rules:
        _must(bool(RULE.match(rule)), analyzer, f"has the rule {rule!r}, which is not TPUnnn")
        _must(bool(analyzer_page(analyzer, rule).text.strip()), analyzer, f"has an empty page for {rule}")
    for need in analyzer.needs:
        _must(need in NEEDS, analyzer, f"needs {need!r}; known are {', '.join(NEEDS)}")


def contract_traces(directory: Path) -> Iterator[Trace]:
    """Small traces at the edges, written below the directory: no device, no steps, one step, several, two cores."""
    for name, steps, marked, cores in EDGES:
        yield load(edge_trace(name, steps, marked=marked, cores=cores).write(directory / name))


EDGES = (
    ("no_device", 0, False, 0),
    ("no_steps", 1, False, 1),
    ("one_step", 1, True, 1),
    ("two_steps", 2, True, 1),
    ("many_steps", 9, True, 2),
)
"""Name, steps, whether they are marked, cores."""


def edge_trace(name: str, steps: int, *, marked: bool, cores: int) -> TraceBuilder:
    """A TPU trace in which everything that can be waited for is waited for, 100 us each, in steps of 1000 us.

    Core 1 computes 100 us longer than core 0, and every third step is twice as long.
    """
    trace = TraceBuilder()
    host = trace.add_host(f"host-{name.replace('_', '-')}")
    python = host.add_thread("python")
    python.event("warm-up", 0, 10)
    starts = [1000 * number + 1000 * (number // 3) for number in range(steps + 1)]
    for core in range(cores):
        tpu = host.add_tpu(core)
        marks = tpu.add_line("Steps") if marked else None
        ops = tpu.add_line("XLA Ops")
        for number, (start, end) in enumerate(itertools.pairwise(starts)):
            if marks is not None:
                marks.event(str(number), start, end - start)
            at = start
            for op, length, category in _STEP:
                late = 100 * core if op == "fusion.1" else 0
                duration = max(length + late - (100 * core if category == "all-reduce" else 0), 1)
                ops.event(op, at, duration, meta={"hlo_category": category})
                at += duration
    return trace


_STEP = (
    ("fusion.1", 200, "convolution fusion"),
    ("all-reduce.2", 200, "all-reduce"),
    ("copy.3", 100, "copy"),
    ("copy-done.4", 100, "copy-done"),
    ("infeed.5", 100, "infeed"),
)


def _check_finding(analyzer: Analyzer, finding: Finding, step_ps: float) -> None:
    what = f"gives {finding.rule}"
    _must(finding.rule in analyzer.rules, analyzer, f"{what}, which it does not declare")
    _must(finding.severity in SEVERITIES, analyzer, f"{what} with the severity {finding.severity!r}")
    _must(finding.confidence in CONFIDENCES, analyzer, f"{what} with the confidence {finding.confidence!r}")
    for name in ("title", "message", "suggestion"):
        _must(bool(getattr(finding, name).strip()), analyzer, f"{what} without a {name}")
    if finding.impact_ps is not None:
        _must(0 <= finding.impact_ps <= step_ps, analyzer, f"{what} with an impact of {finding.impact_ps} ps per step")
        good = finding.impact_fraction is not None and 0 <= finding.impact_fraction <= 1
        _must(good, analyzer, f"{what} with the fraction {finding.impact_fraction}")
    _must(_is_plain(finding.to_json()), analyzer, f"{what} with evidence or scope that is no plain data")
    size = len(json.dumps(finding.to_json(), allow_nan=False))
    _must(size <= MAX_FINDING_BYTES, analyzer, f"{what} with {size} bytes of evidence")


def _is_plain(value: object) -> bool:
    """Whether JSON can hold the value as it is: exactly Python's own types, finite numbers, text keys."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        return all(type(key) is str and _is_plain(item) for key, item in items.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in cast("list[object]", value))
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)


def _fingerprint(trace: Trace) -> dict[str, Any]:
    """What must not change: the tables' contents and columns, the quality and the metadata."""
    import pandas as pd

    tables: dict[str, Any] = {}
    for name in _TABLES:
        frame: pd.DataFrame = getattr(trace, name)
        tables[name] = (tuple(frame.columns), int(pd.util.hash_pandas_object(frame).sum()))
    return {**tables, "quality": trace.quality, "metadata": json.dumps(trace.metadata, sort_keys=True, default=str)}


def _must(holds: bool, analyzer: Analyzer, fault: str) -> None:
    if not holds:
        raise AssertionError(f"The analyzer {analyzer.name!r} {fault}.")
