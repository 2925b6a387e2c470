"""A trace's timeline shows what its tables say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tpuprof_dashboards.timeline import TimelineModel, build, build_timeline
from tpuprof_dashboards.timeline.component import seen_of, selection_of
from tpuprof_dashboards.timeline.looks import COLOURS, colour_of_kind
from tpuprof_dashboards.timeline.model import Track
from tpuprof_dashboards.timeline.payload import window_data
from tpuprof_dashboards.timeline.window import closed_at_first, first_request, query

import tpuprof
from tests.timeline.hostile import NAMES, hostile_trace
from tpuprof.formats.discover import find_run
from tpuprof.formats.recordings import Recordings
from tpuprof.palette import LOOKS

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def loop() -> tpuprof.Trace:
    return tpuprof.load(SAMPLES / "tpu_loop_async")


def tracks(model: TimelineModel, group: str) -> dict[str, Track]:
    (found,) = [each for each in model.groups if each.name == group]
    return {track.name: track for track in found.tracks}


def total(model: TimelineModel, track: Track) -> dict[str, int]:
    """Time by item's name."""
    found: dict[str, int] = {}
    for row in track.rows:
        for item, length in zip(row.events.item.tolist(), (row.events.end - row.events.start).tolist(), strict=True):
            name = model.items[item].name
            found[name] = found.get(name, 0) + length
    return found


def test_tracks_are_named_as_xprof_names_them(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    assert [group.name for group in model.groups] == ["/device:TPU:0", "/device:TPU:1", "/host:CPU"]
    assert list(tracks(model, "/device:TPU:0")) == [
        "Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "Exposed collectives", "Waits", "Idle causes",
    ]  # fmt: skip
    assert model.groups[0].device == loop.devices[0].id
    assert closed_at_first(model) == set()


def test_lanes_sum_to_the_partition(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    for device, group in zip(loop.devices, model.groups[:2], strict=True):
        of = loop.partition[loop.partition["device"] == device.id]
        found = tracks(model, group.name)
        assert total(model, found["Exposed collectives"]) == {
            LOOKS["collective_exposed"].label: int(of["collective_exposed_ps"].sum())
        }
        waits = {LOOKS[p].label: int(of[f"{p}_ps"].sum()) for p in ("host_transfer", "dma_wait", "barrier_wait")}
        assert total(model, found["Waits"]) == {name: ps for name, ps in waits.items() if ps}
        idle = total(model, found["Idle causes"])
        assert sum(idle.values()) == int(of["idle_ps"].sum())
        for cause, ps in idle.items():
            assert int(of[f"idle_{cause.replace(' ', '_')}_ps"].sum()) == ps


def test_ops_are_those_of_the_table_with_loops_around_them(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    ops = loop.ops[loop.ops["device"] == loop.devices[0].id]
    track = tracks(model, "/device:TPU:0")["XLA Ops"]
    inside = [n for row in track.rows for n in row.events.item.tolist() if model.items[n].kind != "container"]
    assert len(inside) == len(ops)
    assert len(track.rows) == 2
    (outer, _) = track.rows
    assert outer.events.self_ps is not None  # of a loop what its body leaves
    kinds = {model.items[n].name: model.items[n].colour for n in inside}
    for name, kind in ops[["op", "kind"]].drop_duplicates().itertuples(index=False):
        assert kinds[name] == colour_of_kind(kind)


def test_steps_and_programs_are_those_of_the_tables(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    found = tracks(model, "/device:TPU:1")
    steps = loop.steps[loop.steps["device"] == loop.devices[1].id]
    assert total(model, found["Steps"]) == {
        f"step {n}": length for n, length in zip(steps["step"], steps["duration_ps"], strict=True)
    }
    modules = loop.modules[loop.modules["device"] == loop.devices[1].id]
    assert len(found["XLA Modules"]) == len(modules)


def test_host_threads_are_whole(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    found = tracks(model, "/host:CPU")
    assert sum(len(track) for track in found.values()) == len(loop.host_events)


def test_chosen_steps_say_where_to_look_and_hide_nothing(loop: tpuprof.Trace) -> None:
    whole, part = build_timeline(loop), build_timeline(loop.select(steps=[2]))
    assert part.n_events == whole.n_events
    step = loop.steps[loop.steps["step"] == 2]
    begin, end = int(step["start_ps"].min()), int((step["start_ps"] + step["duration_ps"]).max())
    assert part.home[0] < begin < part.home[1]
    assert part.home[0] < end <= part.home[1]
    assert part.home[1] - part.home[0] < (whole.home[1] - whole.home[0]) / 3
    assert [g.device for g in build_timeline(loop.select(devices=[loop.devices[1].id])).groups] == [
        loop.devices[1].id,
        "",
    ]


def test_several_hosts_are_named() -> None:
    model = build_timeline(tpuprof.load(SAMPLES / "tpu_two_hosts"))
    assert [group.name for group in model.groups] == [
        "/device:TPU:0 (worker-0)", "/device:TPU:1 (worker-0)", "/device:TPU:0 (worker-1)", "/device:TPU:1 (worker-1)",
        "/host:CPU (worker-0)", "/host:CPU (worker-1)",
    ]  # fmt: skip
    assert closed_at_first(model) == {4, 5}


def test_threads_are_those_of_the_hosts_of_the_chosen_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tpuprof.load(SAMPLES / "tpu_two_hosts")
    chosen = trace.select(devices=[device.id for device in trace.devices if device.host == "worker-1"])
    assert [group.name for group in build_timeline(chosen).groups] == [
        "/device:TPU:0 (worker-1)", "/device:TPU:1 (worker-1)", "/host:CPU (worker-1)",
    ]  # fmt: skip
    monkeypatch.setattr(build, "HOSTS_READ", 1)
    files = find_run(str(SAMPLES / "tpu_two_hosts")).files
    trace, chosen = (replace(each, recordings=Recordings(trace.recordings.heads, files)) for each in (trace, chosen))
    assert not trace.recordings.held
    model = build_timeline(trace)
    assert [group.name for group in model.groups if not group.device] == []
    assert model.notes == ("The threads of 2 hosts are left out; choose devices of at most 1.",)
    assert len(build_timeline(chosen).groups) == 3


def test_the_cpu_demo_has_its_threads_as_lines() -> None:
    model = build_timeline(tpuprof.load(SAMPLES / "cpu_demo"))
    devices = [group for group in model.groups if group.device]
    assert len(devices) == 4
    assert all(any(track.is_work for track in group.tracks) for group in devices)


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    hostile_trace().write(tmp_path)
    model = build_timeline(tpuprof.load(tmp_path))
    names = {item.name for item in model.items.all}
    assert {name for name in NAMES if "\x00" not in name} <= names
    window_data(model, query(model, first_request(model, query="<img")))


def test_a_trace_without_devices_is_a_timeline_of_its_host(tmp_path: Path) -> None:
    builder = tpuprof_builder()
    builder.write(tmp_path)
    model = build_timeline(tpuprof.load(tmp_path))
    assert [group.name for group in model.groups] == ["/host:CPU"]
    assert model.home == (model.start, model.end)


def tpuprof_builder() -> "tpuprof.testing.TraceBuilder":  # noqa: UP037
    from tpuprof.testing import TraceBuilder

    trace = TraceBuilder()
    trace.add_host("h").add_thread("main").event("work", 5, 10).event("rest", 20, 0)
    return trace


def test_a_selection_says_what_the_tables_say(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    ops = loop.ops[loop.ops["device"] == loop.devices[0].id]
    seen = 0
    for number, place in enumerate(model.places):
        if place.group.device != loop.devices[0].id or place.track.name != "XLA Ops":
            continue
        for position in range(len(model.rows[number])):
            found = selection_of(model, {"row": number, "position": position})
            assert found is not None
            assert found.is_op
            if found.kind == "container":
                continue
            (row,) = ops[(ops["start_ps"] == found.start_ps) & (ops["op"] == found.name)].to_dict("records")
            assert (found.duration_ps, found.self_ps) == (row["duration_ps"], row["self_ps"])
            assert (found.scope or None, found.module) == (
                None if row["scope"] != row["scope"] else row["scope"],
                row["module"],
            )
            seen += 1
    assert seen == len(ops)


NOTHING = (
    None, [], {"row": 0}, {"row": 0, "position": 10**9}, {"row": -1, "position": 0}, {"row": True, "position": 0},
    {"row": 0.0, "position": 0}, {"row": 10**9, "position": 0}, {"row": "0", "position": 0},
)  # fmt: skip


@pytest.mark.parametrize("raw", NOTHING)
def test_a_selection_of_nothing_is_none(raw: object, loop: tpuprof.Trace) -> None:
    assert selection_of(build_timeline(loop), raw) is None


def test_what_is_in_view_comes_on_the_clock_of_the_trace(loop: tpuprof.Trace) -> None:
    model = build_timeline(loop)
    assert seen_of(model, {"seen": [5, 20.0]}) == (model.start + 5, model.start + 20)
    for raw in (None, {}, {"seen": 3}, {"seen": [5]}, {"seen": [5, 5]}, {"seen": [1, float("inf")]}, {"seen": "ab"}):
        assert seen_of(model, raw) is None


def test_colours_of_kinds_are_those_of_the_palette() -> None:
    for key, look in LOOKS.items():
        (colour,) = [each for each in COLOURS if each.key == key]
        assert (colour.light, colour.dark) == (look.light, look.dark)
    assert len({colour.key for colour in COLOURS}) == len(COLOURS) < 256


@pytest.mark.real
def test_real_traces(real_traces: Path) -> None:
    model = build_timeline(tpuprof.load(real_traces / "v6e-4-host-offload"))
    devices = [group for group in model.groups if group.device]
    assert [len(group.tracks[0]) for group in devices] == [100] * 4
    ops = tracks(model, "/device:TPU:0")["XLA Ops"]
    waiting = sum(ps for name, ps in total(model, ops).items() if name.startswith("copy-done"))
    assert waiting / 1e12 == pytest.approx(76.01, abs=0.02)  # 100 runs of 760 ms
    answer = query(model, first_request(model))
    assert sum(len(c.event) + int((c.last - c.first).sum()) for c in answer.cuts) > 10_000
    assert np.isfinite(model.busy).all()
