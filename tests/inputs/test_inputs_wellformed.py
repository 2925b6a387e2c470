"""The inputs hold what they claim to hold, read with plain protobuf and JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inputs import changes, clean, damaged_json
from tpuprof.formats.xplane_schema import full_messages

SESSION = Path("plugins", "profile", "2026_01_01_00_00_00")
Rows = list[tuple[str, int, int]]


def space_of(root: Path, host: str = "hostA", session: Path = SESSION) -> Any:
    space = full_messages().XSpace()
    space.ParseFromString((root / session / f"{host}.xplane.pb").read_bytes())
    return space


def rows_of(space: Any, plane_name: str, line_name: str) -> Rows:
    """(short name, start, duration) of a line, in us from the start of F00's device lines."""
    (plane,) = [plane for plane in space.planes if plane.name == plane_name.encode()]
    (line,) = [line for line in plane.lines if line.name == line_name.encode()]
    names = {e.key: (e.value.display_name or e.value.name).decode("utf-8", "replace") for e in plane.event_metadata}
    base = (line.timestamp_ns - clean.DEVICE_NS) * 1000
    rows: Rows = []
    for event in line.events:
        start, rest = divmod(base + event.offset_ps, 1_000_000)
        assert rest == 0
        rows.append((names[event.metadata_id], start, event.duration_ps // 1_000_000))
    return rows


STEP_OPS = [("fusion.1", 0, 400), ("fusion.2", 400, 300), ("all-reduce.3", 700, 200), ("copy.4", 900, 50)]
OPS = [(name, 1000 * k + start, duration) for k in range(3) for name, start, duration in STEP_OPS]


def test_f00_is_the_table_of_its_description(tmp_path: Path) -> None:
    space = space_of(clean.f00(tmp_path))
    assert [plane.name for plane in space.planes] == [b"/device:TPU:0", b"/host:metadata", b"/host:CPU"]
    assert list(space.hostnames) == [b"hostA"]
    assert rows_of(space, clean.TPU, "Steps") == [(str(k), 1000 * k, 1000) for k in range(3)]
    assert rows_of(space, clean.TPU, "XLA Modules") == [("jit_train_step(1234567890)", 1000 * k, 950) for k in range(3)]
    assert rows_of(space, clean.TPU, "XLA Ops") == OPS
    assert rows_of(space, clean.TPU, "Async XLA Ops") == []
    assert rows_of(space, "/host:CPU", "python") == [("train_step", 1000 * k - 100, 80) for k in range(3)]
    (entry,) = space.planes[1].event_metadata
    assert (entry.key, entry.value.name) == (1234567890, b"jit_train_step")
    assert b"fused_computation.2" in entry.value.stats[0].bytes_value


@pytest.mark.parametrize(
    ("write", "line", "rows"),
    [
        (changes.f01, "XLA Ops", [row for row in OPS if not 1000 <= row[1] < 2000]),
        (changes.f01, "XLA Modules", [("jit_train_step(1234567890)", at, 950) for at in (0, 2000)]),
        (changes.f13, "XLA Ops", [*OPS[:4], ("fusion.1", 1000, 3_400_000), *OPS[5:]]),
        (
            changes.f13_control,
            "XLA Ops",
            [row for k in range(3) for row in (("while.9", 1000 * k, 900), *OPS[4 * k : 4 * k + 4])],
        ),
        (changes.f14, "Framework Name Scope", [("mlp", 1000 * k, 900) for k in range(3)]),
        (changes.f19, "XLA Ops", [("fusion.1", 0, 400), ("fusion.6", 600, 300)]),
        (changes.f19, "Async XLA Ops", [("all-gather.5", 100, 600)]),
        (changes.f19_dma, "Async XLA Ops", [("async-copy", 100, 600)]),
        (changes.f19_done, "Async XLA Ops", [("async-copy", 100, 350)]),
        (
            changes.f19_done,
            "XLA Ops",
            [("fusion.1", 0, 400), ("copy-done.5", 400, 50), ("fusion.6", 600, 300)],
        ),
        (changes.f23d, "XLA Ops", OPS[:4]),
        (changes.f24, "XLA Ops", [*OPS, ("fusion.1", 3000, 70)]),
        (
            changes.f08,
            "XLA Ops",
            [("\ufffd\ufffd\ufffdA.4" if n == "copy.4" else n, s, d) for n, s, d in OPS],
        ),
    ],
)
def test_changed_rows(tmp_path: Path, write: Callable[[Path], Path], line: str, rows: Rows) -> None:
    assert rows_of(space_of(write(tmp_path)), clean.TPU, line) == rows


def test_f04a_is_cut_behind_the_device_plane(tmp_path: Path) -> None:
    whole = clean.f00_trace().to_bytes()
    cut = next(changes.f04a(tmp_path).rglob("*.xplane.pb")).read_bytes()
    assert len(cut) == len(whole) * 6 // 10
    assert whole.startswith(cut)
    first = full_messages().XSpace()
    first.ParseFromString(whole)
    del first.planes[1:]
    first.ClearField("hostnames")
    assert cut.startswith(first.SerializeToString())


def test_f09_and_f10_hold_the_same_two_hosts(tmp_path: Path) -> None:
    one = changes.f09(tmp_path / "f09") / SESSION
    slower = [("fusion.1", 0, 500), ("fusion.2", 500, 300), ("all-reduce.3", 800, 100), ("copy.4", 900, 50)]
    ops_b = rows_of(space_of(tmp_path / "f09", "hostB"), clean.TPU, "XLA Ops")
    assert ops_b == [(name, 1000 * k + start, duration) for k in range(3) for name, start, duration in slower]
    assert rows_of(space_of(tmp_path / "f09", "hostA"), clean.TPU, "XLA Ops") == OPS
    sessions = changes.f10(tmp_path / "f10") / "plugins" / "profile"
    for host, session in (("hostA", "2026_01_01_00_47_36"), ("hostB", "2026_01_01_00_47_38")):
        files = list((sessions / session).iterdir())
        assert [path.name for path in files] == [f"{host}.xplane.pb"]
        assert files[0].read_bytes() == (one / files[0].name).read_bytes()


def test_f08_differs_from_f00_only_in_the_bytes_of_the_name(tmp_path: Path) -> None:
    before = clean.f00_trace().to_bytes()
    after = next(changes.f08(tmp_path).rglob("*.xplane.pb")).read_bytes()
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    assert len(before) == len(after)
    assert bytes(after[at] for at in changed) == b"\xff\xfe\x80A" * 2
    assert bytes(before[at] for at in changed) == b"copy" * 2


def test_f17_durations_are_written_as_they_are(tmp_path: Path) -> None:
    events = space_of(changes.f17(tmp_path)).planes[0].lines[2].events
    assert [events[i].duration_ps for i in (3, 7, 11)] == [-5, -(1 << 63), 50_000_000]


def test_f07_trailing_object_is_valid_json_with_the_21_rows(tmp_path: Path) -> None:
    path = next(damaged_json.f07(tmp_path, "trailing_empty_object").rglob("*.gz"))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert sum(event.get("ph") == "X" for event in events) == 21
    assert events[-1] == {}


@pytest.mark.parametrize("damage", ["control_byte_in_name", "bare_na_in_args", "integer_above_int64", "missing_end"])
def test_f07_damage_is_done(tmp_path: Path, damage: str) -> None:
    data = gzip.decompress(next(damaged_json.f07(tmp_path, damage).rglob("*.gz")).read_bytes())
    if damage == "integer_above_int64":
        ids = [event.get("args", {}).get("id", 0) for event in json.loads(data)["traceEvents"]]
        assert max(ids) > 1 << 63
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(data)


def test_f07_cut_gzip_keeps_some_events_and_loses_some(tmp_path: Path) -> None:
    root, complete = damaged_json.f07_cut_gzip(tmp_path)
    assert 0 < complete < 21
    with pytest.raises(EOFError):
        gzip.decompress(next(root.rglob("*.gz")).read_bytes())


@pytest.mark.parametrize("form", ["no_cost", "estimate", "cublas"])
def test_f21_replaces_the_matmul_by_a_custom_call(tmp_path: Path, form: str) -> None:
    changes.f21(tmp_path, form)
    plane = space_of(tmp_path).planes[0]
    (name,) = [e.value.name.decode() for e in plane.event_metadata if e.value.display_name == b"fusion.2"]
    assert "custom-call(" in name
    assert "flops" not in {e.value.name.decode() for e in plane.stat_metadata}
    proto = space_of(tmp_path).planes[1].event_metadata[0].value.stats[0].bytes_value
    assert {"no_cost": b"tpu_custom_call", "estimate": b"12000000000", "cublas": b"__cublas$gemm"}[form] in proto
