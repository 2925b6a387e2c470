"""The section on predictions of published training steps."""

from __future__ import annotations

from pathlib import Path

from tpuprof.plan.published import read_rows
from tpuprof.plan.validation import Validated, scores, support, validate, worst

FILE = Path(__file__).resolve().parents[1] / "data" / "published_perf.json"
TITLE = "## Training steps, predicted"
_NOTE = """
What `tpuprof plan train` says of training steps that others published, from chip, slice, model, batch, type,
parallelism and rematerialisation; [planner.md](planner.md) says how, and what was known when its constants were
settled. Error is predicted over measured less 1. Leave-one-out: one efficiency per chip, the median of that chip's
other rows.
"""


def published_section() -> str:
    """The section, from the rows that the tests hold."""
    rows = validate(read_rows(FILE))
    text = [TITLE, _NOTE, "| chip | rows | median | median size | 90th percentile | leave-one-out, median size |"]
    text.append("|---|---:|---:|---:|---:|---:|")
    for score in scores(rows):
        again = "-" if score.calibrated_absolute_median is None else f"{score.calibrated_absolute_median:.1%}"
        text.append(
            f"| {score.group} | {score.rows} | {score.signed_median:+.1%} | {score.absolute_median:.1%} | "
            f"{score.absolute_p90:.1%} | {again} |"
        )
    text += [
        "",
        "### The worst",
        "",
        "| row | chip | model | layout | error | not modelled |",
        "|---|---|---|---|---:|---|",
    ]
    text += [
        f"| {row.row} | {row.chip} | {row.model} | {row.layout} | {row.error:+.1%} | {row.why} |" for row in worst(rows)
    ]
    text += [
        "",
        "### All predicted rows",
        "",
        "| row | chip | chips | model | layout | measured | predicted | error | l-o-o |",
    ]
    text.append("|---|---|---:|---|---|---:|---:|---:|---:|")
    text += [_line(row) for row in rows if row.predicted_s is not None]
    text += [
        "",
        "### Peak memory per device",
        "",
        "| row | chip | model | measured | predicted | error |",
        "|---|---|---|---:|---:|---:|",
    ]
    text += [
        f"| {row.row} | {row.chip} | {row.model} | {(row.measured_memory_bytes or 0) / 1e9:.1f} GB | "
        f"{(row.predicted_memory_bytes or 0) / 1e9:.1f} GB | {row.memory_error:+.1%} |"
        for row in rows if row.memory_error is not None
    ]  # fmt: skip
    text += ["", "### Rows without a prediction", "", "| chip | rows | reason |", "|---|---:|---|"]
    text += [
        f"| {chip} | {count} | {reason} |"
        for chip, found in sorted(support(rows).items())
        for reason, count in found.items()
        if reason != "predicted"
    ]
    return "\n".join([*text, ""])


def _line(row: Validated) -> str:
    bound = " (upper bound)" if "upper bound" in row.reason else ""
    return (
        f"| {row.row} | {row.chip} | {row.scale} | {row.model} | {row.layout} | {row.measured_s:.3g} s{bound} | "
        f"{row.predicted_s:.3g} s | {row.error:+.1%} | {row.calibrated_error:+.1%} |"
    )
