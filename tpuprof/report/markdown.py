"""The report as Markdown."""

from __future__ import annotations

from typing import Any

from tpuprof.report import facts
from tpuprof.report.info import info_facts
from tpuprof.report.listing import Result, markdown_table, md, to_markdown
from tpuprof.report.listings import collectives_listing, report_ops_listing
from tpuprof.report.roofline import ladder_listing, matmuls_listing, utilisation_notes
from tpuprof.units import format_percent, format_ps

COLLECTIVES_SHOWN = 20
MATMULS_SHOWN = 20


def report_markdown(report: dict[str, Any], top: int) -> str:
    """The report as GitHub-flavoured Markdown with the ``top`` ops; every name in it is escaped."""
    lines = [
        f"## tpuprof report: {md(facts.run_name(report))}",
        "",
        md(" · ".join(facts.headline(report))),
        "",
    ]
    lines += _notices("Quality", facts.quality_notices(report))
    lines += _notices("Findings", facts.finding_notices(report))
    notes = facts.finding_notes(report)
    lines += [*(f"- {md(note)}" for note in notes), *([""] if notes else [])]
    lines += _steps(report)
    if report["breakdown"].get("step_ps"):
        lines += _breakdown(report)
    lines += _roofline(report)
    if report["ops"]:
        listing = report_ops_listing(report, top, facts.op_time_ps(report))
        lines += [f"### {md(listing.title)}", "", *markdown_table(listing), "", listing.extent(), ""]
    if report["collectives"]:
        listing = collectives_listing(report, COLLECTIVES_SHOWN)
        lines += [f"### {md(listing.title)}", "", *markdown_table(listing), "", listing.extent(), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def info_markdown(result: Result) -> str:
    """The result of ``info`` as Markdown."""
    document = result.document
    lines = [f"## tpuprof info: {md(facts.run_name(document))}", ""]
    lines += [*(f"- {md(fact)}" for fact in info_facts(document)), ""]
    lines += _notices("Quality", facts.quality_notices(document))
    return "\n".join(lines) + "\n" + to_markdown(result.listings)


def _notices(title: str, notices: list[facts.Notice]) -> list[str]:
    if not notices:
        return []
    items = [f"- **{n.severity}** {md(n.heading)}: {md(f'{n.message} {n.suggestion}'.strip())}" for n in notices]
    return [f"### {title}", "", *items, ""]


def _steps(report: dict[str, Any]) -> list[str]:
    figures = facts.step_figures(report)
    lines = ["### Step time", "", md(facts.step_basis(report)), ""]
    if figures:
        lines += [
            "| " + " | ".join(label for label, _ in figures) + " |",
            "|" + "---:|" * len(figures),
            "| " + " | ".join(md(value) for _, value in figures) + " |",
            "",
        ]
    return lines


def _roofline(report: dict[str, Any]) -> list[str]:
    notes = utilisation_notes(report)
    lines = ["### Roofline", "", *(f"- {md(note)}" for note in notes), ""] if notes else []
    for listing in (ladder_listing(report), matmuls_listing(report, MATMULS_SHOWN)):
        if listing.rows:
            lines += [f"### {md(listing.title)}", "", *markdown_table(listing), ""]
            lines += [line for note in listing.notes for line in (f"- {md(note)}", "")]
    return lines


def _breakdown(report: dict[str, Any]) -> list[str]:
    breakdown = report["breakdown"]
    step_ps = breakdown["step_ps"]
    lines = ["### Where a step goes", "", f"{format_ps(step_ps)}, {facts.breakdown_basis(report)}", ""]
    lines += ["| part | time | share of the step |", "|---|---:|---:|"]
    for line in facts.part_lines(breakdown["parts"], step_ps):
        lines.append(f"| {line.look.label} | {format_ps(line.ps)} | {format_percent(line.fraction)} |")
    lines.append("")
    spread = facts.spread_note(report)
    notes = [*facts.side_notes(report), *([f"Cores: {spread}."] if spread else [])]
    return [*lines, *(f"- {md(note)}" for note in notes), *([""] if notes else [])]
