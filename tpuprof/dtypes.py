"""Element types by the names of HLO, with the other names people give them."""

from __future__ import annotations

from tpuprof.errors import UsageError

# Bits of one element. Types below 8 bits take a whole byte in HLO unless the layout packs them with E(bits).
DTYPE_BITS = {
    "pred": 8, "s1": 1, "s2": 2, "s4": 4, "s8": 8, "s16": 16, "s32": 32, "s64": 64,
    "u1": 1, "u2": 2, "u4": 4, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
    "f4e2m1fn": 4, "f8e3m4": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e4m3fnuz": 8,
    "f8e5m2": 8, "f8e5m2fnuz": 8, "f8e8m0fnu": 8,
}  # fmt: skip

_ALIASES = {
    "bool": "pred", "int1": "s1", "int2": "s2", "int4": "s4", "int8": "s8", "int16": "s16", "int32": "s32",
    "int64": "s64", "uint1": "u1", "uint2": "u2", "uint4": "u4", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16", "float32": "f32",
    "fp32": "f32", "float": "f32", "float64": "f64", "fp64": "f64", "double": "f64", "fp8": "f8e4m3fn",
    "fp4": "f4e2m1fn", "e4m3": "f8e4m3fn", "e5m2": "f8e5m2",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def hlo_dtype(name: str) -> str:
    """The name of HLO for a type, such as ``s8`` for ``int8``; ``fp8`` is taken as ``f8e4m3fn``.

    Raises:
        UsageError: there is no such type.
    """
    lower = name.strip().lower()
    found = _ALIASES.get(lower, lower)
    for short in ("8", "4"):  # JAX writes float8_e4m3fnuz where HLO has f8e4m3fnuz
        found = found.replace(f"float{short}_", f"f{short}", 1) if found.startswith(f"float{short}_") else found
    if found not in DTYPE_BITS:
        raise UsageError(
            f"{name!r} is no element type.", hint=f"Types: {', '.join(DTYPE_BITS)}; also {', '.join(_ALIASES)}."
        )
    return found


def packed_bytes(name: str, elements: float) -> float:
    """Bytes of so many elements without padding; two 4-bit elements share a byte.

    Raises:
        UsageError: there is no such type.
    """
    return elements * DTYPE_BITS[hlo_dtype(name)] / 8
