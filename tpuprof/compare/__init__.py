"""Two sides of a change: what differs, by how much, and whether that is more than noise."""

from tpuprof.compare.explain import Explanation, explain
from tpuprof.compare.rows import Row

__all__ = ["Explanation", "Row", "explain"]
