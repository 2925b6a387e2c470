"""Tables as Parquet and CSV: read back equal, with their meaning."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import tpuprof
from tests.inputs.clean import f00, write_altered
from tpuprof.errors import UsageError
from tpuprof.export.tables import DESCRIPTION, run_tables, table_files
from tpuprof.tables.schemas import TABLES
from tpuprof.testing import TraceBuilder

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.mark.parametrize("name", ["tpu_loop_async", "cpu_demo"])
def test_parquet_reads_back_equal(name: str) -> None:
    trace = tpuprof.load(SAMPLES / name)
    files = dict(table_files(trace, "parquet", None))
    assert set(files) == {*(f"{table}.parquet" for table in TABLES), DESCRIPTION}
    for schema, frame in run_tables(trace):
        back = pd.read_parquet(io.BytesIO(files[f"{schema.name}.parquet"]))
        assert list(back.columns) == list(frame.columns)
        filled = [name for name in frame.columns if frame[name].notna().any()]  # an empty category has no type to keep
        assert len(back) == len(frame)
        pd.testing.assert_frame_equal(frame[filled], back[filled], check_categorical=False)
        schema.check(back.astype({c.name: c.pandas_dtype for c in schema}))


def test_parquet_says_what_its_columns_mean(tmp_path: Path) -> None:
    files = dict(table_files(tpuprof.load(f00(tmp_path)), "parquet", None))
    table = pq.read_table(io.BytesIO(files["ops.parquet"]))
    field = table.schema.field("start_ps")
    assert field.metadata == {b"unit": b"ps", b"meaning": TABLES["ops"]["start_ps"].meaning.encode()}
    assert json.loads(table.schema.metadata[b"tpuprof"])["table"] == "ops"


def test_description(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path))
    files = dict(table_files(trace, "csv", None))
    described = json.loads(files[DESCRIPTION])
    assert described["origin_ns"] == trace.origin_ns
    assert set(described["tables"]) == set(TABLES)
    assert described["tables"]["ops"]["rows"] == 12
    assert described["tables"]["ops"]["file"] == "ops.csv"
    assert described["tables"]["ops"]["columns"] == TABLES["ops"].describe()


def test_csv_has_raw_numbers_and_clean_names(tmp_path: Path) -> None:
    def change(trace: TraceBuilder) -> None:
        ops = trace["hostA"]["/device:TPU:0"]["XLA Ops"]
        ops.event("=1+1", 962, 1)
        ops.event('a,"b"\n\x1b[31mc', 960, 1)

    trace = tpuprof.load(write_altered(tmp_path, change))
    files = dict(table_files(trace, "csv", None))
    assert b"\x1b" not in files["ops.csv"]
    back = pd.read_csv(io.BytesIO(files["ops.csv"]))
    assert back["start_ps"].tolist() == trace.ops["start_ps"].tolist()
    assert {'a,"b" c', "'=1+1"} <= set(back["op"])


def test_a_part_holds_nothing_of_the_rest(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path)).select(steps=[1])
    tables = {schema.name: frame for schema, frame in run_tables(trace)}
    assert {name: len(frame) for name, frame in tables.items() if name in ("ops", "steps", "modules", "partition")} == {
        "ops": 4, "steps": 1, "modules": 1, "partition": 1,
    }  # fmt: skip
    start, end = int(tables["steps"]["start_ps"].iloc[0]), int(tables["steps"]["start_ps"].iloc[0]) + 10**9
    device = tables["events"][tables["events"]["plane"] == "/device:TPU:0"]
    assert device["start_ps"].between(start, end - 1).all()
    assert len(device) == 6
    assert len(tables["host_events"]) <= 2


def test_bound(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path))
    with pytest.raises(UsageError, match=r"Table \w+ has \d+ rows, more than --max-events 3"):
        list(table_files(trace, "csv", 3))
