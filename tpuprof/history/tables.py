"""The tables of a run store. Their first form and every change are in ``migrations``; a test holds the two together."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

PREFIX = "tpuprof_"
"""A server's database may hold other programs' tables."""

METADATA = MetaData()


def _run_id() -> Column[int]:
    return Column("run_id", Integer, ForeignKey(f"{PREFIX}runs.id", ondelete="CASCADE"), primary_key=True)


RUNS = Table(
    f"{PREFIX}runs",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("captured_ns", BigInteger),
    Column("added_ns", BigInteger, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("platform", Text),
    Column("device_kind", Text),
    Column("n_devices", Integer, nullable=False),
    Column("n_hosts", Integer, nullable=False),
    Column("step_source", Text, nullable=False),
    Column("n_steps", Integer, nullable=False),
    Column("window_ps", BigInteger),
    Column("worst_quality", Text),
    Column("program_name", Text),
    Column("program", String(64)),
    Column("program_source", Text),
    Column("structure", String(64)),
    Column("hardware", String(64)),
    Column("hardware_source", Text),
    Column("facts", JSON, nullable=False),
    UniqueConstraint("key", name=f"{PREFIX}runs_key"),
    Index(f"{PREFIX}runs_series", "program", "hardware"),
    sqlite_autoincrement=True,
)

STEPS = Table(
    f"{PREFIX}steps",
    METADATA,
    _run_id(),
    Column("position", Integer, primary_key=True),
    Column("step", BigInteger, nullable=False),
    Column("time_ps", BigInteger, nullable=False),
)

METRICS = Table(
    f"{PREFIX}metrics",
    METADATA,
    _run_id(),
    Column("name", String(64), primary_key=True),
    Column("value", Double),
    Column("reason", Text),
)

OP_GROUPS = Table(
    f"{PREFIX}op_groups",
    METADATA,
    _run_id(),
    Column("position", Integer, primary_key=True),
    Column("module", Text),
    Column("scope", Text),
    Column("kind", Text),
    Column("count", BigInteger, nullable=False),
    Column("total_ps", BigInteger, nullable=False),
    Column("self_ps", BigInteger, nullable=False),
)

TAGS = Table(
    f"{PREFIX}tags",
    METADATA,
    _run_id(),
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

BASELINES = Table(
    f"{PREFIX}baselines",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),
    Column("program", String(64), nullable=False),
    Column("hardware", String(64), nullable=False),
    Column("set_ns", BigInteger, nullable=False),
    UniqueConstraint("name", "program", "hardware", name=f"{PREFIX}baselines_name"),
    sqlite_autoincrement=True,
)

BASELINE_RUNS = Table(
    f"{PREFIX}baseline_runs",
    METADATA,
    Column("baseline_id", Integer, ForeignKey(f"{PREFIX}baselines.id", ondelete="CASCADE"), primary_key=True),
    Column("run_id", Integer, ForeignKey(f"{PREFIX}runs.id", ondelete="CASCADE"), primary_key=True),
)
