"""One place that turns the report or a table result into the text of a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.listing import Result, to_csv, to_jsonl, to_markdown
from tpuprof.report.plain import rows_of, to_json
from tpuprof.tables.schemas import PARTS

if TYPE_CHECKING:
    from tpuprof.report.screen import Screen

TABLE_FORMATS = ("table", "json", "jsonl", "csv", "md")
PLAN_FORMATS = (*TABLE_FORMATS, "html")
REPORT_FORMATS = (*TABLE_FORMATS, "html", "junit", "sarif", "github")
TOP_OPS = {"table": 15, "md": 15, "github": 15, "html": 50}
"""How many ops the views of the report show; JSON has them all."""


def render_result(result: Result, form: str, screen: Screen | None = None) -> str:
    """A table result in one of :data:`TABLE_FORMATS`; ``screen`` is needed for ``table`` only."""
    if form == "json":
        return to_json(result.document)
    if form == "jsonl":
        return to_jsonl(result.rows)
    if form == "csv":
        return to_csv(result.rows, result.columns)
    if form == "md":
        return to_markdown(result.listings)
    from tpuprof.report.screen import Screen
    from tpuprof.report.terminal import listings_text

    return listings_text(result.listings, screen or Screen())


def render_info(result: Result, form: str, screen: Screen | None = None) -> str:
    """The result of ``info`` in one of :data:`TABLE_FORMATS`."""
    if form == "md":
        from tpuprof.report.markdown import info_markdown

        return info_markdown(result)
    if form == "table":
        from tpuprof.report.screen import Screen
        from tpuprof.report.terminal import info_text

        return info_text(result, screen or Screen())
    return render_result(result, form)


def render_report(report: dict[str, Any], form: str, screen: Screen | None = None, fail_on: str = "never") -> str:
    """The report in one of :data:`REPORT_FORMATS`.

    ``jsonl`` is the whole report on one line; ``csv`` the breakdown, one row per core after a row for the mean.
    ``github`` gives annotations followed by the summary.
    """
    if form == "json":
        return to_json(report)
    if form == "jsonl":
        return to_jsonl([report])
    if form == "csv":
        return to_csv(*_breakdown_rows(report))
    if form in ("md", "html", "github"):
        return _document(report, form)
    if form == "junit":
        from tpuprof.report.junit import report_junit

        return report_junit(report, fail_on)
    if form == "sarif":
        from tpuprof.report.sarif import report_sarif

        return report_sarif(report)
    from tpuprof.report.screen import Screen
    from tpuprof.report.terminal import report_text

    return report_text(report, screen or Screen(), TOP_OPS["table"])


def _document(report: dict[str, Any], form: str) -> str:
    top = TOP_OPS[form]
    if form == "html":
        from tpuprof.report.html import report_html

        return report_html(report, top)
    if form == "github":
        from tpuprof.report.github import report_annotations, report_summary

        return report_annotations(report) + report_summary(report, top)
    from tpuprof.report.markdown import report_markdown

    return report_markdown(report, top)


def _breakdown_rows(report: dict[str, Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    breakdown = report["breakdown"]
    mean = {"device": "mean", "step_ps": breakdown.get("step_ps"), "parts": breakdown.get("parts")}
    return [mean, *rows_of(breakdown.get("per_device"))], (
        "device",
        "step_ps",
        *(f"parts.{part}_ps" for part in PARTS),
    )
