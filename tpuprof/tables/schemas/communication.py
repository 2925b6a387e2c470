"""Schemas of what cores do with each other: collectives, and when cores came to them."""

from __future__ import annotations

from tpuprof.schema import Column, Schema
from tpuprof.tables.schemas.vocabulary import DEVICE

COLLECTIVES = Schema(
    "collectives",
    "One row per occurrence of a collective on a core; asynchronous halves are joined.",
    (
        DEVICE,
        Column("op", "category", "The instruction: of an asynchronous one, the start half."),
        Column("kind", "category", "all_gather, all_reduce, reduce_scatter, all_to_all, collective_permute, …"),
        Column("form", "category", "sync, async (both halves), async_line, start_only or done_only."),
        Column("module", "category", "The program, as `name(program id)`.", nullable=True),
        Column("scope", "category", "The name-scope path from the HLO metadata.", nullable=True),
        Column("source", "category", "The source line, as `file:line`.", nullable=True),
        Column("step", "int64", "The step in whose window the collective starts.", nullable=True),
        Column("start_ps", "int64", "When it begins: start of the op, or of the start half.", "ps"),
        Column("window_ps", "int64", "From its begin to its end.", "ps", nullable=True),
        Column("exposed_ps", "int64", "The window minus compute on this core.", "ps", nullable=True),
        Column("hidden_ps", "int64", "The window's overlap with compute on this core.", "ps", nullable=True),
        Column("wait_ps", "int64", "From the core's arrival to the last one of its group.", "ps", nullable=True),
        Column("transfer_ps", "int64", "The window without the wait in it.", "ps", nullable=True),
        Column("wait_is_lower_bound", "bool", "True if members of the group were not traced.", nullable=True),
        Column(
            "wait_reason",
            "category",
            "Why the wait is null: half_missing, groups_unknown, peers_not_traced, not_matched or no_common_clock.",
            nullable=True,
        ),
        Column("participants", "int32", "Devices of a group, from the HLO; null if unknown.", nullable=True),
        Column(
            "bytes",
            "int64",
            "Full (gathered) size per group from the HLO; null if unknown.",
            "B",
            nullable=True,
        ),
        Column("shard_bytes", "int64", "What one device contributes or keeps of it.", "B", nullable=True),
        Column(
            "mesh_axes",
            "category",
            "The axes of the program's device mesh along which it goes, separated by commas; null if not stated.",
            nullable=True,
        ),
    ),
)

ARRIVALS = Schema(
    "arrivals",
    "One row per collective and core whose arrival can be compared with that of another core.",
    (
        DEVICE,
        Column("step", "int64", "The step in whose window the collective starts.", nullable=True),
        Column("op", "category", "The instruction, as in table collectives."),
        Column("arrival_ps", "int64", "Start of the barrier directly before it, or of the op.", "ps"),
        Column(
            "late_ps", "int64", "How much earlier the group could have begun without this core; 0 if not last.", "ps"
        ),
        Column("wait_ps", "int64", "As in table collectives.", "ps", nullable=True),
        Column("group_size", "int32", "How many cores' arrivals were compared."),
        Column("transient", "bool", "True at the start of the capture: before the second step."),
    ),
)
