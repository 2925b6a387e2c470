"""Collectives on rings, lines and tori of links: the closed forms, as functions of plain numbers.

Symbols: V is the full size of the array within the group (gathered for an all-gather, the input of a reduce-scatter or
all-reduce), n the members, W the bandwidth of one link in one direction. What a group does on a real slice, with links
that it shares with other groups, is worked out in `tpuprof.perfmodel.routing`.

Source of the formulas: the scaling book, chapter "Sharded matrices and how to multiply them".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, get_args

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step

RingKind = Literal["all_gather", "reduce_scatter", "all_reduce"]
_SHARDED = "scaling book, sharded matrices"
_TPUS = "scaling book, TPUs"
_FULL_DUPLEX = "every link carries its full bandwidth in both directions at the same time"


def torus(
    kind: RingKind,
    size: float,
    link_bandwidth: float,
    *,
    rings: int = 1,
    lines: int = 0,
    members: int | None = None,
    hops: float = 0,
    hop_latency: float = 0.0,
) -> Derivation:
    """Seconds of an all-gather, reduce-scatter or all-reduce over whole torus axes that are all used at once.

    A ring lets a chip receive over two links, a line (an axis without wraparound) over one, so a group over several
    axes takes ``V (n-1)/n / (W (2 rings + lines))``. An all-reduce is a reduce-scatter and an all-gather. It takes at
    least as long as a message needs to the farthest member.

    Args:
        size: V, bytes.
        link_bandwidth: W, B/s.
        rings: axes that close to a ring.
        lines: axes that do not.
        members: n; null drops the factor (n-1)/n, as the book does for large groups.
        hops: links to the farthest member: half of every ring, the whole of every line.
        hop_latency: seconds per hop.

    Raises:
        UsageError: a number is negative, no axis is given, or the kind is another collective.
    """
    passes = _passes(kind)
    directions = 2 * _whole("rings", rings) + _whole("lines", lines)
    if directions == 0:
        raise UsageError("A collective over no axis.", hint="Give a ring or a line; a group of one sends nothing.")
    share = 1.0 if members is None else 1 - 1 / counted("The number of members", members)
    transfer = passes * not_negative("The size", size) * share / (positive("The link bandwidth", link_bandwidth))
    transfer /= directions
    floor = passes * not_negative("The number of hops", hops) * not_negative("The hop latency", hop_latency)
    latency = floor > transfer
    inputs = {
        "V": Quantity(size, "B"),
        "W": Quantity(link_bandwidth, "B/s"),
        "L": Quantity(directions, "link direction"),
    }
    formula = f"{'2 * ' if passes == 2 else ''}V{'' if members is None else ' * (n-1)/n'} / (W * L)"
    assumed = [_FULL_DUPLEX]
    if members is None:
        assumed.append("the group is large: (n-1)/n is taken as 1")
    else:
        inputs["n"] = Quantity(members, "member")
    steps: tuple[Step, ...] = ()
    if hops and hop_latency:
        inputs |= {"hops": Quantity(hops, "hop"), "t_hop": Quantity(hop_latency, "s")}
        floor_formula = f"{'2 * ' if passes == 2 else ''}hops * t_hop"
        steps = (Step("transfer", formula, transfer, "s"), Step("latency floor", floor_formula, floor, "s"))
        formula = "max(transfer, latency floor)"
    regime = "latency" if latency else ("ring" if not lines else "line" if not rings else "ring and line")
    return Derivation(max(transfer, floor), "s", formula, inputs, regime, tuple(assumed), steps, _SHARDED)


def latency_floor(
    lengths: Sequence[int], hop_latency: float, *, ring: bool = True, kind: RingKind = "all_gather"
) -> Derivation:
    """Seconds below which no collective over these axes can be: the hops to the farthest member.

    Args:
        lengths: members along each axis; half of a ring, all but one of a line are hops.
        ring: whether the axes close.

    Raises:
        UsageError: a length is below 1 or the latency negative.
    """
    for length in lengths:
        counted("The length of an axis", length)
    hops = sum(lengths) / 2 if ring else sum(length - 1 for length in lengths)
    passes = _passes(kind)
    inputs = {
        "X": Quantity(list(lengths), "chip"),
        "t_hop": Quantity(not_negative("The hop latency", hop_latency), "s"),
    }
    hops_formula = "sum(X) / 2" if ring else "sum(X - 1)"
    formula = f"{'2 * ' if passes == 2 else ''}t_hop * {hops_formula}"
    steps = (Step("hops to the farthest member", hops_formula, hops, "hop"),)
    return Derivation(passes * hops * hop_latency, "s", formula, inputs, "latency", (), steps, _SHARDED)


def latency_bound_below(link_bandwidth: float, hop_latency: float, members: int = 1) -> Derivation:
    """Bytes of the whole array below which hops, not bandwidth, limit a collective over so many members.

    With one member it is the buffer of a single hop.

    Raises:
        UsageError: a number is not above zero.
    """
    value = (
        counted("The number of members", members)
        * positive("The link bandwidth", link_bandwidth)
        * positive("The hop latency", hop_latency)
    )
    inputs = {
        "W": Quantity(link_bandwidth, "B/s"),
        "t_hop": Quantity(hop_latency, "s"),
        "n": Quantity(members, "member"),
    }
    return Derivation(value, "B", "n * W * t_hop", inputs, "latency", source=_SHARDED)


def latency_bound_above(size: float, link_bandwidth: float, hop_latency: float) -> Derivation:
    """Members above which a collective of this size is limited by hops, because each one's part is so small.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The size", size) / (
        positive("The link bandwidth", link_bandwidth) * positive("The hop latency", hop_latency)
    )
    inputs = {
        "V": Quantity(size, "B"),
        "W": Quantity(link_bandwidth, "B/s"),
        "t_hop": Quantity(hop_latency, "s"),
    }
    return Derivation(value, "member", "V / (W * t_hop)", inputs, "latency", source=_SHARDED)


def all_to_all(
    size: float, shape: Sequence[int], link_bandwidth: float, *, wrap: Sequence[bool] | None = None
) -> Derivation:
    """Seconds of an all-to-all over a ring, a line, a torus or a mesh, each message on a shortest way.

    Along an axis of A chips the busiest link carries ``V A / (8 N)`` in each direction if the axis closes (A even;
    ``V (A - 1/A) / (8 N)`` if odd) and ``V A / (4 N)`` if not; all axes work at once. On one ring that is a quarter of
    an all-gather of the same V.

    Args:
        size: V summed over all N devices, bytes.
        shape: devices along each axis.
        link_bandwidth: W, B/s.
        wrap: per axis; all close if not given.

    Raises:
        UsageError: a number is not above zero, or the lengths of ``shape`` and ``wrap`` differ.
    """
    closes = tuple(wrap) if wrap is not None else (True,) * len(shape)
    if not shape or len(closes) != len(shape):
        raise UsageError(f"A shape of {len(shape)} axes with {len(closes)} wraparounds.", hint="Give one per axis.")
    total = prod(counted("The length of an axis", length) for length in shape)
    loads = [axis_load(length, ring) / total for length, ring in zip(shape, closes, strict=True)]
    busiest = max(loads) * not_negative("The size", size)
    inputs = {
        "V": Quantity(size, "B"),
        "shape": Quantity(list(shape), "chip"),
        "N": Quantity(total, "chip"),
        "W": Quantity(positive("The link bandwidth", link_bandwidth), "B/s"),
    }
    worst = loads.index(max(loads))
    formula = f"V * {'A / (8' if closes[worst] else 'A / (4'} * N * W)"
    steps = (
        Step("axis with the busiest links, A", "argmax", shape[worst], "chip"),
        Step("bytes of its busiest link and direction", "load * V", busiest, "B"),
    )
    regime = "ring" if all(closes) else "line" if not any(closes) else "ring and line"
    assumed = (_FULL_DUPLEX, "messages with two shortest ways take half of each")
    return Derivation(busiest / link_bandwidth, "s", formula, inputs, regime, assumed, steps, _SHARDED)


def axis_load(length: int, ring: bool) -> float:
    """Load of the busiest link and direction of an axis in an all-to-all, in units of V / N.

    V is the size summed over all N devices of the torus; the axis has ``length`` of them in a row.
    """
    if length == 1:
        return 0.0
    pairs = length * length
    half = length // 2
    if ring:
        crossing = pairs / 8 if length % 2 == 0 else (pairs - 1) / 8
    else:
        crossing = half * (length - half)
    return crossing / length


def link_traffic(
    kind: Literal["all_gather", "all_to_all"], size: float, members: int | None = None, *, directions: int = 2
) -> Derivation:
    """What crosses the busiest link of a ring in one direction, in the unit of the size.

    Args:
        size: V of the whole group (summed over the devices for an all-to-all).
        members: n; null is the limit of a large ring.
        directions: 2 if both directions of the ring are used, 1 if data goes round one way only.

    Raises:
        UsageError: the directions are neither 1 nor 2, or a number is out of range.
    """
    if directions not in {1, 2}:
        raise UsageError(f"A ring used in {directions} directions.", hint="Give 1 or 2.")
    n = None if members is None else counted("The number of members", members)
    shared = 1.0 if n is None else 1 - 1 / n
    if kind == "all_gather":
        value, formula = size * shared / directions, "V * (1 - 1/n) / directions"
    elif kind != "all_to_all":
        raise UsageError(f"No traffic of a ring is known for {kind!r}.", hint="Give all_gather or all_to_all.")
    elif directions == 1:
        value, formula = size * shared / 2, "V/2 * (1 - 1/n)"
    else:
        value = size / 8 * (1.0 if n is None or n % 2 == 0 else 1 - 1 / (n * n))
        formula = "V / 8"
    inputs = {
        "V": Quantity(not_negative("The size", size)),
        "n": Quantity(members, "member"),
        "directions": Quantity(directions),
    }
    assumed = () if members is not None else ("the ring is large",)
    return Derivation(value, "", formula, inputs, "ring", assumed, source=_SHARDED)


def point_to_point(
    size: float, link_bandwidth: float, *, ports: int = 1, hops: float = 0, hop_latency: float = 0.0
) -> Derivation:
    """Seconds to move bytes between two chips, or into one chip, over some of its links: bandwidth and hops add up.

    Args:
        size: bytes.
        link_bandwidth: of one link in one direction, B/s.
        ports: links of the busiest chip that are used at once; a corner of a 2D mesh has two.
        hops: links on the way.
        hop_latency: seconds per hop.

    Raises:
        UsageError: a number is out of range.
    """
    transfer = not_negative("The size", size) / (
        counted("The number of links", ports) * positive("The link bandwidth", link_bandwidth)
    )
    delay = not_negative("The number of hops", hops) * not_negative("The hop latency", hop_latency)
    inputs = {
        "bytes": Quantity(size, "B"),
        "ports": Quantity(ports, "link"),
        "W": Quantity(link_bandwidth, "B/s"),
        "hops": Quantity(hops, "hop"),
        "t_hop": Quantity(hop_latency, "s"),
    }
    steps = (
        Step("transfer", "bytes / (ports * W)", transfer, "s"),
        Step("latency", "hops * t_hop", delay, "s"),
    )
    regime = "latency" if delay > transfer else "bandwidth"
    formula = "bytes / (ports * W) + hops * t_hop"
    return Derivation(transfer + delay, "s", formula, inputs, regime, (_FULL_DUPLEX,), steps, _TPUS)


def across_slices(kind: RingKind, size: float, slices: int, bandwidth: float, *, chips: int = 1) -> Derivation:
    """Seconds of the part of a collective that crosses the data-centre network between slices.

    Every slice has to receive what the others hold, ``V (s-1)/s``, over the network shares of its chips that take
    part.

    Args:
        size: V of the whole group, bytes.
        slices: s, slices that the group spans.
        bandwidth: of the network per chip and direction, B/s.
        chips: chips of the group in one slice, each with its share of the network.

    Raises:
        UsageError: a number is out of range.
    """
    passes = _passes(kind)
    share = 1 - 1 / counted("The number of slices", slices)
    value = passes * not_negative("The size", size) * share / positive("The network bandwidth", bandwidth)
    value /= counted("The number of chips", chips)
    inputs = {
        "V": Quantity(size, "B"),
        "s": Quantity(slices, "slice"),
        "W_dcn": Quantity(bandwidth, "B/s"),
        "m": Quantity(chips, "chip"),
    }
    formula = f"{'2 * ' if passes == 2 else ''}V * (s-1)/s / (m * W_dcn)"
    assumed = ("the network between slices has no bottleneck above the hosts", "latency of the network is left out")
    return Derivation(value, "s", formula, inputs, "dcn", assumed, source=_TPUS)


def bus_bandwidth(kind: str, size: float, members: int, seconds: float) -> Derivation:
    """The bandwidth that every member moved in a measured collective, whatever their number: comparable to a link's.

    Args:
        kind: all_reduce counts ``2 (n-1)/n`` of V; all_gather, reduce_scatter and all_to_all count ``(n-1)/n``.
        size: V, bytes (of one device for an all_to_all).
        seconds: measured.

    Raises:
        UsageError: a number is out of range.
    """
    passes = 2 if kind == "all_reduce" else 1
    share = 1 - 1 / counted("The number of members", members)
    value = passes * not_negative("The size", size) * share / positive("The time", seconds)
    inputs = {"V": Quantity(size, "B"), "n": Quantity(members, "member"), "t": Quantity(seconds, "s")}
    formula = f"{'2 * ' if passes == 2 else ''}V * (n-1)/n / t"
    return Derivation(value, "B/s", formula, inputs, source="scaling book, GPUs; nccl-tests")


def _passes(kind: str) -> int:
    if kind not in get_args(RingKind):
        raise UsageError(f"{kind!r} is no collective of a ring.", hint=f"Give one of {', '.join(get_args(RingKind))}.")
    return 2 if kind == "all_reduce" else 1


def _whole(name: str, value: int) -> int:
    if value < 0:
        raise UsageError(f"{value} {name} are impossible.", hint="Give 0 or more.")
    return value
