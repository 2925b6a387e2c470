"""The roofline as part of documents: the section of the report, the cost keys of ops, and their listings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.listing import Field, Listing, show_count, show_text
from tpuprof.report.plain import jsonable, records, rows_of, table_of
from tpuprof.text import clean
from tpuprof.units import UNKNOWN, format_percent, format_ps, format_si

if TYPE_CHECKING:
    from tpuprof.hardware import Chip
    from tpuprof.perfmodel.rates import Rates
    from tpuprof.roofline import Roofline

OP_COST_KEYS = ("flops", "hbm_bytes", "vmem_bytes", "bound_by", "roofline_efficiency", "recoverable_ps")
_MATMULS_KEPT = 50

RUNG_LABELS = {
    "measured": "measured",
    "without_skew": "without waiting for other cores",
    "without_exposed_collectives": "without exposed collectives",
    "without_copy_waits": "without waiting for copies",
    "without_idle": "without idle time",
    "ops_at_roofline": "every op at its roofline",
}

_MATMUL_FIELDS = (
    Field("shape", "matmul", role="name"),
    Field("executions", "count", show_count, right=True, rank=3),
    Field("self_ps", "self", format_ps, right=True),
    Field("padding_waste", "padding", lambda value: format_percent(value, 1), right=True, rank=2),
    Field("achieved_flops", "achieved", lambda value: format_si(value, "FLOP/s", 3), right=True, rank=1),
    Field("efficiency", "of peak", lambda value: format_percent(value, 1), right=True),
)

COST_FIELDS = (
    Field("flops", "FLOPs", lambda value: format_si(value, "FLOP", 3), right=True, rank=8),
    Field("hbm_bytes", "HBM", lambda value: format_si(value, "B", 3), right=True, rank=8),
    Field("bound_by", "bound by", show_text, rank=7),
    Field("roofline_efficiency", "of bound", lambda value: format_percent(value, 1), right=True, rank=3),
    Field("recoverable_ps", "recoverable", format_ps, right=True, rank=7),
)
"""Columns of ops that a roofline fills."""


def roofline_section(roofline: Roofline) -> dict[str, Any]:
    """``roofline`` of the report."""
    hardware, used = roofline.hardware, roofline.utilisation
    matmuls = records(roofline.matmuls.head(_MATMULS_KEPT))
    return jsonable(
        {
            "chip": None if hardware.chip is None else hardware.chip.name,
            "peak_flops": used.peak_flops,
            "peak_source": hardware.source or None,
            "peak_dtype": used.dtype,
            "hbm_bandwidth": used.hbm_bandwidth,
            "stated_peaks": dict(hardware.stated),
            "peaks": _peaks(hardware.chip),
            "bandwidths": _bandwidths(roofline.rates),
            "mfu": used.mfu,
            "mfu_is_lower_bound": used.is_lower_bound if used.mfu is not None else None,
            "mfu_convention": _convention() if used.mfu is not None else None,
            "hfu": used.hfu,
            "hbm_utilisation": used.hbm_utilisation,
            "model_flops": used.model_flops,
            "hardware_flops": used.hardware_flops,
            "remat_flops_fraction": used.remat_flops_fraction,
            "remat_ps": used.remat_ps,
            "time_without_cost_model_fraction": used.without_cost_fraction,
            "bound_by": {f"{name}_ps": ps for name, ps in used.bound_by.items()} or None,
            "ladder": [rung.to_json() for rung in roofline.ladder],
            "matmuls": matmuls,
            "reason": used.reason or None,
        }
    )


def _peaks(chip: Chip | None) -> dict[str, float] | None:
    """Peaks of one runtime device by type, FLOP/s."""
    if chip is None:
        return None
    found = {dtype: chip.device_peak(dtype) for dtype in chip.peak}
    return {dtype: figure.value for dtype, figure in found.items() if figure is not None}


def _bandwidths(rates: Rates | None) -> dict[str, float] | None:
    """Bandwidths of the memories of one runtime device, B/s."""
    if rates is None:
        return None
    found = {memory: rates.link(memory).value for memory in ("hbm", "vmem")}
    return {memory: value for memory, value in found.items() if value is not None}


def op_costs(roofline: Roofline) -> dict[tuple[str, str | None], dict[str, Any]]:
    """The cost keys of ops by (name, module); recoverable time is that of counted steps on all cores."""
    columns = ["op", "module", "flops", "hbm_bytes", "vmem_bytes", "bound_by", "efficiency", "recoverable_ps"]
    if not len(roofline.table):
        return _costs_alone(roofline)
    return {
        (row["op"], row["module"]): {
            "flops": row["flops"],
            "hbm_bytes": row["hbm_bytes"],
            "vmem_bytes": row["vmem_bytes"],
            "bound_by": row["bound_by"],
            "roofline_efficiency": row["efficiency"],
            "recoverable_ps": row["recoverable_ps"],
        }
        for row in records(roofline.table[columns])
    }


def _costs_alone(roofline: Roofline) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Without hardware: what ops do, and no bound."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for work in roofline.works:
        bytes_ = work.cost.bytes
        row: dict[str, Any] = dict.fromkeys(OP_COST_KEYS)
        row["flops"] = work.cost.flops
        row |= {f"{memory}_bytes": None if bytes_ is None else bytes_.get(memory, 0) for memory in ("hbm", "vmem")}
        found[work.info.name, work.info.module] = row
    return found


def with_costs(rows: list[dict[str, Any]], roofline: Roofline) -> list[dict[str, Any]]:
    """Rows of ops with their cost keys, null where there is no cost."""
    costs = op_costs(roofline)
    nothing: dict[str, Any] = dict.fromkeys(OP_COST_KEYS)
    return [{**row, **costs.get((row["name"], row["module"]), nothing)} for row in rows]


def utilisation_notes(report: dict[str, Any]) -> list[str]:
    """MFU and its relatives as sentences; the reason where there are none."""
    section = table_of(report["roofline"])
    if section.get("chip") is None:
        reason = section.get("reason")
        return [f"No roofline. {clean(reason)}"] if reason else []
    without = section["time_without_cost_model_fraction"]
    bound = ", a lower bound" if section["mfu_is_lower_bound"] else ""
    peak = f"{format_si(section['peak_flops'], 'FLOP/s')} {clean(section['peak_dtype'] or 'bf16')}"
    notes = [
        f"MFU {format_percent(section['mfu'])}{bound}, hardware FLOP utilisation {format_percent(section['hfu'])}, of "
        f"{peak} per device ({clean(section['peak_source'] or UNKNOWN)}).",
        f"HBM {format_percent(section['hbm_utilisation'])} of {format_si(section['hbm_bandwidth'], 'B/s')} per device. "
        f"Ops without a known cost take {format_percent(without)} of the step.",
    ]
    if section["reason"]:
        notes.append(clean(section["reason"]))
    if section["remat_ps"]:
        notes.append(
            f"Recomputation to save memory takes {format_percent(section['remat_flops_fraction'])} of the hardware "
            f"FLOPs and {format_ps(section['remat_ps'])} per step."
        )
    return notes


def ladder_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The rungs with labels and shares of the measured step; empty without a ladder."""
    rungs = rows_of(table_of(report["roofline"]).get("ladder"))
    measured = rungs[0]["step_ps"] if rungs else None
    return [
        {
            **rung,
            "label": RUNG_LABELS[rung["name"]],
            "fraction": rung["step_ps"] / measured if measured else None,
            "gain_fraction": rung["gain_ps"] / measured if measured else None,
        }
        for rung in rungs
    ]


def ladder_listing(report: dict[str, Any]) -> Listing:
    """The ideal ladder, one row per rung; what a rung could not be determined for is shown as unknown, not as 0."""
    rows = [
        {**row, "step_ps": None, "fraction": None, "gain_ps": None} if row["reason"] and not row["gain_ps"] else row
        for row in ladder_rows(report)
    ]
    fields = (
        Field("label", "rung", role="name"),
        Field("step_ps", "time", format_ps, right=True),
        Field("fraction", "of measured", lambda value: format_percent(value, 1), right=True),
        Field("gain_ps", "gain", format_ps, right=True),
    )
    notes = tuple(f"{row['label']}: {clean(row['reason'])}" for row in rows if row["reason"])
    title = "What is recoverable: the mean step without one loss after the other"
    return Listing(title, "rung", fields, rows, len(rows), notes)


def matmuls_listing(report: dict[str, Any], shown: int) -> Listing:
    """The shapes of matrix products, the one with the most time first."""
    rows = rows_of(table_of(report["roofline"]).get("matmuls"))
    title = "Matmul shapes: self time of the ops that hold them, all cores"
    return Listing(title, "shape", _MATMUL_FIELDS, rows[:shown], len(rows))


def _convention() -> str:
    from tpuprof.roofline import CONVENTION

    return CONVENTION
