"""Schemas of events as recorded."""

from __future__ import annotations

from tpuprof.schema import Column, Schema

EVENTS = Schema(
    "events",
    "Every event of every line, as recorded.",
    (
        Column("host", "category", "The host that recorded the event."),
        Column("plane", "category", "The plane's name."),
        Column("line", "category", "The line's name."),
        Column("name", "category", "The event's short name."),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration as recorded; null if it cannot be true.", "ps", nullable=True),
    ),
)

HOST_EVENTS = Schema(
    "host_events",
    "One row per event of the host planes (threads), instants left out.",
    (
        Column("host", "category", "The host."),
        Column("thread", "category", "The line: a thread."),
        Column("name", "category", "The event's name."),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration; null if bad.", "ps", nullable=True),
        Column("step", "int64", "The step number of a StepTraceAnnotation.", nullable=True),
    ),
)
