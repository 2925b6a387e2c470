"""Calculators of rooflines, intensities and rates of units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import COUNTS, REAL, Answers, calculator, quantity, rate_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation, Quantity
    from tpuprof.perfmodel.rates import Rates

_DTYPE = click.option("--dtype", default="bf16", show_default=True, help="Element type, such as bf16, int8 or f32.")


@calculator("ridge")
@_DTYPE
@rate_options
def ridge(rates: Rates, link: str, dtype: str) -> Answers:
    """Intensity above which work is bound by arithmetic.

    Also called critical intensity or ridge point. With --chip the answers for all its links are given.
    """
    from tpuprof.perfmodel.rates import LINKS
    from tpuprof.perfmodel.roofline import ridge as ridge_of

    peak = rates.need_peak(dtype)
    rates.need_link(link)
    found: dict[str, Derivation] = {}
    for name in (link, *(other for other in LINKS if other != link)):
        if rates.link(name).value is not None:
            found["ridge" if name == link else name] = _sourced(ridge_of, peak, rates.need_link(name))
    return found


@calculator("roofline-time")
@click.option("--flops", type=quantity("FLOP"), help="Operations, such as 1T.")
@click.option("--bytes", "size", type=quantity("B"), help="Bytes that are moved, such as 16GB.")
@click.option("--compute-time", type=quantity("s"), help="Time of the operations, instead of --flops.")
@click.option("--memory-time", type=quantity("s"), help="Time of the bytes, instead of --bytes.")
@click.option("--comm-time", type=quantity("s"), help="Time of the communication.")
@click.option("--measured", type=quantity("s"), help="Measured time, for the answer `hidden`.")
@_DTYPE
@rate_options
def roofline_time(
    rates: Rates, link: str, dtype: str, flops: float | None, size: float | None, compute_time: float | None,
    memory_time: float | None, comm_time: float | None, measured: float | None,
) -> Answers:  # fmt: skip
    """Time bounds of work from its operations, bytes and other times.

    The time is that of the slowest resource if all overlap; `upper` is the sum.
    """
    from tpuprof.perfmodel import roofline

    if (flops is not None and compute_time is not None) or (size is not None and memory_time is not None):
        raise UsageError("A time and the work it takes are both given.", hint="Give one of them.")
    parts: dict[str, float] = {}
    own: list[Derivation] = []
    if flops is not None:
        own.append(_sourced(roofline.compute_time, flops, rates.need_peak(dtype)))
        parts["compute"] = own[-1].number()
    if size is not None:
        own.append(_sourced(roofline.traffic_time, size, rates.need_link(link)))
        parts["memory"] = own[-1].number()
    times = {"compute": compute_time, "memory": memory_time, "comm": comm_time}
    parts |= {name: value for name, value in times.items() if value is not None}
    if not parts:
        raise UsageError("There is no work.", hint="Give --flops, --bytes, or a time such as --comm-time.")
    if len(parts) == 1 and own and measured is None:
        return {"time": own[0]}
    answers = roofline.overlap(parts).answers(measured)
    steps = tuple(one.as_step(name) for one, name in zip(own, parts, strict=False))
    return {name: replace(answer, steps=(*steps, *answer.steps)) for name, answer in answers.items()}


@calculator("intensity")
@click.option("--flops", type=quantity("FLOP"), required=True, help="Operations.")
@click.option("--bytes", "size", type=quantity("B"), required=True, help="Bytes that they move.")
@_DTYPE
@rate_options
def intensity(rates: Rates, link: str, dtype: str, flops: float, size: float) -> Answers:
    """Operations per byte, and the rate that they allow.

    With rates also `attainable`. The intensity of a matmul is `tpuprof calc matmul --ask intensity`.
    """
    from tpuprof.perfmodel.checks import positive
    from tpuprof.perfmodel.derivation import Derivation, Quantity
    from tpuprof.perfmodel.roofline import attainable

    value = positive("The number of operations", flops) / positive("The number of bytes", size)
    inputs = {"FLOPs": Quantity(flops, "FLOP"), "V": Quantity(size, "B")}
    found = {"intensity": Derivation(value, "FLOP/B", "FLOPs / V", inputs, source="scaling book, rooflines")}
    peak, bandwidth = rates.matmul_rate(dtype).value, rates.link(link).value
    if peak is not None and bandwidth is not None:
        found["attainable"] = attainable(value, peak, bandwidth)
    return found


@calculator("tile")
@click.argument("tile", type=COUNTS)
@_DTYPE
def tile(tile: tuple[int, ...], dtype: str) -> Answers:
    """Intensity of a matmul computed in output tiles.

    TILE is rows x columns of an output tile, such as 512x512.
    """
    from tpuprof.perfmodel.intensity import tile_intensity

    if len(tile) != 2:
        raise UsageError(f"A tile of {len(tile)} sizes.", hint="Give rows and columns, such as 512x512.")
    return tile_intensity(tile[0], tile[1], dtype)


@calculator("elementwise")
@click.argument("elements", type=int)
@click.option("--dtype", default="f32", show_default=True, help="Element type.")
@click.option("--reads", type=int, default=1, show_default=True, help="Input arrays.")
@click.option("--writes", type=int, default=1, show_default=True, help="Output arrays.")
@click.option("--flops-per-element", type=float, default=1.0, show_default=True, help="Operations per output element.")
@rate_options
def elementwise(
    rates: Rates, link: str, elements: int, dtype: str, reads: int, writes: int, flops_per_element: float
) -> Answers:
    """Intensity and bytes of elementwise work.

    ELEMENTS is the size of one array. With a bandwidth also `time`.
    """
    from tpuprof.perfmodel import intensity as intensities
    from tpuprof.perfmodel.roofline import traffic_time

    found = intensities.elementwise(elements, dtype, reads, writes, flops_per_element)
    if rates.link(link).value is not None:
        found["time"] = _sourced(traffic_time, found["bytes"].number(), rates.need_link(link))
    return found


@calculator("attention")
@click.option("--queries", type=REAL, help="Query tokens; 1 in decode.")
@click.option("--keys", type=REAL, help="Key and value tokens, or inf. Default: as many as queries.")
@click.option("--group", type=REAL, default=1.0, show_default=True, help="Query heads per KV head, or inf.")
@click.option("--critical", type=float, help="Critical intensity in FLOP/B, for the answer `crossover`.")
def attention(queries: float | None, keys: float | None, group: float, critical: float | None) -> Answers:
    """Intensity of attention, and the prompt length that makes it compute bound."""
    from tpuprof.perfmodel.intensity import attention_crossover, attention_intensity

    found: dict[str, Derivation] = {}
    if queries is not None:
        found["intensity"] = attention_intensity(queries, queries if keys is None else keys, group)
    if critical is not None:
        found["crossover"] = attention_crossover(critical, group)
    if not found:
        raise UsageError("There is nothing to calculate.", hint="Give --queries, --critical, or both.")
    return found


@calculator("units")
@click.option("--units", type=COUNTS, help="How many, or a hierarchy of them, such as 132x4x32.")
@click.option("--per-cycle", type=float, help="Operations that one unit finishes per cycle.")
@click.option("--product", type=COUNTS, help="Instead: m x n x k of the product that it finishes, such as 8x128x128.")
@click.option("--cycles", type=int, default=1, show_default=True, help="Cycles per such product.")
@click.option("--clock", type=quantity("Hz"), help="Clock, such as 1.5GHz.")
@click.option("--rate", type=quantity("FLOP/s"), help="Rate of all units.")
def units(
    units: tuple[int, ...] | None, per_cycle: float | None, product: tuple[int, ...] | None, cycles: int,
    clock: float | None, rate: float | None,
) -> Answers:  # fmt: skip
    """Rate of matrix units, tensor cores or lanes from their number and clock.

    Give three of units, operations per cycle, clock and rate, and the fourth is derived; or units alone to count them.
    """
    from tpuprof.perfmodel.peaks import product_per_cycle, rate_of_units, unit_count

    found: dict[str, Derivation] = {}
    counted = None if units is None else unit_count(units)
    if product is not None:
        if len(product) != 3 or per_cycle is not None:
            raise UsageError("A product has three sizes, and replaces --per-cycle.", hint="Write --product 8x128x128.")
        found["per-cycle"] = product_per_cycle(*product, cycles)
        per_cycle = found["per-cycle"].number()
    given = (counted, per_cycle, clock, rate)
    if sum(value is not None for value in given) == 3:
        number = None if counted is None else counted.number()
        found = {
            "answer": rate_of_units(units=number, per_cycle=per_cycle, clock=clock, rate=rate), **found
        }  # fmt: skip
    elif clock is not None or rate is not None or not any(value is not None for value in given):
        raise UsageError(
            "Too little or too much is given.", hint="Give three of --units, --per-cycle, --clock, --rate."
        )
    return found | ({} if counted is None else {"units": counted})


def _sourced(
    make: Callable[[float, float], Derivation], first: float | Quantity, second: float | Quantity
) -> Derivation:
    """The derivation made of two numbers, whose inputs keep the sources of those that are quantities."""
    from tpuprof.perfmodel.derivation import Quantity

    answer = make(*(part.number() if isinstance(part, Quantity) else part for part in (first, second)))
    sources = [part.source if isinstance(part, Quantity) else "" for part in (first, second)]
    pairs = zip(answer.inputs.items(), sources, strict=True)
    return replace(answer, inputs={name: replace(given, source=source) for (name, given), source in pairs})
