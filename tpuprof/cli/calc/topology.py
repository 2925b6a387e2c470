"""Calculators of slices, links and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import COUNTS, Answers, calculator, quantity
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation


@calculator("topology")
@click.argument("slice_name", metavar="SLICE", required=False)
@click.option("--edition", help="Edition of the slice's constants, such as book-2026.")
@click.option("--shape", type=COUNTS, help="Instead of SLICE: chips per axis, such as 16x20x28.")
@click.option("--host", type=COUNTS, help="Chips of one host per axis, such as 4x2.")
@click.option("--cores-per-chip", type=int, help="TensorCores of a chip.")
@click.option("--hbm", type=quantity("B"), help="Memory of a chip, such as 16GB.")
@click.option("--peak", type=quantity("FLOP/s"), help="Rate of a chip, such as 197T.")
def topology(
    slice_name: str | None, edition: str | None, shape: tuple[int, ...] | None, host: tuple[int, ...] | None,
    cores_per_chip: int | None, hbm: float | None, peak: float | None,
) -> Answers:  # fmt: skip
    """Chips, hosts, memory, rate and wraparound of a slice.

    SLICE is a name such as v5p:4x4x8, v5e-16 or v4-8. For other chips give --shape and the figures of one chip, which
    also replace those of a slice.
    """
    from tpuprof.perfmodel.peaks import slice_totals

    if (slice_name is None) == (shape is None):
        raise UsageError("The slice is given twice or not at all.", hint="Give SLICE, such as v5p:4x4x8, or --shape.")
    if slice_name is None:
        assert shape is not None
        if edition is not None:
            raise UsageError("--edition says whose constants a slice has.", hint="Give SLICE too.")
        return slice_totals(shape, host=host, cores_per_chip=cores_per_chip, hbm=hbm, peak=peak)
    from tpuprof.hardware.slices import parse_slice
    from tpuprof.perfmodel.slice_facts import slice_facts

    return slice_facts(
        parse_slice(slice_name, edition), host=host, cores_per_chip=cores_per_chip, hbm=hbm, peak=peak
    )  # fmt: skip


@calculator("links")
@click.option("--count", "counts", type=COUNTS, default="1", show_default=True, help="Links, such as 18 or 8x16x2.")
@click.option("--bandwidth", type=quantity("B/s"), required=True, help="Of one link one way: 25GB/s, 400Gbit/s.")
@click.option("--shared-by", type=int, default=1, show_default=True, help="Users who share them evenly.")
@click.option("--gain", type=float, default=1.0, show_default=True, help="Measured bandwidth over that of the links.")
def links(counts: tuple[int, ...], bandwidth: float, shared_by: int, gain: float) -> Answers:
    """Bandwidth of several links together, or a share of it."""
    from tpuprof.perfmodel.peaks import links_bandwidth

    return {"bandwidth": links_bandwidth(counts, bandwidth, shared_by=shared_by, measured_gain=gain)}


@calculator("count")
@click.argument("groups", nargs=-1, type=COUNTS, required=True)
def count(groups: tuple[tuple[int, ...], ...]) -> Answers:
    """How many units several groups have, such as switches.

    GROUPS are counts or products of them: 128x4 32 16 are the switches of a cluster.
    """
    from tpuprof.perfmodel.peaks import total_of_groups

    found: dict[str, Derivation] = {"units": total_of_groups(groups)}
    return found
