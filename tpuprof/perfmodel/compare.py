"""What was measured beside what was predicted, and one measurement beside another.

Procedure: scaling book, chapter "Profiling".
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Value

_PROFILING = "scaling book, profiling"
_IMPOSSIBLE = 1.0


def ratio(first: float, second: float, unit: str) -> Derivation:
    """The first number over the second one, both in one unit: of two rates, or of the time before and after.

    Raises:
        UsageError: the first is negative, or the second is not above zero.
    """
    value = not_negative("The first number", first) / positive("The second number", second)
    return Derivation(value, "x", "a / b", {"a": Quantity(first, unit), "b": Quantity(second, unit)})


def efficiency(predicted_s: float, measured_s: float) -> Derivation:
    """Predicted over measured time: the share of the bound that was reached.

    Above 1 the op was faster than its bound, so the prediction or the rates are wrong, which the regime says.

    Raises:
        UsageError: the prediction is negative, or the measurement is not above zero.
    """
    value = not_negative("The predicted time", predicted_s) / positive("The measured time", measured_s)
    inputs = {"T_predicted": Quantity(predicted_s, "s"), "T_measured": Quantity(measured_s, "s")}
    regime = "faster than its bound" if value > _IMPOSSIBLE else "within its bound"
    return Derivation(value, "fraction", "T_predicted / T_measured", inputs, regime, source=_PROFILING)


def hidden_share(exposed_s: float, overlapped_s: float, floor_s: float) -> Derivation:
    """The share of exposed communication that a version with overlap hid.

    Args:
        exposed_s: time of the version without overlap.
        overlapped_s: time of the version with overlap.
        floor_s: time without communication at all.

    Raises:
        UsageError: a time is negative, or the first is not above the floor.
    """
    for name, value in (("The time without overlap", exposed_s), ("The time with overlap", overlapped_s)):
        not_negative(name, value)
    if not exposed_s > not_negative("The floor", floor_s):
        raise UsageError("Nothing was exposed: the time without overlap is not above the floor.")
    inputs = {
        "T_exposed": Quantity(exposed_s, "s"), "T_overlapped": Quantity(overlapped_s, "s"),
        "T_floor": Quantity(floor_s, "s"),
    }  # fmt: skip
    value = (exposed_s - overlapped_s) / (exposed_s - floor_s)
    formula = "(T_exposed - T_overlapped) / (T_exposed - T_floor)"
    return Derivation(value, "fraction", formula, inputs, source=_PROFILING)


def achieved(
    seconds: float,
    *,
    size: float | None = None,
    flops: float | None = None,
    bandwidth: float | None = None,
    peak: float | None = None,
) -> dict[str, Derivation]:
    """The rates of work that took some time: ``bandwidth``, ``rate``, and their shares of a peak where one is given.

    Args:
        size: bytes moved.
        flops: operations done.
        bandwidth: of the memory, for ``bandwidth-utilization``.
        peak: of the unit, for ``utilization``.

    Raises:
        UsageError: there is neither bytes nor operations, or a number is out of range.
    """
    positive("The time", seconds)
    if size is None and flops is None:
        raise UsageError("There is no work.", hint="Give bytes, operations, or both.")
    found: dict[str, Derivation] = {}
    clock = Quantity(seconds, "s")
    if size is not None:
        inputs = {"V": Quantity(not_negative("The number of bytes", size), "B"), "T": clock}
        found["bandwidth"] = Derivation(size / seconds, "B/s", "V / T", inputs, source=_PROFILING)
        if bandwidth is not None:
            found["bandwidth-utilization"] = _share(found["bandwidth"], "W", bandwidth, "V / (T * W)")
    if flops is not None:
        inputs = {"FLOPs": Quantity(not_negative("The number of operations", flops), "FLOP"), "T": clock}
        found["rate"] = Derivation(flops / seconds, "FLOP/s", "FLOPs / T", inputs, source=_PROFILING)
        if peak is not None:
            found["utilization"] = _share(found["rate"], "C", peak, "FLOPs / (T * C)")
    return found


def replica_group(members: tuple[int, ...]) -> dict[str, Derivation]:
    """What one replica group of a collective tells: ``members`` (the degree) and ``stride`` between device ids.

    Raises:
        UsageError: the group is empty, or holds a device twice or a negative one.
    """
    if not members or min(members) < 0 or len(set(members)) != len(members):
        raise UsageError("This is no replica group.", hint="Write different device ids like 0,16,32,48.")
    inputs = {"group": Quantity(list(members), "device id")}
    ordered = sorted(members)
    gaps = {after - before for before, after in pairwise(ordered)}
    stride: Value = gaps.pop() if len(gaps) == 1 else None
    regime = "evenly spaced" if stride is not None else "one device" if len(members) == 1 else "unevenly spaced"
    common = gcd(*(member - ordered[0] for member in ordered)) if len(members) > 1 else None
    return {
        "members": Derivation(len(members), "way", "devices of the group", inputs, regime, source=_PROFILING),
        "stride": Derivation(stride if stride is not None else common, "device", "distance of ids", inputs, regime),
    }


def _share(rate: Derivation, symbol: str, peak: float, formula: str) -> Derivation:
    value = rate.number() / positive("The peak", peak)
    regime = "above the peak" if value > _IMPOSSIBLE else None
    inputs = {**rate.inputs, symbol: Quantity(peak, rate.unit)}
    return Derivation(value, "fraction", formula, inputs, regime, (), (rate.as_step("achieved"),), _PROFILING)
