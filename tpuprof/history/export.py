"""A store as tables for other programs: one Parquet or CSV file each, with what their columns mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pandas as pd

from tpuprof.export.tables import csv_bytes, parquet_bytes
from tpuprof.history.runs import Run
from tpuprof.history.store import Store
from tpuprof.schema import Column, Schema

DESCRIPTION = "tables.json"
_RUN = Column("run_id", "int64", "The number of the run.")

RUNS = Schema(
    "runs",
    "One row per run, oldest first.",
    (
        Column("id", "int64", "Its number in the store."),
        Column("key", "string", "The same for the same recording."),
        Column("name", "string", "The session's name."),
        Column("path", "string", "Where its files lay when it was added."),
        Column("captured_ns", "int64", "When it was recorded, since the epoch.", "ns", nullable=True),
        Column("added_ns", "int64", "When it came into the store, since the epoch.", "ns"),
        Column("tool_version", "string", "The version of tpuprof that added it."),
        Column("platform", "string", "tpu, gpu or cpu; null if they differ.", nullable=True),
        Column("device_kind", "string", "The kind of its devices; null if unknown or if they differ.", nullable=True),
        Column("n_devices", "int64", "Cores with work on them."),
        Column("n_hosts", "int64", "Hosts."),
        Column("step_source", "string", "Where steps come from."),
        Column("n_steps", "int64", "Steps found on all cores."),
        Column("window_ps", "int64", "From the first to the last device op.", "ps", nullable=True),
        Column("worst_quality", "string", "The highest severity of its quality entries.", nullable=True),
        Column("program_name", "string", "The function with most device time.", nullable=True),
        Column("program", "string", "Fingerprint of that program.", nullable=True),
        Column("program_source", "string", "What the fingerprint rests on: hlo, ops, declared or none.", nullable=True),
        Column("structure", "string", "Fingerprint of the compiled program.", nullable=True),
        Column("hardware", "string", "Fingerprint of the devices.", nullable=True),
        Column("hardware_source", "string", "What it rests on: devices, hosts, declared or none.", nullable=True),
        Column("facts", "string", "Versions, flags, quality entries and the like, as JSON."),
    ),
)
STEPS = Schema(
    "steps",
    "One row per run and counted step.",
    (
        _RUN,
        Column("step", "int64", "The step's number."),
        Column("time_ps", "int64", "Its time, on the slowest core.", "ps"),
    ),
)
METRICS = Schema(
    "metrics",
    "One row per run and metric.",
    (
        _RUN,
        Column("name", "string", "The metric, its unit in the name."),
        Column("value", "float64", "Its value; null if unknown.", nullable=True),
        Column("reason", "string", "Why it is unknown.", nullable=True),
    ),
)
OP_GROUPS = Schema(
    "op_groups",
    "One row per run and group of ops, largest self time first; the last of a run may be all others.",
    (
        _RUN,
        Column("module", "string", "The function that ran them.", nullable=True),
        Column("scope", "string", "Their name-scope path.", nullable=True),
        Column("kind", "string", "What they are.", nullable=True),
        Column("count", "int64", "Occurrences on all cores."),
        Column("total_ps", "int64", "Sum of their durations over all cores.", "ps"),
        Column("self_ps", "int64", "The same without ops nested in them.", "ps"),
    ),
)
TAGS = Schema(
    "tags",
    "One row per run and tag.",
    (_RUN, Column("key", "string", "The tag's name."), Column("value", "string", "Its value.")),
)


def store_tables(store: Store, runs: list[Run]) -> Iterator[tuple[Schema, pd.DataFrame]]:
    """Every table of these runs with its schema."""
    yield RUNS, _frame(RUNS, [_run_row(run) for run in runs])
    samples = [sample for run in runs for sample in store.samples(run)]
    yield STEPS, _frame(STEPS, [{"run_id": s.capture, "step": s.step, "time_ps": s.time_ps} for s in samples])
    metrics = store.metrics(runs)
    rows: list[dict[str, Any]] = []
    for number, found in metrics.items():
        rows += [{"run_id": number, "name": m.name, "value": m.value, "reason": m.reason} for m in found.values()]
    yield METRICS, _frame(METRICS, rows)
    names = [column.name for column in OP_GROUPS][1:]
    groups = [(run.id, group) for run in runs for group in store.op_groups(run)]
    yield (
        OP_GROUPS,
        _frame(OP_GROUPS, [{"run_id": n, **{name: getattr(group, name) for name in names}} for n, group in groups]),
    )
    tags = [(run.id, key, value) for run in runs for key, value in run.tags.items()]
    yield TAGS, _frame(TAGS, [{"run_id": n, "key": key, "value": value} for n, key, value in tags])


def store_files(store: Store, runs: list[Run], form: str) -> Iterator[tuple[str, bytes]]:
    """File names and contents: ``NAME.parquet`` or ``NAME.csv`` of every table, and ``tables.json``."""
    described: dict[str, Any] = {}
    for schema, frame in store_tables(store, runs):
        file = f"{schema.name}.{form}"
        described[schema.name] = {
            "file": file,
            "meaning": schema.meaning,
            "rows": len(frame),
            "columns": schema.describe(),
        }
        yield file, parquet_bytes(schema, frame) if form == "parquet" else csv_bytes(frame)
    yield DESCRIPTION, (json.dumps({"schema_version": 1, "tables": described}, indent=2) + "\n").encode()


def _run_row(run: Run) -> dict[str, Any]:
    row = {field.name: getattr(run, field.name) for field in fields(run) if field.name in RUNS}
    return {**row, "facts": json.dumps(run.facts)}


def _frame(schema: Schema, rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = {c.name: pd.Series([row[c.name] for row in rows], dtype=c.pandas_dtype) for c in schema}
    return schema.check(pd.DataFrame(columns))
