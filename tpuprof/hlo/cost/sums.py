"""Sums of costs over the operations of a computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tpuprof.hlo.cost.model import OpCost, Totals

_MAX_REASONS = 20
_Number = TypeVar("_Number", int, float)


@dataclass(slots=True)
class Sum:
    """The cost of one run of a computation, what it calls included."""

    flops: float = 0
    model: float = 0
    matmul: float = 0
    model_matmul: float = 0
    vector: float = 0
    transcendentals: float = 0
    unknown: int = 0
    by_dtype: dict[str, float] = field(default_factory=dict[str, float])
    read: dict[str, int] = field(default_factory=dict[str, int])
    written: dict[str, int] = field(default_factory=dict[str, int])
    reasons: dict[str, None] = field(default_factory=dict[str, None])  # ordered, each once

    @property
    def weight(self) -> tuple[float, float]:
        """What decides which of two computations is dearer: FLOPs, then bytes."""
        return self.flops, sum(self.read.values()) + sum(self.written.values())

    def add_op(self, name: str, cost: OpCost) -> None:
        """Adds one execution of an operation."""
        if cost.flops is None:
            self.unknown += 1
            self._because(f"{name}: {cost.reason}")
        elif cost.bound == "lower":
            self._because(f"{name}: {cost.reason or cost.note}")
        self.flops += cost.flops or 0
        self.model += cost.model_flops or 0
        self.matmul += cost.matmul_flops or 0
        self.model_matmul += cost.model_matmul_flops or 0
        self.vector += cost.vector_flops or 0
        self.transcendentals += cost.transcendentals or 0
        _add(self.by_dtype, cost.flops_by_dtype, 1)
        _add(self.read, cost.bytes_read or {}, 1)
        _add(self.written, cost.bytes_written or {}, 1)

    def add_sum(self, other: Sum, times: int) -> None:
        """Adds several runs of another computation."""
        self.flops += times * other.flops
        self.model += times * other.model
        self.matmul += times * other.matmul
        self.model_matmul += times * other.model_matmul
        self.vector += times * other.vector
        self.transcendentals += times * other.transcendentals
        self.unknown += times * other.unknown
        _add(self.by_dtype, other.by_dtype, times)
        _add(self.read, other.read, times)
        _add(self.written, other.written, times)
        if times:
            for reason in other.reasons:
                self._because(reason)

    def totals(self) -> Totals:
        """The sums as they are published."""
        spaces = dict.fromkeys((*self.read, *self.written))
        return Totals(
            flops=self.flops,
            model_flops=self.model,
            matmul_flops=self.matmul,
            model_matmul_flops=self.model_matmul,
            vector_flops=self.vector,
            transcendentals=self.transcendentals,
            flops_by_dtype=dict(self.by_dtype),
            bytes={space: self.read.get(space, 0) + self.written.get(space, 0) for space in spaces},
            unknown_ops=self.unknown,
        )

    def _because(self, reason: str) -> None:
        if len(self.reasons) < _MAX_REASONS:
            self.reasons[reason] = None


def _add(into: dict[str, _Number], other: Mapping[str, _Number], times: int) -> None:
    for key, value in other.items():
        into[key] = into[key] + times * value if key in into else times * value
