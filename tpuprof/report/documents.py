"""The results of the table commands: JSON documents with their listings, made from a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.quality import Quality, ordered
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.collectives import COLLECTIVE_COLUMNS, collective_rows
from tpuprof.report.listing import Result
from tpuprof.report.listings import collectives_listing, gaps_listing, ops_listing, steps_listing
from tpuprof.report.plain import jsonable, records
from tpuprof.report.roofline import OP_COST_KEYS, with_costs
from tpuprof.tables.schemas import GAPS, OP_STATS, PARTS

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions, Roofline
    from tpuprof.trace import Trace

_STEP_KEYS = ("device", "step", "start_ps", "duration_ps", "complete", "closed", "matched", "transient", "counted")
_HIDDEN = ("collective", "dma")


def head(trace: Trace, command: str, more: Sequence[Quality] = ()) -> dict[str, Any]:
    """The keys that every document starts with.

    Args:
        more: quality entries beside those of the recording.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "run": {"name": trace.name},
        "quality": [jsonable(entry.to_json()) for entry in ordered((*trace.quality, *more))],
    }


def ops_result(trace: Trace, by: str, top: int | None, shown: int, hardware: HardwareOptions | None = None) -> Result:
    """Ops aggregated by ``by``, largest self time first; single ops (``by`` is ``op``) with what they cost.

    Args:
        top: how many rows to give at most, null for all.
        shown: how many of them the listing for people shows at most.
        hardware: what the run is set against; null for what the trace names.

    Raises:
        UsageError: ``hardware`` names no chip, or a figure in it is wrong.
        InputError: a file named by it cannot be read.
    """
    stats = trace.op_stats(by=by)
    rows = records(stats if top is None else stats.head(top))
    columns, doubts = OP_STATS.names, ()
    if by == "op":
        limits = _roofline(trace, hardware)
        rows, columns, doubts = with_costs(rows, limits), (*columns, *OP_COST_KEYS), limits.quality
    document = {**head(trace, "ops", doubts), "by": by, "total": len(stats), "ops": rows}
    return Result(document, "ops", columns, (ops_listing(document, shown),))


def steps_result(trace: Trace) -> Result:
    """One row per core and step with its parts; the listing has one row per step, of the slowest core."""
    parts = [f"{part}_ps" for part in PARTS]
    hidden = [f"hidden_{name}_ps" for name in _HIDDEN]
    # Nullable integers: a left join turns plain ones into floats where a step has no partition.
    wanted = trace.partition[["device", "step", *parts, *hidden]].astype(dict.fromkeys([*parts, *hidden], "Int64"))
    merged = trace.steps.merge(wanted, on=["device", "step"], how="left", validate="one_to_one")
    rows = [
        {
            **{key: row[key] for key in _STEP_KEYS},
            "parts": {name: row[name] for name in parts},
            "hidden": {f"{name}_ps": row[f"hidden_{name}_ps"] for name in _HIDDEN},
        }
        for row in records(merged)
    ]
    columns = (*_STEP_KEYS, *(f"parts.{name}" for name in parts), *(f"hidden.{name}_ps" for name in _HIDDEN))
    document = {
        **head(trace, "steps"),
        "step_source": trace.step_source,
        "statistics": jsonable(trace.step_statistics()),
        "total": len(rows),
        "steps": rows,
    }
    return Result(document, "steps", columns, (steps_listing(document),))


def gaps_result(trace: Trace, top: int | None, shown: int) -> Result:
    """Stretches of idle time inside steps, longest first."""
    frame = trace.gaps.sort_values(["duration_ps", "start_ps"], ascending=[False, True], kind="stable")
    rows = records(frame if top is None else frame.head(top))
    total_ps = int(frame["duration_ps"].sum())
    document = {**head(trace, "gaps"), "total": len(frame), "total_ps": total_ps, "gaps": rows}
    return Result(document, "gaps", GAPS.names, (gaps_listing(document, shown),))


def collectives_result(trace: Trace, top: int | None, shown: int, hardware: HardwareOptions | None = None) -> Result:
    """Collectives by op, kind and module, most exposed time first; times are means per occurrence.

    Raises:
        UsageError: ``hardware`` names no chip or slice, or a figure in it is wrong.
        InputError: a file named by it cannot be read.
    """
    limits = _roofline(trace, hardware)
    rows = collective_rows(trace, limits)
    document = {
        **head(trace, "collectives", limits.quality),
        "by": "op",
        "total": len(rows),
        "collectives": rows if top is None else rows[:top],
    }
    return Result(document, "collectives", COLLECTIVE_COLUMNS, (collectives_listing(document, shown),))


def _roofline(trace: Trace, hardware: HardwareOptions | None) -> Roofline:
    from tpuprof.roofline import HardwareOptions, roofline

    return roofline(trace, hardware or HardwareOptions())
