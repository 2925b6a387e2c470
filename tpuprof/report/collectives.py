"""Collectives as rows of documents: means per occurrence, with what the hardware's links allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.perfmodel.collectives import bus_bandwidth
from tpuprof.report.plain import records
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    from tpuprof.roofline import Roofline
    from tpuprof.roofline.collectives import Prediction
    from tpuprof.trace import Trace

COLLECTIVE_COLUMNS = (
    "name",
    "kind",
    "module",
    "count",
    "participants",
    "mesh_axes",
    "bytes",
    "window_ps",
    "exposed_ps",
    "hidden_ps",
    "wait_ps",
    "transfer_ps",
    "algorithm_bandwidth",
    "bus_bandwidth",
    "predicted_ps",
    "expected_ps",
    "regime",
    "bound_fraction",
    "prediction_reason",
)
_COLLECTIVE_MEANS = ("bytes", "window_ps", "exposed_ps", "hidden_ps", "wait_ps", "transfer_ps")
_COLLECTIVE_FIGURES = (*_COLLECTIVE_MEANS, "participants")
_BUS_KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def collective_rows(trace: Trace, roofline: Roofline) -> list[dict[str, Any]]:
    """Collectives by (op, kind, module), the one with the most exposed time in all first.

    ``count`` is the number of occurrences on all cores; the times are means per occurrence. ``participants`` is
    null if unknown or not the same for all; ``mesh_axes`` are the axes of the program's mesh, null if not stated.
    ``wait_ps`` and ``transfer_ps`` are means over the occurrences whose
    wait is known. ``algorithm_bandwidth`` (B/s) is bytes over the mean transfer, or over the mean window where no
    wait is told apart from it; then it is a lower bound. ``bus_bandwidth`` counts what every member moves, see
    ``tpuprof.perfmodel.collectives.bus_bandwidth``. ``predicted_ps`` is the least that the hardware's links allow,
    ``expected_ps`` what such collectives were measured to take, ``regime`` what decides, ``bound_fraction`` the
    prediction over the transfer.
    """
    frame = trace.collectives
    if frame.empty:
        return []
    # Vectorised means on plain floats: a Python function per group would take a second for a thousand groups.
    keys = ["op", "kind", "module", "mesh_axes"]
    measured = frame[keys].assign(**{name: frame[name].astype("float64") for name in _COLLECTIVE_FIGURES})
    groups = measured.groupby(keys, observed=True, dropna=False, sort=False)
    merged = groups[list(_COLLECTIVE_MEANS)].mean()
    sizes = groups["participants"].agg(["min", "max"])
    merged["participants"] = sizes["min"].where(sizes["min"] == sizes["max"])
    merged["count"] = groups.size()
    rows = [
        _collective(row, roofline.prediction(row["op"], row["kind"], row["module"]))
        for row in records(merged.reset_index())
    ]
    return sorted(rows, key=lambda row: (-(row["exposed_ps"] or 0.0) * row["count"], row["name"]))


def _collective(row: dict[str, Any], prediction: Prediction | None) -> dict[str, Any]:
    size, window, transfer = row["bytes"], row["window_ps"], row["transfer_ps"]
    moving = transfer if transfer is not None else window
    time = None if prediction is None else prediction.time
    bound = None if time is None or time.seconds is None else time.seconds * PS_PER_S
    return {
        "name": row["op"],
        "kind": row["kind"],
        "module": row["module"],
        "count": row["count"],
        "participants": None if row["participants"] is None else int(row["participants"]),
        "mesh_axes": row["mesh_axes"],
        "bytes": int(size) if size is not None and float(size).is_integer() else size,
        "window_ps": window,
        "exposed_ps": row["exposed_ps"],
        "hidden_ps": row["hidden_ps"],
        "wait_ps": row["wait_ps"],
        "transfer_ps": transfer,
        "algorithm_bandwidth": size / (moving / PS_PER_S) if size is not None and moving else None,
        "bus_bandwidth": _bus_bandwidth(row, moving),
        "predicted_ps": bound,
        "expected_ps": None if time is None or time.expected_s is None else time.expected_s * PS_PER_S,
        "regime": None if time is None else time.regime,
        "bound_fraction": bound / moving if bound is not None and moving else None,
        "prediction_reason": None if prediction is None or not prediction.reason else prediction.reason,
    }


def _bus_bandwidth(row: dict[str, Any], moving: float | None) -> float | None:
    size, members = row["bytes"], row["participants"]
    if row["kind"] not in _BUS_KINDS or not size or not members or not moving:
        return None
    count = int(members)
    size = size / count if row["kind"] == "all_to_all" else size
    return bus_bandwidth(row["kind"], size, count, moving / PS_PER_S).number()
