"""The report's dictionary: the keys of the contract, with known answers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.report.fake import US, fake_trace
from tpuprof.quality import Quality
from tpuprof.report import build_report
from tpuprof.report.collectives import collective_rows
from tpuprof.report.plain import jsonable, records, to_json
from tpuprof.roofline import HardwareOptions, roofline
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS

PART_KEYS = {f"{part}_ps" for part in PARTS}


def test_has_exactly_the_keys_of_the_contract() -> None:
    report = build_report(fake_trace(2))
    assert set(report) == {
        "schema_version", "command", "run", "quality", "steps", "outside_steps_ps", "critical_device", "breakdown",
        "roofline", "collectives", "ops", "attribution", "findings", "analyzers",
    }  # fmt: skip
    assert (report["schema_version"], report["command"]) == (1, "report")
    assert set(report["run"]) == {
        "name", "hosts", "devices", "device_kind", "n_devices", "window_ps", "step_source", "n_steps", "versions",
    }  # fmt: skip
    assert set(report["steps"]) == {
        "count", "mean_ps", "p50_ps", "p90_ps", "p99_ps", "min_ps", "max_ps", "stdev_ps", "cv",
    }  # fmt: skip
    assert set(report["breakdown"]["parts"]) == PART_KEYS
    assert set(report["breakdown"]["hidden"]) == {"collective_ps", "dma_ps"}
    assert set(report["breakdown"]["idle_causes"]) == {f"{cause}_ps" for cause in IDLE_CAUSES}
    assert [set(core) for core in report["breakdown"]["per_device"]] == [{"device", "step_ps", "parts"}] * 2
    assert set(report["collectives"][0]) == {
        "name", "kind", "module", "count", "participants", "mesh_axes", "bytes", "window_ps", "exposed_ps", "hidden_ps",
        "wait_ps", "transfer_ps", "algorithm_bandwidth", "bus_bandwidth", "predicted_ps", "expected_ps", "regime",
        "bound_fraction", "prediction_reason",
    }  # fmt: skip
    assert set(report["ops"][0]) == {
        "name", "kind", "kind_source", "detail", "module", "scope", "source", "occurrences", "total_ps", "self_ps",
        "flops", "hbm_bytes", "vmem_bytes", "bound_by", "roofline_efficiency", "recoverable_ps",
    }  # fmt: skip
    assert set(report["roofline"]) == {
        "chip", "peak_flops", "peak_source", "peak_dtype", "hbm_bandwidth", "stated_peaks", "peaks", "bandwidths",
        "mfu", "mfu_is_lower_bound", "mfu_convention", "hfu", "hbm_utilisation", "model_flops", "hardware_flops",
        "remat_flops_fraction", "remat_ps", "time_without_cost_model_fraction", "bound_by", "ladder", "matmuls",
        "reason",
    }  # fmt: skip


def test_numbers_of_four_cores() -> None:
    report = build_report(fake_trace(4, n_steps=3))
    assert report["run"]["devices"][1] == {"id": "hostA/TPU:1", "kind": "TPU v6 lite", "host": "hostA"}
    assert report["run"]["device_kind"] == "TPU v6 lite"
    assert report["run"]["window_ps"] == 6020 * US
    assert (report["steps"]["count"], report["steps"]["min_ps"], report["steps"]["max_ps"]) == (3, 1000 * US, 1020 * US)
    breakdown = report["breakdown"]
    assert breakdown["parts"]["matmul_ps"] == 400 * US
    assert breakdown["parts"]["collective_exposed_ps"] == 170 * US  # 160 on three cores, 200 on the fourth
    assert sum(breakdown["parts"].values()) == pytest.approx(breakdown["step_ps"], abs=1)
    assert breakdown["hidden"]["collective_ps"] == 310 * US
    assert report["outside_steps_ps"] == 12.5 * US
    assert report["critical_device"] == "hostA/TPU:0"


def test_the_roofline_of_known_costs() -> None:
    report = build_report(fake_trace(2, n_steps=3))
    roofline = report["roofline"]
    assert (roofline["chip"], roofline["peak_flops"], roofline["hbm_bandwidth"]) == ("v6e", 918e12, 1638e9)
    mean_step = 3020 / 3 * US
    # 125 + 75 us of matmul at peak; the attention kernel (150 us) has no known cost, so this is a lower bound.
    assert roofline["mfu"] == pytest.approx(200 * US / mean_step)
    assert roofline["mfu_is_lower_bound"] is True
    assert roofline["time_without_cost_model_fraction"] == pytest.approx(150 * US / mean_step)
    assert roofline["bound_by"]["compute_ps"] == 400 * US
    assert roofline["bound_by"]["hbm_ps"] == 150 * US
    assert roofline["bound_by"]["unknown_ps"] == 150 * US
    ops = {op["name"]: op for op in report["ops"]}
    assert (ops["fusion.2"]["flops"], ops["fusion.2"]["hbm_bytes"]) == (114_750_000_000, 20_000_000)
    assert (ops["fusion.2"]["bound_by"], ops["fusion.2"]["roofline_efficiency"]) == ("compute", pytest.approx(0.5))
    assert ops["fusion.2"]["recoverable_ps"] == pytest.approx(6 * 125 * US)
    assert (ops["fusion.1"]["bound_by"], ops["fusion.1"]["roofline_efficiency"]) == ("hbm", pytest.approx(100 / 120))
    assert ops["splash_attention.1"]["flops"] is ops["splash_attention.1"]["bound_by"] is None


def test_the_ladder_takes_one_loss_after_the_other() -> None:
    rungs = {rung["name"]: rung for rung in build_report(fake_trace(1, n_steps=3))["roofline"]["ladder"]}
    step = 3020 / 3
    assert rungs["measured"]["step_ps"] == pytest.approx(step * US)
    assert rungs["without_skew"]["gain_ps"] == 0
    assert rungs["without_skew"]["reason"] == "No wait for other cores is known."
    assert rungs["without_exposed_collectives"]["gain_ps"] == pytest.approx(160 * US)
    assert rungs["without_copy_waits"]["gain_ps"] == pytest.approx(40 * US)
    assert rungs["without_idle"]["step_ps"] == pytest.approx(700 * US)
    # Recoverable: 125 + 75 of the matmuls, 20 of fusion.1, 20 of copy.4; the attention kernel stays.
    assert rungs["ops_at_roofline"]["step_ps"] == pytest.approx(460 * US)


def test_without_known_hardware_there_is_no_bound_and_a_reason() -> None:
    trace = fake_trace(1)
    other = replace(trace, devices=(replace(trace.devices[0], kind="TPU v9x"),))
    report = build_report(other)
    roofline = report["roofline"]
    assert "TPU v9x is not a known device" in roofline["reason"]
    assert "--peak" in roofline["reason"]
    assert roofline["mfu"] is roofline["peak_flops"] is roofline["bound_by"] is roofline["mfu_is_lower_bound"] is None
    assert report["ops"][0]["flops"] == 114_750_000_000
    assert report["ops"][0]["bound_by"] is None
    assert roofline["ladder"][-1]["reason"] == roofline["reason"]


def test_given_peaks_serve_an_unknown_device() -> None:
    trace = fake_trace(1)
    other = replace(trace, devices=(replace(trace.devices[0], kind="TPU v9x"),))
    roofline = build_report(other, hardware=HardwareOptions(peaks=("bf16=459T,hbm=819GB/s",)))["roofline"]
    assert (roofline["peak_flops"], roofline["hbm_bandwidth"], roofline["peak_source"]) == (459e12, 819e9, "--peak")


def test_impossible_rates_are_errors_and_no_results() -> None:
    report = build_report(fake_trace(1), hardware=HardwareOptions(peaks=("bf16=200T",)))
    assert {"rate_above_peak"} <= {entry["id"] for entry in report["quality"] if entry["severity"] == "error"}
    assert report["ops"][0]["roofline_efficiency"] is None


def test_collectives_are_means_per_occurrence_most_exposed_first() -> None:
    first, second = build_report(fake_trace(2, n_steps=5))["collectives"]
    assert (first["name"], first["kind"], first["count"]) == ("all-gather.5", "all_gather", 10)
    assert (first["window_ps"], first["exposed_ps"], first["hidden_ps"]) == (200 * US, 100 * US, 100 * US)
    assert (first["participants"], first["bytes"]) == (8, 1 << 30)
    assert isinstance(first["bytes"], int)
    assert first["algorithm_bandwidth"] == pytest.approx((1 << 30) / 200e-6)
    assert first["wait_ps"] is first["transfer_ps"] is first["predicted_ps"] is None
    assert second["name"] == "reduce-scatter.9"


def test_a_collective_with_several_group_sizes_has_no_participants() -> None:
    trace = fake_trace(1)
    frame = trace.collectives
    frame["participants"] = pd.Series([2, 4] * (len(frame) // 2), dtype="Int32")
    frame["bytes"] = pd.Series([None] * len(frame), dtype="Int64")
    changed, limits = type("Changed", (), {"collectives": frame})(), roofline(trace)
    # Two collectives alternate, so each has one size; together with a shifted copy each has two.
    assert [row["participants"] for row in collective_rows(changed, limits)] == [2, 4]
    shifted = frame.assign(participants=pd.Series([4, 2] * (len(frame) // 2), dtype="Int32"))
    changed.collectives = pd.concat([frame, shifted], ignore_index=True)
    rows = collective_rows(changed, limits)
    assert [row["participants"] for row in rows] == [None, None]
    assert [row["bytes"] for row in rows] == [None, None]
    assert [row["algorithm_bandwidth"] for row in rows] == [None, None]


def test_without_devices_numbers_are_null_and_quality_remains() -> None:
    missing = Quality("device_plane_missing", "error", "No device plane was recorded: collector failed.")
    report = build_report(fake_trace(0, n_steps=0, step_source="none", quality=(missing,)))
    assert report["breakdown"]["step_ps"] is None
    assert set(report["breakdown"]["parts"].values()) == {None}
    assert report["breakdown"]["idle_causes_reason"] == "No device op was recorded."
    assert report["run"]["window_ps"] is report["outside_steps_ps"] is report["critical_device"] is None
    assert report["run"]["device_kind"] is None
    assert report["steps"]["count"] == 0
    assert report["steps"]["mean_ps"] is None
    assert report["ops"] == report["collectives"] == report["breakdown"]["per_device"] == []
    assert [entry["id"] for entry in report["quality"]] == ["device_plane_missing"]


def test_different_device_kinds_give_no_common_kind() -> None:
    trace = fake_trace(2)
    mixed = replace(trace, devices=(trace.devices[0], replace(trace.devices[1], kind=None)))
    assert build_report(mixed)["run"]["device_kind"] is None


def test_json_is_strict_and_ascii() -> None:
    value = {
        "nan": float("nan"),
        "inf": np.inf,
        "i": np.int64(3),
        "f": np.float32(0.5),
        "na": pd.NA,
        "t": (1, np.bool_(True)),
    }
    text = to_json({**value, "name": "\x1b[31m\ud800é", "array": np.arange(2), "raw": b"\x01", 7: "seven"})
    assert text.isascii()
    assert "\x1b" not in text
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert parsed == {
        "nan": None, "inf": None, "i": 3, "f": 0.5, "na": None, "t": [1, True], "name": "\x1b[31m\ud800é",
        "array": [0, 1], "raw": "01", "7": "seven",
    }  # fmt: skip
    assert isinstance(parsed["i"], int)
    assert jsonable(pd.NaT) is None


def test_records_keep_integers_and_turn_nulls_into_none() -> None:
    frame = pd.DataFrame(
        {
            "big": pd.Series([2**62 + 1, None], dtype="Int64"),
            "mean": [1.5, float("inf")],
            "name": pd.Series(["a", None], dtype="category"),
            "flag": [True, False],
        }
    )
    rows = records(frame)
    assert rows == [
        {"big": 2**62 + 1, "mean": 1.5, "name": "a", "flag": True},
        {"big": None, "mean": None, "name": None, "flag": False},
    ]
    assert type(rows[0]["big"]) is int
    assert records(frame.iloc[:0]) == []


def test_roofs_are_those_of_one_device() -> None:
    report = build_report(fake_trace(2))
    roofline = report["roofline"]
    assert roofline["peaks"]["bf16"] == roofline["peak_flops"] == 918e12
    assert roofline["bandwidths"]["hbm"] == roofline["hbm_bandwidth"]
    assert {op["name"]: op["vmem_bytes"] for op in report["ops"]}["fusion.2"] == 0
