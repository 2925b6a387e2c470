"""What a collective puts on the busiest links: groups on real coordinates, with the links that they share.

A gather (all-gather or its mirror image, the reduce-scatter) over a box of chips is split into parts that go through
the axes in different orders, so that all axes work at once; along an axis a part goes round the ring or along the row.
Groups that are no boxes take one ring through all members. All-to-alls and permutes go point to point on shortest
ways, x first. All groups work at the same time, so a link carries what every group puts on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, permutations, product
from math import prod
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.hardware.layout import AxisUse, Layout
from tpuprof.hardware.topology import Place, Slice
from tpuprof.perfmodel.linkloads import Flow, Pattern, link_loads, row_load

MAX_FLOWS = 2_000_000
"""Point-to-point messages that are routed one by one; more only in groups that are boxes, where rows are counted."""


@dataclass(frozen=True, slots=True)
class AxisLoad:
    """What one torus axis carries.

    Args:
        axis: 0 is x.
        count: positions of a group along it.
        way: ``ring`` if data goes round the axis, ``line`` if it goes along a row.
        directions: links that a group effectively receives over along the axis: 2 on a ring of its own, 1 on a
            line, less where groups share links; null if the messages go point to point.
        shared: groups on the busiest link.
    """

    axis: int
    count: int
    way: Literal["ring", "line"]
    directions: float | None
    shared: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes that decide how long a collective takes, each on its busiest resource in one direction.

    Args:
        link_bytes: on an ICI link.
        core_bytes: between the cores of a chip.
        network_bytes: between a chip and the data-centre network.
        hops: links to the farthest partner.
        way: ``ring``, ``line``, ``ring and line``, ``mesh`` (point to point), ``twisted torus`` (a whole one),
            ``embedded ring`` (groups that are no boxes) or ``none``.
        axes: per torus axis that is used; empty for groups that are no boxes.
        shared: groups on the busiest link; 1 if every group has its links for itself.
        directions: L, link directions over which every chip of a gathering group effectively receives what the others
            of its slice hold, (m-1)/m of the whole for m chips; null for messages from point to point.
    """

    link_bytes: float
    core_bytes: float = 0.0
    network_bytes: float = 0.0
    hops: float = 0
    way: str = "none"
    axes: tuple[AxisLoad, ...] = ()
    shared: float = 1.0
    directions: float | None = None

    def times(self, factor: float) -> Traffic:
        """The same with every number of bytes multiplied."""
        return replace(
            self,
            link_bytes=self.link_bytes * factor,
            core_bytes=self.core_bytes * factor,
            network_bytes=self.network_bytes * factor,
        )


def gather(layout: Layout, size: float) -> Traffic:
    """Traffic of an all-gather to ``size`` bytes per group, or of a reduce-scatter of as many.

    Args:
        size: V, the full array of one group, bytes.
    """
    if layout.size == 1:
        return Traffic(0.0)
    if not layout.box:
        return _embedded_ring(layout, size)
    shard = size / layout.size
    users = _devices_per_chip(layout.groups)
    network = shard * (layout.slices - 1) * users
    core = size * (layout.cores - 1) / layout.cores
    if not layout.axes:
        return Traffic(0.0, core, network)
    if layout.where.twisted and layout.whole_slice:
        # Rings along a short axis run on through the long ones, so all links of every chip can be kept busy.
        axes = tuple(AxisLoad(use.axis, use.count, "ring", 2 / users, users) for use in layout.axes)
        unit = (layout.chips - 1) / (2 * layout.where.dims) * users
        carried = unit * shard * layout.slices
        directions = (layout.chips - 1) * layout.cores / unit
        return Traffic(carried, core, network, layout.where.diameter, "twisted torus", axes, users, directions)
    uses = [_gathered(layout.where, use) for use in layout.axes]
    unit = best_mix([use.count for use in layout.axes], [load for _, load in uses])
    axes = tuple(load for load, _ in uses)
    hops = sum(_reach(layout.where, use, load.way) for use, load in zip(layout.axes, axes, strict=True))
    shared = max(load.shared for load in axes)
    # In units of what the members of one slice hold before: (m-1) units arrive over L directions.
    directions = (layout.chips - 1) * layout.cores / unit
    return Traffic(unit * shard * layout.slices, core, network, hops, _ways(axes), axes, shared, directions)


def exchange(layout: Layout, size: float) -> Traffic:
    """Traffic of an all-to-all in which every device holds ``size`` bytes, an equal part for each member.

    Raises:
        UsageError: the groups are no boxes and too large to route one by one.
    """
    n = layout.size
    if n == 1:
        return Traffic(0.0)
    if not layout.box:
        if n * n * len(layout.groups) > MAX_FLOWS:
            raise UsageError(
                f"Groups of {n} devices on uneven coordinates are too large to route.",
                hint="Give groups that lie along the axes of the slice.",
            )
        pairs = (pair for group in layout.groups for pair in permutations(group, 2))
        return _point_to_point(layout.where, pairs, size / n)
    where, users = layout.where, _devices_per_chip(layout.groups)
    network = size * (layout.slices - 1) / layout.slices * users
    core = size * (layout.cores - 1) / layout.cores
    if where.twisted and layout.whole_slice:
        return Traffic(_twisted_exchange(layout, size / n) * users, core, network, where.diameter, "twisted torus")
    axes: list[AxisLoad] = []
    loads = [0.0]
    for use in layout.axes:
        wraps = _wraps(where, use.axis)
        rows = [row_load("exchange", where.shape[use.axis], wraps, row) for row in use.lines]
        alone = max(row_load("exchange", where.shape[use.axis], wraps, [own]) for own in use.positions)
        loads.append(max(rows) * size / use.count)
        axes.append(AxisLoad(use.axis, use.count, "ring" if use.closes else "line", None, max(rows) / alone))
    hops = sum(_reach(where, use, load.way) for use, load in zip(layout.axes, axes, strict=True))
    shared = max((load.shared for load in axes), default=1.0)
    return Traffic(max(loads), core, network, hops, "mesh" if axes else "none", tuple(axes), shared)


def permute(where: Slice, pairs: Iterable[tuple[int, int]], size: float) -> Traffic:
    """Traffic of messages of ``size`` bytes between pairs of (source, target) devices.

    Raises:
        UsageError: a device is outside the slice, or is twice a source or twice a target.
    """
    known = [(where.place(source), where.place(target)) for source, target in pairs]
    if not known:
        raise UsageError("A permute without pairs.", hint="Give at least one (source, target).")
    for what, ends in (("source", [a for a, _ in known]), ("target", [b for _, b in known])):
        twice = [place for place, count in Counter(ends).items() if count > 1]
        if twice:
            raise UsageError(f"Device {where.device_at(twice[0])} is twice a {what}.", why="A permute allows it once.")
    return _point_to_point(where, known, size)


def best_mix(counts: Sequence[int], loads: Sequence[float]) -> float:
    """Load of the busiest axis if a gather goes through the axes in the best mix of orders.

    Args:
        counts: members of a group along each axis.
        loads: of the busiest link of each axis while every member holds one unit; an axis that comes later in an
            order finds as many units as the axes before it have gathered.

    With loads of ``(count - 1) / L`` the axes can usually be kept equally busy, which gives ``(n - 1) / sum(L)``.
    """
    orders = [_order_loads(order, counts, loads) for order in permutations(range(len(counts)))]
    best = min(max(load) for load in orders)
    axes = range(len(counts))
    for many in range(2, len(counts) + 1):
        for chosen in combinations(orders, many):
            for busy in combinations(axes, many):
                shares = _equal_shares([[load[axis] for axis in busy] for load in chosen])
                if shares is not None:
                    mixed = [sum(f * load[axis] for f, load in zip(shares, chosen, strict=True)) for axis in axes]
                    best = min(best, max(mixed))
    return best


def _order_loads(order: Sequence[int], counts: Sequence[int], loads: Sequence[float]) -> tuple[float, ...]:
    found = [0.0] * len(counts)
    held = 1
    for axis in order:
        found[axis] = held * loads[axis]
        held *= counts[axis]
    return tuple(found)


def _equal_shares(rows: list[list[float]]) -> list[float] | None:
    # Shares f >= 0 of the orders, summing to 1, with sum(f * load) the same on all chosen axes: differences of
    # neighbouring axes are 0. Solved by elimination; null if there is no such mix.
    size = len(rows)
    system = [[row[axis] - row[axis + 1] for row in rows] + [0.0] for axis in range(size - 1)]
    system.append([1.0] * size + [1.0])
    for column in range(size):
        pivot = max(range(column, size), key=lambda line, at=column: abs(system[line][at]))
        if abs(system[pivot][column]) < 1e-12:
            return None
        system[column], system[pivot] = system[pivot], system[column]
        for line in range(size):
            if line != column:
                factor = system[line][column] / system[column][column]
                system[line] = [a - factor * b for a, b in zip(system[line], system[column], strict=True)]
    shares = [system[line][size] / system[line][line] for line in range(size)]
    return shares if min(shares) >= -1e-12 else None


def _gathered(where: Slice, use: AxisUse) -> tuple[AxisLoad, float]:
    length, wraps = where.shape[use.axis], _wraps(where, use.axis)
    way: Pattern = "along"
    load = max(row_load("along", length, wraps, row) for row in use.lines)
    if wraps:
        around = max(row_load("around", length, wraps, row) for row in use.lines)
        if around < load:
            way, load = "around", around
    name = "ring" if way == "around" else "line"
    alone = (use.count - 1) / 2 if way == "around" else use.count - 1
    return AxisLoad(use.axis, use.count, name, (use.count - 1) / load, load / alone), load


def _reach(where: Slice, use: AxisUse, way: str) -> float:
    length = where.shape[use.axis]
    if way == "ring":
        return length / 2
    if not _wraps(where, use.axis):
        return max(own[-1] - own[0] for own in use.positions)
    return max(length - max(b - a for a, b in pairwise((*own, own[0] + length))) for own in use.positions)


def _ways(axes: Sequence[AxisLoad]) -> str:
    return " and ".join(sorted({load.way for load in axes}, reverse=True))


def _wraps(where: Slice, axis: int) -> bool:
    # A short axis of a twisted torus is no ring of its own: its end joins another row.
    return where.wrap[axis] and not (where.twisted and where.shape[axis] == min(where.shape))


def _devices_per_chip(groups: Iterable[Sequence[Place]]) -> int:
    return max(Counter((place.slice, place.coords) for group in groups for place in group).values())


def _embedded_ring(layout: Layout, size: float) -> Traffic:
    candidates: list[Traffic] = []
    for ordered in (list(layout.groups), [_snake(group) for group in layout.groups]):
        each = size * (layout.size - 1) / layout.size / 2
        edges = (edge for group in ordered for a, b in pairwise((*group, group[0])) for edge in ((a, b), (b, a)))
        candidates.append(_point_to_point(layout.where, edges, each))
    best = min(candidates, key=lambda traffic: (traffic.network_bytes, traffic.link_bytes, traffic.core_bytes))
    hops = best.hops * layout.size / 2
    return Traffic(best.link_bytes, best.core_bytes, best.network_bytes, hops, "embedded ring", (), best.shared)


def _snake(group: Sequence[Place]) -> tuple[Place, ...]:
    # Row by row, every other row backwards, so that neighbours of the order are neighbours on the torus.
    def key(place: Place) -> tuple[int, ...]:
        turned: list[int] = []
        backwards = False
        for coordinate in reversed(place.coords):
            turned.append(-coordinate if backwards else coordinate)
            backwards = backwards != (coordinate % 2 == 1)
        return (place.slice, *turned, place.core)

    return tuple(sorted(group, key=key))


def _point_to_point(where: Slice, pairs: Iterable[tuple[Place, Place]], size: float) -> Traffic:
    inside: list[Flow] = []
    cores: Counter[tuple[int, tuple[int, ...], int]] = Counter()
    network: Counter[tuple[str, int, tuple[int, ...]]] = Counter()
    hops = 0
    for here, there in pairs:
        if here.slice != there.slice:
            network["out", here.slice, here.coords] += 1
            network["in", there.slice, there.coords] += 1
        elif here.coords != there.coords:
            inside.append((here, there, 1.0))
            hops = max(hops, where.chip_hops(here.coords, there.coords))
        elif here.core != there.core:
            cores[here.slice, here.coords, here.core] += 1
    busiest = max(link_loads(where, inside).values(), default=0.0)
    return Traffic(
        busiest * size,
        max(cores.values(), default=0) * size,
        max(network.values(), default=0) * size,
        hops,
        "mesh" if inside else "none",
        (),
        max(1.0, busiest),
    )


def _twisted_exchange(layout: Layout, part: float) -> float:
    # Every chip sees the same surroundings, so the links of an axis share its hops evenly.
    where = layout.where
    origin = (0,) * where.dims
    along = [0.0] * where.dims
    for chip in product(*map(range, where.shape)):
        ways = where.displacements(origin, chip)
        for steps in ways:
            for axis, count in enumerate(steps):
                along[axis] += abs(count) / len(ways)
    return max(along) / 2 * part * prod((layout.cores, layout.slices))
