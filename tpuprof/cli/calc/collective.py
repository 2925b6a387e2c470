"""Calculators of collectives and transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from tpuprof.cli.calc.options import (
    AXES,
    COUNTS,
    IDS,
    MESH,
    Answers,
    array_options,
    bytes_of,
    calculator,
    quantity,
)
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.mesh_collective import Kind

_KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
_LINK = click.option("--link-bandwidth", type=quantity("B/s"), help="Of one link in one direction, such as 45GB/s.")
_AXIS = click.option("--axis-bandwidth", type=quantity("B/s"), help="Instead: of both directions, such as 90GB/s.")
_HOP = click.option("--hop-latency", type=quantity("s"), default=0.0, help="Latency of a hop, such as 1us.")
_MEMBERS = click.option("--members", type=int, help="Devices of the group. Default: many, so that (n-1)/n is 1.")
_RING_KIND = click.argument("kind", type=click.Choice(_KINDS))


@dataclass(frozen=True, slots=True)
class _Network:
    """The options that say what the collective runs over."""

    link: float | None
    members: int | None
    rings: int
    lines: int
    shape: tuple[int, ...] | None
    wrap: bool
    mesh: dict[str, int] | None
    over: tuple[str, ...]
    idle: tuple[str, ...]
    ring_axes: tuple[str, ...]
    approximate: bool
    piece: bool
    hops: float
    hop_latency: float


@calculator("collective")
@_RING_KIND
@array_options
@click.option("--slice", "slice_name", help="Slice of TPUs, such as v5p:4x4x4 or v5e-16.")
@click.option("--edition", help="Edition of the slice's constants, such as book-2026.")
@_LINK
@_AXIS
@click.option("--node-bandwidth", type=quantity("B/s"), help="Egress of one member into a switch, such as 450GB/s.")
@click.option("--in-network", is_flag=True, help="The switch forms the sum of an all-reduce.")
@_MEMBERS
@click.option("--rings", type=int, default=0, help="Physical axes that close to a ring.")
@click.option("--lines", type=int, default=0, help="Physical axes that do not.")
@click.option("--shape", type=COUNTS, help="Devices per axis of a torus, for an all-to-all, such as 4x4x4.")
@click.option("--no-wrap", is_flag=True, help="The axes of --shape do not close.")
@click.option("--mesh", type=MESH, help="Sizes of mesh axes, each a physical axis of its own, such as X=4,Y=4,Z=4.")
@click.option("--over", type=AXES, default=(), help="Mesh axes of the collective, such as X,Y.")
@click.option("--idle", type=AXES, default=(), help="Mesh axes that do not split the array and help.")
@click.option("--ring-axes", type=AXES, default=(), help="Mesh axes that close to a ring; others are lines.")
@click.option("--approximate", is_flag=True, help="With --mesh: take (n-1)/n as 1 on rings.")
@click.option("--piece", is_flag=True, help="With --mesh: --array is the piece of one device.")
@click.option("--hops", type=float, default=0.0, help="Hops to the farthest member, for the latency floor.")
@_HOP
def collective(
    kind: str, array: Array | None, size: float | None, slice_name: str | None, edition: str | None,
    link_bandwidth: float | None, axis_bandwidth: float | None, node_bandwidth: float | None, in_network: bool,
    members: int | None, rings: int, lines: int, shape: tuple[int, ...] | None, no_wrap: bool,
    mesh: dict[str, int] | None, over: tuple[str, ...], idle: tuple[str, ...], ring_axes: tuple[str, ...],
    approximate: bool, piece: bool, hops: float, hop_latency: float,
) -> Answers:  # fmt: skip
    """Time of a collective over a torus, a mesh or a switch.

    Say what it runs over: a --slice (with --over its axes x,y,z); or --link-bandwidth or --axis-bandwidth with --rings
    and --lines, with --shape, or with --mesh and --over; or --node-bandwidth for a switch of GPUs. The bytes are those
    of the whole array of the group; for an all-to-all they are summed over all devices, and with --slice they are what
    one device holds.
    """
    _no_mixture(
        {"--slice": slice_name, "--node-bandwidth": node_bandwidth, "--link-bandwidth": link_bandwidth or axis_bandwidth},
        {"--rings": rings, "--lines": lines, "--shape": shape, "--members": members, "--idle": idle,
         "--ring-axes": ring_axes, "--approximate": approximate, "--piece": piece, "--hops": hops,
         "--hop-latency": hop_latency, "--no-wrap": no_wrap, "--mesh": mesh, "--over": over},
        kind,
    )  # fmt: skip
    ways = [slice_name is not None, node_bandwidth is not None, (link_bandwidth or axis_bandwidth) is not None]
    if sum(ways) != 1 or (link_bandwidth is not None and axis_bandwidth is not None):
        raise UsageError(
            f"{sum(ways)} networks are given." if sum(ways) != 1 else "The bandwidth of a link is given twice.",
            hint="Give one of --slice, --node-bandwidth, --link-bandwidth, --axis-bandwidth.",
        )
    name = cast("Kind", kind.replace("-", "_"))
    if slice_name is not None:
        return _on_slice(name, bytes_of(array, size), slice_name, edition, mesh, over)
    if edition is not None:
        raise UsageError("--edition says whose constants a slice has.", hint="Give --slice too.")
    if node_bandwidth is not None:
        from tpuprof.perfmodel.gpu_network import node

        total = _group_size(array, size, mesh, over)
        return {"time": node(name, total, node_bandwidth, members=members, in_network=in_network)}
    if in_network:
        raise UsageError("Links of a torus sum nothing.", hint="Give --node-bandwidth with --in-network.")
    given = _Network(
        _one_way(link_bandwidth, axis_bandwidth), members, rings, lines, shape, not no_wrap, mesh, over, idle,
        ring_axes, approximate, piece, hops, hop_latency,
    )  # fmt: skip
    return {"time": _on_links(name, array, size, given)}


@calculator("ring-traffic")
@click.argument("kind", type=click.Choice(["all-gather", "all-to-all"]))
@array_options
@_MEMBERS
@click.option("--directions", type=click.IntRange(1, 2), default=2, show_default=True, help="Directions in use.")
def ring_traffic(kind: str, array: Array | None, size: float | None, members: int | None, directions: int) -> Answers:
    """What crosses the busiest link of a ring.

    In one direction, in bytes, or in elements of an --array without an element type.
    """
    from dataclasses import replace

    from tpuprof.perfmodel.collectives import link_traffic
    from tpuprof.perfmodel.mesh_collective import group_bytes

    unit = "B"
    if array is not None and array.dtype is None and size is None:
        whole = group_bytes(array, (), {})
        size, unit = whole.number(), whole.unit
    else:
        size = bytes_of(array, size)
    found = link_traffic(
        "all_gather" if kind == "all-gather" else "all_to_all", size, members, directions=directions
    )  # fmt: skip
    return {"traffic": replace(found, unit=unit)}


@calculator("latency-floor")
@click.argument("lengths", type=COUNTS)
@click.option("--hop-latency", type=quantity("s"), required=True, help="Latency of a hop, such as 1us.")
@click.option("--no-wrap", is_flag=True, help="The axes are lines, not rings.")
def latency_floor(lengths: tuple[int, ...], hop_latency: float, no_wrap: bool) -> Answers:
    """Time that a collective takes however small it is.

    LENGTHS are the members along each axis, such as 4x4. For an all-gather; an all-reduce takes twice as long.
    """
    from tpuprof.perfmodel.collectives import latency_floor as floor_of

    return {"time": floor_of(lengths, hop_latency, ring=not no_wrap)}


@calculator("latency-bound")
@click.option("--link-bandwidth", type=quantity("B/s"), required=True, help="Of one link in one direction.")
@click.option("--hop-latency", type=quantity("s"), required=True, help="Latency of a hop, such as 1us.")
@click.option("--members", type=int, default=1, show_default=True, help="Devices of the group; 1 for a single hop.")
@array_options
def latency_bound(
    link_bandwidth: float, hop_latency: float, members: int, array: Array | None, size: float | None
) -> Answers:
    """Size or degree from which hops limit a collective.

    Bytes of the whole array below which it is limited by latency; with --array or --bytes also the number of `members`
    above which that array is.
    """
    from tpuprof.perfmodel.collectives import latency_bound_above, latency_bound_below

    found = {"bytes": latency_bound_below(link_bandwidth, hop_latency, members)}
    if array is None and size is None:
        return found
    return found | {"members": latency_bound_above(bytes_of(array, size), link_bandwidth, hop_latency)}


@calculator("bus-bandwidth")
@_RING_KIND
@array_options
@click.option("--members", type=int, required=True, help="Devices of the group.")
@click.option("--time", "seconds", type=quantity("s"), required=True, help="Measured time.")
def bus_bandwidth(kind: str, array: Array | None, size: float | None, members: int, seconds: float) -> Answers:
    """Bandwidth that a measured collective reached.

    Comparable to the bandwidth of a link whatever the number of members, as NCCL's tests print it.
    """
    from tpuprof.perfmodel.collectives import bus_bandwidth as bus_of

    return {"bandwidth": bus_of(kind.replace("-", "_"), bytes_of(array, size), members, seconds)}


@calculator("transfer")
@array_options
@click.option("--bandwidth", type=quantity("B/s"), help="Of one link in one direction, such as 45GB/s.")
@click.option("--ports", type=int, default=1, show_default=True, help="Links that carry the bytes at once.")
@click.option("--hops", type=int, default=0, show_default=True, help="Links on the way.")
@_HOP
@click.option("--slice", "slice_name", help="Instead of the four: a slice of TPUs, such as v5e:4x4.")
@click.option("--edition", help="Edition of the slice's constants.")
@click.option("--devices", type=IDS, help="Source and target in the slice, such as 0,15.")
def transfer(
    array: Array | None, size: float | None, bandwidth: float | None, ports: int, hops: int, hop_latency: float,
    slice_name: str | None, edition: str | None, devices: tuple[int, ...] | None,
) -> Answers:  # fmt: skip
    """Time of bytes over links and hops.

    Over HBM, PCIe or a network with --bandwidth alone; between two chips of a torus with --ports and --hops, or with
    --slice and --devices.
    """
    from tpuprof.perfmodel.collectives import point_to_point

    total = bytes_of(array, size)
    if (slice_name is None) == (bandwidth is None) or (slice_name is None) != (devices is None):
        raise UsageError("The way is given twice or not at all.", hint="Give --bandwidth, or --slice and --devices.")
    if slice_name is None or devices is None:
        assert bandwidth is not None
        return {"time": point_to_point(total, bandwidth, ports=ports, hops=hops, hop_latency=hop_latency)}
    from tpuprof.hardware.slices import parse_slice
    from tpuprof.perfmodel.collective_time import collective_time

    if len(devices) != 2:
        raise UsageError(f"{len(devices)} devices are given.", hint="Give source and target, such as --devices 0,15.")
    found = collective_time("send_recv", total, parse_slice(slice_name, edition), groups=[devices])
    return {"time": found.derivation}


@calculator("pipeline")
@array_options
@click.option("--bandwidth", type=quantity("B/s"), required=True, help="Between two stages, such as 400GB/s.")
@click.option("--microbatches", type=int, required=True, help="Pieces of the batch.")
@click.option("--stages", type=int, default=2, show_default=True, help="Stages of the pipeline.")
def pipeline(array: Array | None, size: float | None, bandwidth: float, microbatches: int, stages: int) -> Answers:
    """Time of handing activations from stage to stage.

    The bytes are those of the activations of the whole batch. `total` is over all hops that follow each other.
    """
    from tpuprof.perfmodel.transfer import pipeline_transfers

    return pipeline_transfers(bytes_of(array, size), bandwidth, microbatches, stages)


_MESH_ONLY = ("--over", "--idle", "--ring-axes", "--approximate", "--piece")
_TORUS_ONLY = ("--rings", "--lines", "--members", "--hops")


def _no_mixture(networks: dict[str, object], given: dict[str, object], kind: str) -> None:
    """Refuses options that the chosen network would leave unread: they would look as if they counted.

    Raises:
        UsageError: there is one.
    """
    if networks["--slice"] is not None:
        known: tuple[str, ...] = ("--mesh", "--over")
        what = "--slice"
    elif networks["--node-bandwidth"] is not None:
        known = ("--members", "--mesh", "--over")
        what = "--node-bandwidth"
    elif given["--mesh"] is not None:
        known = ("--mesh", "--hop-latency", *_MESH_ONLY)
        what = "--mesh"
    elif kind == "all-to-all":
        known, what = ("--shape", "--no-wrap"), "an all-to-all without --mesh"
    else:
        known, what = (*_TORUS_ONLY, "--hop-latency"), "links without --mesh"
    unread = [name for name, value in given.items() if value and name not in known]
    if unread:
        raise UsageError(f"{unread[0]} means nothing for {what}.", hint=f"It takes {', '.join(known)}.")


def _one_way(link: float | None, axis: float | None) -> float | None:
    from tpuprof.perfmodel.mesh_collective import one_way

    return link if axis is None else one_way(axis)


def _group_size(array: Array | None, size: float | None, mesh: dict[str, int] | None, over: tuple[str, ...]) -> float:
    """V of a collective over a switch: the array as far as other mesh axes split it."""
    if array is None or mesh is None:
        return bytes_of(array, size)
    from tpuprof.perfmodel.mesh_collective import group_bytes

    bytes_of(array, size)
    return group_bytes(array, over, mesh).number()


def _on_slice(
    kind: Kind, size: float, name: str, edition: str | None, mesh: dict[str, int] | None, over: tuple[str, ...]
) -> dict[str, Derivation]:
    from dataclasses import replace

    from tpuprof.hardware.slices import parse_slice
    from tpuprof.perfmodel.collective_time import collective_time

    where = parse_slice(name, edition)
    if mesh is not None and not over:
        raise UsageError("--mesh without the axes of the collective.", hint="Give --over, such as --over X.")
    found = collective_time(kind, size, where, axes=over or None, mesh=mesh)
    answers = {"time": found.derivation}
    if found.expected_s is not None and found.calibration is not None:
        note = f"calibration ({found.calibration.fits}): {found.calibration.source}"
        formula = f"{found.calibration.t0_s:g} s + bound / {found.calibration.c:g}"
        answers["expected"] = replace(found.derivation, value=found.expected_s, formula=formula).assuming(note)
    return answers


def _on_links(kind: Kind, array: Array | None, size: float | None, given: _Network) -> Derivation:
    from tpuprof.perfmodel.collectives import all_to_all, torus
    from tpuprof.perfmodel.mesh_collective import AxisLinks, from_piece, over_mesh

    assert given.link is not None
    if given.mesh is not None:
        if array is None or size is not None:
            raise UsageError("With --mesh the array is needed.", hint="Give --array with its sharding.")
        links = AxisLinks(given.link, frozenset(given.ring_axes), given.hop_latency)
        whole = from_piece(array, given.mesh) if given.piece else array
        return over_mesh(
            kind, whole, given.over, given.mesh, links, idle=given.idle, approximate=given.approximate
        )  # fmt: skip
    total = bytes_of(array, size)
    if kind == "all_to_all":
        if given.shape is None:
            raise UsageError("An all-to-all needs the shape of the torus.", hint="Give --shape, such as 16 or 4x4x4.")
        return all_to_all(total, given.shape, given.link, wrap=[given.wrap] * len(given.shape))
    return torus(
        kind, total, given.link, rings=given.rings, lines=given.lines, members=given.members, hops=given.hops,
        hop_latency=given.hop_latency,
    )  # fmt: skip
