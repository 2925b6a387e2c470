"""What calculators of models share: the model, the critical intensity, and sources of numbers that were looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tpuprof.cli.calc.options import AMOUNT, AXES, Answers
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation, Quantity
    from tpuprof.perfmodel.rates import Rates
    from tpuprof.plan.model import ModelConfig
    from tpuprof.plan.remat import RematPolicy

MODEL = click.argument("model_name", metavar="[MODEL]", required=False)
PARAMS = click.option("--params", type=AMOUNT, help="Parameters, such as 70B, instead of MODEL.")
WEIGHTS = click.option("--weights", "weights_dtype", default="bf16", show_default=True, help="Type of the weights.")
INTENSITY = click.option(
    "--intensity", type=float, help="Critical intensity in FLOP/B, instead of rates: peak over bandwidth."
)
EXPERTS = click.option("--experts", type=int, help="Routed experts of a layer.")
TOP_K = click.option("--top-k", type=int, help="Routed experts per token.")
UTILIZATION = click.option(
    "--mfu", "utilization", type=float, default=0.4, show_default=True, help="Share of the peak rate that is reached."
)


KEEP = click.option("--keep", type=AXES, help="Tensors that are kept, instead of --remat: query,key,value,mlp_out …")
MOVE = click.option("--move", type=AXES, help="Tensors that are kept in the host's memory, instead of --remat.")


def policy_of(remat: str | None, keep: tuple[str, ...] | None, move: tuple[str, ...] | None) -> RematPolicy:
    """The policy of a name, or of named tensors.

    Raises:
        UsageError: both are given, or a name is not known.
    """
    from tpuprof.plan.remat import custom_policy, remat_policy

    if keep is None and move is None:
        return remat_policy(remat or "block-inputs")
    if remat is not None:
        raise UsageError("The policy is given twice.", hint="Give --remat, or --keep and --move.")
    return custom_policy(keep or (), move or ())


def model_of(name: str) -> ModelConfig:
    """The model of a name or path.

    Raises:
        UsageError, InputError: there is none.
    """
    from tpuprof.plan.zoo import load_model

    return load_model(name)


def intensity_of(rates: Rates, link: str, dtype: str, intensity: float | None) -> Quantity:
    """The critical intensity that is given, or that follows from rates, with their sources.

    Raises:
        UsageError: it is given and follows too, or neither.
    """
    from tpuprof.perfmodel.derivation import Quantity
    from tpuprof.perfmodel.roofline import ridge
    from tpuprof.report.derivations import show_quantity

    peak, carried = rates.matmul_rate(dtype), rates.link(link)
    if intensity is not None:
        if rates.peak is not None or rates.chip is not None or carried.value is not None:
            raise UsageError("The intensity is given twice.", hint="Give --intensity, or rates, or a chip.")
        return Quantity(intensity, "FLOP/B")
    if peak.value is None and carried.value is None and rates.chip is None:
        raise UsageError(
            "The critical intensity is not known.", hint="Give --chip, --peak and --bandwidth, or --intensity."
        )
    c, w = rates.need_peak(dtype), rates.need_link(link)
    value = ridge(c.number(), w.number()).number()
    rows = [f"{show_quantity(q.value, q.unit)}{f' ({q.source})' if q.source else ''}" for q in (c, w)]
    return Quantity(value, "FLOP/B", " / ".join(rows))


def with_sources(found: Answers, sources: Mapping[str, str]) -> dict[str, Derivation]:
    """The answers, whose inputs of these symbols state where they come from."""
    from tpuprof.perfmodel.derivation import Derivation

    answers = {"answer": found} if isinstance(found, Derivation) else found
    return {
        name: replace(
            made,
            inputs={
                symbol: replace(given, source=sources[symbol]) if sources.get(symbol) else given
                for symbol, given in made.inputs.items()
            },
        )
        for name, made in answers.items()
    }


def refuse(where: str, *names: str) -> None:
    """Refuses options that were given and would be ignored.

    Args:
        where: what makes them meaningless, in words: ``with MODEL``.
        names: of parameters of the command.

    Raises:
        UsageError: one of them was given.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and given is ParameterSource.COMMANDLINE:
            raise UsageError(f"{parameter.opts[0]} says nothing {where}.", hint="Leave it out.")


def price_of(rates: Rates, price: float | None) -> Quantity:
    """The price of a chip-hour, given or that of the chip.

    Raises:
        UsageError: neither is known.
    """
    from tpuprof.perfmodel.derivation import Quantity

    if price is not None:
        return Quantity(price, "USD/chip-hour")
    figure = None if rates.chip is None else rates.chip.price_usd_per_hour
    if figure is None:
        raise UsageError("The price of a chip-hour is not known.", hint="Give --price, such as --price 4.2.")
    return Quantity(figure.value, "USD/chip-hour", f"{rates.name}: {figure.source}")


def capacity_of(rates: Rates, capacity: float | None) -> Quantity | None:
    """The bytes of a chip's memory, given or those of the chip; null if neither is known."""
    from tpuprof.perfmodel.derivation import Quantity

    if capacity is not None:
        return Quantity(capacity, "B")
    figure = None if rates.chip is None else rates.chip.hbm_bytes
    if figure is None or rates.chip is None:
        return None
    # The rates of one runtime device keep the chip's own count of devices, those of the whole chip count one.
    share = rates.chip.devices_per_chip
    return Quantity(figure.value / share, "B", f"{rates.name}: {figure.source}")


def exactly_one(hint: str, **given: object) -> str:
    """The name of the only one that is given.

    Raises:
        UsageError: none or several are.
    """
    there = [name for name, value in given.items() if value is not None]
    if len(there) != 1:
        what = "Nothing is given to calculate with." if not there else f"{' and '.join(there)} are both given."
        raise UsageError(what, hint=hint)
    return there[0]
