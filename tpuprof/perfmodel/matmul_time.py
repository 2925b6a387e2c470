"""How long a matmul takes on a device, what bounds it, and from how many rows it would be bound by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.dtypes import packed_bytes
from tpuprof.perfmodel.checks import counted
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.perfmodel.rates import Rate, Rates

_BOOK = "scaling book, rooflines"
_ONCE = "both inputs are read once and the output is written once"


@dataclass(frozen=True, slots=True)
class MatmulTime:
    """A matmul on devices that share it evenly; made by :func:`matmul_time`.

    Args:
        matmul: the whole matmul.
        devices: over which its operations and its bytes are split.
        peak: of one device for the type that is multiplied.
        memory: bandwidth of the memory that holds the operands.
        padded_flops: operations after padding, of all devices; the plain ones where the matrix unit is not known.
        t_compute_s: seconds of the padded operations; null if the peak is not known.
        t_memory_s: seconds of the bytes; null if the bandwidth is not known.
        t_bound_s: the longer of the two, or of the one that is known; null if neither is.
        bound_by: ``compute`` or ``memory``; null if it is not known which.
    """

    matmul: Matmul
    devices: int
    peak: Rate
    memory: Rate
    mxu_size: int | None
    padded_flops: int
    t_compute_s: float | None
    t_memory_s: float | None
    t_bound_s: float | None
    bound_by: str | None

    @property
    def padding_waste(self) -> float:
        """The share of the padded operations that multiply padding."""
        return 1 - self.matmul.flops / self.padded_flops

    def answers(self) -> dict[str, Derivation]:
        """``time`` first where a rate is known, then what needs no rate: ``flops``, ``bytes``, ``intensity`` …"""
        m, inputs = self.matmul, self._inputs()
        flops = Derivation(m.flops, "FLOP", "2*batch*m*n*k", inputs, source=_BOOK)
        moved = Derivation(
            m.bytes, "B", "batch * (a*m*k + w*k*n + o*m*n)", inputs, None, (_ONCE,),
            tuple(Step(f"bytes of {name}", name, value, "B") for name, value in m.bytes_by_operand.items()), _BOOK,
        )  # fmt: skip
        steps = (flops.as_step("operations"), moved.as_step("bytes"))
        found: dict[str, Derivation] = {}
        if self.t_bound_s is not None:
            found["time"] = self._time(inputs, steps)
            found["attainable"] = Derivation(
                m.flops / self.t_bound_s, "FLOP/s", "FLOPs / T", inputs, self.bound_by, found["time"].assumptions,
                found["time"].steps, _BOOK,
            )  # fmt: skip
            found["bound-by"] = Derivation(self.bound_by, "", "the longer time", inputs, None, (), steps, _BOOK)
        if self.t_compute_s is not None:
            found["compute-time"] = Derivation(
                self.t_compute_s, "s", "padded FLOPs / (devices * C)", inputs, None, (), steps, _BOOK
            )
        if self.t_memory_s is not None:
            found["memory-time"] = Derivation(
                self.t_memory_s, "s", "bytes / (devices * W)", inputs, None, (_ONCE,), steps, _BOOK
            )
        found["intensity"] = Derivation(m.intensity, "FLOP/B", "FLOPs / bytes", inputs, None, (_ONCE,), steps, _BOOK)
        found |= {"flops": flops, "bytes": moved}
        if self.peak.value is not None and self.memory.value is not None:
            found["critical-rows"] = critical_rows(m, self.peak.value, self.memory.value)
        if self.mxu_size is not None:
            found |= self._padding(inputs, flops)
        return found

    def _inputs(self) -> dict[str, Quantity]:
        m = self.matmul
        sizes = {"m": m.m, "n": m.n, "k": m.k, "batch": m.batch}
        inputs = {name: Quantity(size, "element") for name, size in sizes.items()}
        for symbol, dtype in (("a", m.lhs_dtype), ("w", m.rhs_dtype), ("o", m.out_dtype)):
            inputs[symbol] = Quantity(packed_bytes(dtype, 1), "B/element", dtype)
        inputs["devices"] = Quantity(self.devices, "device")
        if self.peak.value is not None:
            inputs["C"] = Quantity(self.peak.value, "FLOP/s", self.peak.source)
        if self.memory.value is not None:
            inputs["W"] = Quantity(self.memory.value, "B/s", self.memory.source)
        return inputs

    def _time(self, inputs: dict[str, Quantity], steps: tuple[Step, ...]) -> Derivation:
        assumed = [self.peak.note] if self.peak.note else []
        more: list[Step] = []
        if self.t_compute_s is None:
            assumed.append(f"the time of the operations is left out: {self.peak.reason}")
        else:
            more.append(Step("time of the operations", "padded FLOPs / (devices * C)", self.t_compute_s, "s"))
        if self.t_memory_s is None:
            assumed.append(f"the time of the bytes is left out: {self.memory.reason}")
        else:
            more.append(Step("time of the bytes", "bytes / (devices * W)", self.t_memory_s, "s"))
            assumed.append(_ONCE)
        if self.mxu_size is not None and self.padded_flops != self.matmul.flops:
            more.insert(0, Step("operations after padding", "padded", self.padded_flops, "FLOP"))
        both = self.t_compute_s is not None and self.t_memory_s is not None
        formula = "max(padded FLOPs / (devices * C), bytes / (devices * W))" if both else more[-1].formula
        assumed.append("arithmetic and traffic overlap perfectly" if both else "nothing else takes longer")
        return Derivation(self.t_bound_s, "s", formula, inputs, self.bound_by, tuple(assumed), (*steps, *more), _BOOK)

    def _padding(self, inputs: dict[str, Quantity], flops: Derivation) -> dict[str, Derivation]:
        named = {**inputs, "S": Quantity(self.mxu_size, "element")}
        rule = "2*batch*up(k,S)*min(up(m,8)*up(n,S), up(m,S)*up(n,8))"
        assumed = ("the stationary operand fills S x S squares, the other streams in rows of 8",)
        padded = Derivation(self.padded_flops, "FLOP", rule, named, None, assumed, (), "scaling book, TPUs")
        steps = (flops.as_step("operations"), padded.as_step("operations after padding"))
        waste = Derivation(
            self.padding_waste, "fraction", "1 - FLOPs / padded FLOPs", named, None, assumed, steps, padded.source
        )
        return {"padded-flops": padded, "padding-waste": waste}


def matmul_time(matmul: Matmul, rates: Rates, *, devices: int = 1, memory: str = "hbm") -> MatmulTime:
    """The time of a matmul on some devices that share it evenly.

    Args:
        memory: the link that carries operands and result, ``hbm`` or ``vmem``.

    Raises:
        UsageError: the number of devices is below 1.
    """
    counted("The number of devices", devices)
    peak, link = rates.matmul_rate(matmul.compute_dtype), rates.link(memory)
    padded = matmul.flops if rates.mxu_size is None else matmul.padded_flops(rates.mxu_size)
    compute = None if peak.value is None else padded / (devices * peak.value)
    moving = None if link.value is None else matmul.bytes / (devices * link.value)
    bound_by = None
    if compute is not None and moving is not None:
        bound_by = "compute" if compute >= moving else "memory"
    known = [time for time in (compute, moving) if time is not None]
    return MatmulTime(
        matmul, devices, peak, link, rates.mxu_size, padded, compute, moving, max(known, default=None), bound_by
    )


def critical_rows(matmul: Matmul, peak: float, bandwidth: float) -> Derivation:
    """From how many rows m on a matmul with these n, k and types is bound by arithmetic; infinite if never.

    The exact form, with all three arrays: 2*m*n*k/C = (a*m*k + w*k*n + o*m*n)/W solved for m.

    Raises:
        UsageError: a rate is not above zero.
    """
    from tpuprof.perfmodel.roofline import ridge

    alpha = ridge(peak, bandwidth)
    a, w, o = (packed_bytes(dtype, 1) for dtype in (matmul.lhs_dtype, matmul.rhs_dtype, matmul.out_dtype))
    n, k = matmul.n, matmul.k
    room = 2 * n * k - alpha.number() * (a * k + o * n)
    value = alpha.number() * w * k * n / room if room > 0 else float("inf")
    inputs = {
        **alpha.inputs, "n": Quantity(n, "element"), "k": Quantity(k, "element"), "a": Quantity(a, "B/element"),
        "w": Quantity(w, "B/element"), "o": Quantity(o, "B/element"),
    }  # fmt: skip
    regime = "reachable" if room > 0 else "never bound by arithmetic"
    formula = "alpha*w*k*n / (2*n*k - alpha*(a*k + o*n))"
    return Derivation(value, "row", formula, inputs, regime, (_ONCE,), (alpha.as_step("alpha"),), _BOOK)
