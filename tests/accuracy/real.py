"""The section on real traces: numbers that a plain reading of the files gives, and what each tool says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tpuprof
from tests.accuracy.page import RELATIVE_TOLERANCE
from tests.accuracy.xprof import ask_xprof

REAL_TITLE = "## Real traces"
Row = tuple[str, float, float | None, float | None]  # quantity, truth, tpuprof, XProf; in microseconds
_NOTE = """
Captured by others on real devices. The truth is what a plain protobuf or JSON reader finds in the events on the
devices' own clock; right is what lies within 0.5 % of it. XProf reads XPlane files only, and in these it finds no
steps ("No step marker observed"); its numbers are those of `hlo_stats`.
"""
V6E, V5E, V7X = "v6e-4-host-offload", "v5e-1-matmul", "v7x-2-prefill"


def real_section(folder: Path) -> str:
    """The section, from the traces below ``folder``."""
    files = {name: next((folder / name).rglob("*.xplane.pb")) for name in (V6E, V5E)}
    answers = ask_xprof([{"host": path.read_bytes()} for path in files.values()])
    said = dict(zip(files, answers, strict=True))
    text = [REAL_TITLE, _NOTE]
    text += _table("Host offload on four v6e chips, 100 steps of 784 ms", _v6e(folder / V6E, said[V6E]))
    text += _table("A small matmul on v5e", _v5e(folder / V5E, said[V5E]))
    text += _table("A prefill step on the two cores of a v7x chip (viewer JSON only)", _v7x(folder / V7X))
    return "\n".join(text)


def _v6e(path: Path, said: Mapping[str, Any]) -> list[Row]:
    trace = tpuprof.load(path)
    mean: Any = trace.breakdown()
    cores = {core["device"]: core["parts"] for core in mean["per_device"]}
    ops = {row["name"]: row for row in trace.op_stats().to_dict("records")}
    hlo = _hlo_stats(said)
    psum = trace.collectives[trace.collectives["device"] == "host/TPU:0"]
    steps = trace.steps[trace.steps["device"] == "host/TPU:0"]
    pods = [
        float(core["totalDurationUs"])
        for step in said["pod_viewer"]["podStatsSequence"]["podStatsMap"]
        for core in step["podStatsPerCore"].values()
    ]
    longest = max(int(length) for length in trace.steps.loc[trace.steps["counted"], "duration_ps"])
    return [
        ("longest step of any core, at most", 784_400.0, longest / 1e6, max(pods) if pods else None),
        ("steps on chip 0", 100, len(steps), _occurrences(hlo, "copy-done.4") / 4),
        ("dma wait per step, chip 0", 760_095.1547125, cores["host/TPU:0"]["dma_wait_ps"] / 1e6, None),
        ("dma wait per step, chip 1", 760_191.5769375, cores["host/TPU:1"]["dma_wait_ps"] / 1e6, None),
        ("loop fusions per step, chip 0", 24_047.013125, cores["host/TPU:0"]["elementwise_ps"] / 1e6, None),
        ("loop fusions per step, chip 1", 24_040.469325, cores["host/TPU:1"]["elementwise_ps"] / 1e6, None),
        ("`copy-done.4`, mean of 400", 194_433.04, ops["copy-done.4"]["mean_ps"] / 1e6, _average(hlo, "copy-done.4")),
        ("all-reduce, mean on chip 0", 121_690.0, float(psum["window_ps"].mean()) / 1e6, None),
    ]


def _v5e(path: Path, said: Mapping[str, Any]) -> list[Row]:
    trace = tpuprof.load(path)
    ops = {row["name"]: row for row in trace.op_stats().to_dict("records") if "jit_matmul" in str(row["module"])}
    hlo = [row for row in _hlo_stats(said) if row["program_id"] == "7387342164949680137"]
    truth = {"fusion": 3.488, "copy-done": 1.091375, "copy-start": 0.013875}
    return [
        (f"`{name}` of jit_matmul, mean", us, ops[name]["mean_ps"] / 1e6, _average(hlo, name))
        for name, us in truth.items()
    ]


def _v7x(path: Path) -> list[Row]:
    trace = tpuprof.load(path)
    core = trace.select(devices=[trace.devices[0].id])
    run = core.modules[core.modules["module"].str.startswith("jit_step_fun")]
    total = core.ops.groupby("category", observed=True)["duration_ps"].sum() / 1e6
    truth = {
        "convolution fusion": 42_308.737,
        "custom-call": 17_013.486,
        "all-reduce": 3_433.75,
        "loop fusion": 2_636.516,
        "data formatting": 1_461.677,
    }
    attention = int((core.ops["kind"] == "attention").sum())
    return [
        ("`jit_step_fun` on core 0", 66_914.493, float(run["duration_ps"].iloc[0]) / 1e6, None),
        ("ops on core 0", 3_454, len(core.ops), None),
        ("attention kernels on core 0", 64, attention, None),
        *((f"category {name}, core 0", us, float(total[name]), None) for name, us in truth.items()),
    ]


def _hlo_stats(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    table = said["hlo_stats"]
    columns = [column["id"] for column in table["cols"]]
    return [dict(zip(columns, (cell.get("v") for cell in row["c"]), strict=True)) for row in table["rows"]]


def _average(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    found = [float(row["avg_time"]) for row in rows if row["hlo_op_name"] == name]
    return fmean(found) if found else None


def _occurrences(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return sum(float(row["occurrences"]) for row in rows if row["hlo_op_name"] == name)


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    text = [
        f"### {title}",
        "",
        "| quantity (us or a count) | truth | tpuprof | | XProf | |",
        "|---|---:|---:|---|---:|---|",
    ]
    for quantity, truth, mine, theirs in rows:
        at_most = quantity.endswith("at most")
        cells = [_cell(value, truth, at_most=at_most) for value in (mine, theirs)]
        text.append(f"| {quantity} | {truth:,.10g} | {cells[0]} | {cells[1]} |")
    return [*text, ""]


def _cell(value: float | None, truth: float, *, at_most: bool) -> str:
    if value is None:
        return "- | "
    right = value <= truth if at_most else abs(value - truth) <= RELATIVE_TOLERANCE * truth
    return f"{value:,.10g} | {'right' if right else '**wrong**'}"
