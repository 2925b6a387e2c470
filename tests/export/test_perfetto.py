"""The timeline: tracks, clocks to the picosecond, and what a viewer needs to draw it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tests.inputs.clean import f00, write_altered
from tpuprof.errors import UsageError
from tpuprof.export.perfetto import compressed, perfetto_json
from tpuprof.export.timeline import EXPOSED, IDLE, WAITS, nested_lanes, timeline
from tpuprof.formats.trace_json import read_trace_json
from tpuprof.testing import Ps, TraceBuilder
from tpuprof.trace import Trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def exported(trace: Trace, max_events: int = 1_000_000) -> bytes:
    return "".join(perfetto_json(trace, timeline(trace, max_events))).encode("ascii")


def tracks_of(document: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Slices by names of process and thread."""
    events = [event for event in document["traceEvents"] if event]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name" and e["ph"] == "M"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (pid, tid), name in threads.items():
        found[processes[pid], name] = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (pid, tid)]
    assert sum(map(len, found.values())) == sum(e["ph"] == "X" for e in events)
    return found


@pytest.mark.parametrize("name", ["tpu_loop_async", "f00"])
def test_read_back_to_the_same_ops(tmp_path: Path, name: str) -> None:
    trace = tpuprof.load(f00(tmp_path / "in") if name == "f00" else SAMPLES / name)
    file = tmp_path / "run.trace.json.gz"
    file.write_bytes(compressed(perfetto_json(trace, timeline(trace, 10**6))))
    back = tpuprof.load(file)
    columns = ["op", "scope", "source", "step", "start_ps", "duration_ps", "self_ps"]
    left, right = (one.ops[columns].astype(dict.fromkeys(columns[:3], "str")) for one in (trace, back))
    pd.testing.assert_frame_equal(left, right)
    assert back.steps["start_ps"].tolist() == trace.steps["start_ps"].tolist()
    assert back.devices[0].plane == trace.devices[0].plane


def test_picoseconds_late_in_a_long_session(tmp_path: Path) -> None:
    late = 10**9 * 10**6 + 1  # a thousand seconds and one picosecond

    def change(trace: TraceBuilder) -> None:
        trace["hostA"]["/device:TPU:0"]["XLA Ops"].event("late.1", Ps(late), Ps(123_456_789_012_345_678))

    trace = tpuprof.load(write_altered(tmp_path, change))
    base = int(trace.ops["start_ps"].iloc[0])
    text = exported(trace)
    assert b'"dur":123456789012.345678,"name":"late.1"' in text
    result = read_trace_json(text)
    ops = next(line for plane, line in result.space.lines() if line.name == "XLA Ops")
    assert int(ops.events.offset_ps[-1]) == base + late


def test_lanes_of_the_partition(tmp_path: Path) -> None:
    trace = tpuprof.load(SAMPLES / "tpu_loop_async")
    tracks = tracks_of(json.loads(exported(trace), parse_float=str, parse_int=str))
    parts = trace.partition.groupby("device", observed=True).sum(numeric_only=True)
    for device in trace.devices:
        plane = f"/device:TPU:{device.ordinal}"
        row = parts.loc[device.id]
        for track, names in ((EXPOSED, ["collective_exposed"]), (IDLE, ["idle"]),
                             (WAITS, ["host_transfer", "dma_wait", "barrier_wait"])):  # fmt: skip
            total = sum(round(float(event["dur"]) * 1e6) for event in tracks.get((plane, track), []))
            assert total == sum(row[f"{name}_ps"] for name in names)
    assert [e["name"] for e in tracks["/device:TPU:0", "Steps"]] == ["0", "1", "2", "3"]
    assert ("/host:CPU", "main/4242") in tracks
    # Loops enclose their bodies on the line of ops.
    assert any(event["name"].startswith("while") for event in tracks["/device:TPU:0", "XLA Ops"])


def test_slices_of_a_track_nest() -> None:
    trace = tpuprof.load(SAMPLES / "cpu_demo")
    for group in timeline(trace, 10**6).groups:
        for track in group.tracks:
            lanes = nested_lanes(track.start, track.start + track.duration)
            assert not lanes.any(), (group.name, track.name)


spans = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12)


@given(spans)
def test_lanes_hold_nested_slices_only(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: (pair[0], -pair[1]))
    start = np.array([a for a, _ in pairs], np.int64)
    end = np.array([a + d for a, d in pairs], np.int64)
    lanes = nested_lanes(start, end).tolist()
    crossing = False
    for i in range(len(pairs)):
        for j in range(i):
            apart = end[j] <= start[i]
            nested = start[j] <= start[i] and end[i] <= end[j]
            crossing = crossing or not (apart or nested)
            assert lanes[i] != lanes[j] or apart or nested
    if not crossing:
        assert not any(lanes)


def test_hosts_are_told_apart() -> None:
    tracks = tracks_of(json.loads(exported(tpuprof.load(SAMPLES / "tpu_two_hosts"))))
    processes = {process for process, _ in tracks}
    assert {"/device:TPU:0 (worker-0)", "/device:TPU:0 (worker-1)"} <= processes
    assert any(process.startswith("/host:CPU (worker-") for process in processes)


def test_names_are_escaped(tmp_path: Path) -> None:
    hostile = 'a"b\\c</script>\n\x1b[31m\u2028é\u0000'

    def change(trace: TraceBuilder) -> None:
        trace["hostA"]["/device:TPU:0"]["XLA Ops"].event(hostile, 960, 1)
        trace["hostA"]["/host:CPU"]["python"].event(hostile, 1500, 1)

    trace = tpuprof.load(write_altered(tmp_path, change))
    text = exported(trace)
    assert b"\x1b" not in text
    tracks = tracks_of(json.loads(text))
    assert tracks["/device:TPU:0", "XLA Ops"][4]["name"] == hostile
    assert hostile in [event["name"] for event in tracks["/host:CPU", "python"]]


def test_the_bound_takes_the_shortest_host_events_first(tmp_path: Path) -> None:
    def change(trace: TraceBuilder) -> None:
        for n in range(50):
            trace["hostA"]["/host:CPU"]["python"].event(f"h{n}", 1000 + 10 * n, 1 + n % 9)

    trace = tpuprof.load(write_altered(tmp_path, change))
    whole = timeline(trace, 10**6)
    device = sum(len(track) for group in whole.groups if "device" in group.name for track in group.tracks)
    kept = timeline(trace, device + 5)
    assert (len(kept), kept.left_out) == (device + 5, len(whole) - device - 5)
    lengths = sorted(int(d) for g in whole.groups if "host" in g.name for t in g.tracks for d in t.duration)
    assert sorted(int(d) for g in kept.groups if "host" in g.name for t in g.tracks for d in t.duration) == lengths[-5:]
    with pytest.raises(UsageError, match=rf"{device} events, more than --max-events {device - 1}") as raised:
        timeline(trace, device - 1)
    assert "--steps" in raised.value.hint


def test_chosen_steps_only(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path)).select(steps=[1])
    tracks = tracks_of(json.loads(exported(trace)))
    assert [e["name"] for e in tracks["/device:TPU:0", "Steps"]] == ["1"]
    assert [e["name"] for e in tracks["/device:TPU:0", "XLA Ops"]] == ["fusion.1", "fusion.2", "all-reduce.3", "copy.4"]
    assert len(tracks["/device:TPU:0", "XLA Modules"]) == 1
    assert len(tracks["/host:CPU", "python"]) <= 2


def test_the_same_bytes_every_time() -> None:
    trace = tpuprof.load(SAMPLES / "tpu_loop_async")
    one, two = (compressed(perfetto_json(trace, timeline(trace, 10**6))) for _ in range(2))
    assert one == two
    assert gzip.decompress(one) == exported(trace)


def test_times_before_the_origin_are_moved_and_said(tmp_path: Path) -> None:
    def change(trace: TraceBuilder) -> None:
        trace["hostA"].add_task_environment(1_700_000_000_000_500_000, 1_700_000_000_100_000_000)

    trace = tpuprof.load(write_altered(tmp_path, change))
    earliest = min(int(trace.ops["start_ps"].min()), int(trace.host_events["start_ps"].min()))
    assert earliest < 0
    document = json.loads(exported(trace))
    moved = int(document["otherData"]["moved_us"])
    assert moved == -(earliest // 10**6)
    assert all(event.get("ts", 0) >= 0 for event in document["traceEvents"])
    first = tracks_of(document)["/device:TPU:0", "XLA Ops"][0]
    assert first["ts"] == moved + int(trace.ops["start_ps"].iloc[0]) // 10**6


def test_a_run_without_devices_shows_its_threads(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.add_host("h").add_thread("python").event("work", 0, 5)
    tracks = tracks_of(json.loads(exported(tpuprof.load(trace.write(tmp_path)))))
    assert {key: [e["name"] for e in events] for key, events in tracks.items()} == {("/host:CPU", "python"): ["work"]}
