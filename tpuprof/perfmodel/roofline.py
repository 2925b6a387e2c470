"""Rooflines: the time that arithmetic and traffic take at full rate, and where one overtakes the other.

Formulas: scaling book, chapter "Rooflines".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step

_BOOK = "scaling book, rooflines"
FULL_RATE = "the unit works at its peak rate all the time"


def ridge(peak: float, bandwidth: float) -> Derivation:
    """The intensity above which work is bound by arithmetic and below which by traffic, FLOP/B.

    Also called critical intensity. The bandwidth is that of the link that carries the bytes: HBM, VMEM, ICI, DCN, PCIe.

    Raises:
        UsageError: a rate is not above zero.
    """
    value = positive("The peak rate", peak) / positive("The bandwidth", bandwidth)
    inputs = {"C": Quantity(peak, "FLOP/s"), "W": Quantity(bandwidth, "B/s")}
    return Derivation(value, "FLOP/B", "C / W", inputs, source=_BOOK)


def attainable(intensity: float, peak: float, bandwidth: float) -> Derivation:
    """The highest rate that work of an intensity can reach, FLOP/s.

    Raises:
        UsageError: a number is not above zero.
    """
    critical = ridge(peak, bandwidth)
    value = min(peak, positive("The intensity", intensity) * bandwidth)
    return Derivation(
        value, "FLOP/s", "min(C, I * W)", {**critical.inputs, "I": Quantity(intensity, "FLOP/B")},
        "compute" if intensity >= critical.number() else "memory", (FULL_RATE,),
        (critical.as_step("intensity of the ridge"),), _BOOK,
    )  # fmt: skip


def compute_time(flops: float, peak: float) -> Derivation:
    """The time of so many operations at the peak rate, s.

    Raises:
        UsageError: the operations are negative, or the rate is not above zero.
    """
    value = not_negative("The number of operations", flops) / positive("The peak rate", peak)
    inputs = {"FLOPs": Quantity(flops, "FLOP"), "C": Quantity(peak, "FLOP/s")}
    return Derivation(value, "s", "FLOPs / C", inputs, None, (FULL_RATE,), source=_BOOK)


def traffic_time(size: float, bandwidth: float) -> Derivation:
    """The time of so many bytes at full bandwidth, s.

    Raises:
        UsageError: the bytes are negative, or the bandwidth is not above zero.
    """
    value = not_negative("The number of bytes", size) / positive("The bandwidth", bandwidth)
    inputs = {"V": Quantity(size, "B"), "W": Quantity(bandwidth, "B/s")}
    return Derivation(
        value, "s", "V / W", inputs, None, ("the link carries its full bandwidth all the time",), (), _BOOK
    )


@dataclass(frozen=True, slots=True)
class Overlap:
    """Times of the resources that one piece of work needs; made by :func:`overlap`.

    Args:
        times: seconds by resource, such as ``compute``, ``hbm``, ``comm``.
        lower_s: the time if all of them overlap perfectly: the longest.
        upper_s: the time if none of them overlap: the sum.
        bound_by: the resource that takes longest; the first one if several do.
    """

    times: Mapping[str, float]
    lower_s: float
    upper_s: float
    bound_by: str

    def answers(self, measured_s: float | None = None) -> dict[str, Derivation]:
        """``time`` (the lower bound), ``upper``, ``ratio`` of the two, ``bound-by``; ``hidden`` if a time was measured.

        ``hidden`` is the share of what could be hidden that was: 1 at the lower bound, 0 at the sum, null where
        nothing could be hidden.
        """
        inputs = {f"T_{name}": Quantity(value, "s") for name, value in self.times.items()}
        names = ", ".join(inputs)
        perfect = "all resources work at the same time"
        lower = Derivation(self.lower_s, "s", f"max({names})", inputs, self.bound_by, (perfect,), source=_BOOK)
        upper = Derivation(
            self.upper_s, "s", " + ".join(inputs), inputs, self.bound_by, ("no two resources work at the same time",),
            source=_BOOK,
        )  # fmt: skip
        steps = (lower.as_step("with full overlap"), upper.as_step("without overlap"))
        ratio = self.upper_s / self.lower_s if self.lower_s else None
        found = {
            "time": lower,
            "upper": upper,
            "ratio": Derivation(ratio, "ratio", "sum / max", inputs, self.bound_by, (), steps, _BOOK),
            "bound-by": Derivation(self.bound_by, "", f"the longest of {names}", inputs, source=_BOOK),
        }
        if measured_s is not None:
            found["hidden"] = self._hidden(positive("The measured time", measured_s), inputs, steps)
        return found

    def _hidden(self, measured_s: float, inputs: Mapping[str, Quantity], steps: tuple[Step, ...]) -> Derivation:
        room = self.upper_s - self.lower_s
        value = (self.upper_s - measured_s) / room if room else None
        regime = "between the bounds" if self.lower_s <= measured_s <= self.upper_s else "outside of the bounds"
        named = {**inputs, "T": Quantity(measured_s, "s")}
        return Derivation(value, "fraction", "(sum - T) / (sum - max)", named, regime, (), steps, _BOOK)


def overlap(times: Mapping[str, float]) -> Overlap:
    """The bounds of work that needs several resources for so many seconds each.

    Raises:
        UsageError: there is no time, or one is negative.
    """
    if not times:
        raise UsageError("There is no time to bound.", hint="Give the time of at least one resource.")
    for name, value in times.items():
        not_negative(f"The time of {name}", value)
    longest = max(times.values())
    return Overlap(dict(times), longest, sum(times.values()), next(name for name, t in times.items() if t == longest))
