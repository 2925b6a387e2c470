"""Calculators of rings: traffic, latency, and what a measured collective reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import COUNTS, KINDS, Answers, array_options, bytes_of, calculator, quantity

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array


@calculator("ring-traffic")
@click.argument("kind", type=click.Choice(["all-gather", "all-to-all"]))
@array_options
@click.option("--members", type=int, help="Devices of the group. Default: many, so that (n-1)/n is 1.")
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
@click.argument("kind", type=click.Choice(KINDS))
@array_options
@click.option("--members", type=int, required=True, help="Devices of the group.")
@click.option("--time", "seconds", type=quantity("s"), required=True, help="Measured time.")
def bus_bandwidth(kind: str, array: Array | None, size: float | None, members: int, seconds: float) -> Answers:
    """Bandwidth that a measured collective reached.

    Comparable to the bandwidth of a link whatever the number of members, as NCCL's tests print it.
    """
    from tpuprof.perfmodel.collectives import bus_bandwidth as bus_of

    return {"bandwidth": bus_of(kind.replace("-", "_"), bytes_of(array, size), members, seconds)}
