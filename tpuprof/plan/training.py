"""Time and money: a training run, a chip-hour, a million tokens; and what moves between host and chip.

Formulas: scaling book, chapters "Training LLaMA", "Serving LLaMA", "TPUs".
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity
from tpuprof.plan.serving import share

APPLIED = "scaling book, training LLaMA"
SERVING = "scaling book, serving LLaMA"
DAY_S = 86_400
_HOUR_S = 3_600
_YEAR_DAYS = 365
_LIST = "list price, without discounts, hosts' storage and idle time"


def train_time(flops: float, chips: float, peak: Quantity, utilization: float = 1.0) -> dict[str, Derivation]:
    """``time`` of so many operations, and the same in ``days`` and ``years`` of 365 days; ``chip-hours``.

    Args:
        peak: of one chip.
        utilization: share of the peak that is reached (MFU, if recomputation does not count as operations).

    Raises:
        UsageError: a number is out of range.
    """
    rate = positive("The number of chips", chips) * positive("The peak rate", peak.number()) * share(utilization)
    seconds = not_negative("The number of operations", flops) / rate
    inputs = {
        "FLOPs": Quantity(flops, "FLOP"), "N": Quantity(chips, "chip"), "C": peak,
        "MFU": Quantity(utilization, "fraction"),
    }  # fmt: skip
    time = Derivation(seconds, "s", "FLOPs / (N*C*MFU)", inputs, source=APPLIED)
    step = (time.as_step("time"),)

    def made(value: float, unit: str, formula: str) -> Derivation:
        return Derivation(value, unit, formula, inputs, None, (), step, APPLIED)

    return {
        "time": time,
        "days": made(seconds / DAY_S, "day", "time / 86400"),
        "years": made(seconds / DAY_S / _YEAR_DAYS, "year", "time / 86400 / 365"),
        "chip-hours": made(seconds / _HOUR_S * chips, "chip-hour", "time / 3600 * N"),
    }


def time_of_work(work: Derivation, chips: float, peak: Quantity, utilization: float = 1.0) -> dict[str, Derivation]:
    """The answers of :func:`train_time` for derived operations, with how they were derived.

    Raises:
        UsageError: as there.
    """
    found = train_time(work.number(), chips, peak, utilization)
    step = work.as_step("operations")
    return {
        name: replace(
            made, inputs={**{k: q for k, q in work.inputs.items() if k not in made.inputs}, **made.inputs},
            steps=(*work.steps, step, *made.steps), assumptions=(*work.assumptions, *made.assumptions),
        )
        for name, made in found.items()
    }  # fmt: skip


def scaled_time(time: float, chips: float, others: float, unit: str = "day") -> Derivation:
    """The time on another number of chips, if it is inverse to their number.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The time", time) * positive("The number of chips", chips) / positive("The other number", others)
    inputs = {"T": Quantity(time, unit), "N": Quantity(chips, "chip"), "N_new": Quantity(others, "chip")}
    assumed = ("the utilisation stays the same",)
    return Derivation(value, unit, "T * N / N_new", inputs, None, assumed, (), APPLIED)


def run_cost(seconds: float, chips: float, price: Quantity) -> Derivation:
    """US dollars of a run.

    Args:
        price: of a chip-hour.

    Raises:
        UsageError: a number is out of range.
    """
    hours = not_negative("The time", seconds) / _HOUR_S * positive("The number of chips", chips)
    inputs = {"T": Quantity(seconds, "s"), "N": Quantity(chips, "chip"), "price": price}
    value = hours * positive("The price", price.number())
    return Derivation(value, "USD", "T/3600 * N * price", inputs, None, (_LIST,), (), APPLIED)


def flops_per_dollar(peak: Quantity, price: Quantity) -> Derivation:
    """Operations at the peak rate for a US dollar.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The peak rate", peak.number()) * _HOUR_S / positive("The price", price.number())
    inputs = {"C": peak, "price": price}
    return Derivation(value, "FLOP/USD", "C * 3600 / price", inputs, None, (_LIST,), (), SERVING)


def cost_per_million(throughput: float, price: Quantity) -> Derivation:
    """US dollars of a million tokens.

    Args:
        throughput: tokens per second and chip.
        price: of a chip-hour.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The price", price.number()) / _HOUR_S / positive("The throughput", throughput) * 1e6
    inputs = {"tokens": Quantity(throughput, "token/s/chip"), "price": price}
    return Derivation(value, "USD/Mtoken", "price / 3600 / tokens * 1e6", inputs, None, (_LIST,), (), SERVING)


def host_load(size: float, bandwidth: Quantity, links: int = 1) -> Derivation:
    """The time of bytes between the hosts' memory and some chips, each of which moves its share over its own link.

    Raises:
        UsageError: a number is out of range.
    """
    value = not_negative("The number of bytes", size) / (
        counted("The number of links", links) * positive("The bandwidth", bandwidth.number())
    )
    inputs = {"V": Quantity(size, "B"), "N": Quantity(links, "link"), "W": bandwidth}
    assumed = ("every chip has a link of its own", "the host's memory is no bottleneck")
    return Derivation(value, "s", "V / (N*W)", inputs, None, assumed, (), "scaling book, TPUs")


def offload_cost(size: float, bandwidth: Quantity, step: float, *, passes: int = 2) -> dict[str, Derivation]:
    """What offloading state of one chip costs per step: ``time``, and how much of it is ``exposed`` beside the rest.

    Args:
        size: bytes of one chip that are kept in the host's memory.
        bandwidth: between chip and host, one way.
        step: seconds of the step that can hide it.
        passes: how often the bytes cross the link; 2 for once out and once back.

    Raises:
        UsageError: a number is out of range.
    """
    if passes not in (1, 2):
        raise UsageError(f"Bytes cross the link {passes} times.", hint="Give 1 or 2.")
    per_pass = host_load(size, bandwidth)
    value = passes * per_pass.number()
    inputs = {**per_pass.inputs, "passes": Quantity(passes, ""), "T": Quantity(not_negative("The step", step), "s")}
    time = Derivation(value, "s", "passes * V / W", inputs, None, per_pass.assumptions, (), per_pass.source)
    assumed = (*per_pass.assumptions, "the rest of the step hides it as far as it is long enough")
    regime = "hidden" if value <= step else "exposed"
    left = max(0.0, value - step)
    steps = (time.as_step("transfers"),)
    exposed = Derivation(left, "s", "max(0, passes*V/W - T)", inputs, regime, assumed, steps, per_pass.source)
    return {"time": time, "exposed": exposed}
