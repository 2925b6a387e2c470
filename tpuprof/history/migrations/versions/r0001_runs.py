"""Runs with their steps, metrics, op groups and tags."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "tpuprof_runs",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("captured_ns", sa.BigInteger()),
        sa.Column("added_ns", sa.BigInteger(), nullable=False),
        sa.Column("tool_version", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text()),
        sa.Column("device_kind", sa.Text()),
        sa.Column("n_devices", sa.Integer(), nullable=False),
        sa.Column("n_hosts", sa.Integer(), nullable=False),
        sa.Column("step_source", sa.Text(), nullable=False),
        sa.Column("n_steps", sa.Integer(), nullable=False),
        sa.Column("window_ps", sa.BigInteger()),
        sa.Column("worst_quality", sa.Text()),
        sa.Column("program_name", sa.Text()),
        sa.Column("program", sa.String(64)),
        sa.Column("program_source", sa.Text()),
        sa.Column("structure", sa.String(64)),
        sa.Column("hardware", sa.String(64)),
        sa.Column("hardware_source", sa.Text()),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.UniqueConstraint("key", name="tpuprof_runs_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("tpuprof_runs_series", "tpuprof_runs", ["program", "hardware"])
    op.create_table(
        "tpuprof_steps",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time_ps", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "tpuprof_metrics",
        _run_id(),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Double[float]()),
        sa.Column("reason", sa.Text()),
    )
    op.create_table(
        "tpuprof_op_groups",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True),
        sa.Column("module", sa.Text()),
        sa.Column("scope", sa.Text()),
        sa.Column("kind", sa.Text()),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("total_ps", sa.BigInteger(), nullable=False),
        sa.Column("self_ps", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "tpuprof_tags",
        _run_id(),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )


def _run_id() -> sa.Column[int]:
    return sa.Column("run_id", sa.Integer(), sa.ForeignKey("tpuprof_runs.id", ondelete="CASCADE"), primary_key=True)
