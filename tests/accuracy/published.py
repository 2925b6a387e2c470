"""The section on predictions of published training steps and servers, and its pictures.

``python -m tests.accuracy.published`` writes the pictures, ``--check`` says whether they are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tpuprof.plan.published import bundled_rows, read_rows
from tpuprof.plan.serve.validation import Served, served_rows, served_scores
from tpuprof.plan.validation import Score, Validated, scores, support, validate, worst
from tpuprof.report.validation import validation_result

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
HELD_OUT = Path(__file__).resolve().parents[1] / "data" / "held_out_perf.json"
TITLE = "## Training steps, predicted"
_NOTE = """
What `tpuprof plan train` says of training steps that others published, from chip, slice, model, batch, type,
parallelism and rematerialisation; [planner.md](planner.md) says how, and what was known when its constants were
settled. Error is predicted over measured less 1. Leave-one-out: one efficiency per chip, the median of that chip's
other rows. `tpuprof validate --published` makes all of this.

![Predicted over measured steps, both logarithmic, by chip](images/accuracy.svg)
"""
_HELD_OUT = """
Steps that were looked up after every constant that they depend on had been settled; none of these was changed since.
The first two are programs of the rows below on twice as many chips, the others are not among them.
"""
_SERVERS = """
What `tpuprof plan serve` says of servers that others measured (vLLM), from chip, slice, model, type, sequences at a
time and request lengths; [serving.md](serving.md) says how. Generated tokens per second, predicted over measured less
1; the same of the time per further token where it was measured. Leave-one-out: one factor for all, the median of the
other rows.

![Predicted over measured tokens per second, both logarithmic, by chip](images/accuracy-serving.svg)
"""
_SCORE_HEAD = (
    "| chip | rows | median | median size | 90th percentile | leave-one-out, median size |",
    "|---|---:|---:|---:|---:|---:|",
)
_ROW_HEAD = (
    "| row | chip | chips | model | layout | measured | predicted | error | l-o-o |",
    "|---|---|---:|---|---|---:|---:|---:|---:|",
)


def published_section() -> str:
    """The section, from the rows that the package brings along."""
    given = bundled_rows()
    rows, servers = validate(given), served_rows(given)
    steps = [row for place, row in enumerate(rows) if place not in servers]
    held = validate(read_rows(HELD_OUT))
    text = [TITLE, _NOTE, *_scores(scores(steps)), "", "### Steps that no constant has seen", _HELD_OUT]
    text += [*_ROW_HEAD, *map(_line, held), "", f"Median size of the error: {scores(held)[-1].absolute_median:.1%}."]
    text += ["", "### The worst", "", "| row | chip | model | layout | error | why |", "|---|---|---|---|---:|---|"]
    text += [
        f"| {row.row} | {row.chip} | {row.model} | {row.layout} | {row.error:+.1%} | {row.why} |"
        for row in worst(steps)
    ]
    text += ["", "### All predicted steps", "", *_ROW_HEAD]
    text += [_line(row) for row in steps if row.predicted_s is not None]
    text += ["", "### Servers", _SERVERS, *_scores(served_scores(servers)), ""]
    text += [
        "| row | chip | chips | model | split | token/s | predicted | error | of TPOT | l-o-o |",
        "|---|---|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    text += [_server(one) for one in servers.values() if one.found.predicted is not None]
    text += ["", "### Rows without a prediction", "", "| chip | rows | reason |", "|---|---:|---|"]
    text += [
        f"| {chip} | {count} | {reason} |"
        for chip, found in sorted(support(steps).items())
        for reason, count in found.items()
        if reason != "predicted"
    ]
    text += [
        f"| {one.chip or 'not stated'} | 1 | a server: {one.reason} |"
        for one in servers.values()
        if one.found.predicted is None
    ]
    return "\n".join([*text, ""])


def pictures() -> dict[str, str]:
    """The pictures by file name, as SVG."""
    from tpuprof.charts import to_svg
    from tpuprof.charts.accuracy import accuracy_chart

    given = bundled_rows()
    rows = validation_result(validate(given), "", served_rows(given)).document["rows"]
    made: dict[str, str] = {}
    for name, kind, what in (
        ("accuracy.svg", "training", "Predicted over measured training steps"),
        ("accuracy-serving.svg", "serving", "Predicted over measured tokens per second of servers"),
    ):
        drawing = accuracy_chart([row for row in rows if row["kind"] == kind])
        assert drawing.chart is not None
        made[name] = to_svg(drawing.chart, label=what) + "\n"
    return made


def said_in(svg: str) -> list[str]:
    """What the marks of a picture say, which no font changes."""
    return re.findall(r"<title>([^<]*)</title>", svg)


def _scores(found: Sequence[Score]) -> list[str]:
    lines = list(_SCORE_HEAD)
    for score in found:
        again = "-" if score.calibrated_absolute_median is None else f"{score.calibrated_absolute_median:.1%}"
        lines.append(
            f"| {score.group} | {score.rows} | {score.signed_median:+.1%} | {score.absolute_median:.1%} | "
            f"{score.absolute_p90:.1%} | {again} |"
        )
    return lines


def _line(row: Validated) -> str:
    bound = " (upper bound)" if "upper bound" in row.reason else ""
    return (
        f"| {row.row} | {row.chip} | {row.scale} | {row.model} | {row.layout} | {row.measured_s:.3g} s{bound} | "
        f"{row.predicted_s:.3g} s | {row.error:+.1%} | {row.calibrated_error:+.1%} |"
    )


def _server(one: Served) -> str:
    found = one.found
    tpot = "" if found.tpot_error is None else f"{found.tpot_error:+.1%}"
    return (
        f"| {found.id} | {one.chip} | {one.scale} | {one.model} | {found.split} | {found.measured:,.0f} | "
        f"{found.predicted:,.0f} | {found.error:+.1%} | {tpot} | {one.calibrated_error:+.1%} |"
    )


def main() -> int:
    """Does what the arguments say."""
    stale = 0
    for name, svg in pictures().items():
        path = IMAGES / name
        if path.exists() and said_in(path.read_text(encoding="utf-8")) == said_in(svg):
            continue
        stale += 1
        if "--check" in sys.argv[1:]:
            print(f"{path} is out of date: python -m tests.accuracy.published")
        else:
            path.write_text(svg, encoding="utf-8")
    return int(stale > 0 and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
