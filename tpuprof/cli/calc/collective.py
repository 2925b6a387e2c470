"""Calculators of collectives and transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from tpuprof.cli.calc.options import (
    AXES,
    COUNTS,
    HOP_LATENCY,
    KINDS,
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

_LINK = click.option("--link-bandwidth", type=quantity("B/s"), help="Of one link in one direction, such as 45GB/s.")
_AXIS = click.option("--axis-bandwidth", type=quantity("B/s"), help="Instead: of both directions, such as 90GB/s.")
_MEMBERS = click.option("--members", type=int, help="Devices of the group. Default: many, so that (n-1)/n is 1.")
_RING_KIND = click.argument("kind", type=click.Choice(KINDS))


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
@HOP_LATENCY
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
    ways = [slice_name is not None, node_bandwidth is not None, (link_bandwidth or axis_bandwidth) is not None]
    if sum(ways) != 1 or (link_bandwidth is not None and axis_bandwidth is not None):
        raise UsageError(
            f"{sum(ways)} networks are given." if sum(ways) != 1 else "The bandwidth of a link is given twice.",
            hint="Give one of --slice, --node-bandwidth, --link-bandwidth, --axis-bandwidth.",
        )
    over_mesh = None if mesh is None else "--mesh"
    network = "--slice" if slice_name else "--node-bandwidth" if node_bandwidth else over_mesh or kind
    _no_mixture(
        network,
        {"--rings": rings, "--lines": lines, "--shape": shape, "--members": members, "--idle": idle,
         "--ring-axes": ring_axes, "--approximate": approximate, "--piece": piece, "--hops": hops,
         "--hop-latency": hop_latency, "--no-wrap": no_wrap, "--mesh": mesh, "--over": over},
    )  # fmt: skip
    if network == kind and bool(hops) != bool(hop_latency):
        raise UsageError(
            "The latency floor needs both the hops and the latency of one.", hint="Give --hops with --hop-latency."
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


_LINKS_ONLY = ("--rings", "--lines", "--members", "--hops", "--hop-latency")
_READ = {
    "--slice": ("--mesh", "--over"),
    "--node-bandwidth": ("--members", "--mesh", "--over"),
    "--mesh": ("--mesh", "--over", "--idle", "--ring-axes", "--approximate", "--piece", "--hop-latency"),
    "all-to-all": ("--shape", "--no-wrap"),
}
"""Options that say more of a network, by the network; links without a mesh take those of ``_LINKS_ONLY``."""


def _no_mixture(network: str, given: dict[str, object]) -> None:
    """Refuses options that would be left unread: they would look as if they counted.

    Raises:
        UsageError: there is one.
    """
    read = _READ.get(network, _LINKS_ONLY)
    unread = [name for name, value in given.items() if value and name not in read]
    if unread:
        what = f"with {network}" if network.startswith("--") else f"for an {network} over links"
        raise UsageError(f"{unread[0]} means nothing {what}.", hint=f"It takes {', '.join(read)}.")


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
