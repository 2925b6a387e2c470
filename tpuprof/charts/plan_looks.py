"""What the parts of a planned step and of a device's memory are called and coloured.

The colours are those of the parts of a measured step wherever there is such a part; the others borrow one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tpuprof.charts.drawing import number
from tpuprof.charts.stacked import Piece
from tpuprof.text import clean
from tpuprof.units import format_bytes, format_ps

TIMES: dict[str, tuple[str, str]] = {
    "matmul": ("matmul", "matmul"),
    "head": ("output head", "convolution"),
    "attention": ("attention", "attention"),
    "elementwise": ("elementwise", "elementwise"),
    "recompute": ("recompute", "custom_kernel"),
    "optimizer": ("optimizer", "reduction"),
    "arithmetic": ("matmuls, compute-bound", "matmul"),
    "weights": ("matmuls, reading weights", "convolution"),
    "cache": ("reading the cache", "attention"),
    "scores": ("attention of prompts", "elementwise"),
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
    "network": ("between slices", "gather_scatter"),
}
"""The same of families of collectives of a training step."""

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
    found = [_time(TIMES.get(name, (clean(name), _OTHER)), clean(name), parts[name], total)
             for name in _ordered(parts, TIMES) if name not in (*_SUMS, *_LAST)]  # fmt: skip
    families = list(EXPOSED)
    known = sorted(exposed, key=lambda name: families.index(family_of(name)))
    found += [_time(EXPOSED[family_of(name)], clean(name), exposed[name], total) for name in known]
    found += [_time(_late(name), name, parts[name], total) for name in _LAST if name in parts]
    return found


def serve_pieces(parts_s: Mapping[str, Any] | None) -> list[Piece]:
    """The step of a serving candidate."""
    parts = _figures(parts_s)
    total = sum(parts.values())
    return [_time(TIMES.get(name, (clean(name), _OTHER)), clean(name), parts[name], total)
            for name in _ordered(parts, TIMES)]  # fmt: skip


def memory_pieces(row: Mapping[str, Any]) -> list[Piece]:
    """What the fullest device holds; what is in the host's memory is no part of it."""
    parts = {name: size for name, size in _figures(row.get("memory_bytes")).items() if name not in _NO_PART}
    return [
        Piece(label, tone, parts[name], f"{label} {format_bytes(parts[name])}")
        for name in _ordered(parts, MEMORY)
        for label, tone in [MEMORY.get(name, (clean(name), _OTHER))]
    ]


def _late(name: str) -> tuple[str, str]:
    """Of training, overhead is what grows with the number of slices."""
    return EXPOSED["network"] if name == "overhead" else TIMES[name]


def _time(look: tuple[str, str], name: str, seconds: float, total: float) -> Piece:
    label, tone = look
    said = label if name.replace("_", " ") in label else f"{label} ({name})"
    return Piece(label, tone, seconds, f"{said} {format_ps(seconds * 1e12)}, {100 * seconds / total:.1f} %")


def _figures(values: Any) -> dict[str, float]:
    """The figures above zero."""
    return {
        str(name): size for name, value in mapping(values).items() if (size := number(value)) is not None and size > 0
    }


def _ordered(parts: Mapping[str, float], looks: Mapping[str, Any]) -> list[str]:
    order = list(looks)
    return sorted(parts, key=lambda name: (order.index(name) if name in order else len(order), name))
