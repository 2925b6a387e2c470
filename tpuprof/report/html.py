"""The report as one HTML file: inline style and SVG, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from tpuprof.palette import LOOKS
from tpuprof.report import bars, facts
from tpuprof.report.html_charts import collectives_figure, ladder_figure, roofline_figure
from tpuprof.report.html_parts import document_html, notice_html, section_html, table_html
from tpuprof.report.listing import Listing
from tpuprof.report.listings import collectives_listing, report_ops_listing
from tpuprof.report.roofline import ladder_listing, matmuls_listing, utilisation_notes
from tpuprof.text import clean
from tpuprof.units import format_percent, format_ps

CORES_SHOWN = 32
COLLECTIVES_SHOWN = 50
MATMULS_SHOWN = 50


def report_html(report: dict[str, Any], top: int) -> str:
    """A complete HTML document with the ``top`` ops. Every name in it is escaped."""
    sections = [
        _notices("Quality of the recording", facts.quality_notices(report)),
        _notices("Findings", facts.finding_notices(report), facts.finding_notes(report)),
        _steps(report),
    ]
    if report["breakdown"].get("step_ps"):
        sections += [_breakdown(report), _cores(report)]
    sections.append(_roofline(report))
    if report["ops"]:
        sections.append(_listing(report_ops_listing(report, top, facts.op_time_ps(report))))
    if report["collectives"]:
        sections.append(_listing(collectives_listing(report, COLLECTIVES_SHOWN), collectives_figure(report)))
    return document_html(
        "tpuprof report", facts.run_name(report), "".join(sections), " · ".join(facts.headline(report))
    )


def _roofline(report: dict[str, Any]) -> str:
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in utilisation_notes(report))
    found = section_html("Roofline", "", notes + roofline_figure(report)) if notes else ""
    for listing, figure in (
        (ladder_listing(report), ladder_figure(report)),
        (matmuls_listing(report, MATMULS_SHOWN), ""),
    ):
        found += _listing(listing, figure) if listing.rows else ""
    return found


def _notices(title: str, notices: list[facts.Notice], notes: list[str] | None = None) -> str:
    if not notices and not notes:
        return ""
    below = "".join(f'<p class="soft">{escape(note)}</p>\n' for note in notes or ())
    return section_html(title, "", "".join(notice_html(notice) for notice in notices) + below)


def _steps(report: dict[str, Any]) -> str:
    figures = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for label, value in facts.step_figures(report)
    )
    return section_html("Step time", facts.step_basis(report), f'<dl class="figures">{figures}</dl>' if figures else "")


def _breakdown(report: dict[str, Any]) -> str:
    breakdown = report["breakdown"]
    parts, step_ps = breakdown["parts"], breakdown["step_ps"]
    groups = (("compute", "compute"), ("wait", "transfers and waiting"), ("idle", "idle"))
    summary = " · ".join(
        f"{label} {format_percent(facts.group_fraction(parts, step_ps, group), 1)}" for group, label in groups
    )
    rows = "".join(
        f'<tr><td class="kind"><i class="swatch p-{line.part}"></i>{escape(line.look.label)}</td>'
        f'<td class="r">{format_ps(line.ps)}</td><td class="r">{format_percent(line.fraction)}</td>'
        f'<td class="meter">{_meter(line.part, line.fraction or 0.0)}</td></tr>\n'
        for line in facts.part_lines(parts, step_ps)
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in facts.side_notes(report))
    body = (
        f'<div class="whole">{_bar(parts, 34)}</div><p class="groups">{escape(summary)}</p>'
        '<div class="scroll"><table><thead><tr><th>part</th><th class="r">time</th><th class="r">share of step</th>'
        f"<th></th></tr></thead><tbody>\n{rows}</tbody></table></div>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )
    return section_html("Where a step goes", f"{format_ps(step_ps)}, {facts.breakdown_basis(report)}", body)


def _cores(report: dict[str, Any]) -> str:
    cores = sorted(report["breakdown"]["per_device"], key=lambda core: -(core["step_ps"] or 0))
    if len(cores) < 2:
        return ""
    longest = max(core["step_ps"] or 0 for core in cores)
    rows = "".join(
        f'<tr><td class="name">{escape(clean(core["device"]))}</td><td class="r">{format_ps(core["step_ps"])}</td>'
        f'<td class="cores">{_bar(core["parts"], 16, (core["step_ps"] or 0) / longest if longest else 0)}</td></tr>\n'
        for core in cores[:CORES_SHOWN]
    )
    shown = f'<p class="soft">{CORES_SHOWN} of {len(cores):,} cores</p>' if len(cores) > CORES_SHOWN else ""
    body = f'<div class="scroll"><table><tbody>\n{rows}</tbody></table></div>{shown}'
    return section_html("Cores, slowest first", facts.spread_note(report) or "", body)


def _bar(parts: dict[str, Any], height: int, length: float = 1.0) -> str:
    """The stacked bar of a partition; ``length`` is its share of the full width."""
    rects: list[str] = []
    start = 0.0
    for part, share in bars.shares(parts):
        label = f"{LOOKS[part].label} {format_percent(share)}"
        width = 1000 * share * length
        rects.append(
            f'<rect class="p-{part}" x="{start:.2f}" y="0" width="{width:.2f}" height="{height}">'
            f"<title>{escape(label)}</title></rect>"
        )
        start += width
    told = ", ".join(f"{LOOKS[part].label} {format_percent(share)}" for part, share in bars.shares(parts))
    return (
        f'<svg class="bar" role="img" aria-label="{escape(told)}" viewBox="0 0 1000 {height}" height="{height}" '
        f'preserveAspectRatio="none">{"".join(rects)}</svg>'
    )


def _meter(part: str, fraction: float) -> str:
    width = 1000 * min(max(fraction, 0.0), 1.0)
    return (
        '<svg class="bar" aria-hidden="true" viewBox="0 0 1000 10" height="10" preserveAspectRatio="none">'
        f'<rect class="p-{part}" x="0" y="0" width="{width:.2f}" height="10"/></svg>'
    )


def _listing(listing: Listing, figure: str = "") -> str:
    title, _, detail = listing.title.partition(": ")
    return section_html(title, detail, figure + table_html(listing, notes=not figure))  # a caption says the notes
