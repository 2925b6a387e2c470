"""Flame graphs in speedscope's format, checked against its published rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.inputs.clean import f00
from tpuprof.errors import UsageError
from tpuprof.export.speedscope import speedscope_document
from tpuprof.testing import TraceBuilder

SAMPLES = Path(__file__).parents[2] / "sample_traces"
UNITS = {"bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"}


def validate(document: dict[str, Any]) -> None:
    """The rules of file-format-schema.json for files with sampled profiles."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = document["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert isinstance(frame.get("line", 0), int)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled"
        assert profile["unit"] in UNITS
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(weight >= 0 for weight in profile["weights"])
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
        assert profile["endValue"] >= profile["startValue"]
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("name", ["tpu_loop_async", "tpu_two_hosts", "cpu_demo"])
def test_valid_and_complete(name: str) -> None:
    trace = tpuprof.load(SAMPLES / name)
    document = speedscope_document(trace, 10**6)
    validate(document)
    own = trace.ops.groupby("device", observed=True)["self_ps"].sum()
    assert [profile["name"] for profile in document["profiles"]] == [device.id for device in trace.devices]
    for profile in document["profiles"]:
        assert sum(round(weight * 1000) for weight in profile["weights"]) == own[profile["name"]]
        assert round(profile["endValue"] * 1000) == own[profile["name"]]


def test_stacks_are_scopes(tmp_path: Path) -> None:
    trace = tpuprof.load(SAMPLES / "tpu_loop_async").select(steps=[1])
    document = speedscope_document(trace, 10**6)
    frames = document["shared"]["frames"]
    (first, *_) = document["profiles"]
    stacks = [[frames[row]["name"] for row in stack] for stack in first["samples"]]
    up = next(stack for stack in stacks if "up" in stack)
    assert up[0].startswith("jit_train_step(")
    assert up[1:4] == ["layer", "up", "dot_general"]
    placed = [frame for frame in frames if "file" in frame]
    assert placed
    assert all(frame["line"] > 0 and not frame["file"].endswith(":") for frame in placed)


def test_neighbours_are_joined(tmp_path: Path) -> None:
    document = speedscope_document(tpuprof.load(f00(tmp_path)), 12)
    (profile,) = document["profiles"]
    assert profile["weights"] == [400_000.0, 300_000.0, 200_000.0, 50_000.0] * 3
    validate(document)


def test_bound(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="12 ops, more than --max-events 11"):
        speedscope_document(tpuprof.load(f00(tmp_path)), 11)


def test_a_run_without_devices_has_no_profile(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.add_host("h").add_thread("python").event("work", 0, 5)
    with pytest.raises(UsageError, match="no device op, so there is no profile"):
        speedscope_document(tpuprof.load(trace.write(tmp_path)), 11)
