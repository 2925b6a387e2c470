"""Calculators of time and money."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.given import MODEL, PARAMS, exactly_one, model_of, price_of, refuse
from tpuprof.cli.calc.options import AMOUNT, Answers, calculator, quantity, rate_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.rates import Rates

_DTYPE = click.option("--dtype", default="bf16", show_default=True, help="Type that is multiplied.")
_CHIPS = click.option("--chips", type=AMOUNT, help="Chips.")


@calculator("train-time")
@MODEL
@PARAMS
@click.option("--flops", type=quantity("FLOP"), help="Operations, instead of parameters and tokens.")
@click.option("--tokens", type=AMOUNT, help="Tokens, such as 15T.")
@click.option("--seq", type=int, default=8192, show_default=True, help="Tokens of a sequence, with MODEL.")
@_CHIPS
@click.option(
    "--mfu", "utilization", type=float, default=1.0, show_default=True, help="Share of the peak that is reached."
)
@click.option("--known-days", type=float, help="Days that it takes on --known-chips, instead of rates.")
@click.option("--known-chips", type=AMOUNT, help="Chips on which that many days are known.")
@_DTYPE
@rate_options
def train_time(
    rates: Rates, link: str, model_name: str | None, params: float | None, flops: float | None, tokens: float | None,
    seq: int, chips: float | None, utilization: float, known_days: float | None, known_chips: float | None, dtype: str,
) -> Answers:  # fmt: skip
    """Time of a training run.

    Of a MODEL with its attention scores, of --params, or of --flops; or scaled from a known time to other chips.
    """
    from tpuprof.plan.flops import run_flops, training_flops
    from tpuprof.plan.training import scaled_time, time_of_work
    from tpuprof.plan.training import train_time as time_of

    if chips is None:
        raise UsageError("The number of chips is not given.", hint="Give --chips.")
    if known_days is not None or known_chips is not None:
        refuse("with a known time", "model_name", "params", "flops", "tokens", "seq", "utilization", "peak", "chip")
        if known_days is None or known_chips is None:
            raise UsageError(
                "A known time needs the chips that it was on.", hint="Give --known-days and --known-chips."
            )
        return {"days": scaled_time(known_days, known_chips, chips)}
    given = exactly_one(
        "Give MODEL or --params with --tokens, or --flops.", MODEL=model_name, params=params, flops=flops
    )
    if given != "MODEL":
        refuse("without MODEL", "seq")
    if given == "flops":
        refuse("with --flops", "tokens")
    elif tokens is None:
        raise UsageError("The number of tokens is not given.", hint="Give --tokens, such as 15T.")
    peak = rates.need_peak(dtype)
    if model_name is not None:
        return time_of_work(run_flops(model_of(model_name), seq, tokens or 0.0), chips, peak, utilization)
    if params is not None:
        return time_of_work(training_flops(params, tokens), chips, peak, utilization)
    return time_of(flops or 0.0, chips, peak, utilization)


@calculator("cost")
@click.option("--time", "seconds", type=quantity("s"), help="Time of the run.")
@click.option("--days", type=float, help="The same in days.")
@_CHIPS
@click.option("--throughput", type=float, help="Tokens per second and chip, for the cost of a million tokens.")
@click.option("--price", type=float, help="US dollars of a chip-hour. Default: the list price of --chip.")
@_DTYPE
@rate_options
def cost(
    rates: Rates, link: str, seconds: float | None, days: float | None, chips: float | None, throughput: float | None,
    price: float | None, dtype: str,
) -> Answers:  # fmt: skip
    """Dollars of a run, of operations and of tokens.

    `run` with a time and chips, `per-million-tokens` with a throughput, `flops-per-dollar` with a peak rate.
    """
    from tpuprof.plan import training

    money = price_of(rates, price)
    found: dict[str, Derivation] = {}
    if seconds is not None and days is not None:
        raise UsageError("The time is given twice.", hint="Give --time or --days.")
    time = seconds if days is None else days * training.DAY_S
    if time is not None:
        if chips is None:
            raise UsageError("The number of chips is not given.", hint="Give --chips.")
        found["run"] = training.run_cost(time, chips, money)
    if throughput is not None:
        found["per-million-tokens"] = training.cost_per_million(throughput, money)
    if rates.matmul_rate(dtype).value is not None:
        found["flops-per-dollar"] = training.flops_per_dollar(rates.need_peak(dtype), money)
    if not found:
        raise UsageError("There is nothing to calculate.", hint="Give a time and chips, a throughput, or a peak rate.")
    return found
