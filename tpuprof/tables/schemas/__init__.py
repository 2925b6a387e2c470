"""The schemas of all tables: what each column is called, its unit, and what it means.

Documentation, validation, tooltips and JSON descriptions are all made from these objects.
"""

from __future__ import annotations

from tpuprof.tables.schemas.communication import ARRIVALS, COLLECTIVES
from tpuprof.tables.schemas.memory import ALLOCATORS, MEMORY, MEMORY_EVENTS, MEMORY_SUMMARY
from tpuprof.tables.schemas.recorded import EVENTS, HOST_EVENTS
from tpuprof.tables.schemas.vocabulary import (
    CLOCKS,
    COMPUTE_KINDS,
    DEVICE_IDLE_CAUSES,
    IDLE_CAUSES,
    KIND_SOURCES,
    OP_KINDS,
    PARTS,
)
from tpuprof.tables.schemas.work import GAPS, MODULES, OP_STATS, OPS, PARTITION, SCOPES, SEGMENTS, STEPS

__all__ = [
    "ALLOCATORS",
    "ARRIVALS",
    "CLOCKS",
    "COLLECTIVES",
    "COMPUTE_KINDS",
    "DEVICE_IDLE_CAUSES",
    "EVENTS",
    "GAPS",
    "HOST_EVENTS",
    "IDLE_CAUSES",
    "KIND_SOURCES",
    "MEMORY",
    "MEMORY_EVENTS",
    "MEMORY_SUMMARY",
    "MODULES",
    "OPS",
    "OP_KINDS",
    "OP_STATS",
    "PARTITION",
    "PARTS",
    "SCOPES",
    "SEGMENTS",
    "STEPS",
    "TABLES",
]

TABLES = {
    schema.name: schema
    for schema in (
        EVENTS,
        OPS,
        MODULES,
        STEPS,
        PARTITION,
        SEGMENTS,
        GAPS,
        COLLECTIVES,
        ARRIVALS,
        HOST_EVENTS,
        OP_STATS,
        SCOPES,
        MEMORY,
        MEMORY_SUMMARY,
        MEMORY_EVENTS,
        ALLOCATORS,
    )
}
