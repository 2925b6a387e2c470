"""The sweep: at each instant of a core, the first rule that holds.

Events enter with a level; lower levels take precedence. All boundaries of events and windows cut time into
elementary segments in which nothing changes, so that every question is answered once per segment and sums are exact
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    opened = np.bincount(np.searchsorted(cuts, spans.start), minlength=n)
    closed = np.bincount(np.searchsorted(cuts, spans.end), minlength=n)
    return np.cumsum(opened - closed)[:-1] > 0


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
    """Sums of consecutive segments: group g holds ``lengths[first_segment[g]:first_segment[g + 1]]``."""
    total = np.concatenate([[0], np.cumsum(lengths)])
    return total[first_segment[1:]] - total[first_segment[:-1]]
