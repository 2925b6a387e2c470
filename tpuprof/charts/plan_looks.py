"""What the parts of a planned step and of a device's memory are called and coloured.

The colours are those of the parts of a measured step wherever there is such a part; the others borrow one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tpuprof.charts.drawing import number
from tpuprof.charts.stacked import Piece
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, format_bytes, format_percent, format_ps

TIMES: dict[str, tuple[str, str]] = {
    "matmul": ("matmul", "matmul"),
    "head": ("output head", "matmul"),
    "attention": ("attention", "attention"),
    "elementwise": ("elementwise", "elementwise"),
    "recompute": ("recompute", "custom_kernel"),
    "dispatch": ("moving tokens to experts", "gather_scatter"),
    "optimizer": ("optimizer", "reduction"),
    "arithmetic": ("matmuls, compute-bound", "matmul"),
    "weights": ("matmuls, reading weights", "convolution"),
    "cache": ("reading the cache", "attention"),
    "scores": ("attention of prompts", "elementwise"),
    "loops": ("elementwise, moving tokens", "gather_scatter"),
    "collectives": ("exposed collectives", "collective_exposed"),
    "offload": ("offload to host", "data_movement"),
    "bubble": ("pipeline bubble", "idle"),
    "overhead": ("overhead", "idle"),
}
"""Label and palette colour of the parts of a step, in the order in which they are drawn: training, then serving."""

EXPOSED: dict[str, tuple[str, str]] = {
    "weights": ("exposed: weights, gradients", "collective_exposed"),
    "tensor": ("exposed: tensor", "host_transfer"),
    "context": ("exposed: context", "dma_wait"),
    "expert": ("exposed: experts", "barrier_wait"),
    "pipeline": ("exposed: pipeline", "other_compute"),
    "network": ("between slices", "convolution"),
}
"""The same of families of collectives of a training step."""

COLLECTIVES = {
    "fsdp_gather": "FSDP, gather weights",
    "fsdp_scatter": "FSDP, scatter gradients",
    "gradients": "ZeRO, scatter gradients",
    "weights": "ZeRO, gather updated weights",
    "expert_fsdp_gather": "FSDP of experts, gather weights",
    "expert_fsdp_scatter": "FSDP of experts, scatter gradients",
    "expert_gradients": "ZeRO of experts, scatter gradients",
    "expert_weights": "ZeRO of experts, gather updated weights",
    "data_gradients": "data, sum gradients",
    "expert_data_gradients": "data, sum gradients of experts",
    "context_gradients": "context, sum gradients",
    "expert_context_gradients": "context, sum gradients of experts",
    "head_gather": "FSDP of the head, gather weights",
    "head_scatter": "FSDP of the head, scatter gradients",
    "head_gradients": "data, sum gradients of the head",
    "tensor_gather": "tensor, gather activations",
    "tensor_scatter": "tensor, scatter activations",
    "context_gather": "context, gather keys and values",
    "context_scatter": "context, scatter their gradients",
    "expert_exchange": "experts, exchange tokens",
    "pipeline_hop": "pipeline, send activations",
    "network_gradients": "between slices, sum gradients",
}
"""What each collective of a training step does."""

MEMORY: dict[str, tuple[str, str]] = {
    "weights": ("weights", "matmul"),
    "gradients": ("gradients", "convolution"),
    "optimizer": ("optimizer state", "reduction"),
    "activations": ("activations", "elementwise"),
    "gathered": ("gathered weights", "data_movement"),
    "workspace": ("workspace", "gather_scatter"),
    "cache": ("KV cache", "attention"),
    "work": ("activations, logits", "elementwise"),
}
"""The same of what a device holds."""
_OTHER = "other_compute"
_NO_PART = ("total", "host", "capacity")
_SUMS = ("communication", "network")  # shown as the collectives that they are the sums of
_LAST = ("offload", "bubble", "overhead")


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it maps names; else an empty mapping."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def family_of(collective: str) -> str:
    """Which of :data:`EXPOSED` a collective of a training step belongs to."""
    return next(
        (
            family
            for family, begins in (
                ("network", "network"), ("tensor", "tensor"), ("pipeline", "pipeline"), ("expert", "expert_exchange")
            )
            if collective.startswith(begins)
        ),
        "context" if collective in ("context_gather", "context_scatter") else "weights",
    )  # fmt: skip


def train_pieces(row: Mapping[str, Any]) -> list[Piece]:
    """The step of a training candidate: its parts, and in place of communication each exposed collective."""
    parts, exposed = _figures(row.get("parts_s")), _figures(row.get("exposed"))
    total = sum(parts.values())
    found = [_time(name, parts[name], total) for name in _ordered(parts, TIMES) if name not in (*_SUMS, *_LAST)]
    families = list(EXPOSED)
    known = sorted(exposed, key=lambda name: families.index(family_of(name)))
    for name in known:
        label, tone = EXPOSED[family_of(name)]
        about = f"{COLLECTIVES.get(name, clean(name))} (exposed)"
        found.append(Piece(label, tone, exposed[name], _told(about, exposed[name], total)))
    return found + [_time(name, parts[name], total) for name in _LAST if name in parts]


def serve_pieces(parts_s: Mapping[str, Any] | None) -> list[Piece]:
    """The step of a serving candidate."""
    parts = _figures(parts_s)
    total = sum(parts.values())
    return [_time(name, parts[name], total) for name in _ordered(parts, TIMES)]


def memory_pieces(row: Mapping[str, Any]) -> list[Piece]:
    """What the fullest device holds; what is in the host's memory is no part of it."""
    parts = {name: size for name, size in _figures(row.get("memory_bytes")).items() if name not in _NO_PART}
    return [
        Piece(label, tone, parts[name], f"{label} {format_bytes(parts[name])}")
        for name in _ordered(parts, MEMORY)
        for label, tone in [MEMORY.get(name, (clean(name), _OTHER))]
    ]


def _time(name: str, seconds: float, total: float) -> Piece:
    """A part; the output head is a matmul and has no entry of its own in the legend."""
    label, tone = TIMES.get(name, (clean(name), _OTHER))
    entry = TIMES["matmul"][0] if name == "head" else label
    return Piece(entry, tone, seconds, _told(label, seconds, total))


def _told(label: str, seconds: float, total: float) -> str:
    return f"{label} {format_ps(seconds * PS_PER_S)}, {format_percent(seconds / total, 1)}"


def _figures(values: Any) -> dict[str, float]:
    """The figures above zero."""
    return {
        str(name): size for name, value in mapping(values).items() if (size := number(value)) is not None and size > 0
    }


def _ordered(parts: Mapping[str, float], looks: Mapping[str, Any]) -> list[str]:
    order = list(looks)
    return sorted(parts, key=lambda name: (order.index(name) if name in order else len(order), name))
