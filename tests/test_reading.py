"""Runs of many hosts: in this process or in several, with events held or not, the tables are the same."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.random_traces import SESSION_START_NS, truths
from tpuprof import _worker, reading
from tpuprof.errors import InputError, NotATraceError, UsageError
from tpuprof.formats.discover import find_run
from tpuprof.formats.load import read_run
from tpuprof.formats.recording import Recording
from tpuprof.formats.recordings import Recordings
from tpuprof.formats.xplane_reader import read_xplane
from tpuprof.report.build import build_report
from tpuprof.tables.clock import session_start_ns
from tpuprof.tables.cpu import cpu_cores
from tpuprof.tables.gpu import gpu_cores
from tpuprof.tables.host import step_annotations
from tpuprof.tables.hostfacts import HostFacts, host_facts
from tpuprof.tables.hostwork import host_work
from tpuprof.tables.merge import RunFacts, merge_hosts, named
from tpuprof.tables.rows import CoreRecord, Registry
from tpuprof.tables.tpu import tpu_cores
from tpuprof.testing import Program, TraceBuilder
from tpuprof.testing.values import Ref, Unsigned

FRAMES = ("ops", "modules", "steps", "partition", "gaps", "collectives", "host_events", "events")


@st.composite
def pods(draw: st.DrawFn, sizes: st.SearchStrategy[int] = st.integers(1, 3)) -> TraceBuilder:  # noqa: B008
    """Random hosts that began their sessions at different times, or do not say when."""
    pod = TraceBuilder()
    for number in range(draw(sizes)):
        host = draw(truths()).trace.hosts[0]
        host.name = f"host-{number}"
        host.hostnames = [draw(st.sampled_from([host.name, host.name, "same"]))]
        match draw(st.sampled_from(["later", "later", "unknown"])):
            case "later":
                start = SESSION_START_NS + draw(st.integers(0, 10**10))
                host["Task Environment"].stats["profile_start_time"] = Unsigned(start)
            case _:
                host.drop_plane("Task Environment")
        pod.hosts.append(host)
    return pod


def facts_of(recordings: tuple[Recording, ...]) -> RunFacts:
    return merge_hosts([host_facts(recording) for recording in recordings])


def recordings_of(pod: TraceBuilder, folder: Path) -> tuple[Recording, ...]:
    return read_run(find_run(str(pod.write(folder))))


def flat(value: object) -> Any:
    """A value with arrays as lists, to compare with ==."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, list | tuple):
        return [flat(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: flat(getattr(value, name)) for name in type(value).__dataclass_fields__}  # type: ignore[attr-defined]
    return value


def assert_same_tables(one: tpuprof.Trace, other: tpuprof.Trace) -> None:
    for name in FRAMES:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    assert build_report(one) == build_report(other)
    assert one.quality == other.quality
    assert (one.hosts, one.origin_ns) == (other.hosts, other.origin_ns)


@settings(max_examples=40, deadline=None)
@given(pods())
def test_facts_put_together_are_those_drawn_together(
    tmp_path_factory: pytest.TempPathFactory, pod: TraceBuilder
) -> None:
    recordings = recordings_of(pod, tmp_path_factory.mktemp("pod"))
    run = facts_of(recordings)
    starts = [s for r in recordings if (s := session_start_ns(r.space)) is not None]
    origin = min(starts, default=0)
    registry = Registry()
    cores: list[CoreRecord] = []
    for recording in recordings:
        found = tpu_cores(recording, registry, origin) + gpu_cores(recording, registry, origin)
        cores.extend(found or cpu_cores(recording, registry, origin))
    assert run.origin_ns == origin
    assert run.ops == tuple(registry.facts)
    assert [flat(core) for host in run.hosts for core in host.cores] == [flat(core) for core in cores]
    for host, recording in zip(run.hosts, recordings, strict=True):
        assert flat(host.annotations) == flat(step_annotations(recording, origin))
        assert flat(host.work) == flat(host_work(recording, origin))


@settings(max_examples=20, deadline=None)
@given(pods())
def test_facts_survive_the_way_between_processes(tmp_path_factory: pytest.TempPathFactory, pod: TraceBuilder) -> None:
    for recording in recordings_of(pod, tmp_path_factory.mktemp("pod")):
        facts = host_facts(recording)
        pipe = io.BytesIO()
        _worker.send(pipe, facts, set())
        pipe.seek(0)
        arrived: HostFacts = _worker.receive(pipe, {})
        assert flat(arrived) == flat(facts)
        for core in arrived.cores:
            assert core.ops.start.flags.writeable


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(pods(st.integers(2, 3)), st.integers(2, 3))
def test_any_number_of_processes_gives_the_same_tables(
    tmp_path_factory: pytest.TempPathFactory, pod: TraceBuilder, workers: int
) -> None:
    session = pod.write(tmp_path_factory.mktemp("pod"))
    here = tpuprof.load(session, workers=1)
    assert here.recordings.held
    there = tpuprof.load(session, workers=workers)
    assert not there.recordings.held
    assert_same_tables(here, there)


def two_hosts() -> TraceBuilder:
    """A TPU host and one whose session began 2 us later, with one program."""
    program = Program("jit_step", 17, "HloModule jit_step\n\nENTRY %main (p: f32[8]) -> f32[8] {\n"
                      "  %p = f32[8]{0} parameter(0)\n  ROOT %add.1 = f32[8]{0} add(%p, %p)\n}\n")  # fmt: skip
    trace = TraceBuilder()
    for number, name in enumerate(["a", "b"]):
        host = trace.add_host(name)
        host.add_tpu(0).add_line("XLA Ops").op("add.1", 10, 5, program)
        host.add_thread("python").event("work", 1, 2)
        host.add_program(program)
        host.add_task_environment(SESSION_START_NS + 2000 * number, SESSION_START_NS + 10**9)
    return trace


def test_large_runs_are_read_again_when_their_events_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = two_hosts().write(tmp_path)
    held = tpuprof.load(session)
    assert held.recordings.held
    monkeypatch.setattr(reading, "SMALL_RUN_BYTES", 0)
    trace = tpuprof.load(session, workers=1)
    assert not trace.recordings.held
    assert [len(head.space.planes) for head in trace.recordings.heads] == [0, 0]
    assert_same_tables(held, trace)
    assert trace.events["start_ps"].tolist() == [10_000_000, 1_000_000, 12_000_000, 3_000_000]
    assert [r.space.count_events() for r in trace.recordings] == [2, 2]
    assert trace.recordings[-1].host == "b"
    assert [r.host for r in trace.recordings[1:]] == ["b"]
    assert trace.recordings[1:][0].space.count_events() == 2
    assert len(trace.recordings) == 2
    again = tpuprof.load(session, workers=1)
    (session / "b.xplane.pb").unlink()
    with pytest.raises(InputError):
        _ = again.events
    assert len(again.ops) == 2  # what is not asked of the events stays


def test_one_host_is_held_whatever_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = two_hosts()
    trace.hosts.pop()
    monkeypatch.setattr(reading, "SMALL_RUN_BYTES", 0)
    assert tpuprof.load(trace.write(tmp_path)).recordings.held


def test_large_runs_use_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = two_hosts().write(tmp_path)
    asked: list[int | None] = []
    map_hosts = reading.map_hosts

    def noted(*arguments: Any, workers: int | None, **options: Any) -> Any:
        asked.append(workers)
        return map_hosts(*arguments, workers=workers, **options)

    monkeypatch.setattr(reading, "map_hosts", noted)
    tpuprof.load(session)
    monkeypatch.setattr(reading, "SMALL_RUN_BYTES", 0)
    tpuprof.load(session)
    assert asked == [1, None]


def test_files_in_memory_are_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    session = two_hosts().write(tmp_path)
    memory = fsspec.filesystem("memory")
    for file in session.iterdir():
        memory.pipe(f"/pods/plugins/profile/s/{file.name}", file.read_bytes())
    monkeypatch.setattr(reading, "SMALL_RUN_BYTES", 0)
    trace = tpuprof.load("memory://pods", workers=2)
    assert not trace.recordings.held
    assert len(trace.ops) == 2
    assert len(trace.events) == 4


def test_equal_programs_and_ops_are_kept_once(tmp_path: Path) -> None:
    session = two_hosts().write(tmp_path)
    seen: list[tuple[int, int]] = []
    _, run = reading.read_hosts(find_run(str(session)), workers=2, progress=lambda done, n: seen.append((done, n)))
    assert seen == [(1, 2), (2, 2)]
    assert [facts.name for facts in run.ops] == ["add.1"]
    assert list(run.programs) == [17]
    assert [host.programs for host in run.hosts] == [{}, {}]
    trace = tpuprof.load(session, workers=2)
    assert trace.built.infos[0].program is trace.programs[17]


def test_a_program_of_another_host_serves_the_host_that_lacks_it(tmp_path: Path) -> None:
    trace = two_hosts()
    trace["b"].drop_plane("/host:metadata")
    loaded = tpuprof.load(trace.write(tmp_path), workers=2)
    assert loaded.ops["kind_source"].tolist() == ["hlo", "hlo"]
    assert "hlo_missing" not in {entry.id for entry in loaded.quality}


def test_gpu_ops_of_hosts_whose_stat_names_differ(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for name, module in (("a", "jit_first"), ("b", "jit_second")):
        stream = trace.add_host(name).add_gpu(0).add_line("Stream #1(Compute)")
        stream.event("kernel", 1, 2, stats={"hlo_module": Ref(module), "hlo_op": Ref("fusion.1")})
    loaded = tpuprof.load(trace.write(tmp_path))
    assert loaded.ops["module"].tolist() == ["jit_first", "jit_second"]


@pytest.mark.parametrize("workers", [1, 2])
def test_hosts_that_cannot_be_read_are_named(tmp_path: Path, workers: int) -> None:
    session = two_hosts().write(tmp_path)
    (session / "c.xplane.pb").write_bytes(b"\x0a\xff\xff\xff\xff\x7f")
    trace = tpuprof.load(session, workers=workers)
    assert trace.hosts == ("a", "b")
    (entry,) = [entry for entry in trace.quality if entry.id == "host_unreadable"]
    assert entry.scope["host"] == "c"
    for name in "ab":
        (session / f"{name}.xplane.pb").write_bytes(b"no trace")
    with pytest.raises(NotATraceError):
        tpuprof.load(session, workers=workers)


def test_two_processes_on_one_host_are_told_apart(tmp_path: Path) -> None:
    trace = two_hosts()
    trace["b"].hostnames = ["a"]
    loaded = tpuprof.load(trace.write(tmp_path), workers=2)
    assert loaded.hosts == ("a", "a#2")
    assert [device.id for device in loaded.devices] == ["a/TPU:0", "a#2/TPU:0"]
    assert [recording.host for recording in loaded.recordings] == ["a", "a#2"]
    assert loaded.host_events["host"].tolist() == ["a", "a#2"]


def test_workers_must_be_a_number_of_processes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="workers=0 is no number"):
        tpuprof.load(two_hosts().write(tmp_path), workers=0)


def test_the_name_is_the_only_thing_that_changes(tmp_path: Path) -> None:
    (recording, _) = recordings_of(two_hosts(), tmp_path)
    facts = host_facts(recording)
    assert named(facts, "a") is facts
    other = named(facts, "x/y")
    assert other.host == "x/y"
    assert [core.device.id for core in other.cores] == ["x/y/TPU:0"]
    assert flat(named(other, "a")) == flat(facts)


def test_64_hosts_with_mixed_names_in_sessions_seconds_apart_are_one_run(tmp_path: Path) -> None:
    names = [(f"t1v-n-9eb622fc-w-{n}", f"train-job-{n}", f"host{n}.example.com")[n % 3] for n in range(64)]
    for n, name in enumerate(names):
        trace = two_hosts()
        trace.hosts.pop()
        trace.session = f"2026_01_01_00_00_{(0, 2, 3, 7)[n // 16]:02d}"
        trace["a"].hostnames = [name]
        trace["a"].name = name
        trace.write(tmp_path)
    trace = tpuprof.load(tmp_path)
    assert trace.other_runs == ()
    assert sorted(trace.hosts) == sorted(names)
    assert trace.hosts[:3] == ("host2.example.com", "host5.example.com", "host8.example.com")
    assert len(trace.devices) == 64


def test_recordings_without_files_hold_their_events(tmp_path: Path) -> None:
    recordings = recordings_of(two_hosts(), tmp_path)
    held = Recordings(recordings)
    assert list(held) == list(recordings)
    assert held[1] is recordings[1]
    assert held[:1].heads == recordings[:1]


def test_files_are_read_as_before(tmp_path: Path) -> None:
    """The recordings of a run that is read by several processes are those of ``read_run``."""
    session = two_hosts().write(tmp_path)
    files = find_run(str(session))
    read, _ = reading.read_hosts(files, workers=2)
    for one, other in zip(read, read_run(files), strict=True):
        assert (one.host, one.source.path, one.source.size_bytes) == (
            other.host,
            other.source.path,
            other.source.size_bytes,
        )
        assert one.space.count_events() == other.space.count_events() == 2
    assert read_xplane((session / "a.xplane.pb").read_bytes()).space.count_events() == 2
