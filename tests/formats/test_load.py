"""Which of a run's files is read, what is said about the others, and how hosts are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import fsspec
import pytest

from tests.formats.f00_json import document, f00_events, f00_json, f00_json_gz, span_event
from tpuprof.errors import InputTooLargeError, NotATraceError, TraceNotFoundError
from tpuprof.formats.discover import find_run
from tpuprof.formats.load import compare_with_json, read_host, read_run
from tpuprof.formats.recording import HostFile, Recording, RunFiles
from tpuprof.formats.xplane_schema import full_messages

SESSION = "plugins/profile/2026_01_01_00_00_00"


def xplane(hostname: str = "", events: int = 4) -> bytes:
    """A device plane with some ops, as a file."""
    space = full_messages().XSpace()
    if hostname:
        space.hostnames.append(hostname.encode())
    plane = space.planes.add(id=2, name=b"/device:TPU:0")
    entry = plane.event_metadata.add(key=1)
    entry.value.id, entry.value.name = 1, b"fusion.1"
    line = plane.lines.add(id=3, name=b"XLA Ops", timestamp_ns=5)
    for k in range(events):
        line.events.add(metadata_id=1, offset_ps=10 * k, duration_ps=7)
    return space.SerializeToString()


def put(root: Path, name: str, data: bytes) -> Path:
    path = root / SESSION / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(root: Path | str) -> tuple[Recording, ...]:
    return read_run(find_run(root))


def ids(recording: Recording) -> list[str]:
    return [entry.id for entry in recording.quality]


def test_the_xplane_wins(tmp_path: Path) -> None:
    path = put(tmp_path, "hostA.xplane.pb", xplane("hostA"))
    put(tmp_path, "hostA.trace.json.gz", f00_json_gz())
    (recording,) = read(tmp_path)
    assert (recording.host, recording.source.format, recording.source.path) == ("hostA", "xplane", str(path))
    assert recording.source.size_bytes == path.stat().st_size
    assert recording.space.count_events() == 4
    assert recording.quality == ()
    assert not recording.partial


def test_json_alone(tmp_path: Path) -> None:
    path = put(tmp_path, "hostA.trace.json.gz", f00_json_gz())
    (recording,) = read(tmp_path)
    assert (recording.host, recording.source.format) == ("hostA", "trace_json")
    assert recording.source.size_bytes == path.stat().st_size
    assert recording.space.count_events() == 21
    assert ids(recording) == ["json_source"]
    assert recording.quality[0].scope["host"] == "hostA"
    assert not recording.partial


@pytest.mark.parametrize("given", ["", SESSION, f"{SESSION}/hostA.xplane.pb"])
def test_f03_an_empty_xplane_falls_back_to_the_json(tmp_path: Path, given: str) -> None:
    put(tmp_path, "hostA.xplane.pb", b"")
    put(tmp_path, "hostA.trace.json.gz", f00_json_gz())
    (recording,) = read(tmp_path / given)
    assert recording.source.format == "trace_json"
    assert recording.space.count_events() == 21
    assert recording.partial
    assert ids(recording) == ["xplane_empty", "json_source"]
    entry = recording.quality[0]
    assert entry.severity == "error"
    assert "2 GB, the limit of protobuf" in entry.message
    assert "fewer steps or fewer chips" in entry.message
    assert entry.scope["host"] == "hostA"


def test_an_empty_xplane_without_json_is_an_error_that_explains(tmp_path: Path) -> None:
    put(tmp_path, "hostA.xplane.pb", b"")
    with pytest.raises(
        NotATraceError, match=r"hostA\.xplane\.pb: The XPlane file is empty.*2 GB, the limit of protobuf.*fewer steps"
    ):
        read(tmp_path)


def test_an_unreadable_xplane_falls_back_to_the_json(tmp_path: Path) -> None:
    put(tmp_path, "hostA.xplane.pb", b"this is no protobuf at all, but some text")
    put(tmp_path, "hostA.trace.json.gz", f00_json_gz())
    (recording,) = read(tmp_path)
    assert recording.source.format == "trace_json"
    assert ids(recording) == ["xplane_unreadable", "json_source"]
    assert recording.quality[0].severity == "error"
    assert "hostA.xplane.pb cannot be read" in recording.quality[0].message
    assert recording.partial


def test_if_neither_can_be_read_the_xplane_is_complained_about(tmp_path: Path) -> None:
    put(tmp_path, "hostA.xplane.pb", b"")
    put(tmp_path, "hostA.trace.json.gz", b"neither is this")
    with pytest.raises(NotATraceError, match=r"hostA\.xplane\.pb"):
        read(tmp_path)


def test_several_hosts_in_natural_order_with_one_failing(tmp_path: Path) -> None:
    for host in ("pod-10", "pod-9"):
        put(tmp_path, f"{host}.xplane.pb", xplane())
    put(tmp_path, "pod-2.xplane.pb", b"")
    put(tmp_path, "pod-11.trace.json.gz", f00_json_gz())
    recordings = read(tmp_path)
    assert [recording.host for recording in recordings] == ["pod-9", "pod-10", "pod-11"]
    assert ids(recordings[0]) == ["host_unreadable"]
    entry = recordings[0].quality[0]
    assert (entry.severity, entry.scope["host"]) == ("error", "pod-2")
    assert "pod-2.xplane.pb cannot be read. The XPlane file is empty" in entry.message
    assert recordings[0].partial
    assert not recordings[1].partial
    assert ids(recordings[2]) == ["json_source"]


def test_all_hosts_failing_raises_the_first_error(tmp_path: Path) -> None:
    put(tmp_path, "b.xplane.pb", b"")
    put(tmp_path, "a.xplane.pb", b"")
    with pytest.raises(NotATraceError, match=r"a\.xplane\.pb"):
        read(tmp_path)


def test_f10_hosts_of_sibling_directories(tmp_path: Path) -> None:
    for second, host in (("36", "hostA"), ("38", "hostB")):
        folder = tmp_path / f"plugins/profile/2026_01_01_00_47_{second}"
        folder.mkdir(parents=True)
        (folder / f"{host}.xplane.pb").write_bytes(xplane(host))
    assert [recording.host for recording in read(tmp_path)] == ["hostA", "hostB"]


def test_the_name_in_the_file_beats_the_name_of_the_file(tmp_path: Path) -> None:
    put(tmp_path, "renamed.xplane.pb", xplane("true-name"))
    (recording,) = read(tmp_path)
    assert recording.host == "true-name"


def test_two_processes_of_one_host_get_distinct_names(tmp_path: Path) -> None:
    put(tmp_path, "hostA_8466.xplane.pb", xplane("hostA", 1))
    put(tmp_path, "hostA_8467.xplane.pb", xplane("hostA", 2))
    put(tmp_path, "hostA_8468.xplane.pb", xplane("hostA", 3))
    put(tmp_path, "other.xplane.pb", xplane("hostA#2", 4))
    recordings = read(tmp_path)
    named = {recording.host: recording.space.count_events() for recording in recordings}
    assert named == {"hostA": 1, "hostA#2": 4, "hostA#3": 2, "hostA#4": 3}
    second = next(recording for recording in recordings if recording.host == "hostA#3")
    (note,) = second.quality
    assert (note.id, note.severity, note.scope["host"]) == ("host_renamed", "info", "hostA#3")
    assert "hostA_8467.xplane.pb names the same host" in note.message


def test_memory_urls_for_both_formats() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file(f"/load/{SESSION}/hostA.xplane.pb", xplane("hostA"))
    fs.pipe_file(f"/load/{SESSION}/hostB.trace.json.gz", f00_json_gz())
    fs.pipe_file(f"/load/{SESSION}/hostC.trace.json", f00_json())
    recordings = read("memory://load")
    assert [(one.host, one.source.format, one.space.count_events()) for one in recordings] == [
        ("hostA", "xplane", 4),
        ("hostB", "trace_json", 21),
        ("hostC", "trace_json", 21),
    ]
    assert recordings[0].source.path == f"memory://load/{SESSION}/hostA.xplane.pb"


def test_f06_a_json_that_was_cut_is_told_from_the_counts(tmp_path: Path) -> None:
    put(tmp_path, "hostA.xplane.pb", xplane("hostA", 1015))
    extra = [span_event(701, 7, k, 1, 'a "ph":"X" in a name', {}) for k in range(979)]
    put(tmp_path, "hostA.trace.json.gz", gzip.compress(document(f00_events() + extra)))
    files = find_run(tmp_path)
    (recording,) = read_run(files)
    (entry,) = recording.quality
    assert (entry,) == compare_with_json(recording, files.files[0])
    assert entry.id == "json_truncated"
    assert (entry.scope["json_events"], entry.scope["xplane_events"]) == (1000, 1015)
    assert "1000 of the 1015 events" in entry.message
    put(tmp_path, "hostA.xplane.pb", xplane("hostA", 1010))
    assert compare_with_json(read_run(files)[0], files.files[0]) == ()


def test_nothing_to_compare(tmp_path: Path) -> None:
    put(tmp_path, "hostA.trace.json.gz", f00_json_gz())
    files = find_run(tmp_path)
    assert compare_with_json(read_run(files)[0], files.files[0]) == ()
    put(tmp_path, "hostB.xplane.pb", xplane())
    files = find_run(tmp_path / SESSION / "hostB.xplane.pb")
    assert compare_with_json(read_run(files)[0], files.files[0]) == ()


def test_errors_name_the_file(tmp_path: Path) -> None:
    gone = HostFile("hostA", xplane=str(tmp_path / "gone.xplane.pb"), xplane_size=7)
    with pytest.raises(TraceNotFoundError, match=r"gone\.xplane\.pb"):
        read_host(gone)
    with pytest.raises(NotATraceError, match="no file to read"):
        read_host(HostFile("hostA"))
    with pytest.raises(NotATraceError, match="The run has no files"):
        read_run(RunFiles("r", str(tmp_path), ()))
    put(tmp_path, "bomb.trace.json.gz", gzip.compress(bytes(100 << 20)))
    with pytest.raises(InputTooLargeError, match=r"bomb\.trace\.json\.gz"):
        read(tmp_path)


@pytest.mark.real
def test_both_files_of_a_real_session_agree(real_traces: Path) -> None:
    files = find_run(real_traces / "v5e-1-matmul")
    (from_xplane,) = read_run(files)
    (file,) = files.files
    from_json = read_host(HostFile(file.host, trace_json=file.trace_json))
    assert from_xplane.host == from_json.host == "t1v-n-3072d20e-w-0"
    for plane in from_json.space.planes:
        twin = from_xplane.space.plane(plane.name)
        assert twin is not None
        for line in plane.lines:
            other = next(one for one in twin.lines if one.id % 2**32 == line.id)
            if line.name == "Async XLA Ops":
                assert (len(line.events), len(other.events)) == (0, 20)
                continue

            def rows(p: object, one: object) -> list[tuple[int, int, str]]:
                return sorted(
                    (one.timestamp_ns * 1000 + o, d, p.event_meta[m].label)
                    for m, o, d in zip(
                        one.events.meta.tolist(),
                        one.events.offset_ps.tolist(),
                        one.events.duration_ps.tolist(),
                        strict=True,
                    )
                )

            assert rows(plane, line) == rows(twin, other)
    assert compare_with_json(from_xplane, file) == ()


@pytest.mark.real
def test_a_text_mode_copy_is_refused(real_traces: Path) -> None:
    with pytest.raises(NotATraceError, match="text-mode-copy"):
        read(real_traces / "broken")
