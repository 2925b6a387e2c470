"""Named baselines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "tpuprof_baselines",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("program", sa.String(64), nullable=False),
        sa.Column("hardware", sa.String(64), nullable=False),
        sa.Column("set_ns", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("name", "program", "hardware", name="tpuprof_baselines_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tpuprof_baseline_runs",
        sa.Column(
            "baseline_id", sa.Integer(), sa.ForeignKey("tpuprof_baselines.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("run_id", sa.Integer(), sa.ForeignKey("tpuprof_runs.id", ondelete="CASCADE"), primary_key=True),
    )
