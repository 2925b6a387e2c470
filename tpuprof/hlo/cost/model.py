"""What a program and each of its operations cost: FLOPs, bytes and loops as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Source = Literal["hlo", "cost_estimate", "formula", "user"]
Bound = Literal["exact", "lower", "upper"]
ContractionKind = Literal["dot", "convolution"]


@dataclass(frozen=True, slots=True)
class MatmulShape:
    """The matrix product that a dot or convolution is: ``batch`` times [m, k] by [k, n].

    Args:
        lhs_dtype, rhs_dtype, out_dtype: element types as HLO writes them.
        precision: ``default``, ``high`` or ``highest``, or the name of an algorithm.
        count: how many of this shape one execution of the operation does.
        kind: ``convolution`` for one with a real window over input positions; k then holds the window.
        remat: it repeats what was computed before.
    """

    batch: int
    m: int
    n: int
    k: int
    lhs_dtype: str
    rhs_dtype: str
    out_dtype: str
    precision: str = "default"
    count: int = 1
    kind: ContractionKind = "dot"
    remat: bool = False

    @property
    def flops(self) -> int:
        """2 x batch x m x n x k x count. For a padded convolution more than is really multiplied."""
        return 2 * self.batch * self.m * self.n * self.k * self.count


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one execution of one operation costs. Null is unknown, and ``reason`` says why.

    Args:
        flops: ``matmul_flops`` + ``vector_flops``.
        model_flops: ``flops`` without what repeats an earlier computation.
        matmul_flops: of dots, convolutions, GEMM libraries and attention kernels; 2 per multiply-add.
        model_matmul_flops: ``matmul_flops`` without repetition: the numerator of an MFU.
        vector_flops: operations on single elements, reductions included; changes of type and moves are none.
        transcendentals: results of exp, log, tanh, sqrt …, which are in no FLOP count.
        flops_by_dtype: ``matmul_flops`` by operand type; ``f32@highest`` where a precision is asked for.
        bytes_read, bytes_written: by memory space (``hbm``, ``vmem``, ``host`` …), tile padding included;
            null if unknown. The work of an asynchronous pair is that of its start.
        remat: the operation as a whole repeats an earlier computation.
        source: where the FLOPs come from; null if they are unknown.
        reason: why something is null, or a lower bound.
        note: what to know of the number (causal share of an attention, whole operands …).
        matmuls: shapes of the dots and convolutions in it.
        estimated_cycles: the compiler's own estimate, only where it can be trusted.
        family: ``splash_attention``, ``gemm`` … for a custom call that was recognised.
        bound: ``lower`` or ``upper`` where the FLOPs are a bound, not the count.
    """

    flops: float | None = 0
    model_flops: float | None = 0
    matmul_flops: float | None = 0
    model_matmul_flops: float | None = 0
    vector_flops: float | None = 0
    transcendentals: float | None = 0
    flops_by_dtype: Mapping[str, float] = field(default_factory=dict[str, float])
    bytes_read: Mapping[str, int] | None = field(default_factory=dict[str, int])
    bytes_written: Mapping[str, int] | None = field(default_factory=dict[str, int])
    remat: bool = False
    source: Source | None = "hlo"
    reason: str | None = None
    note: str | None = None
    matmuls: tuple[MatmulShape, ...] = ()
    estimated_cycles: int | None = None
    family: str | None = None
    bound: Bound = "exact"

    @property
    def bytes(self) -> Mapping[str, int] | None:
        """Bytes read and written by memory space; null if unknown."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        spaces = dict.fromkeys((*self.bytes_read, *self.bytes_written))
        return {space: self.bytes_read.get(space, 0) + self.bytes_written.get(space, 0) for space in spaces}

    @property
    def is_free(self) -> bool:
        """Whether it is known to do nothing."""
        return self.flops == 0 and self.transcendentals == 0 and self.bytes is not None and not any(self.bytes.values())


FREE = OpCost()
"""The cost of what does nothing itself: parameters, tuples, bitcasts, done halves, loops (their bodies count)."""


def unknown_cost(reason: str, *, remat: bool = False) -> OpCost:
    """The cost of what nothing is known of."""
    return OpCost(
        flops=None, model_flops=None, matmul_flops=None, model_matmul_flops=None, vector_flops=None,
        transcendentals=None, bytes_read=None, bytes_written=None, remat=remat, source=None, reason=reason,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TripCount:
    """How often a loop runs.

    Args:
        trips: the number of iterations; 1 where it is not known.
        source: ``known_trip_count``, ``derived`` from the condition, ``user``, or null if unknown.
        reason: why it is unknown.
    """

    trips: int
    source: Literal["known_trip_count", "derived", "user"] | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all executions of a program; of operations whose cost is known.

    The fields are those of `OpCost`; ``bytes`` is by memory space, ``unknown_ops`` counts executions without FLOPs.
    """

    flops: float = 0
    model_flops: float = 0
    matmul_flops: float = 0
    model_matmul_flops: float = 0
    vector_flops: float = 0
    transcendentals: float = 0
    flops_by_dtype: Mapping[str, float] = field(default_factory=dict[str, float])
    bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    unknown_ops: int = 0


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The data that a collective moves, in one execution on one device.

    Args:
        instruction: the instruction that is the collective.
        op: the operation of a computation that runs, which holds it: itself, or the fusion or start around it.
        kind: ``all_gather``, ``all_reduce``, ``reduce_scatter``, ``all_to_all``, ``ragged_all_to_all``,
            ``collective_permute``, ``collective_broadcast`` or ``send_recv``.
        bytes: V, without padding: the gathered array of an all-gather, the input of all others; null if unknown.
        shard_bytes: what one device holds: the input of an all-gather, the output of a reduce-scatter, else V.
        group_size: devices that take part together; null if not known.
        executions: how often it runs in the program.
    """

    instruction: str
    op: str
    kind: str
    channel_id: int | None
    bytes: int | None
    shard_bytes: int | None
    group_size: int | None
    executions: int


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """The cost of a program on one device.

    Args:
        ops: per instruction of a computation that runs (not of fused ones) the cost of one execution.
        executions: how often each of them runs; of a conditional only the dearest branch does.
        trip_counts: per ``while`` its number of iterations.
        totals: with the dearest branch of every conditional.
        low: with the cheapest branches.
        collectives: each collective once.
        lower_bound_reasons: why ``totals`` are lower bounds; empty if they are not.
    """

    ops: Mapping[str, OpCost]
    executions: Mapping[str, int]
    trip_counts: Mapping[str, TripCount]
    totals: Totals
    low: Totals
    collectives: tuple[CollectiveCost, ...]
    lower_bound_reasons: tuple[str, ...] = ()

    @property
    def is_lower_bound(self) -> bool:
        """Whether more may be executed than is counted."""
        return bool(self.lower_bound_reasons)

    @property
    def collective_bytes(self) -> Mapping[str, int]:
        """Bytes V by kind of collective, over all executions; those of unknown size left out."""
        found: dict[str, int] = {}
        for each in self.collectives:
            if each.bytes is not None:
                found[each.kind] = found.get(each.kind, 0) + each.bytes * each.executions
        return found
