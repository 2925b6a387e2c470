"""How a run was captured, in `tpuprof info`: the facts of the sidecar in words, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.report.capture_facts import capture_listings
from tpuprof.report.listing import Listing, to_markdown
from tpuprof.report.screen import Screen
from tpuprof.report.terminal import listings_text

SIDECAR: dict[str, Any] = {
    "command": ["train.py", "--note=a b"],
    "git": {"commit": "0123456789abcdef", "dirty": True},
    "started_at": "2026-03-01T12:00:00.000+00:00",
    "trigger": "steps 10:13",
    "options": {"host_tracer_level": 1, "python_tracer_level": 0, "enable_hlo_proto": True, "tpu_trace_mode": "X"},
    "meshes": [{"axes": {"data": 4, "model": 2}, "bytes": 1 << 30}],
    "environment": {"XLA_FLAGS": "--a=1"},
    "step_time": {"before_ns": 100_000_000, "during_ns": 110_000_000, "after_ns": None},
    "compiles": {"count": 7, "in_window": 0},
    "seconds": {"start": 0.5, "stop": 1.25},
    "programs": [{"name": "train_step", "file": "hlo/train_step.p0.txt", "memory": {"temp_bytes": 1 << 20}}],
    "machine": {"system": "Linux", "cpus": 8, "memory_bytes": 64 << 30},
}


def facts(metadata: dict[str, Any]) -> dict[str, str]:
    listings = capture_listings(metadata)
    return {row["what"]: row["value"] for row in listings[0].rows} if listings else {}


def test_the_facts_of_a_capture_in_words() -> None:
    assert facts(SIDECAR) == {
        "command": "train.py '--note=a b'",
        "commit": "0123456789ab with changes",
        "begun": "2026-03-01T12:00:00.000+00:00",
        "by": "steps 10:13",
        "options": "host_tracer_level=1, tpu_trace_mode=X",
        "mesh": "data 4 x model 2 (1.074 GB of arrays)",
        "XLA_FLAGS": "--a=1",
        "step time": "100 ms before, 110 ms during (10.00 % longer)",
        "compilations": "0 in the window, 7 since tpuprof looks",
        "cost of the capture": "start 500 ms, stop 1.25 s",
        "program": "train_step · temp 1.049 MB · hlo/train_step.p0.txt",
        "machine": "Linux, 8 CPUs, 68.72 GB",
    }


def test_steps_may_be_shorter_in_the_window() -> None:
    assert facts({"step_time": {"during_ns": 5_000_000, "after_ns": 10_000_000}}) == {
        "step time": "5 ms during, 10 ms after (50.00 % shorter)"
    }


def test_nothing_is_said_without_a_sidecar_or_of_what_is_usual() -> None:
    assert capture_listings({}) == ()
    assert facts({"options": {"host_tracer_level": 2, "python_tracer_level": 0, "enable_hlo_proto": True}}) == {}


def test_processes_are_listed_by_when_they_began() -> None:
    processes = [
        {
            "process_index": n,
            "host": f"h{n}",
            "start_ns": 10**18 + (2 - n) * 1_500_000,
            "stop_ns": 10**18 + 10**9,
            "complete": n != 1,
            "file_bytes": 2048,
            "device_kinds": {"TPU v5p": 4},
        }
        for n in range(3)
    ]
    (listing,) = capture_listings({"processes": processes})
    assert [row["begin"] for row in listing.rows] == ["+3 ms", "+1.5 ms", "+0"]
    assert [row["state"] for row in listing.rows] == ["complete", "ended early", "complete"]
    assert [row["devices"] for row in listing.rows] == [4, 4, 4]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from([*SIDECAR, "processes"]),
        _JSON
        | st.lists(
            st.dictionaries(
                st.sampled_from(
                    [
                        "process_index",
                        "host",
                        "start_ns",
                        "stop_ns",
                        "file_bytes",
                        "device_kinds",
                        "axes",
                        "memory",
                        "name",
                    ]
                ),
                _JSON,
            )
        ),
    )
)
def test_any_sidecar_can_be_shown(changes: dict[str, Any]) -> None:
    listings = capture_listings({**SIDECAR, **changes})
    assert all(isinstance(listing, Listing) for listing in listings)
    text = listings_text(listings, Screen(100)) + to_markdown(listings)
    assert "\x1b" not in text
    json.dumps([listing.rows for listing in listings])
