"""Look-ups of one stat of all events, next to the same in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.formats.xspace import Events, Plane, StatKind

NAMES = ("a", "b", "c")
BLOBS = (b"x", b"y\xff")

Stats = list[tuple[int, StatKind, int]]


def events_of(rows: list[Stats]) -> Events:
    flat = [stat for row in rows for stat in row]
    n = len(rows)
    return Events(
        np.zeros(n, np.int32),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        None,
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.array([key for key, _, _ in flat], np.int32),
        np.array([kind for _, kind, _ in flat], np.uint8),
        np.array([bits for _, _, bits in flat], np.int64),
    )


stats = st.tuples(st.integers(0, 2), st.sampled_from(StatKind), st.integers(0, 1))
rows_of_stats = st.lists(st.lists(stats, max_size=4), max_size=8)


@settings(deadline=None)  # the first call compiles
@given(rows_of_stats, st.integers(-1, 3))
def test_find_and_integers(rows: list[Stats], key: int) -> None:
    events = events_of(rows)
    owner, kind, bits = events.find(key)
    expected = [(at, k, b) for at, row in enumerate(rows) for name, k, b in row if name == key]
    assert list(zip(owner.tolist(), kind.tolist(), bits.tolist(), strict=True)) == expected
    assert (owner.dtype, kind.dtype, bits.dtype) == (np.intp, np.uint8, np.int64)
    values, present = events.int_stat(key, missing=-7)
    for at, row in enumerate(rows):
        good = [b for name, k, b in row if name == key and k in (StatKind.INT64, StatKind.UINT64)]
        assert present[at] == bool(good)
        assert values[at] == (good[-1] if good else -7)


@settings(deadline=None)  # the first call compiles
@given(rows_of_stats, st.sampled_from([*NAMES, "unknown"]))
def test_texts(rows: list[Stats], name: str) -> None:
    plane = Plane(0, "p", (), (), NAMES, {}, BLOBS)
    codes = plane.text_codes(events_of(rows), name)
    for code, row in zip(codes.tolist(), rows, strict=True):
        texts = [
            NAMES[b] if k == StatKind.REF else BLOBS[b].decode("utf-8", "replace")
            for key, k, b in row
            if NAMES[key] == name and k in (StatKind.REF, StatKind.STR, StatKind.BYTES)
        ]
        assert (plane.text(code) if code >= 0 else None) == (texts[-1] if texts else None)


def test_read_only_and_strided_columns() -> None:
    events = events_of([[(0, StatKind.INT64, 5)], [], [(0, StatKind.INT64, 6)]])
    bits = np.array([5, 0, 6, 0])[::2]
    bits.flags.writeable = False
    same = Events(*(getattr(events, name) for name in Events.__slots__[:-1]), bits)
    values, present = same.int_stat(0)
    assert (values.tolist(), present.tolist()) == ([5, 0, 6], [True, False, True])


def test_pointers_outside_the_columns_are_not_followed() -> None:
    events = events_of([[(0, StatKind.INT64, 5)], [(0, StatKind.INT64, 6)]])
    wild = np.array([-1000, 1, 10**12], np.int64)
    broken = Events(*(getattr(events, name) for name in Events.__slots__[:4]), wild, *(
        getattr(events, name) for name in Events.__slots__[5:]
    ))  # fmt: skip
    assert broken.int_stat(0)[0].tolist() == [5, 6]
    assert broken.find(0)[0].tolist() == [0, 1]
