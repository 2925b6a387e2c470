"""Calculators that compare measurements with predictions and with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import Answers, calculator, quantity, rate_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.rates import Rates

_UNITS = ("s", "B/s", "FLOP/s", "B", "Hz", "FLOP")


@calculator("compare")
@click.argument("first")
@click.argument("second")
def compare(first: str, second: str) -> Answers:
    """One quantity over another: a ratio or a speed-up.

    FIRST and SECOND are two quantities of one unit, such as 311us and 244us, or 1.2TB/s and 16GB/s, or bare numbers.
    """
    from tpuprof.perfmodel.compare import ratio

    a, b, unit = _pair(first, second)
    return {"ratio": ratio(a, b, unit)}


@calculator("efficiency")
@click.option("--predicted", type=quantity("s"), required=True, help="Predicted time, such as 95.6ms.")
@click.option("--measured", type=quantity("s"), required=True, help="Measured time.")
def efficiency(predicted: float, measured: float) -> Answers:
    """Predicted over measured time.

    Above 100 % the prediction or the rates are wrong.
    """
    from tpuprof.perfmodel.compare import efficiency as efficiency_of

    return {"efficiency": efficiency_of(predicted, measured)}


@calculator("hidden")
@click.option("--exposed", type=quantity("s"), required=True, help="Time of the version without overlap.")
@click.option("--overlapped", type=quantity("s"), required=True, help="Time of the version with overlap.")
@click.option("--floor", type=quantity("s"), required=True, help="Time without communication.")
def hidden(exposed: float, overlapped: float, floor: float) -> Answers:
    """Share of exposed communication that an overlap hid."""
    from tpuprof.perfmodel.compare import hidden_share

    return {"hidden": hidden_share(exposed, overlapped, floor)}


@calculator("achieved")
@click.option("--time", "seconds", type=quantity("s"), required=True, help="Measured time.")
@click.option("--bytes", "size", type=quantity("B"), help="Bytes moved.")
@click.option("--flops", type=quantity("FLOP"), help="Operations done.")
@click.option("--dtype", default="bf16", show_default=True, help="Element type that the operations multiply.")
@rate_options
def achieved(rates: Rates, link: str, dtype: str, seconds: float, size: float | None, flops: float | None) -> Answers:
    """Rates that measured work reached.

    With rates also their share of the peak (`utilization`) and of the bandwidth (`bandwidth-utilization`).
    """
    from tpuprof.perfmodel.compare import achieved as achieved_of

    peak, bandwidth = rates.matmul_rate(dtype).value, rates.link(link).value
    return achieved_of(seconds, size=size, flops=flops, bandwidth=bandwidth, peak=peak)


def _pair(first: str, second: str) -> tuple[float, float, str]:
    """Both numbers and the unit that fits both."""
    try:
        return float(first), float(second), ""
    except ValueError:
        pass
    for unit in _UNITS:
        kind = quantity(unit)
        try:
            return kind.convert(first, None, None), kind.convert(second, None, None), unit
        except click.BadParameter:
            continue
    raise UsageError(
        f"{first!r} and {second!r} are not two quantities of one unit.",
        hint="Write both with the same unit, such as 311us 244us.",
    )
