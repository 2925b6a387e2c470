"""The writer is the inverse of the reader; the builder says what it was told."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats.reference_reader import plain, read_plain
from tpuprof.errors import SchemaError, UsageError
from tpuprof.formats.xplane_builder import SpaceBuilder
from tpuprof.formats.xplane_reader import read_xplane
from tpuprof.formats.xplane_writer import write_xplane
from tpuprof.formats.xspace import Events, Plane, Ref, Space

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.one_of(
    st.floats(),
    st.integers(-(2**63), 2**64 - 1),
    TEXT,
    st.builds(Ref, TEXT),
    st.binary(max_size=6),
)
STATS = st.dictionaries(TEXT, VALUES, max_size=3)
INT64 = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))


def same(a: Space, b: Space) -> None:
    """Two spaces are equal field by field, down to rows, ids and dtypes."""
    assert (a.errors, a.warnings, a.hostnames) == (b.errors, b.warnings, b.hostnames)
    assert len(a.planes) == len(b.planes)
    for p, q in zip(a.planes, b.planes, strict=True):
        assert (p.id, p.name, p.stat_names, p.blobs) == (q.id, q.name, q.stat_names, q.blobs)
        assert repr(p.stats) == repr(q.stats)
        for m, n in zip(p.event_meta, q.event_meta, strict=True):
            assert (m.id, m.name, m.display_name) == (n.id, n.name, n.display_name)
            assert (repr(m.stats), m.metadata, m.child_ids) == (repr(n.stats), n.metadata, n.child_ids)
        for x, y in zip(p.lines, q.lines, strict=True):
            assert replace(x, events=y.events).__repr__() == y.__repr__()
            same_events(x.events, y.events)


def same_events(a: Events, b: Events) -> None:
    for name in ("meta", "offset_ps", "duration_ps", "occurrences", "stat_ptr", "stat_key", "stat_kind", "stat_bits"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.dtype == y.dtype, name
            assert np.array_equal(x, y), name


@st.composite
def builders(draw: st.DrawFn) -> SpaceBuilder:
    builder = SpaceBuilder(hostnames=draw(st.lists(TEXT, max_size=2)), errors=draw(st.lists(TEXT, max_size=1)))
    for plane_id in range(draw(st.integers(1, 3))):
        plane = builder.add_plane("p" + draw(TEXT), plane_id, draw(STATS))
        kinds = [
            plane.add_event_metadata(
                draw(TEXT),
                meta_id=draw(st.one_of(st.none(), st.just(-5 - i), st.just(2**63 - 1 - i))),
                display_name=draw(TEXT),
                stats=draw(STATS),
                metadata=draw(st.binary(max_size=3)),
                child_ids=draw(st.lists(INT64, max_size=2)),
            )
            for i in range(draw(st.integers(0, 2)))
        ]
        for line_id in range(draw(st.integers(0, 2))):
            line = plane.add_line(
                draw(TEXT), line_id - 1, draw(INT64), display_name=draw(TEXT), duration_ps=draw(INT64)
            )
            for _ in range(draw(st.integers(0, 4))):
                event = draw(st.sampled_from([*kinds, draw(TEXT)]))
                line.add_event(
                    event,
                    draw(INT64),
                    draw(INT64),
                    display_name=draw(TEXT),
                    meta_stats=draw(st.one_of(st.none(), STATS)),
                    stats=draw(STATS),
                    num_occurrences=draw(st.one_of(st.none(), st.integers(0, 2**63 - 1))),
                )
    return builder


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(builders())
def test_what_was_built_is_read_back(builder: SpaceBuilder) -> None:
    space = builder.build()
    data = write_xplane(space)
    assert plain(space) == read_plain(data)
    same(read_xplane(data).space, space)


@pytest.mark.real
def test_real_files_survive_a_round_trip(real_traces: Path) -> None:
    paths = [path for path in sorted(real_traces.rglob("*.xplane.pb")) if "broken" not in path.parts]
    assert paths
    for path in paths:
        data = path.read_bytes()
        space = read_xplane(data).space
        written = write_xplane(space)
        assert len(written) <= len(data), path
        same(read_xplane(written).space, space)


def test_kinds_of_values() -> None:
    builder = SpaceBuilder()
    plane = builder.add_plane("p", 0, {"plane": Ref("text")})
    stats = {"d": math.pi, "i": -1, "u": 2**64 - 1, "s": "s", "r": Ref("text"), "b": b"\x00", "t": True}
    plane.add_line("l").add_event("e", stats=stats, meta_stats={"m": Ref("text")})
    (read,) = read_xplane(builder.to_bytes()).space.planes
    events = read.lines[0].events
    assert read.event_stats(events, 0) == {**stats, "t": 1}
    assert events.stat_kind.tolist() == [2, 4, 3, 5, 7, 6, 4]
    assert read.stats == {"plane": "text"}
    assert read.event_meta[0].stats == {"m": "text"}
    assert read.stat_names.count("text") == 1


def test_events_of_one_name_and_other_metadata_are_other_kinds() -> None:
    builder = SpaceBuilder()
    plane = builder.add_plane("p")
    line = plane.add_line("l")
    line.add_event("fusion.1", meta_stats={"program_id": 1})
    line.add_event("fusion.1", meta_stats={"program_id": 99})
    line.add_event("fusion.1", meta_stats={"program_id": 1})
    line.add_event("fusion.1")
    line.add_event("fusion.1", display_name="other")
    events = plane.build().lines[0].events
    assert events.meta.tolist() == [0, 1, 0, 1, 2]
    assert [meta.id for meta in plane.build().event_meta] == [1, 2, 3]


def test_ids_are_given_out_around_those_that_were_chosen() -> None:
    plane = SpaceBuilder().add_plane("p")
    plane.add_event_metadata("a", meta_id=2)
    plane.add_event_metadata("b")
    plane.add_event_metadata("c")
    assert [meta.id for meta in plane.build().event_meta] == [2, 1, 3]
    plane.add_line("x", 7)
    plane.add_line("y")
    assert [line.id for line in plane.build().lines] == [7, 8]


def test_what_readers_would_merge_cannot_be_built() -> None:
    builder = SpaceBuilder()
    plane = builder.add_plane("p", 1)
    builder.add_plane("p", 2)
    with pytest.raises(UsageError, match="There is a plane 'p' with id 1 already"):
        builder.add_plane("p", 1)
    plane.add_line("l", 1)
    plane.add_line("l", 2)
    with pytest.raises(UsageError, match="There is a line 'l' with id 1 already"):
        plane.add_line("l", 1)
    plane.add_event_metadata("e", meta_id=5)
    with pytest.raises(UsageError, match="There is event metadata with id 5 already"):
        plane.add_event_metadata("f", meta_id=5)


def test_clashing_ids_are_renumbered() -> None:
    """Two chunks used id 1 for different ops; in one file the second needs another id."""
    pieces: list[bytes] = []
    for name in ("a", "b"):
        builder = SpaceBuilder()
        builder.add_plane("p").add_line("l").add_event(name)
        pieces.append(builder.to_bytes())
    space = read_xplane(b"".join(pieces)).space
    assert [meta.id for meta in space.planes[0].event_meta] == [1, 1]
    again = read_xplane(write_xplane(space)).space
    assert [meta.id for meta in again.planes[0].event_meta] == [1, 2]
    assert plain(again) == plain(space)


def events(**changes: object) -> Events:
    one = np.ones(1, np.int64)
    base = Events(
        meta=np.zeros(1, np.int32),
        offset_ps=one,
        duration_ps=one,
        occurrences=None,
        stat_ptr=np.array([0, 1]),
        stat_key=np.zeros(1, np.int32),
        stat_kind=np.full(1, 4, np.uint8),
        stat_bits=one,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    "wrong",
    [
        events(meta=np.array([1], np.int32)),
        events(meta=np.array([-2], np.int32)),
        events(offset_ps=np.zeros(2, np.int64)),
        events(occurrences=np.zeros(0, np.int64)),
        events(stat_ptr=np.array([0, 2])),
        events(stat_ptr=np.array([1, 1])),
        events(stat_ptr=np.array([0, 1, 1])),
        events(stat_key=np.array([1], np.int32)),
        events(stat_kind=np.array([9], np.uint8)),
        events(stat_kind=np.array([7], np.uint8), stat_bits=np.array([1])),
        events(stat_kind=np.array([5], np.uint8), stat_bits=np.array([0])),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(wrong: Events) -> None:
    """The compiled loop trusts its arrays, so a wrong row must not reach it."""

    def space(of: Events) -> Space:
        builder = SpaceBuilder()
        plane = builder.add_plane("p")
        plane.add_line("l").add_event("e", stats={"k": 1})
        built = plane.build()
        line = replace(built.lines[0], events=of)
        return Space((Plane(0, "p", (line,), built.event_meta, built.stat_names),))

    write_xplane(space(events()))
    with pytest.raises(SchemaError, match="The events of line 'l' do not fit together"):
        write_xplane(space(wrong))


def test_events_without_metadata_are_written_under_an_unused_id() -> None:
    builder = SpaceBuilder()
    plane = builder.add_plane("p")
    line = plane.add_line("l")
    plane.add_event_metadata("zero", meta_id=0)
    line.add_event("e")
    built = plane.build()
    orphan = replace(built.lines[0], events=replace(built.lines[0].events, meta=np.array([-1], np.int32)))
    (read,) = read_xplane(write_xplane(Space((replace(built, lines=(orphan,)),)))).space.planes
    assert read.event_meta[read.lines[0].events.meta[0]].name == "event#2"
