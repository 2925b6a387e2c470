"""The inputs with known answers, through the public face: every number exact, every diagnostic named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tpuprof
from tests.inputs import capped_json, changes, clean, damaged_json
from tests.inputs.clean import FUSION_2_FLOPS
from tpuprof.errors import UnsupportedContainerError
from tpuprof.formats.recording import EVENT_CAP
from tpuprof.formats.trace_json import read_trace_json
from tpuprof.report import build_report
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS

US = 1_000_000
DEVICE = "hostA/TPU:0"
CLEAN = {"matmul": 300, "elementwise": 400, "data_movement": 50, "collective_exposed": 200, "idle": 50}
WITHOUT_COPY = {"matmul": 300, "elementwise": 400, "collective_exposed": 200, "idle": 100}

Write = Callable[[Path], Path]
Parts = dict[str, int]


def load(path: Path) -> Any:
    return tpuprof.load(path)


def parts_of(trace: Any, device: str = DEVICE) -> dict[int, Parts]:
    """Per step the parts that are not 0, in us; each row's parts must sum to its window to the picosecond."""
    table = trace.partition
    rows = table[table["device"] == device]
    found: dict[int, Parts] = {}
    for row in rows.to_dict("records"):
        assert sum(row[f"{part}_ps"] for part in PARTS) == row["duration_ps"]
        found[row["step"]] = {part: exact_us(row[f"{part}_ps"]) for part in PARTS if row[f"{part}_ps"]}
    assert len(found) == len(rows)
    return found


def hidden_of(trace: Any, device: str = DEVICE) -> dict[int, tuple[int, int]]:
    """Per step (hidden collective, hidden dma) in us."""
    table = trace.partition
    return {
        row["step"]: (exact_us(row["hidden_collective_ps"]), exact_us(row["hidden_dma_ps"]))
        for row in table[table["device"] == device].to_dict("records")
    }


def exact_us(ps: int) -> int:
    whole, rest = divmod(int(ps), US)
    assert rest == 0, f"{ps} ps is not a whole number of us"
    return whole


def ids_of(trace: Any) -> list[str]:
    return sorted(entry.id for entry in trace.quality)


def entry_of(trace: Any, quality_id: str) -> Any:
    (entry,) = [entry for entry in trace.quality if entry.id == quality_id]
    return entry


def breakdown_parts(trace: Any) -> dict[str, float]:
    """The parts of the breakdown that are not 0, in us."""
    return {name.removesuffix("_ps"): value / US for name, value in trace.breakdown()["parts"].items() if value}


def windows_of(trace: Any, device: str = DEVICE) -> list[tuple[int, int, bool]]:
    """(duration in us, distance from the first step in us, closed) per step."""
    table = trace.steps
    rows = table[table["device"] == device].sort_values("step").to_dict("records")
    return [
        (exact_us(row["start_ps"] - rows[0]["start_ps"]), exact_us(row["duration_ps"]), bool(row["closed"]))
        for row in rows
    ]


def assert_is_f00(trace: Any, device: str = DEVICE) -> None:
    assert parts_of(trace, device) == {0: CLEAN, 1: CLEAN, 2: CLEAN}
    assert hidden_of(trace, device) == dict.fromkeys(range(3), (0, 0))
    assert trace.n_steps == 3


def test_f00_the_clean_run(tmp_path: Path) -> None:
    trace = load(clean.f00(tmp_path))
    assert_is_f00(trace)
    assert trace.quality == ()
    assert trace.step_source == "steps_line"
    assert windows_of(trace) == [(0, 1000, True), (1000, 1000, True), (2000, 1000, True)]
    assert breakdown_parts(trace) == CLEAN
    assert trace.breakdown()["step_ps"] == 1000 * US
    assert trace.breakdown()["hidden"] == {"collective_ps": 0, "dma_ps": 0}
    assert trace.hosts == ("hostA",)
    assert [device.id for device in trace.devices] == [DEVICE]
    assert trace.devices[0].kind == "TPU v5 lite"
    assert list(trace.programs) == [1234567890]
    assert trace.outside_steps_ps == 0


def test_f00_op_table(tmp_path: Path) -> None:
    trace = load(clean.f00(tmp_path))
    stats = trace.op_stats().to_dict("records")
    found = [(row["name"], row["kind"], row["occurrences"], exact_us(row["total_ps"])) for row in stats]
    assert found == [
        ("fusion.1", "elementwise", 3, 1200),
        ("fusion.2", "matmul", 3, 900),
        ("all-reduce.3", "collective", 3, 600),
        ("copy.4", "data_movement", 3, 150),
    ]
    assert {row["kind_source"] for row in stats} == {"hlo"}
    assert stats[1]["scope"].removesuffix(":") == "jit(train_step)/jit(main)/mlp/dot_general"
    # The rate that the two numbers of the input give, as the description states it.
    assert FUSION_2_FLOPS / (stats[1]["mean_ps"] / 1e12) == pytest.approx(100.216e12, rel=1e-5)


def test_f00_idle_causes_sum_to_idle_or_say_why_not(tmp_path: Path) -> None:
    trace = load(clean.f00(tmp_path))
    causes = trace.partition[[f"idle_{cause}_ps" for cause in IDLE_CAUSES]]
    if trace.breakdown()["idle_causes_reason"] is None:
        assert list(causes.sum(axis=1)) == list(trace.partition["idle_ps"])
    else:
        assert causes.isna().any(axis=None)


@pytest.mark.parametrize(
    "place",
    [
        "plugins/profile/2026_01_01_00_00_00/hostA.xplane.pb",
        "plugins/profile/2026_01_01_00_00_00",
        "plugins/profile",
        ".",
    ],
)
def test_f01_second_part_the_same_run_from_four_places(tmp_path: Path, place: str) -> None:
    trace = load(clean.f00(tmp_path) / place)
    assert_is_f00(trace)
    assert trace.quality == ()
    assert trace.hosts == ("hostA",)


def test_f01_a_step_without_device_work(tmp_path: Path) -> None:
    trace = load(changes.f01(tmp_path))
    assert parts_of(trace) == {0: CLEAN, 1: {"idle": 1000}, 2: CLEAN}
    assert list(trace.steps["counted"]) == [True, False, True]
    assert list(trace.steps["complete"]) == [True, False, True]
    assert breakdown_parts(trace) == CLEAN
    assert trace.breakdown()["step_ps"] == 1000 * US
    assert ids_of(trace) == ["no_device_work"]
    entry = entry_of(trace, "no_device_work")
    assert entry.scope["steps"] == [1]


def test_f02_without_a_device_plane_nothing_is_divided(tmp_path: Path) -> None:
    trace = load(changes.f02(tmp_path))
    assert trace.devices == ()
    assert len(trace.partition) == 0
    assert trace.window_ps is None
    assert trace.n_steps == 0
    host_rows = trace.host_events
    assert list(host_rows["name"]) == ["train_step"] * 3
    assert list(host_rows["duration_ps"]) == [80 * US] * 3
    entry = entry_of(trace, "device_plane_missing")
    assert entry.severity == "error"
    assert "collector failed" in entry.message


def test_f03_an_empty_xplane_falls_back_to_the_json(tmp_path: Path) -> None:
    trace = load(changes.f03(tmp_path))
    assert_is_f00(trace)
    entry = entry_of(trace, "xplane_empty")
    assert entry.severity in ("warning", "error")
    assert "2 G" in entry.message
    assert [source.format for source in trace.sources] == ["trace_json"]


def test_f03_second_part_an_unsupported_container_is_named(tmp_path: Path) -> None:
    root = changes.f03_riegeli(tmp_path)
    with pytest.raises(UnsupportedContainerError, match=r"hostA\.xplane\.riegeli") as caught:
        load(root)
    assert "not supported" in str(caught.value)


def test_f04a_a_cut_file_gives_its_complete_planes(tmp_path: Path) -> None:
    root = changes.f04a(tmp_path)
    trace = load(root)
    assert parts_of(trace) == {0: CLEAN, 1: CLEAN, 2: CLEAN}
    size = next(root.rglob("*.xplane.pb")).stat().st_size
    entry = entry_of(trace, "truncated")
    assert str(size) in entry.message.replace(",", "") or size in entry.scope.values()


def test_f04c_two_of_eight_cores_are_not_scaled(tmp_path: Path) -> None:
    trace = load(changes.f04c(tmp_path))
    assert [device.id for device in trace.devices] == ["hostA/TPU:0", "hostA/TPU:1"]
    for device in ("hostA/TPU:0", "hostA/TPU:1"):
        assert_is_f00(trace, device)
    assert breakdown_parts(trace) == CLEAN
    assert len(trace.breakdown()["per_device"]) == 2
    assert ids_of(trace) == ["cores_missing"]
    assert "2 of 8" in entry_of(trace, "cores_missing").message


@pytest.mark.parametrize("cap", [1000, pytest.param(EVENT_CAP, marks=pytest.mark.slow)])
def test_f06_a_json_that_ends_at_its_converters_cap(tmp_path: Path, cap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if cap != EVENT_CAP:
        monkeypatch.setattr("tpuprof.formats.load.EVENT_CAP", cap)
        monkeypatch.setitem(read_trace_json.__kwdefaults__, "event_cap", cap)
    both, alone = capped_json.f06(tmp_path, cap)
    trace = load(both)
    assert_is_f00(trace)
    assert trace.sources[0].format == "xplane"
    assert ids_of(trace) == ["json_truncated"]
    scope = entry_of(trace, "json_truncated").scope
    assert (scope["json_events"], scope["xplane_events"]) == (cap, cap - capped_json.OTHER + 21)

    trace = load(alone)
    assert parts_of(trace) == {0: CLEAN}
    assert trace.n_steps == 1
    assert sum(recording.space.count_events() for recording in trace.recordings) == cap
    entry = entry_of(trace, "events_capped")
    assert entry.count == cap
    assert (entry.scope["device_ps"], entry.scope["window_ps"]) == (1000 * US, 3000 * US)
    assert "33 % of the window" in entry.message


@pytest.mark.parametrize("damage", sorted(damaged_json.DAMAGES))
def test_f07_a_damaged_json_still_gives_f00(tmp_path: Path, damage: str) -> None:
    trace = load(damaged_json.f07(tmp_path, damage))
    assert len(trace.events) == 21
    assert_is_f00(trace)
    assert len([entry for entry in trace.quality if entry.severity != "info"]) <= 1


def test_f07_a_cut_gzip_gives_what_was_complete(tmp_path: Path) -> None:
    root, complete = damaged_json.f07_cut_gzip(tmp_path)
    trace = load(root)
    assert len(trace.events) == complete
    assert "truncated" in ids_of(trace)


def test_f08_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    trace = load(changes.f08(tmp_path))
    assert_is_f00(trace)
    ops = trace.ops
    broken = ops[ops["op"].astype(str).str.endswith("A.4")]
    assert list(broken["duration_ps"]) == [50 * US] * 3
    assert all("\ufffd" in name for name in broken["op"])
    assert set(broken["kind"]) == {"data_movement"}
    assert ids_of(trace) == ["bad_utf8"]
    assert entry_of(trace, "bad_utf8").count == 1


HOST_B = {"matmul": 300, "elementwise": 500, "data_movement": 50, "collective_exposed": 100, "idle": 50}


@pytest.mark.parametrize("write", [changes.f09, changes.f10])
def test_f09_f10_two_hosts_are_one_run_with_two_cores(tmp_path: Path, write: Write) -> None:
    trace = load(write(tmp_path))
    assert trace.hosts == ("hostA", "hostB")
    assert [device.id for device in trace.devices] == ["hostA/TPU:0", "hostB/TPU:0"]
    assert len(trace.steps) == 6
    assert parts_of(trace, "hostA/TPU:0") == dict.fromkeys(range(3), CLEAN)
    assert parts_of(trace, "hostB/TPU:0") == dict.fromkeys(range(3), HOST_B)
    assert ids_of(trace) == []


def waits_of(trace: Any, device: str) -> list[tuple[int, int]]:
    """(wait, transfer) of the device's collectives in us."""
    table = trace.collectives
    rows = table[table["device"] == device].to_dict("records")
    return [(exact_us(row["wait_ps"]), exact_us(row["transfer_ps"])) for row in rows]


def test_f09_cores_of_two_hosts_wait_for_each_other(tmp_path: Path) -> None:
    trace = load(changes.f09(tmp_path))
    assert waits_of(trace, "hostA/TPU:0") == [(100, 100)] * 3
    assert waits_of(trace, "hostB/TPU:0") == [(0, 100)] * 3
    assert not trace.collectives["wait_is_lower_bound"].any()


def test_f11_the_clock_of_a_host_is_found_from_the_ends_of_collectives(tmp_path: Path) -> None:
    trace = load(changes.f11(tmp_path))
    assert ids_of(trace) == ["host_clock_offset"]
    assert entry_of(trace, "host_clock_offset").severity == "info"
    assert entry_of(trace, "host_clock_offset").scope == {
        "reference": "hostA",
        "offset_ps": {"hostB": 250_000 * US},
        "residual_ps": {"hostB": 0},
        "collectives": {"hostB": 3},
    }
    assert waits_of(trace, "hostA/TPU:0") == [(100, 100)] * 3
    assert waits_of(trace, "hostB/TPU:0") == [(0, 100)] * 3
    assert parts_of(trace, "hostA/TPU:0") == dict.fromkeys(range(3), CLEAN)
    assert parts_of(trace, "hostB/TPU:0") == dict.fromkeys(range(3), HOST_B)
    # All tables are on the clock of the first host.
    unmoved = load(changes.f09(tmp_path / "f09"))
    for table in ("steps", "ops", "gaps", "collectives", "partition", "modules", "host_events", "arrivals"):
        pd.testing.assert_frame_equal(getattr(trace, table), getattr(unmoved, table))
    assert trace.window_ps == unmoved.window_ps
    assert trace.events["start_ps"].max() > 250_000 * US  # as recorded


def test_f11_events_of_a_hosts_memory_are_moved_with_it(tmp_path: Path) -> None:
    trace = changes.two_hosts_trace()
    for host in trace:
        host["/host:CPU"]["python"].event("MemoryAllocation", 1500, 0, stats={"requested_bytes": 64})
    unmoved = load(trace.write(tmp_path / "a"))
    trace["hostB"].shift(250_000_000)
    moved = load(trace.write(tmp_path / "b"))
    assert len(moved.memory_events) == 2
    pd.testing.assert_frame_equal(moved.memory_events, unmoved.memory_events)


def test_f11_the_late_core_is_named(tmp_path: Path) -> None:
    rows = load(changes.f11(tmp_path)).arrivals.to_dict("records")
    assert [(row["device"], row["step"], exact_us(row["late_ps"]), row["group_size"]) for row in rows] == [
        ("hostA/TPU:0", 0, 0, 2),
        ("hostA/TPU:0", 1, 0, 2),
        ("hostA/TPU:0", 2, 0, 2),
        ("hostB/TPU:0", 0, 100, 2),
        ("hostB/TPU:0", 1, 100, 2),
        ("hostB/TPU:0", 2, 100, 2),
    ]
    assert [row["transient"] for row in rows] == [True, False, False] * 2


def test_f11_without_collectives_nothing_is_compared_across_hosts(tmp_path: Path) -> None:
    trace = load(changes.f11_no_collective(tmp_path))
    assert ids_of(trace) == ["clocks_not_comparable"]
    assert entry_of(trace, "clocks_not_comparable").scope["hosts"] == ["hostA", "hostB"]
    assert trace.window_ps is None
    assert trace.collectives.empty
    assert trace.arrivals.empty
    # What one host says of itself stands, and so do durations over hosts.
    without = {part: us for part, us in CLEAN.items() if part != "collective_exposed"}
    assert parts_of(trace, "hostA/TPU:0") == {step: {**without, "idle": 250} for step in range(3)}
    assert trace.step_statistics()["count"] == 3
    assert trace.step_statistics()["max_ps"] == 1000 * US
    assert build_report(trace)["run"]["window_ps"] is None


def test_f12_a_device_clock_that_is_behind(tmp_path: Path) -> None:
    trace = load(changes.f12(tmp_path))
    assert_is_f00(trace)
    assert ids_of(trace) == ["host_device_offset"]
    offset = entry_of(trace, "host_device_offset").scope["offset_ps"]
    assert abs(offset + 3_000 * US) <= 150 * US
    # The offset is no delay of a launch: nothing of it shows as idle time.
    assert exact_us(trace.partition["idle_ps"].sum()) == 150


def test_f12_a_host_row_is_no_kernel(tmp_path: Path) -> None:
    both = load(changes.f12_kernel(tmp_path / "both", on_device=True))
    (kernel,) = [row for row in both.op_stats().to_dict("records") if row["name"] == "my_kernel"]
    assert (exact_us(kernel["total_ps"]), kernel["occurrences"]) == (1000, 1)
    alone = load(changes.f12_kernel(tmp_path / "alone", on_device=False))
    assert alone.op_stats().empty
    assert alone.breakdown() is None
    assert entry_of(alone, "device_plane_missing").severity == "error"


def test_f13_an_op_that_overruns_is_clipped_at_its_next_sibling(tmp_path: Path) -> None:
    trace = load(changes.f13(tmp_path))
    assert_is_f00(trace)
    assert ids_of(trace) == ["duration_overrun"]
    entry = entry_of(trace, "duration_overrun")
    assert entry.count == 1
    excess = 3_399_600 * US
    assert excess in entry.scope.values() or "3.4 s" in entry.message or "3,399,600" in entry.message


@pytest.mark.parametrize("write", [changes.f13_control, changes.f14])
def test_f13_control_and_f14_a_loop_adds_nothing(tmp_path: Path, write: Write) -> None:
    trace = load(write(tmp_path))
    assert_is_f00(trace)
    busy = [1000 - parts["idle"] for parts in parts_of(trace).values()]
    assert busy == [950, 950, 950]
    by_kind = {row["kind"]: exact_us(row["self_ps"]) for row in trace.op_stats(by="kind").to_dict("records")}
    assert by_kind.get("container", 0) == 0
    assert sum(by_kind.values()) == 3 * 950
    assert ids_of(trace) == []


def test_f17_bad_durations_are_null_and_out_of_all_sums(tmp_path: Path) -> None:
    trace = load(changes.f17(tmp_path))
    assert parts_of(trace) == {0: WITHOUT_COPY, 1: WITHOUT_COPY, 2: CLEAN}
    copies = trace.ops[trace.ops["op"] == "copy.4"]
    assert list(copies["duration_ps"].isna()) == [True, True, False]
    totals = {row["name"]: exact_us(row["total_ps"]) for row in trace.op_stats().to_dict("records")}
    assert totals["copy.4"] == 50
    assert ids_of(trace) == ["bad_duration"]
    assert entry_of(trace, "bad_duration").count == 2


def test_f17_a_bad_duration_in_a_json(tmp_path: Path) -> None:
    trace = load(changes.f17_json(tmp_path))
    assert parts_of(trace) == {0: WITHOUT_COPY, 1: CLEAN, 2: CLEAN}
    assert entry_of(trace, "bad_duration").count == 1


@pytest.mark.parametrize(
    ("write", "parts", "hidden", "dma_in_flight"),
    [
        (changes.f19, {"elementwise": 700, "collective_exposed": 200, "idle": 100}, (400, 0), 0),
        (changes.f19_dma, {"elementwise": 700, "idle": 300}, (0, 400), 200),
        (changes.f19_done, {"elementwise": 700, "dma_wait": 50, "idle": 250}, (0, 300), 0),
    ],
)
def test_f19_asynchronous_work(
    tmp_path: Path, write: Write, parts: Parts, hidden: tuple[int, int], dma_in_flight: int
) -> None:
    trace = load(write(tmp_path))
    assert parts_of(trace) == {0: parts}
    assert hidden_of(trace) == {0: hidden}
    assert list(trace.partition["idle_dma_in_flight_ps"]) == [dma_in_flight * US]
    assert ids_of(trace) == []


def test_f19_the_collective_is_one_row(tmp_path: Path) -> None:
    (row,) = load(changes.f19(tmp_path)).collectives.to_dict("records")
    found = {name: exact_us(row[f"{name}_ps"]) for name in ("window", "hidden", "exposed")}
    assert found == {"window": 600, "hidden": 400, "exposed": 200}
    assert row["kind"] == "all_gather"


def test_f23a_steps_from_host_annotations(tmp_path: Path) -> None:
    trace = load(changes.f23a(tmp_path))
    assert trace.step_source == "host_annotation"
    assert trace.n_steps == 3
    assert windows_of(trace) == [(0, 1000, True), (1000, 1000, True), (2000, 950, False)]
    assert parts_of(trace) == {0: CLEAN, 1: CLEAN, 2: {k: v for k, v in CLEAN.items() if k != "idle"}}
    assert ids_of(trace) == []


def test_f23b_the_gpu_form(tmp_path: Path) -> None:
    trace = load(changes.f23b(tmp_path))
    assert trace.step_source == "host_annotation"
    assert trace.n_steps == 3
    assert windows_of(trace, "hostA/GPU:0") == [(0, 1000, True), (1000, 1000, True), (2000, 950, False)]
    open_step = {k: v for k, v in CLEAN.items() if k != "idle"}
    assert parts_of(trace, "hostA/GPU:0") == {0: CLEAN, 1: CLEAN, 2: open_step}
    assert hidden_of(trace, "hostA/GPU:0") == dict.fromkeys(range(3), (0, 0))
    totals = {row["kind"]: exact_us(row["total_ps"]) for row in trace.op_stats(by="kind").to_dict("records")}
    assert totals == {"elementwise": 1200, "matmul": 900, "collective": 600, "data_movement": 150}


def test_f23c_steps_from_module_runs(tmp_path: Path) -> None:
    trace = load(changes.f23c(tmp_path))
    assert trace.step_source == "module"
    assert trace.n_steps == 3
    assert windows_of(trace) == [(0, 1000, True), (1000, 1000, True), (2000, 950, False)]
    assert list(trace.steps["counted"]) == [True, True, False]
    assert [duration - parts_of(trace)[k].get("idle", 0) for k, (_, duration, _) in enumerate(windows_of(trace))] == [
        950
    ] * 3
    assert breakdown_parts(trace) == CLEAN
    assert ids_of(trace) == []


def test_f23d_one_module_run_is_one_step(tmp_path: Path) -> None:
    trace = load(changes.f23d(tmp_path))
    assert trace.step_source == "module"
    assert trace.n_steps == 1
    assert windows_of(trace) == [(0, 950, False)]
    assert parts_of(trace) == {0: {k: v for k, v in CLEAN.items() if k != "idle"}}
    assert ids_of(trace) == []


def test_f24_ops_of_two_programs_do_not_mix(tmp_path: Path) -> None:
    trace = load(changes.f24(tmp_path))
    assert_is_f00(trace)
    rows = trace.op_stats()
    found = [
        (row["module"], row["occurrences"], exact_us(row["total_ps"]))
        for row in rows[rows["name"] == "fusion.1"].to_dict("records")
    ]
    assert found == [("jit_train_step(1234567890)", 3, 1200), ("jit_eval(99)", 1, 70)]
    (outside,) = trace.ops[trace.ops["step"].isna()].to_dict("records")
    assert (outside["op"], outside["module"]) == ("fusion.1", "jit_eval(99)")
    assert ids_of(trace) == []


def test_f30_without_the_programs_hlo_times_stay_and_the_loss_is_named(tmp_path: Path) -> None:
    trace = load(changes.f30(tmp_path))
    assert_is_f00(trace)
    # Instructions whose text stands in the trace decide by themselves; fusions need their category.
    assert set(trace.ops["kind_source"]) == {"hlo", "category"}
    assert set(trace.ops.loc[trace.ops["op"].isin(["fusion.1", "fusion.2"]), "kind_source"]) == {"category"}
    assert ids_of(trace) == ["hlo_missing"]
    entry = entry_of(trace, "hlo_missing")
    assert "1234567890" in entry.message or "1234567890" in str(entry.scope)
