"""Which peak a dtype runs at, and how float32 matmuls run on TPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tpuprof.dtypes import DTYPE_BITS, hlo_dtype
from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip, Figure

Precision = Literal["default", "high", "highest"]

CLASSES = ("bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4", "int8", "int4")
"""The classes of dtypes that a chip can have a peak for."""

_OF_TYPES = {"bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64"}
_BY_BITS = {
    **dict.fromkeys(("s8", "u8"), "int8"),
    **dict.fromkeys(("s4", "u4"), "int4"),
    **{name: "fp8" for name in DTYPE_BITS if name.startswith("f8")},
    **{name: "fp4" for name in DTYPE_BITS if name.startswith("f4")},
}

_PASSES: dict[str, int] = {"default": 1, "high": 3, "highest": 6}
# What cost analyses write for the algorithms that are no `jax.lax.Precision`, such as dot_bf16_bf16_f32_x9.
_ALGORITHM_PASSES: dict[str, int] = {"bf16_x9": 9, "tf32_x3": 3}


def peak_class(dtype: str) -> str | None:
    """The class of matrix units that a dtype runs on, one of `CLASSES`; null if there is none (``s32``, ``pred``).

    Takes names of HLO (``bf16``, ``f8e4m3fn``, ``s8``), of JAX (``bfloat16``, ``float8_e4m3fn``, ``int8``), and the
    classes themselves, in any case.
    """
    if dtype.strip().lower() == "tf32":  # a way to multiply, no type of arrays
        return "tf32"
    try:
        name = hlo_dtype(dtype)
    except UsageError:
        return None
    return _OF_TYPES.get(name) or _BY_BITS.get(name)


def matmul_passes(precision: str) -> int:
    """How many products of its matrix unit a TPU makes for one product of float32, by precision.

    Args:
        precision: a ``jax.lax.Precision`` (``default``, ``high``, ``highest``), ``bf16_x9`` or ``tf32_x3``.

    Raises:
        UsageError: there is no such precision.
    """
    name = precision.strip().lower()
    passes = _PASSES.get(name) or _ALGORITHM_PASSES.get(name)
    if passes is None:
        raise UsageError(f"{precision!r} is no precision.", hint=f"Precisions: {', '.join(_PASSES)}.")
    return passes


@dataclass(frozen=True, slots=True)
class MatmulPeak:
    """The rate that matmuls of a dtype can reach.

    Args:
        chip: FLOP/s of the whole chip, counting each multiply-add of the matmul once as two; null if not known.
        device: the same of one runtime device.
        passes: how many matmuls the matrix unit does for one of the program.
        assumption: what was assumed, as a sentence; empty if nothing.
        reason: why the rate is null; empty if it is known.
    """

    chip: Figure | None
    device: Figure | None
    passes: int = 1
    assumption: str = ""
    reason: str = ""


def matmul_peak(chip: Chip, dtype: str, precision: str = "default") -> MatmulPeak:
    """The rate of matmuls whose operands have a dtype, under a ``jax.lax.Precision``.

    TPUs have no float32 matrix unit: float32 operands are split into bf16 parts and multiplied in 1, 3 or 6 passes at
    precision default, high or highest, unless a float32 peak was given. GPUs multiply float32 operands as tf32 at
    default precision where such a peak is known, and float16 at the rate of bf16.

    Raises:
        UsageError: there is no such precision.
    """
    passes = matmul_passes(precision)
    kind = peak_class(dtype)
    if kind == "fp32" and "fp32" not in chip.peak and chip.platform == "tpu":
        return _in_passes(chip, passes, precision)
    if kind == "fp32" and "fp32" not in chip.peak and "tf32" in chip.peak and passes == 1:
        return _of(chip, "tf32", "float32 matmuls run as tf32 at default precision.")
    if kind == "fp16" and "fp16" not in chip.peak and chip.platform == "gpu" and "bf16" in chip.peak:
        return _of(chip, "bf16", "float16 matmuls run at the rate of bf16.")
    if kind is None or kind not in chip.peak:
        return MatmulPeak(None, None, reason=chip.no_peak(dtype))
    return _of(chip, kind, "")


def _of(chip: Chip, kind: str, assumption: str) -> MatmulPeak:
    return MatmulPeak(chip.peak[kind], chip.device_peak(kind), assumption=assumption)


def _in_passes(chip: Chip, passes: int, precision: str) -> MatmulPeak:
    whole, device = chip.peak.get("bf16"), chip.device_peak("bf16")
    count = f"{passes} bf16 pass{'es' if passes > 1 else ''}"
    assumption = f"float32 matmuls run as {count} at precision {precision.strip().lower()}."
    if whole is None or device is None:
        return MatmulPeak(None, None, passes, assumption, chip.no_peak("bf16"))
    if passes == 1:
        return MatmulPeak(whole, device, passes, assumption)
    return MatmulPeak(whole.times(1 / passes, count), device.times(1 / passes, count), passes, assumption)
