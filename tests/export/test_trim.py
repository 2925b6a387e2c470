"""A part of a run has the same steps and the same partition as the whole, and nothing of the rest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tests.inputs.clean import f00, f00_trace, write_altered
from tests.tables.random_traces import Truth, truths
from tests.tables.test_metamorphic import fewer
from tpuprof.export.trim import trim
from tpuprof.export.xplane import exported_recordings, session_files
from tpuprof.testing import TraceBuilder
from tpuprof.trace import Trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
# Times by the host's clock depend on samples of the shift between the clocks, of which a part has fewer.
BY_HOST_CLOCK = [
    f"idle_{c}_ps"
    for c in ("compile", "garbage_collection", "checkpoint", "host_sync", "input", "dispatch", "host_python",
              "intra_program", "dma_in_flight", "unexplained")
]  # fmt: skip


def part_of(trace: Trace, directory: Path) -> Trace:
    """The selection of a trace, written and loaded again."""
    folder = directory / "part"
    folder.mkdir()
    for name, data in session_files(trace, exported_recordings(trace)):
        (folder / name).write_bytes(data)
    return tpuprof.load(folder)


def assert_same(whole: Trace, part: Trace, without: Iterable[str] = ()) -> None:
    """Steps and partition of the selection, and the ops of its steps, are those of the part."""
    drop = list(without)
    pd.testing.assert_frame_equal(whole.steps, part.steps, check_categorical=False)
    pd.testing.assert_frame_equal(
        whole.partition.drop(columns=drop), part.partition.drop(columns=drop), check_categorical=False
    )
    assert whole.step_statistics() == part.step_statistics()
    assert (whole.step_source, whole.n_steps) == (part.step_source, part.n_steps)
    columns = ["device", "op", "kind", "scope", "step", "start_ps", "duration_ps", "self_ps"]
    mine, theirs = (
        ops[ops["step"].notna()][columns].astype({"scope": "str"}).reset_index(drop=True)
        for ops in (whole.ops, part.ops)
    )
    pd.testing.assert_frame_equal(mine, theirs, check_categorical=False)


@fewer
@given(truths(), st.data())
def test_any_steps_of_any_trace(truth: Truth, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        trace = tpuprof.load(truth.trace.write(Path(directory) / "whole"))
        numbers = sorted({int(n) for n in trace.steps["step"]})
        first = data.draw(st.sampled_from(numbers))
        last = data.draw(st.sampled_from([n for n in numbers if n >= first]))
        chosen = trace.select(steps=[n for n in numbers if first <= n <= last])
        moved = any(core.record.shift for core in trace.built.cores)
        assert_same(chosen, part_of(chosen, Path(directory)), BY_HOST_CLOCK if moved else ())


@pytest.mark.parametrize("name", ["tpu_loop_async", "tpu_two_hosts", "cpu_demo"])
def test_samples(name: str, tmp_path: Path) -> None:
    trace = tpuprof.load(SAMPLES / name)
    numbers = sorted({int(n) for n in trace.steps["step"]})
    chosen = trace.select(steps=numbers[1:3])
    part = part_of(chosen, tmp_path)
    assert_same(chosen, part)
    assert len(part.recordings) == len(trace.recordings)
    assert part.recordings[0].space.count_events() < 0.8 * trace.recordings[0].space.count_events()
    assert [q.id for q in part.quality if q.severity != "info"] == [q.id for q in trace.quality if q.severity != "info"]


@pytest.mark.real
@pytest.mark.parametrize(("name", "steps"), [("v6e-4-host-offload", range(30, 34)), ("v5e-1-matmul", range(3, 6))])
def test_real_traces(real_traces: Path, tmp_path: Path, name: str, steps: range) -> None:
    trace = tpuprof.load(real_traces / name)
    chosen = trace.select(steps=steps)
    part = part_of(chosen, tmp_path)
    assert_same(chosen, part, BY_HOST_CLOCK)
    # The host's part in idle time may shift by what the mapping of the clocks is off; what is known stays known.
    for cause in BY_HOST_CLOCK:
        assert chosen.partition[cause].isna().tolist() == part.partition[cause].isna().tolist()
    assert [core.clocks.reason for core in trace.built.cores] == [core.clocks.reason for core in part.built.cores]


def test_nothing_of_other_steps_is_left(tmp_path: Path) -> None:
    def change(trace: TraceBuilder) -> None:
        python = trace["hostA"]["/host:CPU"]["python"]
        python.event("secret of step 0", 1100, 10, stats={"detail": "hidden words"})
        python.event("wanted of step 1", 2100, 10, stats={"detail": "shown words"})

    trace = tpuprof.load(write_altered(tmp_path / "whole", change)).select(steps=[1])
    (recording,) = exported_recordings(trace)
    data = next(iter(session_files(trace, (recording,))))[1]
    assert b"wanted of step 1" in data
    assert b"shown words" in data
    assert b"secret" not in data
    assert b"hidden" not in data
    assert b"jit_train_step" in data


def test_hlo_metadata_and_quality_of_a_part(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path)).select(steps=[2])
    part = part_of(trace, tmp_path)
    assert list(part.programs) == list(trace.programs)
    (entry,) = part.quality
    assert (entry.id, entry.severity, entry.scope) == ("trimmed", "info", {"first": 2, "last": 2})
    assert "steps 2 to 2" in entry.message
    assert part.origin_ns == trace.origin_ns
    # A part of a part.
    assert_same(part.select(steps=[2]), part_of(part.select(steps=[2]), tmp_path / "part"))


def test_other_devices_and_hosts_are_left_out(tmp_path: Path) -> None:
    trace = tpuprof.load(SAMPLES / "tpu_two_hosts")
    first = trace.devices[0]
    part = part_of(trace.select(devices=[first.id]), tmp_path)
    assert [device.id for device in part.devices] == [first.id]
    assert part.hosts == (first.host,)
    pd.testing.assert_frame_equal(part.partition, trace.select(devices=[first.id]).partition, check_categorical=False)


def test_some_devices_of_a_cpu(tmp_path: Path) -> None:
    trace = tpuprof.load(SAMPLES / "cpu_demo")
    wanted = [trace.devices[1].id, trace.devices[3].id]
    chosen = trace.select(devices=wanted)
    part = part_of(chosen, tmp_path)
    assert [device.id for device in part.devices] == wanted
    assert len(part.ops) == len(chosen.ops)
    pd.testing.assert_frame_equal(part.partition, chosen.partition, check_categorical=False)


def test_without_a_selection_nothing_changes() -> None:
    trace = tpuprof.load(SAMPLES / "tpu_loop_async")
    assert [r.space.planes for r in trim(trace)] == [r.space.planes for r in trace.recordings]


def test_a_step_program_looks_at_the_part_anew(tmp_path: Path) -> None:
    part = part_of(tpuprof.load(f00(tmp_path)).select(steps=[1, 2]), tmp_path)
    again = tpuprof.load(tmp_path / "part", step_program="jit_train_step")
    assert part.step_source == "steps_line"
    assert again.step_source == "module"


@pytest.mark.parametrize("damage", ["overlap", "name", "negative", "source", "line"])
def test_kept_steps_that_make_no_sense_are_not_believed(tmp_path: Path, damage: str) -> None:
    def change(trace: TraceBuilder) -> None:
        plane = trace["hostA"].add_plane("tpuprof:steps", stats={"source": "module" if damage != "source" else "x"})
        line = plane.add_line("TPU:0" if damage != "line" else "TPU:7", timestamp_ns=1_700_000_000_000_000_000)
        line.event("7" if damage != "name" else "seven", 0, 1000 if damage != "negative" else -1)
        line.event("8", 1000 if damage != "overlap" else 500, 1000)

    trace = tpuprof.load(write_altered(tmp_path, change))
    assert trace.step_source == "steps_line"
    assert sorted({int(n) for n in f00_steps(trace)}) == [0, 1, 2]


def f00_steps(trace: Trace) -> list[int]:
    return [int(step) for step in trace.steps["step"]]


def test_kept_steps_are_believed(tmp_path: Path) -> None:
    trace = f00_trace()
    plane = trace["hostA"].add_plane("tpuprof:steps", stats={"source": "module"})
    line = plane.add_line("TPU:0", timestamp_ns=1_700_000_000_000_000_000)
    line.event("7", 0, 1000, stats={"complete": 1, "closed": 1, "matched": 1, "counted": 1})
    line.event("8", 1000, 500, stats={"complete": 0, "closed": 0, "matched": 1, "counted": 0})
    loaded = tpuprof.load(trace.write(tmp_path))
    assert f00_steps(loaded) == [7, 8]
    assert loaded.step_source == "module"
    assert loaded.steps["counted"].tolist() == [True, False]
    assert loaded.step_statistics()["count"] == 1


@pytest.mark.parametrize(
    ("stated", "reason", "offset"),
    [("they are strangers", "they are strangers", 0), (-5_000, None, -5_000), (1 << 62, None, 0), (2.5, None, 0)],
)
def test_kept_clocks(tmp_path: Path, stated: str | int | float, reason: str | None, offset: int) -> None:
    trace = f00_trace()
    plane = trace["hostA"].add_plane("tpuprof:steps", stats={"source": "module", "TPU:0 clock offset": stated})
    plane.add_line("TPU:0", timestamp_ns=1_700_000_000_000_000_000).event("7", 0, 1000)
    (core,) = tpuprof.load(trace.write(tmp_path)).built.cores
    assert (core.clocks.reason, core.clocks.offset_ps) == (reason, offset)


def test_hosts_with_like_names_keep_their_files(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number, name in enumerate(["a b", "a_b", "A_B", "x" * 200]):
        host = trace.add_host(f"file{number}", hostnames=[name])
        host.add_thread("python").event("work", 0, 5)
    loaded = tpuprof.load(trace.write(tmp_path))
    names = [name for name, _ in session_files(loaded, exported_recordings(loaded))]
    assert len(set(map(str.lower, names))) == 5
    assert all(len(name) < 200 and " " not in name for name in names)
    assert sorted(part_of(loaded, tmp_path).hosts) == sorted(loaded.hosts)
