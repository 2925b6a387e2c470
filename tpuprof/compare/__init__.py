"""Two sides of a change: what differs, by how much, and whether that is more than noise.

Names are imported when they are first used: a verdict on lists of step times needs none of the tables of traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuprof.compare.comparison import Diff, diff
    from tpuprof.compare.explanation import Explanation, explain
    from tpuprof.compare.origins import Origin
    from tpuprof.compare.rows import Row
    from tpuprof.compare.scopes import Delta, by_kind, by_scope, by_source
    from tpuprof.compare.verdict import Samples, Thresholds, Verdict, judge, read_samples, samples_of
    from tpuprof.compare.why import Difference, comparability, differences

__all__ = [
    "Delta",
    "Diff",
    "Difference",
    "Explanation",
    "Origin",
    "Row",
    "Samples",
    "Thresholds",
    "Verdict",
    "by_kind",
    "by_scope",
    "by_source",
    "comparability",
    "diff",
    "differences",
    "explain",
    "judge",
    "read_samples",
    "samples_of",
]

_EXPLAIN, _SCOPES, _WHY = "tpuprof.compare.explanation", "tpuprof.compare.scopes", "tpuprof.compare.why"
_DIFF, _VERDICT = "tpuprof.compare.comparison", "tpuprof.compare.verdict"
_LAZY = {
    "Delta": _SCOPES,
    "Diff": _DIFF,
    "Difference": _WHY,
    "Explanation": _EXPLAIN,
    "Origin": "tpuprof.compare.origins",
    "Row": "tpuprof.compare.rows",
    "Samples": _VERDICT,
    "Thresholds": _VERDICT,
    "Verdict": _VERDICT,
    "by_kind": _SCOPES,
    "by_scope": _SCOPES,
    "by_source": _SCOPES,
    "comparability": _WHY,
    "diff": _DIFF,
    "differences": _WHY,
    "explain": _EXPLAIN,
    "judge": _VERDICT,
    "read_samples": _VERDICT,
    "samples_of": _VERDICT,
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
