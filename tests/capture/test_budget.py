"""What a capture may cost, and what the warm-up says it will."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.capture import budget as budget_module
from tpuprof.capture import eventcount
from tpuprof.capture.budget import Budget, Estimate, check_disk, estimate, overrun, resident_bytes
from tpuprof.capture.eventcount import count_events
from tpuprof.errors import CaptureError, UsageError
from tpuprof.formats.xplane_schema import full_messages


def space(counts: list[list[int]], payload: int = 0) -> bytes:
    """A serialised XSpace with so many events per plane and line."""
    message = full_messages().XSpace()
    message.hostnames.append(b"h" * payload)
    for number, lines in enumerate(counts):
        plane = message.planes.add(id=number, name=b"p")
        plane.event_metadata.add(key=1).value.name = b"n" * payload
        for events in lines:
            line = plane.lines.add(id=1, timestamp_ns=1 << 60)
            for n in range(events):
                line.events.add(metadata_id=1, offset_ps=n * 1000, duration_ps=1 << 40)
    return message.SerializeToString()


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=4))
def test_events_are_counted_as_protobuf_counts_them(counts):
    data = space(counts, payload=33)
    parsed = full_messages().XSpace.FromString(data)
    sizes = [event.ByteSize() for plane in parsed.planes for line in plane.lines for event in line.events]
    assert count_events(data) == (len(sizes), sum(sizes))


@given(st.binary(max_size=300))
def test_any_bytes_are_counted_without_an_error(data):
    events, size = count_events(data)
    assert 0 <= size <= len(data)
    assert events >= 0


@given(st.integers(0, 400))
def test_a_cut_file_counts_what_is_whole(cut):
    data = space([[5, 3], [7]])
    assert count_events(data[:cut])[0] <= 15


def test_a_large_trace_is_estimated_from_its_beginning(monkeypatch):
    monkeypatch.setattr(eventcount, "LOOKED_AT", 500)
    events, size = count_events(space([[10_000]]))
    assert events == pytest.approx(10_000, rel=0.1)
    assert size == pytest.approx(len(space([[10_000]])), rel=0.3)


def test_a_step_costs_its_events_and_not_the_hlo_of_the_trace():
    data = space([[300], [300]], payload=50_000)
    found = estimate(data, 3)
    assert found.step_events == 200
    assert found.fixed_bytes > 100_000
    assert found.size(3) == pytest.approx(len(data), abs=3)


@pytest.mark.parametrize(
    ("budget", "steps", "fits"),
    [
        (Budget(), 10, 10),
        (Budget(max_events=450), 10, 4),
        (Budget(max_events=99), 10, 0),
        (Budget(max_bytes=5_000), 10, 4),
        (Budget(max_bytes=999), 10, 0),
    ],
)
def test_how_many_steps_fit(budget, steps, fits):
    assert Estimate(step_events=100, step_bytes=1_000, fixed_bytes=1_000).fitting(budget, steps) == fits


def test_an_empty_step_fits_always():
    assert Estimate(0, 0, 0).fitting(Budget(), 7) == 7


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_events": 0}, "max_events=0 is not a whole number of at least 1"),
        ({"max_bytes": 1.5}, "max_bytes=1.5 is not a whole number"),
        ({"min_free_disk_bytes": -1}, "min_free_disk_bytes=-1 is not a whole number of at least 0"),
        ({"stop_timeout_s": 0}, "stop_timeout_s=0 is not a number above 0"),
        ({"max_seconds": float("nan")}, "max_seconds=nan is not a number above 0"),
        ({"max_seconds": True}, "max_seconds=True is not a number above 0"),
    ],
)
def test_limits_that_are_none(values, message):
    with pytest.raises(UsageError, match=message):
        Budget(**values)


def test_zero_stays_zero():
    assert Budget(min_free_disk_bytes=0).as_dict()["min_free_disk_bytes"] == 0


def test_too_little_disk_is_said_with_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(budget_module.shutil, "disk_usage", lambda _: _Usage(100 << 20))
    with pytest.raises(CaptureError, match=r"too little disk space for a trace. .* are free, .* are needed. Make room"):
        check_disk(tmp_path, Budget())
    check_disk(tmp_path, Budget(min_free_disk_bytes=0))
    with pytest.raises(CaptureError, match="too little disk space"):
        check_disk(tmp_path, Budget(min_free_disk_bytes=0), 101 << 20)


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_a_disk_that_cannot_be_asked_is_left_to_the_write():
    check_disk(Path("/nonexistent/place"), Budget())


def test_a_recording_ends_by_time_and_by_memory():
    budget = Budget(max_seconds=5.0, max_memory_bytes=1000)
    assert overrun(budget, seconds=5.0, grown_bytes=1000) is None
    assert overrun(budget, seconds=5.0, grown_bytes=None) is None
    assert "after 6 s, the limit max_seconds" in str(overrun(budget, seconds=6.0, grown_bytes=0))
    assert "had grown by" in str(overrun(budget, seconds=1.0, grown_bytes=1001))


def test_resident_memory_is_that_of_this_process():
    before = resident_bytes()
    block = b"x" * (64 << 20)
    after = resident_bytes()
    if before is None or after is None:
        pytest.skip("this system does not say how much memory a process holds")
    assert after - before > 32 << 20
    del block
