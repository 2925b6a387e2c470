# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
"""Nesting and overruns of the rows of one line.

A container's children lie inside it on the same line. A leaf op of a line that runs one op at a time cannot enclose
another one: where it seems to, its recorded duration is wrong, and it is cut at the start of the next row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tpuprof.formats.xspace import I32, I64
from tpuprof.tables.rows import Rows

SILENT_OVERRUN_PS = 5_000
"""Overruns up to 5 ns (which covers two ticks of every known device timer) are rounding and are cut silently."""


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """For each row: its duration after cutting, its self time, and its parent row (-1 for none).

    ``overruns`` and ``excess_ps`` tell how many rows were cut by more than ``SILENT_OVERRUN_PS`` and by how much.
    """

    duration: I64
    self_ps: I64
    parent: I32
    overruns: int
    excess_ps: int


def nest(rows: Rows, container: np.ndarray[tuple[int], np.dtype[np.bool_]], sequential: bool) -> Nesting:
    """Nesting of all lanes of a core.

    Args:
        rows: in order of (start, longer first).
        container: for each row, whether it may have children.
        sequential: whether a lane runs one op at a time.
    """
    order = np.argsort(rows.lane, kind="stable")
    start, end = rows.start[order], rows.end[order]
    new_end, self_ps, parent, overruns, excess = _nest(
        rows.lane[order], start, end, rows.valid[order], container[order], sequential, SILENT_OVERRUN_PS
    )
    duration = np.empty_like(start)
    duration[order] = new_end - start
    own = np.empty_like(start)
    own[order] = self_ps
    parents = np.full(len(order), -1, np.int32)
    has = parent >= 0
    parents[order[has]] = order[parent[has]]
    return Nesting(duration, own, parents, int(overruns), int(excess))


@numba.njit("(i4[::1], i8[::1], i8[::1], b1[::1], b1[::1], b1, i8)", cache=True, nogil=True)
def _nest(lane, start, end, valid, container, sequential, tolerance):  # type: ignore[no-untyped-def] # compiled
    n = len(start)
    new_end = end.copy()
    parent = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int64)
    depth = 0
    overruns = 0
    excess = 0
    for i in range(n):
        if i > 0 and lane[i] != lane[i - 1]:
            depth = 0
        if not valid[i]:
            continue
        while depth > 0:
            top = stack[depth - 1]
            if new_end[top] <= start[i]:
                depth -= 1
                continue
            if sequential and not container[top] and end[i] > start[i] and start[i] > start[top]:
                over = new_end[top] - start[i]
                new_end[top] = start[i]
                if over > tolerance:
                    overruns += 1
                    excess += over
                depth -= 1
                continue
            if end[i] > new_end[top]:
                depth -= 1
                continue
            break
        if depth > 0:
            parent[i] = stack[depth - 1]
        stack[depth] = i
        depth += 1
    self_ps = new_end - start
    for i in range(n):
        if parent[i] >= 0 and valid[i]:
            self_ps[parent[i]] -= new_end[i] - start[i]
    for i in range(n):
        if self_ps[i] < 0:
            self_ps[i] = 0
    return new_end, self_ps, parent, overruns, excess
