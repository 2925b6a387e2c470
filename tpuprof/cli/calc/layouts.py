"""Calculators of layouts: bubbles, devices, choices between splits, smallest slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import AMOUNT, COUNTS, MESH, Answers, calculator, quantity
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation


@calculator("bubble")
@click.option("--stages", type=int, required=True, help="Pipeline stages.")
@click.option("--microbatches", type=int, required=True, help="Microbatches of a step.")
@click.option("--rounds", type=int, default=1, show_default=True, help="Pieces of the model on each device.")
def bubble(stages: int, microbatches: int, rounds: int) -> Answers:
    """Share of a pipelined step that is lost to waiting."""
    from tpuprof.plan.parallel import bubble as bubble_of

    return {"bubble": bubble_of(stages, microbatches, rounds)}


@calculator("layout")
@click.argument("mesh", type=MESH)
def layout(mesh: dict[str, int]) -> Answers:
    """Devices of a layout.

    MESH names each degree, such as expert=64,pipeline=16,data=2.
    """
    from tpuprof.plan.parallel import mesh_devices

    return {"devices": mesh_devices(mesh)}


@calculator("mlp-choice")
@click.option("--tokens", type=AMOUNT, required=True, help="Tokens.")
@click.option("--d-model", type=int, required=True, help="Width of the model.")
@click.option("--d-ff", type=int, required=True, help="Hidden width of the MLP of two matrices.")
@click.option("--chips", type=int, required=True, help="Chips.")
@click.option("--capacity", type=quantity("B"), required=True, help="Memory of one chip, such as 300MB.")
@click.option("--dtype", default="bf16", show_default=True, help="Type of weights and activations.")
def mlp_choice(tokens: float, d_model: int, d_ff: int, chips: int, capacity: float, dtype: str) -> Answers:
    """Whether FSDP or tensor parallelism sends fewer bytes and fits."""
    from tpuprof.plan.parallel import mlp_choice as choice_of

    return {"choice": choice_of(tokens, d_model, d_ff, chips, capacity, dtype)}


@calculator("smallest-slice")
@click.option("--bytes", "size", type=quantity("B"), help="Bytes that are held or read.")
@click.option("--params", type=AMOUNT, help="Parameters, such as 70B, instead of bytes.")
@click.option("--dtype", default="bf16", show_default=True, help="Their type.")
@click.option("--capacity", type=quantity("B"), help="Memory of one chip, such as 16GB.")
@click.option("--slices", type=COUNTS, help="Chips of slices to choose from, such as 1,4,8,16.")
@click.option("--bandwidth", type=quantity("B/s"), help="Of one chip's memory, with --limit.")
@click.option("--limit", type=quantity("s"), help="Time in which all bytes must be read once, such as 15ms.")
def smallest_slice(
    size: float | None, params: float | None, dtype: str, capacity: float | None, slices: tuple[int, ...] | None,
    bandwidth: float | None, limit: float | None,
) -> Answers:  # fmt: skip
    """Fewest chips that hold bytes, or read them in time.

    With --capacity, `chips`, or one of --slices; with --bandwidth and --limit, `chips-to-read`.
    """
    from tpuprof.dtypes import packed_bytes
    from tpuprof.plan import parallel
    from tpuprof.plan.memory import memory_of_parts

    if (size is None) == (params is None):
        raise UsageError("The bytes are given twice or not at all.", hint="Give --bytes or --params.")
    total = packed_bytes(dtype, params) if params is not None else size or 0.0
    if (bandwidth is None) != (limit is None) or (capacity is None and (slices is not None or bandwidth is None)):
        raise UsageError("Too little is given.", hint="Give --capacity, or --bandwidth and --limit.")
    found: dict[str, Derivation] = {}
    if capacity is not None and slices is not None:
        found["slice"] = parallel.smallest_slice(total, capacity, slices)
    if capacity is not None:
        found["chips"] = memory_of_parts({"V": total}, capacity=capacity)["chips"]
    if bandwidth is not None and limit is not None:
        found["chips-to-read"] = parallel.chips_to_read(total, bandwidth, limit)
    return found


@calculator("decode-parallel")
@click.option("--d-ff", type=float, required=True, help="Hidden width of the MLP.")
@click.option("--batch", type=float, required=True, help="Sequences.")
@click.option("--ratio", type=float, help="Bandwidth of HBM over that of one ICI axis.")
@click.option("--hbm", type=quantity("B/s"), help="Bandwidth of HBM, such as 820GB/s, instead of the ratio.")
@click.option("--ici", type=quantity("B/s"), help="Bandwidth of one ICI axis, both directions, such as 90GB/s.")
@click.option("--axes", type=float, default=1, show_default=True, help="Physical axes that carry the bytes.")
def decode_parallel(
    d_ff: float, batch: float, ratio: float | None, hbm: float | None, ici: float | None, axes: float
) -> Answers:
    """Degree at which communication overtakes reading weights in decode."""
    from tpuprof.perfmodel.compare import ratio as ratio_of
    from tpuprof.plan.parallel import decode_tensor_limit

    if (ratio is None) == (hbm is None or ici is None):
        raise UsageError(
            "The ratio of bandwidths is given twice or not at all.", hint="Give --ratio, or --hbm and --ici."
        )
    beta = ratio if ratio is not None else ratio_of(hbm or 0.0, ici or 0.0, "B/s").number()
    return {"ways": decode_tensor_limit(d_ff, batch, beta, axes)}


@calculator("weight-stationary-chips")
@click.option("--ratio", type=float, required=True, help="Hidden width over model width, F / D.")
@click.option("--axes", type=float, default=3, show_default=True, help="Axes that the one-dimensional split uses.")
def weight_stationary_chips(ratio: float, axes: float) -> Answers:
    """Chips from which splitting weights both ways pays off.

    In comparison with one-dimensional tensor parallelism; see `weight-stationary` for the split itself.
    """
    from tpuprof.plan.parallel import weight_stationary_crossover

    return {"chips": weight_stationary_crossover(ratio, axes)}
