"""Rows for charts, with hand-made numbers: a device of 100 TFLOP/s and 1 TB/s, whose ridge is at 100 FLOP/B."""

from __future__ import annotations

from typing import Any

MS = 1_000_000_000
ROOFLINE: dict[str, Any] = {
    "chip": "made-up",
    "peaks": {"bf16": 1e14, "int8": 2e14, "fp16": 1.001e14},
    "bandwidths": {"hbm": 1e12, "vmem": 1e13},
    "peak_dtype": "bf16",
    "reason": None,
}
HOSTILE = '</text><script>alert(1)</script> datum.x = {"signal": "1"} \x1b[31m\u202e\n=1+1 ' + "n" * 500


def op(name: str, kind: str, self_ms: float, flops: float | None, hbm: float | None, **more: Any) -> dict[str, Any]:
    """An op that ran twice; flops and bytes are of one execution."""
    return {
        "name": name, "module": "jit_f(1)", "kind": kind, "occurrences": 2, "self_ps": self_ms * MS, "flops": flops,
        "hbm_bytes": hbm, "vmem_bytes": 0.0, "bound_by": None, "roofline_efficiency": None, **more,
    }  # fmt: skip


OPS = [
    # 2 x 4e11 FLOP in 10 ms: 80 TFLOP/s at 400 FLOP/B.
    op("dot.1", "matmul", 10, 4e11, 1e9, bound_by="compute", roofline_efficiency=0.8),
    # 2 x 1e9 FLOP in 4 ms: 0.5 TFLOP/s at 0.5 FLOP/B, on the HBM's roof.
    op("add.1", "elementwise", 4, 1e9, 2e9, bound_by="hbm", roofline_efficiency=1.0),
    # Only VMEM: 2 x 1e9 FLOP in 2 ms: 1 TFLOP/s at 2 FLOP/B.
    op("mul.1", "elementwise", 2, 1e9, 0.0, vmem_bytes=5e8),
    op("copy.1", "data_movement", 2, 0.0, 1e9),
    op("kernel.1", "custom_kernel", 1, None, None),
    op("all-reduce.1", "collective", 50, 1e6, 1e6),
]


def marks(spec: dict[str, Any]) -> list[str]:
    """The mark types of a spec's layers, in order."""
    return [layer["mark"]["type"] for layer in spec["layer"]]


def rows(spec: dict[str, Any], layer: int) -> list[dict[str, Any]]:
    """The data of a layer."""
    data = spec["layer"][layer].get("data") or spec["data"]
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


def layers_of(spec: dict[str, Any], mark: str) -> list[int]:
    """Which layers have a mark of this type."""
    return [at for at, kind in enumerate(marks(spec)) if kind == mark]
