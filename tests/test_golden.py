"""Real traces and the numbers that a plain reading of their files gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tpuprof.report import build_report
from tpuprof.tables.collective_facts import collective_facts
from tpuprof.tables.core_ids import global_ids
from tpuprof.tables.schemas import PARTS

pytestmark = pytest.mark.real

FOLDERS = ("v6e-4-host-offload", "v5e-1-matmul", "v7x-2-prefill", "mi300-gemm")
V6E_PER_STEP = {  # dma_wait, elementwise, data_movement: means over the 100 runs of jit_f, in ps
    "host/TPU:0": (760_095_154_712.5, 24_047_013_125.0, 22_600.0),
    "host/TPU:1": (760_191_576_937.5, 24_040_469_325.0, 22_500.0),
}


@pytest.fixture(scope="module", params=FOLDERS)
def any_real(request: pytest.FixtureRequest, real_traces: Path) -> Any:
    return tpuprof.load(real_traces / request.param)


@pytest.fixture(scope="module")
def v6e(real_traces: Path) -> Any:
    return tpuprof.load(real_traces / "v6e-4-host-offload")


@pytest.fixture(scope="module")
def v7x(real_traces: Path) -> Any:
    return tpuprof.load(real_traces / "v7x-2-prefill")


def test_all_parts_of_all_steps_of_all_cores_add_up(any_real: Any) -> None:
    table = any_real.partition
    assert len(table) > 0
    assert (table[[f"{part}_ps" for part in PARTS]].sum(axis=1) == table["duration_ps"]).all()
    causes = table[[name for name in table.columns if name.startswith("idle_") and name != "idle_ps"]]
    known = causes.notna().all(axis=1)
    assert (causes[known].sum(axis=1) == table.loc[known, "idle_ps"]).all()
    assert (table[["hidden_collective_ps", "hidden_dma_ps"]] >= 0).all(axis=None)


def test_host_offload_on_v6e_is_read_on_the_device_clock(v6e: Any) -> None:
    report = build_report(v6e)
    assert report["run"]["step_source"] == "module"
    assert report["run"]["n_steps"] == report["steps"]["count"] == 100
    assert report["steps"]["cv"] < 0.001
    assert report["breakdown"]["parts"]["idle_ps"] < 1e-4 * report["breakdown"]["step_ps"]
    cores = {core["device"]: core["parts"] for core in report["breakdown"]["per_device"]}
    for device, (dma_wait, elementwise, data_movement) in V6E_PER_STEP.items():
        assert cores[device]["dma_wait_ps"] == pytest.approx(dma_wait, rel=1e-12)
        assert cores[device]["elementwise_ps"] == pytest.approx(elementwise, rel=1e-12)
        assert cores[device]["data_movement_ps"] == pytest.approx(data_movement, rel=1e-12)


def test_host_and_device_of_v6e_cannot_be_compared(v6e: Any) -> None:
    # The host's mapping of the device clock jumps by up to 230 ms: no gap of a microsecond can be explained by it.
    mean = v6e.breakdown()
    assert mean["idle_causes"]["dispatch_ps"] is None
    assert "uncertain by" in mean["idle_causes_reason"]


def test_the_waiting_copies_of_v6e_are_named_as_host_offload(v6e: Any) -> None:
    copies = v6e.ops[v6e.ops["kind"] == "dma_wait"]
    assert set(copies["detail"]) == {"host_memory"}
    longest = next(row for row in build_report(v6e)["ops"] if row["name"] == "copy-done.4")
    assert longest["occurrences"] == 400
    assert longest["total_ps"] / 400 == pytest.approx(194_433.04e6, rel=1e-6)


def test_v6e_lacks_half_of_its_cores_and_says_so(v6e: Any) -> None:
    (missing,) = [entry for entry in v6e.quality if entry.id == "cores_missing"]
    assert missing.scope == {"seen": 4, "expected": 8}
    psum = v6e.collectives
    assert set(psum["kind"]) == {"all_reduce"}
    assert set(psum["participants"]) == {2}
    assert len(psum) == 12
    assert psum.loc[psum["device"] == "host/TPU:0", "window_ps"].mean() == pytest.approx(121.69e9, rel=1e-3)


V6E_GLOBAL_IDS = {"host/TPU:0": 4, "host/TPU:1": 5, "host/TPU:2": 6, "host/TPU:3": 7}
V6E_FIRST_BARRIER_MS = {"host/TPU:0": 0.0026, "host/TPU:1": 26.65, "host/TPU:2": 340.98, "host/TPU:3": 11.78}


def test_the_pairs_of_v6e_reach_into_the_half_that_was_not_traced(v6e: Any) -> None:
    assert dict(zip(V6E_GLOBAL_IDS, global_ids(v6e.devices), strict=True)) == V6E_GLOBAL_IDS
    (psum,) = [info for info in v6e.built.infos if info.cls.kind == "collective"]
    facts = collective_facts(psum)
    assert facts.groups == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert (facts.participants, facts.bytes, facts.shard_bytes) == (2, 5_368_709_120, 2_684_354_560)


def test_the_late_chip_of_v6e_is_named(v6e: Any) -> None:
    # The peer of each chip was not traced, so that waits are lower bounds: at least the time in the barrier.
    table = v6e.collectives
    assert table["wait_is_lower_bound"].all()
    first = table.groupby("device", observed=True).first()
    waits = {device: ps / 1e9 for device, ps in first["wait_ps"].items()}
    assert waits == pytest.approx(V6E_FIRST_BARRIER_MS, rel=1e-3, abs=5e-5)
    assert (abs(table["transfer_ps"] - 121.69e9) < 0.02e9).all()
    # All four leave each barrier together, whatever their pairs: the last one in kept the others.
    arrivals = v6e.arrivals
    assert set(arrivals["group_size"]) == {4}
    late = [list(group.loc[group["late_ps"] > 0, "device"]) for _, group in arrivals.groupby(arrivals.index % 3)]
    assert late == [["host/TPU:0"], ["host/TPU:2"], ["host/TPU:2"]]
    assert arrivals["late_ps"].max() == pytest.approx(11.78e9, rel=1e-3)


def test_waits_on_v7x_are_told_from_transfers(v7x: Any) -> None:
    table = v7x.collectives
    assert len(table) == 262
    assert set(table["participants"]) == {2}
    assert not table["wait_is_lower_bound"].any()
    first, second = (table[table["device"] == device.id].reset_index(drop=True) for device in v7x.devices)
    assert (first[["wait_ps"]].min(axis=1).combine(second["wait_ps"], min) == 0).all()  # the last one never waits
    assert (table["wait_ps"] + table["transfer_ps"] == table["window_ps"]).all()
    # Core 0 came 40 us before core 1 to the first one.
    assert first.loc[0, "wait_ps"] == second.loc[0, "start_ps"] - first.loc[0, "start_ps"] == 39_819_928


def test_copies_of_every_v6e_core_have_their_windows(v6e: Any) -> None:
    # The line of asynchronous work is empty on three of the four cores.
    hidden = v6e.partition.groupby("device", observed=True)["hidden_dma_ps"].min()
    assert (hidden > 20_000_000_000).all()


@pytest.mark.parametrize("kind", ["xplane", "json"])
def test_a_small_matmul_on_v5e(real_traces: Path, kind: str) -> None:
    session = real_traces / "v5e-1-matmul/plugins/profile/2026_05_18_09_57_44"
    path = session if kind == "xplane" else next(session.glob("*.trace.json.gz"))
    trace = tpuprof.load(path)
    stats = {(row["module"], row["name"]): row for row in trace.op_stats().to_dict("records")}
    matmul = "jit_matmul(7387342164949680137)"
    assert stats[matmul, "fusion"]["mean_ps"] == 3_488_000
    assert stats[matmul, "fusion"]["kind"] == "matmul"
    assert stats[matmul, "copy-done"]["mean_ps"] == 1_091_375
    assert stats[matmul, "copy-start"]["mean_ps"] == 13_875
    assert trace.step_source == "module"
    assert trace.n_steps == 10
    steps = trace.steps["duration_ps"]
    assert ((steps > 333e6) & (steps < 374e6)).sum() == 8
    assert {entry.id for entry in trace.quality} >= {"several_main_programs"}
    assert ("json_source" in {entry.id for entry in trace.quality}) == (kind == "json")


def test_prefill_on_v7x_is_not_stretched_by_a_stray_counter(v7x: Any) -> None:
    assert v7x.step_source == "module"
    assert v7x.n_steps == 1
    first, second = (device.id for device in v7x.devices)
    runs = v7x.modules[v7x.modules["module"].str.startswith("jit_step_fun")].set_index("device")["duration_ps"]
    assert runs.to_dict() == {first: 66_914_493_397, second: 66_976_312_125}
    # An open step ends with its last op, a microsecond before the program does.
    steps = v7x.steps.set_index("device")["duration_ps"]
    assert steps[first] == pytest.approx(runs[first], rel=2e-5)
    assert steps[second] == pytest.approx(runs[second], rel=2e-5)
    core = v7x.select(devices=[first])
    assert len(core.ops) == 3_454
    by_category = core.ops.groupby("category", observed=True)["duration_ps"].agg(["sum", "size"])
    for category, total_us, count in (
        ("convolution fusion", 42_308.737, 257),
        ("custom-call", 17_013.486, 190),
        ("all-reduce", 3_433.750, 129),
        ("loop fusion", 2_636.516, 654),
        ("data formatting", 1_461.677, 450),
    ):
        assert by_category.loc[category, "size"] == count
        assert by_category.loc[category, "sum"] == pytest.approx(total_us * 1e6, abs=500)
    kinds = core.ops["kind"].value_counts()
    assert kinds["attention"] == 64
    assert kinds["matmul"] == 257
    assert set(core.partition["barrier_wait_ps"]) <= set(range(2_000_000, 3_000_000))


def test_gemms_on_mi300_without_step_marks(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "mi300-gemm")
    assert trace.step_source == "none"
    assert trace.n_steps == 0
    assert trace.step_statistics()["count"] == 0
    assert len(trace.devices) == 1
    parts = trace.breakdown()["parts"]
    assert parts["matmul_ps"] > 3e9
    assert parts["host_transfer_ps"] > 0
    assert parts["other_compute_ps"] == 0


def test_a_text_mode_copy_is_named(real_traces: Path) -> None:
    with pytest.raises(tpuprof.errors.NotATraceError, match="text mode"):
        tpuprof.load(real_traces / "broken/text-mode-copy.xplane.pb")
