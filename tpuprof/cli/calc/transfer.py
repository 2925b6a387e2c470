"""Calculators of transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import HOP_LATENCY, IDS, Answers, array_options, bytes_of, calculator, quantity
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array


@calculator("transfer")
@array_options
@click.option("--bandwidth", type=quantity("B/s"), help="Of one link in one direction, such as 45GB/s.")
@click.option("--ports", type=int, default=1, show_default=True, help="Links that carry the bytes at once.")
@click.option("--hops", type=int, default=0, show_default=True, help="Links on the way.")
@HOP_LATENCY
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


@calculator("stages")
@click.argument("stages", nargs=-1, required=True, metavar="NAME=TIME...")
def stages(stages: tuple[str, ...]) -> Answers:
    """Time of a transfer through several stages.

    Each with its time for all the bytes, such as pcie=63ms ici=167ms hbm=20ms. If they overlap the slowest one decides;
    `upper` is the sum.
    """
    from tpuprof.hardware.quantity import parse_quantity
    from tpuprof.perfmodel.transfer import staged

    times: dict[str, float] = {}
    for text in stages:
        name, equals, time = text.partition("=")
        if not equals or not name or name in times:
            raise UsageError(f"{text!r} is no stage, or it is given twice.", hint="Write stages like pcie=63ms.")
        times[name] = parse_quantity(time, "s", f"The time of {name}")
    return staged(times)


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
