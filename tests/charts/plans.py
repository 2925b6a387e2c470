"""Rows of plans with hand-made numbers."""

from __future__ import annotations

from typing import Any


def train(rank: int = 1, layout: str = "fsdp=4 tensor=2", **more: Any) -> dict[str, Any]:
    """A training candidate of a 1 s step: 0.7 s of computation, 0.25 s of exposed collectives, a bubble."""
    return {
        "rank": rank, "layout": layout, "remat": "block-inputs", "step_time_s": 1.0, "low_s": 0.8, "high_s": 1.3,
        "mfu": 0.5, "tokens_per_s_per_chip": 1000.0,
        "parts_s": {"matmul": 0.6, "attention": 0.1, "elementwise": 0.0, "communication": 0.2, "network": 0.05,
                    "bubble": 0.05},
        "exposed": {"fsdp_gather": 0.1, "tensor_gather": 0.1, "network_gradients": 0.05},
        "hidden": {"fsdp_gather": 0.4, "tensor_gather": 0.1, "network_gradients": 0.05},
        "memory_bytes": {"weights": 4e9, "gradients": 2e9, "optimizer": 8e9, "activations": 1e9, "host": 5e10,
                         "total": 1.5e10},
        "usable_bytes": 1.6e10, **more,
    }  # fmt: skip


def serve(rank: int = 1, where: str = "v5e:2x4", split: str = "tensor=8 kv=heads8", **more: Any) -> dict[str, Any]:
    """A serving candidate of a step of 20 ms."""
    return {
        "rank": rank, "slice": where, "split": split, "batch": 16, "tpot_s": 0.02, "ttft_s": 0.5,
        "tokens_per_s_per_chip": 100.0,
        "average_parts_s": {"weights": 0.01, "arithmetic": 0.004, "cache": 0.003, "scores": 0.0, "collectives": 0.002,
                            "overhead": 0.001},
        "memory_bytes": {"weights": 9e9, "cache": 3e9, "work": 1e8, "total": 1.21e10, "capacity": 1.5e10}, **more,
    }  # fmt: skip


def cell(tensor: int, ways: int, seconds: float | None, exposed: float | None = 0.1, **more: Any) -> dict[str, Any]:
    """A cell of the map; without a time it is impossible."""
    named: dict[str, Any] = {"layout": f"fsdp={ways} tensor={tensor}", "kinds": [], "why": None}
    if seconds is None:
        named, exposed = {"layout": None, "kinds": ["heads"], "why": "32 heads cannot be split"}, None
    return {"tensor": tensor, "batch_devices": ways, "layouts": 3, "step_time_s": seconds, "exposed_fraction": exposed,
            **named, **more}  # fmt: skip


def size(chips: int, rate: float | None, bound: str = "compute", **more: Any) -> dict[str, Any]:
    """A point of the scaling curve."""
    none = rate is None
    return {
        "chips": chips, "tokens_per_s": rate, "mfu": None if none else 0.5, "exposed_fraction": None if none else 0.2,
        "bound_by": None if none else bound, "layout": None if none else f"fsdp={chips}",
        "reason": "does not fit: too large." if none else None, **more,
    }  # fmt: skip


def load(share: float, **more: Any) -> dict[str, Any]:
    """A simulated load."""
    return {"load": share, "requests_per_s": 10 * share, "ttft_p50_s": 0.5, "ttft_p90_s": 1.0, "ttft_p99_s": 2.0,
            "tpot_p50_s": 0.02, **more}  # fmt: skip
