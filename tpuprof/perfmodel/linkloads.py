"""Bytes on links: of flows between places routed one by one, and of the patterns of collectives along one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Literal

from tpuprof.hardware.topology import Link, Place, Slice

Pattern = Literal["around", "along", "exchange"]
"""How an axis is used: gathering round the ring, gathering along the row of positions, every pair exchanging."""
Flow = tuple[Place, Place, float]


def link_loads(where: Slice, flows: Iterable[Flow]) -> dict[Link, float]:
    """Bytes per link and direction if every flow takes shortest ways, x first; equally short ones share it evenly.

    Flows within a chip load no link. All flows stay within a slice.
    """
    loads: dict[Link, float] = {}
    for here, there, amount in flows:
        ways = where.displacements(here.coords, there.coords)
        for steps in ways:
            for link in where.route(here.coords, there.coords, slice_index=here.slice, steps=steps):
                loads[link] = loads.get(link, 0.0) + amount / len(ways)
    return loads


def row_load(pattern: Pattern, length: int, wraps: bool, positions: Sequence[tuple[int, ...]]) -> float:
    """The busiest link and direction of one row of chips on which several groups work at once.

    Args:
        pattern: what every group does.
        length: chips of the row.
        wraps: whether its ends are joined.
        positions: of each group; gathering is counted in units of what one position holds before it, exchanging in
            units of what goes from one position to another.
    """
    plus, minus = [0.0] * length, [0.0] * length
    for own in positions:
        for link, forward, backward in _own_load(pattern, length, wraps, own):
            plus[link] += forward
            minus[link] += backward
    return max(max(plus), max(minus))


@lru_cache(maxsize=4096)
def _own_load(
    pattern: Pattern, length: int, wraps: bool, positions: tuple[int, ...]
) -> tuple[tuple[int, float, float], ...]:
    # Link i joins position i with the next one; (link, load forwards, load backwards).
    count = len(positions)
    if pattern == "around":
        each = (count - 1) / 2
        return tuple((link, each, each) for link in range(length))
    if pattern == "along":
        row = _opened(positions, length) if wraps else positions
        return tuple(
            (link % length, float(held), float(count - held))
            for held, (a, b) in enumerate(pairwise(row), 1)
            for link in range(a, b)
        )
    # Each message loads a run of links; only the ends of the runs are noted, and summed up once at the end.
    plus, minus = [0.0] * (2 * length + 1), [0.0] * (2 * length + 1)
    for a in positions:
        for b in positions:
            forward = (b - a) % length if wraps else b - a
            share = 0.5 if wraps and 2 * forward == length else 1.0
            if forward > 0 and (not wraps or 2 * forward <= length):
                plus[a] += share
                plus[a + forward] -= share
            back = (a - b) % length if wraps else a - b
            if back > 0 and (not wraps or 2 * back <= length):
                minus[b] += share
                minus[b + back] -= share
    return _summed(plus, minus, length)


def _summed(plus: list[float], minus: list[float], length: int) -> tuple[tuple[int, float, float], ...]:
    forwards, backwards = list(accumulate(plus)), list(accumulate(minus))
    return tuple(
        (link, forwards[link] + forwards[link + length], backwards[link] + backwards[link + length])
        for link in range(length)
    )


def _opened(positions: tuple[int, ...], length: int) -> tuple[int, ...]:
    # On a ring the row of a group starts behind its widest gap; positions run on past the end of the axis.
    gaps = [(b - a, index) for index, (a, b) in enumerate(pairwise((*positions, positions[0] + length)))]
    _, widest = max(gaps)
    start = (widest + 1) % len(positions)
    return positions[start:] + tuple(position + length for position in positions[:start])
