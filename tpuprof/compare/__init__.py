"""Two sides of a change: what differs, by how much, and whether that is more than noise."""

from tpuprof.compare.explain import Explanation, explain
from tpuprof.compare.rows import Row
from tpuprof.compare.scopes import Delta, by_kind, by_scope, by_source
from tpuprof.compare.why import Difference, comparability, differences

__all__ = [
    "Delta",
    "Difference",
    "Explanation",
    "Row",
    "by_kind",
    "by_scope",
    "by_source",
    "comparability",
    "differences",
    "explain",
]
