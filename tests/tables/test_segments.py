"""The partition as a timeline: it says the same as the partition, and nothing overlaps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given

import tpuprof
from tests.inputs.clean import f00
from tests.tables.random_traces import Truth, truths
from tests.tables.test_metamorphic import fewer
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS
from tpuprof.trace import Trace


def check(trace: Trace) -> None:
    segments = trace.segments
    by_part = segments.groupby(["device", "step", "part"], observed=True)["duration_ps"].sum().to_dict()
    idle = segments[segments["part"] == "idle"]
    by_cause = idle.groupby(["device", "step", "cause"], observed=True)["duration_ps"].sum().to_dict()
    for row in trace.partition.to_dict("records"):
        place = (row["device"], row["step"])
        for part in PARTS:
            assert by_part.get((*place, part), 0) == row[f"{part}_ps"]
        for cause in IDLE_CAUSES:
            known = row[f"idle_{cause}_ps"]
            assert by_cause.get((*place, cause), 0) == (0 if pd.isna(known) else known)
    assert segments["cause"][segments["part"] != "idle"].isna().all()
    assert (segments["duration_ps"] > 0).all()
    for _, rows in segments.groupby("device", observed=True):
        start, end = rows["start_ps"].to_numpy(), (rows["start_ps"] + rows["duration_ps"]).to_numpy()
        assert (start[1:] >= end[:-1]).all()
        # Two neighbours that touch differ in something, else they would be one.
        same = np.ones(max(len(rows) - 1, 0), bool)
        for name in ("step", "part", "cause"):
            values = rows[name].astype("object").where(rows[name].notna(), "").to_numpy()
            same &= values[1:] == values[:-1]
        assert not (same & (start[1:] == end[:-1])).any()


@fewer
@given(truths())
def test_segments_are_the_partition(truth: Truth) -> None:
    with tempfile.TemporaryDirectory() as directory:
        check(tpuprof.load(truth.trace.write(Path(directory))))


def test_known_segments(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path)).select(steps=[1])
    rows = trace.segments
    assert list(zip(rows["part"], (rows["duration_ps"] // 10**6).tolist(), strict=True)) == [
        ("elementwise", 400), ("matmul", 300), ("collective_exposed", 200), ("data_movement", 50), ("idle", 50),
    ]  # fmt: skip
    assert (rows["step"] == 1).all()
    check(trace)
