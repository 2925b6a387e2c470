"""The fast reader against the slow one: on real files, on random legal files, and on damaged ones."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats import wire
from tests.formats.reference_reader import plain, read_plain
from tpuprof.errors import TpuprofError
from tpuprof.formats.xplane_builder import SpaceBuilder
from tpuprof.formats.xplane_reader import read_xplane
from tpuprof.formats.xspace import Ref

INT64 = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([127, 128, 2**31, 2**63 - 1, -(2**63)]),
    st.integers(-(2**63), 2**63 - 1),
)
# Offsets near the ends of int64 saturate when chunks have different timestamps: tested with the reader.
OFFSETS = INT64.filter(lambda value: abs(value) < 2**62)
# Few ids, so that they meet and clash; some beyond the small ones, some negative.
IDS = st.sampled_from([0, 1, 2, 3, 5, 300, 5000, 2**40, 2**63 - 1, -(2**63), -1, -7])
NAMES = st.sampled_from([b"", b"a", b"fusion.1", b"stat", "ä".encode(), b"\xff\xfe\x80A", b"\xffcut \xe2\x82"])
SIZES = st.sampled_from([0, 0, 0, 2, 10])


def numbers(field: int, values: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.builds(wire.number, st.just(field), values, SIZES)


def texts(field: int, values: st.SearchStrategy[bytes] = NAMES) -> st.SearchStrategy[bytes]:
    return st.builds(wire.data, st.just(field), values)


def unknown(*known: int) -> st.SearchStrategy[bytes]:
    """Fields to be skipped: of unknown numbers, or of known ones with another wire type."""
    field = st.sampled_from([12, 15, 16, 2047, 100_000])
    simple = st.one_of(
        st.builds(wire.number, field, INT64, SIZES),
        st.builds(wire.double, field, st.floats()),
        st.builds(wire.fixed32, st.one_of(field, st.sampled_from(known)), st.integers(0, 2**32 - 1)),
        st.builds(wire.data, field, st.binary(max_size=5)),
    )
    return st.one_of(
        simple, st.recursive(simple, lambda inner: st.builds(wire.group, field, st.lists(inner, max_size=3)))
    )


def messages(field: int, *fields: st.SearchStrategy[bytes], max_size: int = 6) -> st.SearchStrategy[bytes]:
    """A message with any of the fields, any number of times, in any order."""
    return st.builds(wire.message, st.just(field), st.lists(st.one_of(*fields), max_size=max_size))


def stats(field: int) -> st.SearchStrategy[bytes]:
    return messages(
        field,
        numbers(1, IDS),
        st.builds(wire.double, st.just(2), st.floats()),
        numbers(3, INT64),
        numbers(4, INT64),
        texts(5),
        texts(6, st.binary(max_size=4)),
        numbers(7, IDS),
        unknown(1, 2, 3, 5),
        max_size=4,
    )


EVENTS = messages(
    4,
    numbers(1, IDS),
    numbers(2, OFFSETS),
    numbers(3, INT64),
    numbers(5, st.integers(0, 2**62)),
    stats(4),
    unknown(1, 2, 3, 5),
)
TIMESTAMPS = st.sampled_from([0, 1, 1_700_000_000_000_000_000, 1_700_000_000_000_000_777])
LINES = messages(
    3,
    numbers(1, IDS),
    texts(2, st.sampled_from([b"XLA Ops", b"", b"\xff"])),
    numbers(3, TIMESTAMPS),
    EVENTS,
    EVENTS,
    EVENTS,
    numbers(9, INT64),
    numbers(10, INT64),
    texts(11),
    unknown(1, 3, 9, 10),
)
EVENT_METADATA = messages(
    2,
    numbers(1, IDS),
    texts(2),
    texts(3),
    texts(4),
    stats(5),
    numbers(6, INT64),
    unknown(1, 2, 4, 5),
    max_size=5,
)
STAT_METADATA = messages(2, numbers(1, IDS), texts(2), texts(3), unknown(1, 2, 3), max_size=3)
PLANES = messages(
    1,
    numbers(1, st.sampled_from([0, 1])),
    texts(2, st.sampled_from([b"/device:TPU:0", b"/host:CPU", b"\xff"])),
    LINES,
    LINES,
    messages(4, numbers(1, IDS), EVENT_METADATA, max_size=3),
    messages(5, numbers(1, IDS), STAT_METADATA, max_size=3),
    messages(5, numbers(1, IDS), STAT_METADATA, max_size=3),
    stats(6),
    unknown(1, 2, 3, 4, 5, 6),
    max_size=9,
)
SPACES = st.lists(st.one_of(PLANES, PLANES, PLANES, texts(2), texts(3), texts(4), unknown(1, 2, 3)), max_size=5)


def same_or_no_planes(data: bytes) -> None:
    expected = read_plain(data)
    try:
        result = read_xplane(data)
    except TpuprofError:
        assert expected == []
        return
    assert plain(result.space) == expected
    assert not result.partial


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(SPACES)
def test_random_files(fields: list[bytes]) -> None:
    same_or_no_planes(b"".join(fields))


@pytest.mark.real
def test_real_files(real_traces: Path) -> None:
    paths = [path for path in sorted(real_traces.rglob("*.xplane.pb")) if "broken" not in path.parts]
    assert paths
    for path in paths:
        data = path.read_bytes()
        result = read_xplane(data, where=path.name)
        assert plain(result.space) == read_plain(data), path
        assert result.quality == (), path


def small_file() -> bytes:
    """A file of some hundred bytes with a bit of everything, its planes in two chunks each."""
    pieces: list[bytes] = []
    for chunk in range(2):
        builder = SpaceBuilder(hostnames=["h"], warnings=["w"] * chunk)
        plane = builder.add_plane("/device:TPU:0", 2, {"kind": "v5", "peak": 197.0})
        for name in ("XLA Ops", f"chunk {chunk}"):
            line = plane.add_line(name, timestamp_ns=1000 + chunk)
            for i in range(3):
                line.add_event(
                    f"op.{i + chunk}",
                    i * 1000,
                    500,
                    display_name=f"d{i}",
                    meta_stats={"category": Ref("loop fusion"), "flops": 2.5, "hlo": b"\x00\xff"},
                    stats={
                        "n": i,
                        "u": 2**63 + i,
                        "t": f"text {i}",
                        "r": Ref("loop fusion"),
                        "b": b"\xf0",
                        "d": -0.0,
                    },
                )
            line.add_event("sum", 0, 9, num_occurrences=4)
        builder.add_plane("Task Environment", 0, {"profile_start_time": 17})
        pieces.append(builder.to_bytes())
    return b"".join(pieces)


def damaged(data: bytes, rng: random.Random) -> bytes:
    match rng.randrange(4):
        case 0:
            return data[: rng.randrange(len(data))]
        case 1:
            at = rng.randrange(len(data))
            return data[:at] + rng.randbytes(rng.randrange(1, 12)) + data[at:]
        case 2:
            at = rng.randrange(len(data))
            return data[:at] + data[at + rng.randrange(1, 12) :]
        case _:
            changed = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            return bytes(changed)


def test_damaged_files_give_an_error_or_what_is_whole() -> None:
    """Thousands of damaged files: no other exception, no hang, and what protobuf still accepts is read the same."""
    from google.protobuf.message import DecodeError

    data = small_file()
    assert len(data) < 2500
    rng = random.Random(20260101)
    read = refused = accepted = 0
    started = time.monotonic()
    for _ in range(3000):
        broken = damaged(data, rng)
        try:
            result = read_xplane(broken)
        except TpuprofError:
            refused += 1
            continue
        read += 1
        got = plain(result.space)
        try:
            expected = read_plain(broken)
        except DecodeError:
            assert result.partial
            assert {entry.id for entry in result.quality} & {"truncated", "damaged"}
            continue
        accepted += 1
        assert got == expected
    assert read > 1000
    assert accepted > 100
    assert refused > 10
    assert time.monotonic() - started < 120


def test_random_bytes_are_refused() -> None:
    rng = random.Random(7)
    for size in (1, 2, 3, 10, 1000, 100_000):
        for _ in range(50):
            with pytest.raises(TpuprofError):
                read_xplane(rng.randbytes(size))
