"""Calculators of matmuls on one device and on many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import ARRAY, AXES, COUNTS, MESH, Answers, calculator, quantity, rate_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.rates import Rates

_MESH = click.option("--mesh", type=MESH, help="Sizes of the mesh axes, such as X=4,Y=2.")
_OUT = click.option("--out", type=ARRAY, help="Sharding that the product must have, such as [I_X,K].")


@calculator("matmul")
@click.argument("lhs", type=ARRAY, required=False)
@click.argument("rhs", type=ARRAY, required=False)
@click.option("--line", help="Instead of LHS and RHS: an HLO line with its output and operand shapes.")
@click.option("--out-dtype", help="Element type of the output. Default: the wider one of the inputs.")
@click.option("--contract", type=COUNTS, help="Dimensions that are summed over, from 0. Default: last and first.")
@click.option("--count", type=int, default=1, show_default=True, help="So many of these matmuls.")
@click.option("--devices", type=int, default=1, show_default=True, help="Devices that share the work evenly.")
@click.option("--mxu", type=int, help="Edge of the matrix unit to pad to, such as 128. Default: that of the chip.")
@rate_options
def matmul(
    rates: Rates, link: str, lhs: Array | None, rhs: Array | None, line: str | None, out_dtype: str | None,
    contract: tuple[int, ...] | None, count: int, devices: int, mxu: int | None,
) -> Answers:  # fmt: skip
    """Time, bytes, intensity and padding of a matmul.

    LHS and RHS are arrays such as bf16[512,4096] and int8[4096,16384]. With rates the first answer is the time; without
    them it is the intensity.
    """
    from tpuprof.perfmodel.matmul import matmul_of, matmul_of_line
    from tpuprof.perfmodel.matmul_time import matmul_time

    missing = lhs is None or rhs is None
    if missing if line is None else (lhs is not None or contract is not None):
        raise UsageError("The matmul is given twice or not at all.", hint="Give LHS and RHS, or --line alone.")
    if contract is not None and len(contract) != 2:
        raise UsageError("--contract names one dimension of each input.", hint="Write it like --contract 1,0.")
    if line is not None:
        made = matmul_of_line(line)
        made = made if out_dtype is None else replace(made, out_dtype=out_dtype)
    else:
        assert lhs is not None
        assert rhs is not None
        pair = None if contract is None else (contract[0], contract[1])
        made = matmul_of(lhs, rhs, out_dtype=out_dtype, contract=pair)
    if mxu is not None:
        rates = replace(rates, mxu_size=mxu)
    return matmul_time(replace(made, batch=count), rates, devices=devices, memory=link).answers()


@calculator("sharded-matmul")
@click.argument("lhs", type=ARRAY)
@click.argument("rhs", type=ARRAY)
@_OUT
@_MESH
@click.option("--link-bandwidth", type=quantity("B/s"), help="Of one link in one direction, such as 45GB/s.")
@click.option("--rings", type=AXES, default=(), help="Mesh axes that close to a ring, such as X,Y; others are lines.")
@click.option("--hop-latency", type=quantity("s"), default=0.0, help="Latency of a hop, such as 1us.")
@rate_options
def sharded_matmul(
    rates: Rates, link: str, lhs: Array, rhs: Array, out: Array | None, mesh: dict[str, int] | None,
    link_bandwidth: float | None, rings: tuple[str, ...], hop_latency: float,
) -> Answers:  # fmt: skip
    """Collectives that a sharded matmul needs, and what each way costs.

    LHS and RHS are sharded arrays such as bf16[1024_X,4096_Y] and [J_Y,K]; the letter that both share is summed over.
    With --mesh, sizes and element types also `local-shapes` and `ways`; with rates and --link-bandwidth also `time`.
    """
    from tpuprof.perfmodel.mesh_collective import AxisLinks
    from tpuprof.perfmodel.product_cost import best, costs, local_shapes, needed
    from tpuprof.perfmodel.products import ways

    found: dict[str, Derivation] = {"collectives": needed(lhs, rhs, out)}
    if mesh is None:
        if link_bandwidth is not None or rates.chip is not None or rates.peak is not None:
            raise UsageError("Times need the sizes of the mesh axes.", hint="Give --mesh, such as --mesh X=4,Y=2.")
        return found
    unknown = [axis for axis in rings if axis not in mesh]
    if unknown:
        raise UsageError(f"--rings names {unknown[0]}, which is no axis of the mesh.", hint=f"Axes: {', '.join(mesh)}.")
    if not ways(lhs, rhs, out)[0].before:
        found["local-shapes"] = local_shapes(lhs, rhs, mesh, out)
    links = None if link_bandwidth is None else AxisLinks(link_bandwidth, frozenset(rings), hop_latency)
    return found | best(costs(lhs, rhs, mesh, rates, links, out), lhs, rhs, mesh)


@calculator("products")
@click.argument("options", nargs=-1, required=True)
@click.option("--out", type=ARRAY, required=True, help="Sharding that the product must have, such as [I,K].")
@_MESH
def products(options: tuple[str, ...], out: Array, mesh: dict[str, int] | None) -> Answers:
    """Which of several shardings of one product is the fastest.

    OPTIONS are products such as "A[I_X,J].B[J,K]"; the answer is their numbers, counted from 1, with ties.
    """
    from tpuprof.perfmodel.arrays import parse_array
    from tpuprof.perfmodel.product_cost import fastest_products

    pairs: list[tuple[Array, Array]] = []
    for option in options:
        parts = option.split(".")
        if len(parts) != 2:
            raise UsageError(f"{option!r} is no product of two arrays.", hint='Write it like "A[I_X,J].B[J,K]".')
        pairs.append((parse_array(parts[0]), parse_array(parts[1])))
    return fastest_products(pairs, out, mesh)
