"""Why two runs differ: everything that is not the same on both sides and may be the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.compare.circumstances import Difference, circumstances, comparability
from tpuprof.compare.explanation import Explanation, explain
from tpuprof.compare.programs import program_differences

if TYPE_CHECKING:
    from tpuprof.trace import Trace

__all__ = ["Difference", "comparability", "differences"]

_ORDER = (
    *("hardware", "cores", "steps", "version", "flag", "setting", "environment", "code", "mesh", "dtype", "shape"),
    *("algorithm", "collective", "recomputation", "fusion", "layout", "host", "machine", "option", "command"),
)


def differences(base: Trace, new: Trace, explanation: Explanation | None = None) -> list[Difference]:
    """What differs between two traces: circumstances first, then the programs, by kind and by how much changed.

    Args:
        base: the one side.
        new: the other side.
        explanation: of these two, if it was made already.
    """
    found = circumstances(base, new)
    found += program_differences(explanation if explanation is not None else explain(base, new))
    return sorted(found, key=lambda each: (_ORDER.index(each.kind), -(each.weight_ps or 0.0), each.what))
