"""A run in which no device work was recorded has all its tables, without rows where there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tpuprof.tables.schemas import TABLES
from tpuprof.testing import TraceBuilder

HOST_ONLY = ("events", "host_events")
NO_TABLES_OF_A_TRACE = ("op_stats",)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in NO_TABLES_OF_A_TRACE])
def test_every_table_is_there(tmp_path: Path, name: str) -> None:
    builder = TraceBuilder()
    builder.add_host("hostA").add_thread("python").event("f", 0, 10)
    table = getattr(tpuprof.load(builder.write(tmp_path)), name)
    assert len(TABLES[name].check(table)) == (name in HOST_ONLY)
