"""Small files with known answers for the reader: chunks, repairs, losses, and files that are something else."""

from __future__ import annotations

import gzip
import mmap
from pathlib import Path

import numpy as np
import pytest

from tests.formats import wire
from tests.formats.reference_reader import plain, read_plain
from tpuprof.errors import InputTooLargeError, NotATraceError
from tpuprof.formats import xplane_chunks, xplane_metadata
from tpuprof.formats.recording import ReadResult
from tpuprof.formats.xplane_builder import SpaceBuilder
from tpuprof.formats.xplane_reader import read_xplane
from tpuprof.formats.xspace import Ref

US = 1_000_000
T0 = 1_700_000_000_000_000_000
PROGRAM = 1234567890
OPS = (
    ("fusion.1", 0, 400, "loop fusion"),
    ("fusion.2", 400, 300, "convolution fusion"),
    ("all-reduce.3", 700, 200, "all-reduce"),
    ("copy.4", 900, 50, "copy"),
)


def clean_run() -> SpaceBuilder:
    """Three steps of 1000 us on one core, with host annotations and the program's HLO."""
    builder = SpaceBuilder(hostnames=["hostA"])
    stats = {"device_type_string": "TPU v5 lite", "peak_teraflops_per_second": 197.0}
    device = builder.add_plane("/device:TPU:0", 2, stats)
    steps = device.add_line("Steps", 1, T0)
    modules = device.add_line("XLA Modules", 2, T0)
    ops = device.add_line("XLA Ops", 3, T0)
    device.add_line("Async XLA Ops", 4, T0)
    host = builder.add_plane("/host:CPU").add_line("python", 1, T0 - 1_000_000)
    for k in range(3):
        start = 1000 * k * US
        steps.add_event(str(k), start, 1000 * US)
        modules.add_event(f"jit_train_step({PROGRAM})", start, 950 * US)
        for name, offset, duration, category in OPS:
            ops.add_event(
                f"%{name} = bf16[4096,1024] {name.split('.')[0]}()",
                start + offset * US,
                duration * US,
                display_name=name,
                meta_stats={"program_id": PROGRAM, "hlo_category": Ref(category)},
                stats={"run_id": k},
            )
        host.add_event("train_step", (900 + 1000 * k) * US, 80 * US, stats={"step_num": k})
    metadata = builder.add_plane("/host:metadata")
    hlo = b"HloModule jit_train_step\n" * 80
    metadata.add_event_metadata("jit_train_step", meta_id=PROGRAM, stats={"Hlo Proto": hlo})
    return builder


def ids(result: ReadResult) -> list[str]:
    return [entry.id for entry in result.quality]


def test_the_clean_run_is_read_as_it_was_built() -> None:
    result = read_xplane(clean_run().to_bytes())
    assert result.quality == ()
    assert not result.partial
    assert result.space.hostnames == ("hostA",)
    device = result.space.plane("/device:TPU:0")
    assert device is not None
    assert device.stats == {"device_type_string": "TPU v5 lite", "peak_teraflops_per_second": 197.0}
    ops = device.line("XLA Ops")
    assert ops is not None
    assert ops.timestamp_ns == T0
    assert [device.event_meta[row].label for row in ops.events.meta] == [name for name, *_ in OPS] * 3
    assert ops.events.duration_ps.tolist() == [duration * US for _, _, duration, _ in OPS] * 3
    assert ops.events.offset_ps.tolist() == [(1000 * k + at) * US for k in range(3) for _, at, _, _ in OPS]
    assert ops.events.int_stat(device.stat_row("run_id"))[0].tolist() == [k for k in range(3) for _ in OPS]
    assert ops.events.occurrences is None
    first = device.event_meta[ops.events.meta[0]]
    assert first.stats == {"program_id": PROGRAM, "hlo_category": "loop fusion"}
    assert len(device.line("Async XLA Ops").events) == 0  # pyright: ignore[reportOptionalMemberAccess]
    programs = result.space.plane("/host:metadata")
    assert programs is not None
    assert [(meta.id, meta.name) for meta in programs.event_meta] == [(PROGRAM, "jit_train_step")]
    assert programs.event_meta[0].stats["Hlo Proto"] == b"HloModule jit_train_step\n" * 80


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, "mmap"])
def test_every_kind_of_buffer(form: object, tmp_path: Path) -> None:
    data = clean_run().to_bytes()
    expected = plain(read_xplane(data).space)
    if form == "mmap":
        (tmp_path / "x").write_bytes(data)
        with (tmp_path / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            result = read_xplane(mapped)
            mapped.close()  # nothing of the result refers to the map, else this raises BufferError
    else:
        result = read_xplane(form(data))  # pyright: ignore[reportCallIssue]
    assert plain(result.space) == expected


def test_maps_are_released_while_they_are_read_but_only_read_only_ones(tmp_path: Path) -> None:
    builder = SpaceBuilder()
    line = builder.add_plane("p").add_line("l")
    for i in range(150_000):
        line.add_event("e", i, 1, stats={"s": "text", "i": i})
    data = builder.to_bytes()
    (tmp_path / "x").write_bytes(data)
    with (tmp_path / "x").open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            space = read_xplane(mapped).space
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as private:
            at = data.index(b"text") + 4
            private[at - 4 : at] = b"TEXT"
            changed = read_xplane(private).space
            assert private[at - 4 : at] == b"TEXT"
    for read, first in ((space, "text"), (changed, "TEXT")):
        events = read.planes[0].lines[0].events
        assert np.array_equal(events.offset_ps, np.arange(150_000))
        assert read.planes[0].text_stat(events, "s")[:2] == [first, "text"]


# --- chunks -----------------------------------------------------------------------------------------------------------


def two_chunks(second_timestamp_ns: int) -> bytes:
    pieces: list[bytes] = []
    for timestamp_ns, name in ((T0, "a"), (second_timestamp_ns, "b")):
        builder = SpaceBuilder()
        line = builder.add_plane("/host:CPU", 5, {f"stat {name}": 1}).add_line("python", 7, timestamp_ns)
        line.add_event(name, 100, 10, stats={name: 1})
        line.add_event("all", 0, 5, num_occurrences=3)
        pieces.append(builder.to_bytes())
    return b"".join(pieces)


def test_chunks_are_merged_and_their_clocks_aligned() -> None:
    """Both chunks call their metadata 1 and 2 and their stat 1; offsets are moved, aggregated events are not."""
    space = read_xplane(two_chunks(T0 + 3)).space
    (plane,) = space.planes
    (line,) = plane.lines
    assert plane.stats == {"stat a": 1, "stat b": 1}
    assert line.timestamp_ns == T0
    assert [plane.event_meta[row].name for row in line.events.meta] == ["a", "all", "b", "all"]
    assert line.events.offset_ps.tolist() == [100, 0, 3100, 0]
    assert line.events.occurrences is not None
    assert line.events.occurrences.tolist() == [-1, 3, -1, 3]
    assert [plane.event_stats(line.events, i) for i in range(4)] == [{"a": 1}, {}, {"b": 1}, {}]


def test_equal_metadata_of_chunks_is_one_row() -> None:
    data = clean_run().to_bytes()
    once, twice = read_xplane(data).space, read_xplane(data + data).space
    for plane, doubled in zip(once.planes, twice.planes, strict=True):
        assert [meta.name for meta in doubled.event_meta] == [meta.name for meta in plane.event_meta]
        assert doubled.stat_names == plane.stat_names
    assert twice.count_events() == 2 * once.count_events()


def test_chunks_too_far_apart_for_one_clock_stay_apart() -> None:
    space = read_xplane(two_chunks(0)).space
    (plane,) = space.planes
    assert [(line.name, line.timestamp_ns, len(line.events)) for line in plane.lines] == [
        ("python", T0, 2),
        ("python", 0, 2),
    ]


def test_nonsense_offsets_saturate_when_they_are_moved() -> None:
    pieces: list[bytes] = []
    for timestamp_ns, offset in ((0, 1), (5, 2**63 - 1)):
        builder = SpaceBuilder()
        builder.add_plane("p").add_line("l", 1, timestamp_ns).add_event("e", offset)
        pieces.append(builder.to_bytes())
    (line,) = read_xplane(b"".join(pieces)).space.planes[0].lines
    assert line.events.offset_ps.tolist() == [1, 2**63 - 1]


def test_metadata_in_another_chunk_is_found() -> None:
    """The lines in one chunk, all metadata in the next."""
    lines = wire.message(
        1,
        [
            wire.data(2, b"p"),
            wire.message(
                3, [wire.message(4, [wire.number(1, 9), wire.message(4, [wire.number(1, 8), wire.number(7, 6)])])]
            ),
        ],
    )
    meta = wire.message(
        1,
        [
            wire.data(2, b"p"),
            wire.message(4, [wire.number(1, 9), wire.message(2, [wire.number(1, 9), wire.data(2, b"op")])]),
            wire.message(5, [wire.number(1, 8), wire.message(2, [wire.data(2, b"key")])]),
            wire.message(5, [wire.number(1, 6), wire.message(2, [wire.data(2, b"value")])]),
        ],
    )
    for data in (lines + meta, meta + lines):
        result = read_xplane(data)
        (plane,) = result.space.planes
        events = plane.lines[0].events
        assert plane.event_meta[events.meta[0]].name == "op"
        assert plane.event_stats(events, 0) == {"key": "value"}
        assert result.quality == ()


def test_an_id_is_looked_up_in_the_nearest_earlier_chunk_then_in_the_first_later_one() -> None:
    def defines(**names: str) -> list[bytes]:
        return [
            field
            for key, name in names.items()
            for field in (
                wire.message(4, [wire.number(1, int(key[1:])), wire.message(2, [wire.data(2, name.encode())])]),
                wire.message(5, [wire.number(1, int(key[1:])), wire.message(2, [wire.data(2, name.encode())])]),
            )
        ]

    def uses(*ids: int) -> bytes:
        stats = {i: [wire.message(4, [wire.number(1, i), wire.number(7, i)])] for i in ids}
        return wire.message(3, [wire.message(4, [wire.number(1, i), *stats[i]]) for i in ids])

    chunks = [
        defines(_1="far"),
        defines(_1="near", _2="two"),
        [uses(1, 2, 3)],
        [*defines(_1="own", _3="first later"), uses(1)],
        defines(_1="last", _3="second later"),
    ]
    data = b"".join(wire.message(1, [wire.data(2, b"p"), *chunk]) for chunk in chunks)
    (plane,) = read_xplane(data).space.planes
    events = plane.lines[0].events
    expected = ["near", "two", "first later", "own"]
    assert [plane.event_meta[row].name for row in events.meta] == expected
    assert [plane.event_stats(events, i) for i in range(4)] == [{name: name} for name in expected]
    assert plain(read_xplane(data).space) == read_plain(data)


# --- repairs ----------------------------------------------------------------------------------------------------------


def test_ids_without_metadata_get_names_and_no_event_is_lost() -> None:
    stat = wire.message(4, [wire.number(1, 77), wire.number(4, 5)])
    dangling = wire.message(4, [wire.number(1, 78), wire.number(7, 77)])
    event = wire.message(4, [wire.number(1, -3), wire.number(3, 10), stat, dangling])
    result = read_xplane(wire.message(1, [wire.data(2, b"p"), wire.message(3, [event, event])]))
    (plane,) = result.space.planes
    events = plane.lines[0].events
    assert [plane.event_meta[row].name for row in events.meta] == ["event#-3", "event#-3"]
    assert plane.event_stats(events, 1) == {"stat#77": 5, "stat#78": ""}
    assert events.stat_bits.tolist() == [5, -1, 5, -1]  # a made-up name is not what a reference points to
    (entry,) = result.quality
    assert (entry.id, entry.severity, entry.count) == ("metadata_missing", "warning", 3)
    assert "event#<id>" in entry.message


def test_names_are_not_made_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane_metadata, "MAX_INVENTED", 5)
    events = [
        wire.message(4, [wire.number(1, i), wire.message(4, [wire.number(1, i), wire.number(4, i)])]) for i in range(9)
    ]
    (plane,) = read_xplane(wire.message(1, [wire.data(2, b"p"), wire.message(3, events)])).space.planes
    assert len(plane.lines[0].events) == 9
    assert len(plane.event_meta) <= 6
    assert plane.event_meta[plane.lines[0].events.meta[8]].name == "event#?"


def test_bad_utf8_counts_once_for_an_op() -> None:
    """The four bytes of ``copy`` in name and display name of copy.4 become FF FE 80 41."""
    data = clean_run().to_bytes()
    bad = data.replace(b"%copy.4", b"%\xff\xfe\x80A.4").replace(b"\x06copy.4", b"\x06\xff\xfe\x80A.4")
    assert len(bad) == len(data)
    assert bad.count(b"\xff\xfe\x80A") == 2
    result = read_xplane(bad)
    (entry,) = result.quality
    assert (entry.id, entry.severity, entry.count) == ("bad_utf8", "warning", 1)
    device = result.space.plane("/device:TPU:0")
    ops = device.line("XLA Ops")  # pyright: ignore[reportOptionalMemberAccess]
    labels = [device.event_meta[row].label for row in ops.events.meta]  # pyright: ignore[reportOptionalMemberAccess]
    assert [label for label in labels if label.endswith("A.4")] == ["\N{REPLACEMENT CHARACTER}" * 3 + "A.4"] * 3
    assert [meta.bad_utf8 for meta in device.event_meta].count(True) == 1  # pyright: ignore[reportOptionalMemberAccess]


def test_of_repeated_fields_the_last_one_counts() -> None:
    """An offset after a number of occurrences takes its place, and the other way round."""
    offset, count, duration = wire.number(2, 70), wire.number(5, 3), wire.number(3, 9)
    value = [wire.number(4, 1), wire.double(2, 0.5), wire.data(5, b"x")]
    fields = [
        [offset, count],
        [count, offset],
        [wire.number(2, 1), offset, wire.number(3, 1), duration],
        [count, count],
    ]
    events = [wire.message(4, [*event, wire.message(4, value)]) for event in fields]
    data = wire.message(
        1, [wire.number(1, 4), wire.number(1, 5), wire.data(2, b"q"), wire.data(2, b"p"), wire.message(3, events)]
    )
    (plane,) = read_xplane(data).space.planes
    assert (plane.id, plane.name) == (5, "p")
    read = plane.lines[0].events
    assert read.occurrences is not None
    assert read.occurrences.tolist() == [3, -1, -1, 3]
    assert read.offset_ps.tolist() == [0, 70, 70, 0]
    assert read.duration_ps.tolist() == [0, 0, 9, 0]
    assert plane.event_stats(read, 0) == {"stat#0": "x"}
    assert plain(read_xplane(data).space) == read_plain(data)


def test_texts_of_stats_are_stored_once() -> None:
    builder = SpaceBuilder()
    plane = builder.add_plane("p")
    for name in ("a", "b"):
        line = plane.add_line(name)
        for i in range(500):
            line.add_event("e", i, stats={"s": f"text {i % 7}", "b": b"\xf0" * (i % 3)})
    (read,) = read_xplane(builder.to_bytes()).space.planes
    assert len(read.blobs) == 7 + 3
    assert read.text_stat(read.lines[1].events, "s") == [f"text {i % 7}" for i in range(500)]


def test_texts_that_collide_are_kept_apart() -> None:
    """More distinct texts than one probe sequence: each event keeps its own."""
    builder = SpaceBuilder()
    line = builder.add_plane("p").add_line("l")
    for i in range(20_000):
        line.add_event("e", i, stats={"s": str(i)})
    (plane,) = read_xplane(builder.to_bytes()).space.planes
    assert plane.text_stat(plane.lines[0].events, "s") == [str(i) for i in range(20_000)]
    assert len(plane.blobs) == 20_000


def test_long_lines_are_decoded_in_segments() -> None:
    """More events than one segment holds, with a damaged event at the border; threads take the segments."""
    n = 200_000
    builder = SpaceBuilder()
    line = builder.add_plane("p").add_line("l")
    for i in range(n):
        line.add_event("e" if i % 2 else "f", i, 1, stats={"i": i} if i % 3 else {"i": i, "j": -i})
    result = read_xplane(builder.to_bytes())
    (plane,) = result.space.planes
    events = plane.lines[0].events
    assert np.array_equal(events.offset_ps, np.arange(n))
    assert np.array_equal(events.int_stat(plane.stat_row("i"))[0], np.arange(n))
    values, present = events.int_stat(plane.stat_row("j"))
    assert np.array_equal(np.flatnonzero(present), np.arange(0, n, 3))
    assert np.array_equal(values[present], -np.arange(0, n, 3))


def test_what_the_collector_says_is_passed_on() -> None:
    builder = SpaceBuilder(errors=["collector failed"], warnings=["slow", "slower"])
    builder.add_plane("/host:CPU")
    error, warning = read_xplane(builder.to_bytes()).quality
    assert (error.id, error.severity, error.count, error.scope) == (
        "collector_error",
        "error",
        1,
        {"texts": ["collector failed"]},
    )
    assert "collector failed" in error.message
    assert (warning.id, warning.severity, warning.count) == ("collector_warning", "warning", 2)


def test_stats_of_a_newer_kind_are_counted_and_left_out() -> None:
    newer = wire.message(4, [wire.number(1, 1), wire.data(8, b"compressed")])
    known = wire.message(4, [wire.number(1, 1), wire.number(4, 5)])
    event = wire.message(4, [wire.number(1, 1), newer, known, newer])
    keys = wire.message(5, [wire.number(1, 1), wire.message(2, [wire.data(2, b"key")])])
    metas = wire.message(4, [wire.number(1, 1), wire.message(2, [wire.data(2, b"op")])])
    result = read_xplane(wire.message(1, [wire.data(2, b"p"), wire.message(3, [event, event]), keys, metas]))
    (plane,) = result.space.planes
    events = plane.lines[0].events
    assert events.stat_ptr.tolist() == [0, 1, 2]
    assert plane.event_stats(events, 1) == {"key": 5}
    (entry,) = result.quality
    assert (entry.id, entry.severity, entry.count) == ("unknown_stat_kind", "info", 4)


# --- losses -----------------------------------------------------------------------------------------------------------


def test_a_file_cut_at_60_percent_gives_its_whole_planes() -> None:
    data = clean_run().to_bytes()
    cut = data[: len(data) * 6 // 10]
    result = read_xplane(cut, where="f")
    assert result.partial
    (entry,) = result.quality
    assert (entry.id, entry.severity, entry.count) == ("truncated", "error", len(cut))
    assert f"{len(cut)} bytes" in entry.message
    assert entry.scope["bytes_missing"] + len(cut) == len(data) - len(b"\x22\x05hostA")
    assert entry.scope["plane"] == "/host:metadata"
    whole = plain(read_xplane(data).space)
    assert plain(result.space) == whole[:2]


def test_every_cut_gives_a_prefix_of_the_planes() -> None:
    data = clean_run().to_bytes()
    whole = plain(read_xplane(data).space)
    seen: set[int] = set()
    for size in range(1, len(data), 7):
        try:
            result = read_xplane(data[:size])
        except NotATraceError:
            seen.add(0)
            continue
        got = plain(result.space)
        complete = [plane for plane in got if plane in whole]
        seen.add(len(complete))
        assert complete == whole[: len(complete)]
        assert len(got) - len(complete) <= 1
        if len(got) > len(complete):  # a plane that was cut after some of its lines became readable
            assert {line["name"] for line in got[-1]["lines"]} <= {
                "Steps",
                "XLA Modules",
                "XLA Ops",
                "python",
                "Async XLA Ops",
            }
            names = {event["name"] for line in got[-1]["lines"] for event in line["events"]}
            assert not any(name.startswith("event#") for name in names)
    assert seen == {0, 1, 2, 3}


def test_lines_of_a_cut_plane_need_their_metadata() -> None:
    """Metadata first, as no profiler writes it: the whole line is kept, the one that is cut is not."""
    meta = wire.message(4, [wire.number(1, 1), wire.message(2, [wire.data(2, b"op")])])
    line = wire.message(3, [wire.data(2, b"whole"), wire.message(4, [wire.number(1, 1)])])
    unknown = wire.message(3, [wire.data(2, b"unknown"), wire.message(4, [wire.number(1, 2)])])
    data = wire.message(1, [wire.data(2, b"p"), meta, line, unknown, line])
    result = read_xplane(data[:-1])
    (plane,) = result.space.planes
    assert [(line.name, len(line.events)) for line in plane.lines] == [("whole", 1)]
    (entry,) = result.quality
    assert entry.id == "truncated"
    assert "1 lines were kept and 1 whole lines were left out" in entry.message


def test_a_defective_event_costs_only_itself() -> None:
    good = wire.message(
        4, [wire.number(1, 1), wire.number(2, 5), wire.message(4, [wire.number(1, 1), wire.number(4, 3)])]
    )
    bad_stat = wire.message(4, [wire.number(1, 1), wire.message(4, [wire.number(1, 1), b"\x20"])])
    bad_event = wire.message(4, [wire.message(4, [wire.number(1, 1), wire.number(4, 9)])] * 3 + [b"\x07"])
    metas = wire.message(4, [wire.number(1, 1), wire.message(2, [wire.data(2, b"op")])])
    keys = wire.message(5, [wire.number(1, 1), wire.message(2, [wire.data(2, b"key")])])
    line = wire.message(3, [good, bad_event, good, bad_stat, bad_event, good])
    result = read_xplane(wire.message(1, [wire.data(2, b"p"), line, metas, keys]))
    (plane,) = result.space.planes
    events = plane.lines[0].events
    assert events.offset_ps.tolist() == [5, 5, 0, 5]
    assert [plane.event_stats(events, i) for i in range(4)] == [{"key": 3}, {"key": 3}, {}, {"key": 3}]
    (entry,) = result.quality
    assert (entry.id, entry.severity, entry.count) == ("damaged", "error", 3)
    assert result.partial


def test_nothing_after_damage_at_the_top_level_is_trusted() -> None:
    data = clean_run().to_bytes()
    result = read_xplane(data + b"\x07" + data)
    assert ids(result) == ["damaged"]
    assert f"byte {len(data)}" in result.quality[0].message
    assert plain(result.space) == plain(read_xplane(data).space)


# --- files that are something else ------------------------------------------------------------------------------------


def test_an_empty_file_names_the_limit_of_protobuf() -> None:
    with pytest.raises(NotATraceError) as caught:
        read_xplane(b"", where="hostA.xplane.pb")
    assert "hostA.xplane.pb: The XPlane file is empty (0 bytes)." in str(caught.value)
    assert "2 GB" in str(caught.value)
    assert ".trace.json.gz" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(b"x" * 100, mtime=0), "gzip-compressed data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "a PNG image"),
        (b'{"displayTimeUnit": "ns", "traceEvents": []}', "JSON"),
        (b"[\n {}]", "JSON"),
        (b"HloModule jit_f\n", "HLO text"),
        (b"hello, this is no trace at all\n", "text"),
        (b"\n\nhello\n", "text"),
        (b"PK\x03\x04" + bytes(20), "a zip archive"),
        (bytes(1000), "binary data of an unknown kind"),
        (wire.message(1, [wire.data(9, b"module")]), "another kind of protobuf message"),
    ],
)
def test_foreign_files_are_named(data: bytes, kind: str) -> None:
    with pytest.raises(NotATraceError) as caught:
        read_xplane(data, where="some.file")
    message = str(caught.value)
    assert message.startswith("some.file: ")
    assert kind in message


def text_mode_copy(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def test_a_text_mode_copy_is_named() -> None:
    builder = SpaceBuilder()
    line = builder.add_plane("/device:TPU:0").add_line("XLA Ops", 1, T0)
    for i in range(3000):
        line.add_event("fusion.1", i * 1000 * US, 400 * US)
    with pytest.raises(NotATraceError, match="copied in text mode") as caught:
        read_xplane(text_mode_copy(builder.to_bytes()))
    assert "binary mode" in caught.value.hint


@pytest.mark.real
def test_the_real_text_mode_copy_is_named(real_traces: Path) -> None:
    with pytest.raises(NotATraceError, match="copied in text mode"):
        read_xplane((real_traces / "broken" / "text-mode-copy.xplane.pb").read_bytes())


def test_a_file_without_planes_says_why() -> None:
    with pytest.raises(NotATraceError, match="holds no planes") as caught:
        read_xplane(SpaceBuilder(hostnames=["h"]).to_bytes())
    assert "backend" in caught.value.hint
    with pytest.raises(NotATraceError, match="It says: collector failed"):
        read_xplane(SpaceBuilder(errors=["collector failed"]).to_bytes())


def test_a_file_cut_in_its_first_plane_says_so() -> None:
    with pytest.raises(NotATraceError, match="No plane of the file is whole: 60 bytes are present") as caught:
        read_xplane(clean_run().to_bytes()[:60])
    assert "'/device:TPU:0'" in str(caught.value)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "what", "data"),
    [
        ("MAX_PLANES", "planes", wire.message(1, [wire.data(2, b"p")]) * 11),
        ("MAX_LINES", "lines", wire.message(1, [wire.data(2, b"p"), wire.message(3, []) * 11])),
        ("MAX_METADATA", "metadata entries", wire.message(1, [wire.data(2, b"p"), wire.message(4, []) * 11])),
        (
            "MAX_METADATA",
            "metadata entries",
            wire.message(
                1, [wire.data(2, b"p"), wire.message(3, [wire.message(4, [wire.number(1, i)]) for i in range(11)])]
            ),
        ),
    ],
)
def test_files_that_ask_for_too_many_objects_are_refused(
    limit: str, what: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_xplane(data)
    monkeypatch.setattr(xplane_chunks, limit, 10)
    with pytest.raises(InputTooLargeError, match=f"more than 10 {what}"):
        read_xplane(data, where="f")
