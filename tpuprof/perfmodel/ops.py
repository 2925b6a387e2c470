"""The bound of one op from what it computes and moves: the resource that takes longest at full rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpuprof.perfmodel.checks import not_negative
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.rates import Rate, Rates

_NAMES = {"compute": "t_compute_s", "vector": "t_vector_s", "hbm": "t_hbm_s", "vmem": "t_vmem_s", "host": "t_host_s"}
_SPACES = {"hbm": "hbm", "vmem": "vmem", "host": "pcie"}


@dataclass(frozen=True, slots=True)
class OpBound:
    """How fast one op can be on one runtime device; each time is null if it cannot be known.

    Args:
        t_compute_s: of the matrix unit.
        t_vector_s: of the vector unit.
        t_hbm_s, t_vmem_s, t_host_s: of the bytes of each memory; the host's are carried by PCIe.
        t_comm_s: of its communication, as given.
        t_bound_s: the longest of them; null if none is known.
        bound_by: ``compute``, ``vector``, ``hbm``, ``vmem``, ``host`` or ``comm``; null if none is known or all are 0.
        complete: nothing that the op does was left out; if not, the bound is a lower one.
        reasons: why a time is null, by its name.
    """

    t_compute_s: float | None
    t_vector_s: float | None
    t_hbm_s: float | None
    t_vmem_s: float | None
    t_host_s: float | None
    t_comm_s: float | None
    t_bound_s: float | None
    bound_by: str | None
    complete: bool
    reasons: Mapping[str, str]
    inputs: Mapping[str, Quantity]

    def derivation(self) -> Derivation:
        """The bound with the times that it is the longest of."""
        times = {
            "matrix unit": self.t_compute_s, "vector unit": self.t_vector_s, "HBM": self.t_hbm_s,
            "VMEM": self.t_vmem_s, "host": self.t_host_s, "communication": self.t_comm_s,
        }  # fmt: skip
        steps = tuple(Step(f"time of {name}", "amount / rate", value, "s") for name, value in times.items() if value)
        assumed = ("everything overlaps perfectly", *(f"left out, so the bound is a lower one: {text}" for text in
                   dict.fromkeys(self.reasons.values())))  # fmt: skip
        return Derivation(
            self.t_bound_s, "s", "max of the times", self.inputs, self.bound_by, assumed, steps,
            "scaling book, rooflines",
        )  # fmt: skip


def op_time(
    flops_by_dtype: Mapping[str, float | None],
    bytes_by_space: Mapping[str, float | None],
    rates: Rates,
    *,
    vector_flops: float | None = 0.0,
    comm_s: float | None = 0.0,
    precision: str = "default",
) -> OpBound:
    """The bound of one execution of an op on one runtime device.

    Args:
        flops_by_dtype: operations of the matrix unit by operand type; null where they are not known.
        bytes_by_space: bytes read and written, by ``hbm``, ``vmem``, ``host``; other spaces are on the chip and free.
        rates: of the device, see :func:`tpuprof.perfmodel.rates.rates_of`.
        vector_flops: operations of the vector unit.
        comm_s: time of its communication, from a collective's model; null if it communicates and that is not known.
        precision: of float32 matmuls.

    Raises:
        UsageError: a number is negative, or there is no such precision.
    """
    reasons: dict[str, str] = {}
    inputs: dict[str, Quantity] = {}
    compute: float | None = 0.0
    for dtype, flops in flops_by_dtype.items():
        part = _time(f"FLOPs of {dtype}", flops, "FLOP", rates.matmul_rate(dtype, precision), inputs)
        compute = _plus(compute, part, "t_compute_s", reasons)
    vector = _plus(0.0, _time("vector FLOPs", vector_flops, "FLOP", rates.vector, inputs), "t_vector_s", reasons)
    moved: dict[str, float | None] = {}
    for space, link in _SPACES.items():
        part = _time(f"bytes of {space}", bytes_by_space.get(space, 0.0), "B", rates.link(link), inputs)
        moved[space] = _plus(0.0, part, _NAMES[space], reasons)
    if comm_s is None:
        reasons["t_comm_s"] = "The time of the communication is not known."
    else:
        not_negative("The time of the communication", comm_s)
    times = {"compute": compute, "vector": vector, **moved, "comm": comm_s}
    known = {name: time for name, time in times.items() if time is not None}
    longest = max(known.values(), default=None)
    bound_by = next((name for name, time in known.items() if time == longest), None) if longest else None
    if not known or (reasons and not longest):
        longest = None
    return OpBound(
        compute, vector, moved["hbm"], moved["vmem"], moved["host"], comm_s, longest, bound_by, not reasons, reasons,
        inputs,
    )  # fmt: skip


def _time(name: str, amount: float | None, unit: str, rate: Rate, inputs: dict[str, Quantity]) -> float | str:
    """Seconds, or the reason why they are not known; work of zero takes no time at any rate."""
    if amount is None:
        return f"The {name} are not known."
    if not_negative(name, amount) == 0:
        return 0.0
    inputs[name] = Quantity(amount, unit)
    if rate.value is None:
        return rate.reason or f"The rate of the {name} is not known."
    inputs[f"rate of {name}"] = Quantity(rate.value, f"{unit}/s", rate.source)
    return amount / rate.value


def _plus(total: float | None, part: float | str, name: str, reasons: dict[str, str]) -> float | None:
    if isinstance(part, str):
        reasons[name] = f"{reasons[name]} {part}" if name in reasons else part
        return None
    return None if total is None else total + part
