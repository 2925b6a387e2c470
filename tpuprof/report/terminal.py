"""The report as text for terminals, with rich."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tpuprof.palette import LOOKS
from tpuprof.report import bars, facts
from tpuprof.report.info import info_facts
from tpuprof.report.listing import Listing, Result
from tpuprof.report.listings import collectives_listing, report_ops_listing
from tpuprof.report.roofline import ladder_listing, matmuls_listing, utilisation_notes
from tpuprof.report.screen import GAP, INDENT, Screen, indented, section_title, to_text
from tpuprof.report.terminal_table import NARROWEST_NAME, draw_listing, shortened
from tpuprof.text import clean
from tpuprof.units import format_percent, format_ps

SEVERITY_STYLES = {"info": "blue", "warning": "yellow", "error": "bold red"}
_MARKS = {"info": "i", "warning": "!", "error": "x"}
_NARROWEST_LABEL = 5
_CORES_SHOWN = 16
_COLLECTIVES_SHOWN = 10
_MATMULS_SHOWN = 10


def listings_text(listings: tuple[Listing, ...], screen: Screen) -> str:
    """Listings as text, with an empty line between them."""
    screen = screen.for_tables
    return "\n".join(to_text(draw_listing(listing, screen), screen) for listing in listings)


def report_text(report: dict[str, Any], screen: Screen, top: int) -> str:
    """The report as text, with the ``top`` ops."""
    return to_text(draw_report(report, screen, top), screen)


def info_text(result: Result, screen: Screen) -> str:
    """The result of ``info`` as text: facts, quality, listings."""
    document = result.document
    blocks: list[RenderableType] = [
        Group(
            _headline("tpuprof info", document),
            *_flow([Text(f) for f in info_facts(document)], " · ", screen),
        )
    ]
    quality = _notices("Quality", facts.quality_notices(document), screen)
    blocks += [quality] if quality else []
    texts = [to_text(block, screen) for block in blocks]
    return "\n".join([*texts, listings_text(result.listings, screen)] if result.listings else texts)


def draw_report(report: dict[str, Any], screen: Screen, top: int) -> RenderableType:
    """The report for a rich console of the screen's width."""
    sections = [_head(report, screen), _notices("Quality", facts.quality_notices(report), screen)]
    sections += [_findings(report, screen), _steps(report, screen)]
    if report["breakdown"].get("step_ps"):
        sections += [_breakdown(report, screen), _cores(report, screen)]
    sections.append(_roofline(report, screen))
    if report["ops"]:
        sections.append(draw_listing(report_ops_listing(report, top, facts.op_time_ps(report)), screen))
    if report["collectives"]:
        sections.append(draw_listing(collectives_listing(report, _COLLECTIVES_SHOWN), screen))
    shown = [section for section in sections if section is not None]
    return Group(*(Padding(section, (0, 0, 0 if section is shown[-1] else 1, 0)) for section in shown))


def _headline(command: str, document: dict[str, Any]) -> Text:
    return Text.assemble((command, "bold"), "  ", (facts.run_name(document), "bold cyan"))


def _head(report: dict[str, Any], screen: Screen) -> RenderableType:
    return Group(
        _headline("tpuprof report", report),
        *_flow([Text(fact) for fact in facts.headline(report)], " · ", screen),
    )


def _notices(name: str, notices: list[facts.Notice], screen: Screen) -> RenderableType | None:
    if not notices:
        return None
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for notice in notices:
        style = SEVERITY_STYLES[notice.severity]
        message = Text(notice.message)
        if notice.title != notice.id:
            message = Text.assemble((notice.title, "bold"), ". ", message)
        if notice.suggestion:
            message.append(f" {notice.suggestion}", style="italic")
        mark = Text(f"{_MARKS[notice.severity]} {notice.severity}", style=style)
        grid.add_row(mark, Text(notice.id, style="bold"), message)
    return Group(section_title(name, screen), indented(grid))


def _findings(report: dict[str, Any], screen: Screen) -> RenderableType | None:
    notices = _notices("Findings", facts.finding_notices(report), screen)
    notes = [indented(Text(note, style="dim")) for note in facts.finding_notes(report)]
    if notices is None:
        return Group(section_title("Findings: none above the floor", screen), *notes) if notes else None
    return Group(notices, *notes)


def _steps(report: dict[str, Any], screen: Screen) -> RenderableType:
    figures = facts.step_figures(report)
    title = section_title(f"Step time: {facts.step_basis(report)}", screen)
    return Group(title, *_flow([Text.assemble((f"{label} ", "dim"), value) for label, value in figures], "   ", screen))


def _breakdown(report: dict[str, Any], screen: Screen) -> RenderableType:
    breakdown = report["breakdown"]
    parts, step_ps = breakdown["parts"], breakdown["step_ps"]
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for justify in ("left", "left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    room = max(min(screen.width - 52, 50), 0)
    lines = list(facts.part_lines(parts, step_ps))
    times = [format_ps(line.ps) for line in lines]
    shares = [format_percent(line.fraction) for line in lines]
    # Where the width does not suffice the labels give way: a number without its unit would be another number.
    numbers = max(map(len, times), default=0) + max(map(len, shares), default=0)
    label_width = max(screen.width - INDENT - 1 - numbers - 4 * GAP, _NARROWEST_LABEL)
    for line, time, share in zip(lines, times, shares, strict=True):
        mark = line.look.letter if screen.letters else "■"
        grid.add_row(
            Text(mark, style=line.look.dark),
            shortened(line.look.label, label_width, keep_tail=False),
            Text(time),
            Text(share),
            Text(bars.meter(line.fraction or 0.0, room) if room >= 8 else "", style=line.look.dark),
        )
    groups = (("compute", "compute"), ("wait", "transfers and waiting"), ("idle", "idle"))
    summary = " · ".join(
        f"{label} {format_percent(facts.group_fraction(parts, step_ps, group), 1)}" for group, label in groups
    )
    body: list[RenderableType] = [
        section_title(f"Where a step goes: {format_ps(step_ps)}, {facts.breakdown_basis(report)}", screen),
        indented(_bar(parts, screen.width - 2 * INDENT, screen, "█")),
        indented(Text(summary, style="bold")),
        indented(grid),
    ]
    body.extend(indented(Text(note, style="dim")) for note in facts.side_notes(report))
    return Group(*body)


def _roofline(report: dict[str, Any], screen: Screen) -> RenderableType | None:
    notes = [indented(Text(note)) for note in utilisation_notes(report)]
    ladder, matmuls = ladder_listing(report), matmuls_listing(report, _MATMULS_SHOWN)
    tables = [draw_listing(listing, screen) for listing in (ladder, matmuls) if listing.rows]
    if not notes and not tables:
        return None
    return Group(section_title("Roofline", screen), *notes, *(Padding(table, (1, 0, 0, 0)) for table in tables))


def _cores(report: dict[str, Any], screen: Screen) -> RenderableType | None:
    cores = sorted(report["breakdown"]["per_device"], key=lambda core: -(core["step_ps"] or 0))
    if len(cores) < 2:
        return None
    shown = cores[:_CORES_SHOWN]
    names = [clean(core["device"]) for core in shown]
    name_width = min(max(len(name) for name in names), max(screen.width // 3, NARROWEST_NAME))
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    room = max(screen.width - 2 * INDENT - name_width - 2 * GAP - 10, 8)
    for name, core in zip(names, shown, strict=True):
        grid.add_row(
            shortened(name, name_width, keep_tail=True),
            Text(format_ps(core["step_ps"])),
            _bar(core["parts"], room, screen, "▇"),
        )
    head = section_title(f"Cores, slowest first: {facts.spread_note(report) or ''}", screen)
    body: list[RenderableType] = [head, indented(grid)]
    if len(shown) < len(cores):
        body.append(indented(Text(f"{len(shown)} of {len(cores):,} cores", style="dim")))
    return Group(*body)


def _bar(parts: dict[str, Any], width: int, screen: Screen, block: str) -> Text:
    bar = Text(no_wrap=True, overflow="crop")
    for part, count in bars.cells(parts, width):
        look = LOOKS[part]
        bar.append((look.letter if screen.letters else block) * count, style=look.dark)
    return bar


def _flow(items: list[Text], separator: str, screen: Screen) -> list[RenderableType]:
    """The items on as few lines as they need; no item is broken."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(separator) + item.cell_len <= screen.width - INDENT:
            lines[-1] = Text.assemble(lines[-1], (separator, "dim"), item)
        else:
            lines.append(item)
    return [indented(line) for line in lines]
