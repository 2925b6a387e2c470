"""The document of ``tpuprof validate --published``: every row, the errors by chip, the worst rows, what is covered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tpuprof.plan.validation import CALIBRATED, Validated, scores, support, worst
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.units import PS_PER_S, UNKNOWN, format_bytes, format_ps

_COLUMNS = (
    "row", "chip", "model", "scale", "layout", "measured_s", "predicted_s", "error", "calibrated_s", "calibrated_error",
    "low_s", "high_s", "fits", "counts", "measured_memory_bytes", "predicted_memory_bytes", "memory_error", "reason",
)  # fmt: skip


def _signed(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.1%}"


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


_SCORE_FIELDS = (
    Field("group", "chip"),
    Field("rows", "rows", show_count, right=True),
    Field("signed_median", "median", _signed, right=True),
    Field("absolute_median", "median size", _plain, right=True),
    Field("absolute_p90", "90th percentile", _plain, right=True, rank=2),
    Field("calibrated_absolute_median", "leave-one-out", _plain, right=True),
)
_WORST_FIELDS = (
    Field("row", "row"),
    Field("chip", "chip", show_text),
    Field("model", "model", show_text, role="name"),
    Field("layout", "layout", role="name", rank=3),
    Field("measured_s", "measured", _seconds, right=True, rank=2),
    Field("predicted_s", "predicted", _seconds, right=True),
    Field("error", "error", _signed, right=True),
    Field("why", "not modelled", show_text, rank=1),
)
_MEMORY_FIELDS = (
    Field("row", "row"),
    Field("chip", "chip", show_text),
    Field("model", "model", show_text, role="name"),
    Field("measured_memory_bytes", "measured", format_bytes, right=True),
    Field("predicted_memory_bytes", "predicted", format_bytes, right=True),
    Field("memory_error", "error", _signed, right=True),
)
_ROW_FIELDS = (
    Field("row", "row"),
    Field("chip", "chip", show_text),
    Field("scale", "chips", show_text, right=True, rank=3),
    Field("model", "model", show_text, role="name"),
    Field("measured_s", "measured", _seconds, right=True),
    Field("predicted_s", "predicted", _seconds, right=True),
    Field("error", "error", _signed, right=True),
    Field("calibrated_error", "leave-one-out", _signed, right=True, rank=2),
    Field("reason", "note", show_text, rank=1),
)


def validation_result(rows: Sequence[Validated], source: str) -> Result:
    """The document holds ``rows``, ``scores``, ``worst``, ``support``, ``source`` and how rows were calibrated."""
    all_rows = [_row(row) for row in rows]
    scored = [asdict(score) for score in scores(rows)]
    bad = [_row(row) for row in worst(rows)]
    covered = support(rows)
    predicted = [row for row in all_rows if row["predicted_s"] is not None]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "validate --published",
        "source": source,
        "calibration": CALIBRATED,
        "rows": all_rows,
        "scores": scored,
        "worst": bad,
        "support": covered,
        "counted": sum(row["counts"] for row in all_rows),
        "predicted": len(predicted),
        "unsupported": len(all_rows) - len(predicted),
    }
    with_memory = [row for row in all_rows if row["memory_error"] is not None]
    reasons = [
        {"chip": chip, "reason": reason, "count": count}
        for chip, found in covered.items() for reason, count in found.items() if reason != "predicted"
    ]  # fmt: skip
    listings = (
        Listing("Error of the step time, predicted over measured less 1", "group", _SCORE_FIELDS, scored, len(scored),
                (f"leave-one-out: {CALIBRATED}",)),
        Listing("Worst", "row", _WORST_FIELDS, bad, len(bad)),
        Listing("Predicted rows", "row", _ROW_FIELDS, predicted, len(predicted)),
        Listing("Peak memory per device", "row", _MEMORY_FIELDS, with_memory, len(with_memory)),
        Listing("Not predicted", "reason", (Field("chip", "chip"), Field("reason", "reason"),
                                            Field("count", "rows", show_count, right=True)), reasons, len(reasons)),
    )  # fmt: skip
    return Result(document, "rows", _COLUMNS, listings)


def _row(row: Validated) -> dict[str, Any]:
    # The id of a row is called so, too, because programs that compare files look for it.
    return {"id": row.row, **asdict(row), "reason": row.reason or None, "why": row.why or None}
