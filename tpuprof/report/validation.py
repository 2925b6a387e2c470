"""The document of ``tpuprof validate --published``: every row, the errors by chip, the worst rows, what is covered.

Training steps and servers are pools of their own: seconds of a step here, generated tokens per second there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tpuprof.plan.profiles import Profile
from tpuprof.plan.serve.validation import CALIBRATED as SERVED_CALIBRATED
from tpuprof.plan.serve.validation import Served, served_scores
from tpuprof.plan.validation import CALIBRATED, Validated, scores, support, worst
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.units import PS_PER_S, UNKNOWN, format_bytes, format_ps

_COLUMNS = (
    "row", "kind", "chip", "model", "scale", "layout", "measured", "predicted", "unit", "error", "calibrated",
    "calibrated_error", "low_s", "high_s", "fits", "counts", "measured_tpot_s", "predicted_tpot_s", "tpot_error",
    "measured_memory_bytes", "predicted_memory_bytes", "memory_error", "reason",
)  # fmt: skip
_NO_SERVER = {"measured_tpot_s": None, "predicted_tpot_s": None, "tpot_error": None, "assumptions": ()}


def _signed(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.1%}"


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


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
_SERVER_FIELDS = (
    Field("row", "row"),
    Field("chip", "chip", show_text),
    Field("scale", "chips", show_text, right=True, rank=3),
    Field("model", "model", show_text, role="name"),
    Field("measured", "token/s", _rate, right=True),
    Field("predicted", "predicted", _rate, right=True),
    Field("error", "error", _signed, right=True),
    Field("tpot_error", "error of TPOT", _signed, right=True, rank=1),
    Field("calibrated_error", "leave-one-out", _signed, right=True, rank=2),
    Field("layout", "split", role="name", rank=3),
)
_REASON_FIELDS = (Field("chip", "chip"), Field("reason", "reason"), Field("count", "rows", show_count, right=True))
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


def validation_result(
    rows: Sequence[Validated],
    source: str,
    served: Mapping[int, Served] | None = None,
    stored: Profile | None = None,
) -> Result:
    """The document holds ``rows``, ``scores``, ``worst``, ``support``, ``source`` and how rows were calibrated.

    Args:
        rows: all of them.
        served: those that measure a server, by their place among all.
        stored: the named profile that predicted the steps; null for the built-in one.
    """
    servers = served or {}
    all_rows = [_server(servers[at]) if at in servers else _step(row) for at, row in enumerate(rows)]
    steps = [row for at, row in enumerate(rows) if at not in servers]
    scored = [asdict(score) for score in scores(steps)]
    server_scores = [asdict(score) for score in served_scores(servers)]
    bad = [_step(row) for row in worst(steps)]
    predicted = [row for row in all_rows if row["predicted"] is not None]
    reasons = _reasons(steps, servers)
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "validate --published",
        "source": source,
        "calibration": CALIBRATED,
        "profile": None if stored is None else stored.to_json(),
        "serving_calibration": SERVED_CALIBRATED,
        "rows": all_rows,
        "scores": scored,
        "serving_scores": server_scores,
        "worst": bad,
        "support": _covered(row for row in predicted if row["kind"] == "training"),
        "serving_support": _covered(row for row in predicted if row["kind"] == "serving"),
        "unsupported_by_reason": reasons,
        "counted": sum(row["counts"] for row in all_rows if row["kind"] == "training"),
        "serving_counted": sum(row["counts"] for row in all_rows if row["kind"] == "serving"),
        "predicted": len(predicted),
        "unsupported": len(all_rows) - len(predicted),
    }
    with_memory = [row for row in all_rows if row["memory_error"] is not None]
    of_steps, of_servers = ([row for row in predicted if row["kind"] == kind] for kind in ("training", "serving"))
    listings = [
        Listing("Error of the step time, predicted over measured less 1", "group", _SCORE_FIELDS, scored, len(scored),
                (f"leave-one-out: {CALIBRATED}", *(() if stored is None else (_rests_on(stored),)))),
        Listing("Worst", "row", _WORST_FIELDS, bad, len(bad)),
        Listing("Predicted steps", "row", _ROW_FIELDS, of_steps, len(of_steps)),
    ]  # fmt: skip
    if servers:
        listings += [
            Listing("Error of generated tokens per second, predicted over measured less 1", "group", _SCORE_FIELDS,
                    server_scores, len(server_scores), (f"leave-one-out: {SERVED_CALIBRATED}",)),
            Listing("Predicted servers", "row", _SERVER_FIELDS, of_servers, len(of_servers)),
        ]  # fmt: skip
    listings += [
        Listing("Peak memory per device", "row", _MEMORY_FIELDS, with_memory, len(with_memory)),
        Listing("Not predicted", "reason", _REASON_FIELDS, reasons, len(reasons)),
    ]
    return Result(document, "rows", _COLUMNS, tuple(listings))


def _rests_on(stored: Profile) -> str:
    """What a reader must know of a profile before the errors: rows that it was fitted to are no test of it."""
    fitted = len(stored.notes.get("rows", ()))
    warning = f"; {fitted} published steps shaped it, which are no test of it" if fitted else ""
    return f"predicted with the profile {stored.name}: {stored.source or 'source not stated'}{warning}"


def _step(row: Validated) -> dict[str, Any]:
    # The id of a row is called so, too, because programs that compare files look for it.
    return {
        "id": row.row, **asdict(row), "measured": row.measured_s, "predicted": row.predicted_s, "unit": "s",
        "calibrated": row.calibrated_s, **_NO_SERVER, "reason": row.reason or None, "why": row.why or None,
    }  # fmt: skip


def _server(one: Served) -> dict[str, Any]:
    """A server's row with the keys of all rows; what only a step has is null."""
    found = one.found
    empty = Validated(found.id, one.chip, one.model, one.scale, kind="serving", counts=one.counts, layout=found.split)
    return {
        "id": found.id, **asdict(empty), "measured": found.measured, "predicted": found.predicted, "unit": "token/s",
        "error": found.error, "calibrated": one.calibrated, "calibrated_error": one.calibrated_error,
        "measured_tpot_s": found.measured_tpot_s, "predicted_tpot_s": found.predicted_tpot_s,
        "tpot_error": found.tpot_error, "assumptions": found.assumptions, "reason": one.reason or None, "why": None,
    }  # fmt: skip


def _covered(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the predicted rows of each chip span."""
    by_chip: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_chip.setdefault(str(row["chip"]), []).append(row)
    return [_span(chip, found) for chip, found in sorted(by_chip.items())]


def _span(chip: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scales = [row["scale"] for row in rows if isinstance(row["scale"], int)]
    return {
        "chip": chip, "predicted": len(rows), "counted": sum(row["counts"] for row in rows),
        "models": sorted({str(row["model"]) for row in rows}),
        "chips_least": min(scales, default=None), "chips_most": max(scales, default=None),
        "axes": sorted({part.partition("=")[0] for row in rows for part in str(row["layout"]).split()}),
    }  # fmt: skip


def _reasons(steps: Sequence[Validated], servers: Mapping[int, Served]) -> list[dict[str, Any]]:
    """How many rows of a chip are not predicted, by reason."""
    found = [
        {"chip": chip, "reason": reason, "count": count}
        for chip, by_reason in support(steps).items() for reason, count in by_reason.items() if reason != "predicted"
    ]  # fmt: skip
    counts: dict[tuple[str, str], int] = {}
    for one in servers.values():
        if one.found.predicted is None:
            key = (str(one.chip or "not stated"), f"a server: {one.reason}")
            counts[key] = counts.get(key, 0) + 1
    return [*found, *({"chip": chip, "reason": why, "count": count} for (chip, why), count in counts.items())]
