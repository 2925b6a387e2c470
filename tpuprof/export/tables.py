"""All tables of a run as files: one Parquet or CSV file each, with what their columns mean."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from tpuprof.errors import UsageError
from tpuprof.export.trim import trim
from tpuprof.redact import Redactor
from tpuprof.schema import Schema
from tpuprof.tables.frames import events_frame, host_events_frame
from tpuprof.tables.schemas import TABLES
from tpuprof.text import csv_text

if TYPE_CHECKING:
    from tpuprof.trace import Trace

DESCRIPTION = "tables.json"


def run_tables(trace: Trace) -> Iterator[tuple[Schema, pd.DataFrame]]:
    """Every table of the run with its schema, restricted to the chosen devices and steps."""
    recordings = trim(trace)
    special: dict[str, Callable[[], pd.DataFrame]] = {
        "events": lambda: events_frame(recordings, trace.origin_ns),
        "host_events": lambda: host_events_frame(recordings, trace.origin_ns, trace.built.host_clocks.offset_ps),
        "modules": lambda: _modules(trace),
        "op_stats": trace.op_stats,
    }
    for name, schema in TABLES.items():
        frame = special[name]() if name in special else getattr(trace, name, None)
        if isinstance(frame, pd.DataFrame):
            yield schema, frame


def table_files(
    trace: Trace, form: str, max_events: int | None, redactor: Redactor | None = None
) -> Iterator[tuple[str, bytes]]:
    """File names and contents: ``NAME.parquet`` or ``NAME.csv`` of every table, and ``tables.json``.

    Raises:
        UsageError: a table has more than ``max_events`` rows.
    """
    described: dict[str, Any] = {}
    for schema, frame in run_tables(trace):
        if max_events is not None and len(frame) > max_events:
            raise UsageError(
                f"Table {schema.name} has {len(frame)} rows, more than --max-events {max_events}.",
                hint="Choose fewer steps with --steps or fewer cores with --devices, or allow more events.",
            )
        shown = frame if redactor is None else _redacted(frame, redactor)
        file = f"{schema.name}.{form}"
        described[schema.name] = {
            "file": file,
            "meaning": schema.meaning,
            "rows": len(frame),
            "columns": schema.describe(),
        }
        yield file, parquet_bytes(schema, shown) if form == "parquet" else csv_bytes(shown)
    document = {
        "schema_version": 1,
        "origin_ns": trace.origin_ns,
        "step_source": trace.step_source,
        "tables": described,
    }
    yield DESCRIPTION, (json.dumps(document, indent=2) + "\n").encode()


def _modules(trace: Trace) -> pd.DataFrame:
    """Executions that start within a chosen step, or all."""
    modules = trace.modules
    if trace.selected_steps is None:
        return modules
    keep = pd.Series(False, index=modules.index)
    steps = zip(trace.steps["device"], trace.steps["start_ps"], trace.steps["duration_ps"], strict=True)
    for device, start, duration in steps:
        at = modules["start_ps"]
        keep |= (modules["device"] == device) & (at >= start) & (at < start + duration)
    return modules[keep].reset_index(drop=True)


def _redacted(frame: pd.DataFrame, redactor: Redactor) -> pd.DataFrame:
    return frame.assign(
        **{
            str(name): _mapped(frame[name], lambda text, key=str(name): redactor.value(key, text))
            for name in frame.columns
            if _is_text(frame[name])
        }
    )


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype) or str(column.dtype) in ("str", "object", "string")


def _mapped(column: pd.Series, change: Callable[[str], str]) -> pd.Series:
    """The column with every text changed; texts that become equal become one category."""
    values: pd.Series = column.map({text: change(str(text)) for text in column.dropna().unique()})
    return values.astype("category") if isinstance(column.dtype, pd.CategoricalDtype) else values.astype("str")


def parquet_bytes(schema: Schema, frame: pd.DataFrame) -> bytes:
    """Parquet in which each field says its unit and meaning, and the table its own."""
    pa: Any = import_module("pyarrow")  # by name, as it has no types
    pq: Any = import_module("pyarrow.parquet")
    table: Any = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [
        table.schema.field(column.name).with_metadata({"unit": column.unit, "meaning": column.meaning})
        for column in schema
    ]
    about: dict[Any, Any] = {
        **(table.schema.metadata or {}),
        b"tpuprof": json.dumps({"table": schema.name, "meaning": schema.meaning}),
    }
    out = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields, metadata=about)), out, compression="zstd")
    return out.getvalue()


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """CSV with raw numbers and clean names that are no formulas; null is the empty field."""
    clean_frame = frame.assign(
        **{str(name): _mapped(frame[name], csv_text) for name in frame.columns if _is_text(frame[name])}
    )
    return clean_frame.to_csv(index=False, lineterminator="\n").encode()
