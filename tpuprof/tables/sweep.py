# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
"""The sweep: at each instant of a core, the first rule that holds.

Events enter with a level; lower levels take precedence. All boundaries of events and windows cut time into
elementary segments in which nothing changes, so that every question is answered once per segment and sums are exact
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64

BOOL = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Half-open intervals ``[start, end)`` in ps; empty ones do no harm."""

    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(start: Sequence[int] | I64, end: Sequence[int] | I64) -> Spans:
        """Spans from two sequences."""
        return Spans(np.asarray(start, np.int64), np.asarray(end, np.int64))


NO_SPANS = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))


def boundaries(groups: Sequence[Spans]) -> I64:
    """All distinct starts and ends, ascending."""
    parts = [a for spans in groups for a in (spans.start, spans.end) if len(a)]
    if not parts:
        return np.zeros(0, np.int64)
    cuts = np.sort(np.concatenate(parts))  # several times faster than np.unique, which hashes
    return cuts[np.concatenate([[True], cuts[1:] != cuts[:-1]])]


def active(cuts: I64, spans: Spans) -> BOOL:
    """For each segment ``[cuts[i], cuts[i+1])`` whether any of the spans covers it; cuts must hold their ends.

    Returns an array of ``len(cuts) - 1`` booleans.
    """
    n = len(cuts)
    if n < 2 or not len(spans):
        return np.zeros(max(n - 1, 0), np.bool_)
    return _covered(np.searchsorted(cuts, spans.start), np.searchsorted(cuts, spans.end), n)


def union(spans: Spans) -> Spans:
    """The union as disjoint, ascending spans."""
    keep = spans.end > spans.start
    if not keep.any():
        return NO_SPANS
    order = np.argsort(spans.start[keep], kind="stable")
    start, end = spans.start[keep][order], spans.end[keep][order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Spans(start[first], reach[last])


def length(spans: Spans) -> int:
    """Total length of the union, in ps."""
    joined = union(spans)
    return int((joined.end - joined.start).sum())


def covered_before(joined: Spans, times: I64) -> I64:
    """For each time t, how much of the disjoint ascending spans lies before t, in ps."""
    if not len(joined):
        return np.zeros(len(times), np.int64)
    total = np.concatenate([[0], np.cumsum(joined.end - joined.start)])
    at = np.searchsorted(joined.start, times, side="right")
    inside = np.maximum(joined.end[np.maximum(at - 1, 0)] - times, 0)
    return total[at] - np.where(at > 0, inside, 0)


def overlap(spans: Spans, joined: Spans) -> I64:
    """For each span its overlap with the disjoint ascending spans, in ps."""
    return covered_before(joined, spans.end) - covered_before(joined, spans.start)


def sum_by_window(lengths: I64, first_segment: npt.NDArray[np.intp]) -> I64:
    """Sums of consecutive segments: group g holds ``lengths[first_segment[g]:first_segment[g + 1]]``.

    ``first_segment`` rises or stays.
    """
    sums = np.add.reduceat(np.append(lengths, 0), first_segment)[:-1]
    return np.where(first_segment[1:] > first_segment[:-1], sums, 0)


@numba.njit("b1[::1](i8[::1], i8[::1], i8)", cache=True, nogil=True)
def _covered(first, last, n):  # type: ignore[no-untyped-def] # compiled
    """For each of n - 1 segments whether any of the ranges ``first[i]:last[i]`` covers it."""
    change = np.zeros(n + 1, np.int32)  # a range may end behind the last cut
    for i in range(len(first)):
        change[first[i]] += 1
        change[last[i]] -= 1
    covered = np.empty(n - 1, np.bool_)
    depth = 0
    for i in range(n - 1):
        depth += change[i]
        covered[i] = depth > 0
    return covered
