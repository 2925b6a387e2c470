"""What the sidecars of a run mean for its data: processes missed, options that lose events, overhead, differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.formats.capture_quality import Process, run_quality
from tpuprof.formats.discover import find_run
from tpuprof.formats.sidecars import read_sidecars
from tpuprof.quality import Quality


def content(index: int = 0, count: int = 1, **changes: Any) -> dict[str, Any]:
    file = f"h{index}.p{index}.xplane.pb" if count > 1 else "h0.xplane.pb"
    return {
        "file": file,
        "host": f"h{index}",
        "process_index": index,
        "process_count": count,
        "complete": True,
        "run": {"expected_processes": list(range(count)), "seen": {"2": "h2"}},
        "versions": {"jax": "1.0", "libtpu": None},
        "device_kinds": {"TPU v5p": 4},
        "environment": {"XLA_FLAGS": "--a=1"},
        "git": {"commit": "abc", "dirty": False},
        "options": {"host_tracer_level": 2, "python_tracer_level": 0, "enable_hlo_proto": True},
        **changes,
    }


def write(session: Path, *contents: dict[str, Any], files: bool = True) -> Path:
    session.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(contents):
        stem = one["file"].removesuffix(".xplane.pb")
        (session / ("tpuprof.json" if number == 0 else f"{stem}.tpuprof.json")).write_text(json.dumps(one))
        if files:
            (session / one["file"]).write_bytes(b"")
    return session


def read(place: Path) -> tuple[dict[str, Any], dict[str, Quality]]:
    metadata, quality = read_sidecars(find_run(place))
    return metadata, {entry.id: entry for entry in quality}


def test_one_process_is_the_run(tmp_path: Path) -> None:
    metadata, quality = read(write(tmp_path / "run", content()))
    assert metadata == content()
    assert quality == {}


def test_without_a_sidecar_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "h.xplane.pb").write_bytes(b"")
    assert read(tmp_path) == ({}, {})


def test_several_processes_are_read_in_their_order(tmp_path: Path) -> None:
    session = write(tmp_path / "run", *(content(index, 3) for index in (2, 0, 1)))
    metadata, quality = read(session)
    assert metadata["process_index"] == 0
    assert [process["host"] for process in metadata["processes"]] == ["h0", "h1", "h2"]
    assert "versions" not in metadata["processes"][0]
    assert quality == {}


def test_sidecars_are_found_in_sibling_sessions(tmp_path: Path) -> None:
    profile = tmp_path / "plugins" / "profile"
    write(profile / "2026_03_01_12_00_00", content(0, 2))
    write(profile / "2026_03_01_12_00_02", content(1, 2))
    metadata, quality = read(tmp_path)
    assert [process["process_index"] for process in metadata["processes"]] == [0, 1]
    assert quality == {}


def test_missing_processes_are_named_with_their_hosts(tmp_path: Path) -> None:
    _, quality = read(write(tmp_path / "run", content(0, 4), content(3, 4)))
    entry = quality["hosts_missing"]
    assert entry.message.startswith(
        "2 of 4 processes that were to record this run left no trace here: 1, 2 (h2). Copy their files"
    )
    assert (entry.severity, entry.count, entry.scope) == ("warning", 2, {"processes": [1, 2]})


def test_only_the_processes_asked_for_are_missed(tmp_path: Path) -> None:
    asked = {"run": {"expected_processes": [0, 3], "seen": {}}}
    _, quality = read(write(tmp_path / "run", content(0, 4, **asked), content(3, 4, **asked)))
    assert quality == {}


def test_a_trace_without_its_sidecar_is_not_missing(tmp_path: Path) -> None:
    session = write(tmp_path / "run", content(0, 3))
    (session / "h1.p1.xplane.pb").write_bytes(b"")
    (session / "h2.p2.1234.2.xplane.pb").write_bytes(b"")
    assert "hosts_missing" not in read(session)[1]


def test_a_sidecar_without_its_trace_is(tmp_path: Path) -> None:
    session = write(tmp_path / "run", content(0, 2), content(1, 2))
    (session / "h1.p1.xplane.pb").unlink()
    assert read(session)[1]["hosts_missing"].scope == {"processes": [1]}


def test_who_asks_for_one_file_misses_nobody(tmp_path: Path) -> None:
    session = write(tmp_path / "run", content(0, 4), content(3, 4))
    metadata, quality = read(session / "h3.p3.xplane.pb")
    assert metadata["process_index"] == 3
    assert "processes" not in metadata
    assert quality == {}


def test_an_exported_part_misses_nobody(tmp_path: Path) -> None:
    session = write(tmp_path / "run", content(0, 4, exported={"steps": [1]}), files=False)
    (session / "other.xplane.pb").write_bytes(b"")
    assert read(session)[1] == {}


@pytest.mark.parametrize(
    ("options", "severity", "text"),
    [
        ({"host_tracer_level": 0}, "warning", "left out the host's side: step marks"),
        ({"python_tracer_level": 1}, "info", "Every Python call was recorded"),
        ({"enable_hlo_proto": False}, "info", "left out the HLO"),
        ({"tpu_trace_mode": "TRACE_ONLY_HOST"}, "warning", "left out the devices"),
        ({"tpu_num_chips_to_profile_per_task": 1}, "info", "left out 1 of 2 chips of each host"),
    ],
)
def test_options_that_lose_events(options: dict[str, Any], severity: str, text: str) -> None:
    # A chip of two cores is one chip.
    devices = [{"id": n, "coords": [n // 2, 0, 0]} for n in range(4)]
    processes = [Process(f"h{n}", content(n, 2, options=options, devices=devices)) for n in range(2)]
    (entry,) = run_quality(processes, [], 2)
    assert (entry.id, entry.severity) == ("capture_options", severity)
    assert text in entry.message
    ((name, value),) = options.items()
    assert entry.scope == {"option": name, "value": value}


def times(before: int, during: int, after: int = 0, steps: int = 20) -> dict[str, Any]:
    return {
        "before_ns": before or None,
        "before_steps": steps if before else 0,
        "during_ns": during,
        "during_steps": 3,
        "after_ns": after,
        "after_steps": steps,
    }


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (times(1_000_000, 1_049_000), None),
        (
            times(1_000_000, 1_200_000),
            "Steps took 20.00% longer while they were recorded: 1.2 ms instead of 1 ms before",
        ),
        (times(0, 1_200_000, 1_000_000), "instead of 1 ms after"),
        (times(1_000_000, 1_200_000, steps=2), None),
        (times(1_000_000, 500_000), None),
        (times(20_000, 40_000), None),
        ({}, None),
    ],
)
def test_overhead_is_told_above_five_percent(measured: dict[str, Any], expected: str | None) -> None:
    entries = run_quality([Process("h0", content(step_time=measured))], [], 1)
    assert [entry.id for entry in entries] == ([] if expected is None else ["capture_overhead"])
    if expected is not None:
        assert expected.replace("20.00%", "20") in entries[0].message.replace("20.00 %", "20").replace("20 %", "20")


def test_the_process_with_most_overhead_is_told() -> None:
    processes = [Process(f"h{n}", content(n, 3, step_time=times(10**6, 10**6 + 10**5 * n))) for n in range(3)]
    (entry,) = run_quality(processes, [], 3)
    assert entry.scope["during_ns"] == 1_200_000
    assert "medians on h2" in entry.message


def test_compilations_in_the_window_are_told_with_their_functions() -> None:
    events = [
        {"event": "jaxpr_trace", "function": "not_this"},
        {"event": "backend_compile", "function": "train_step"},
        {"event": "backend_compile", "function": "train_step"},
    ]
    compiles = {"in_window": 2, "seconds_in_window": 1.5, "events": events}
    (entry,) = run_quality([Process("h0", content(compiles=compiles))], [], 1)
    assert entry.message.startswith("2 programs were compiled inside the window in 1.5 s on h0: train_step. Steps with")
    assert (entry.id, entry.count) == ("compiled_in_window", 2)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"versions": {"jax": "1.1", "libtpu": None}}, "the version of jax"),
        ({"versions": {"jax": "1.0", "libtpu": "0.1"}}, "the version of libtpu"),
        ({"environment": {}}, "XLA_FLAGS"),
        ({"git": {"commit": "def", "dirty": False}}, "the git commit"),
        ({"device_kinds": {"TPU v4": 4}}, "the device kind"),
    ],
)
def test_processes_that_differ(change: dict[str, Any], what: str) -> None:
    processes = [Process(f"h{n}", content(n, 4, **(change if n == 2 else {}))) for n in range(4)]
    (entry,) = run_quality(processes, [], 4)
    assert (entry.id, entry.scope) == ("hosts_differ", {"what": what})
    assert entry.message.startswith(f"The processes differ in {what}: ")
    assert "on 3 processes; " in entry.message
    assert "on h2. " in entry.message


def test_a_process_without_git_does_not_differ() -> None:
    processes = [Process("h0", content(0, 2)), Process("h1", content(1, 2, git=None))]
    assert run_quality(processes, [], 2) == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from([*content(), "devices", "step_time", "compiles", "errors", "exported"]), _JSON))
def test_sidecars_of_any_content_are_survived(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    session = tmp_path_factory.mktemp("run")
    (session / "h0.xplane.pb").write_bytes(b"")
    for name in ("tpuprof.json", "h0.tpuprof.json"):
        (session / name).write_text(json.dumps({**content(), **changes, "processes": 3}))
    for entry in read(session)[1].values():
        json.dumps(entry.to_json())


@pytest.mark.parametrize("key", ["step_time", "compiles", "run", "options", "versions", "git", "environment"])
@given(
    inner=st.dictionaries(
        st.sampled_from(
            [
                "before_ns",
                "before_steps",
                "during_ns",
                "in_window",
                "seconds_in_window",
                "events",
                "expected_processes",
                "seen",
                "commit",
                "jax",
                "host_tracer_level",
                "tpu_num_chips_to_profile_per_task",
            ]
        ),
        _JSON,
    )
)
def test_and_so_is_what_lies_deeper(key: str, inner: dict[str, Any]) -> None:
    processes = [Process("h0", content(0, 2)), Process("h1", content(1, 2, **{key: inner}))]
    for entry in run_quality(processes, [1], 2):
        assert len(entry.message) < 2000
