"""A document for people as sections of sentences, notices and tables: built once, laid out by each view.

Everything in a page is clean text; the views only lay it out and escape it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tpuprof.report.facts import Notice
from tpuprof.report.html_parts import document_html, notice_html, section_html, table_html, tagged_html
from tpuprof.report.listing import Listing, markdown_table, md
from tpuprof.report.screen import Screen, indented, section_title, to_text
from tpuprof.report.terminal_table import draw_listing

_STYLES = {"info": "blue", "warning": "yellow", "error": "bold red"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: sentences, then notices, then a table; each may be missing.

    Args:
        title: what it is about.
        text: sentences.
        notices: entries with a heading each.
        listing: a table.
        figures: makes the charts of the HTML view, which alone can show them; called by nobody else.
        picture: the same, of a chart that stands in place of the table there; empty if it cannot be drawn.
    """

    title: str
    text: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    listing: Listing | None = None
    figures: Callable[[], str] | None = None
    picture: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A document.

    Args:
        command: what made it, such as ``tpuprof diff``.
        title: what it is about.
        verdict: one word of the outcome, with its severity (``good`` where all is well).
        lead: the outcome in one sentence.
        sections: the rest.
    """

    command: str
    title: str
    verdict: str
    severity: str
    lead: str
    sections: tuple[Section, ...]


def page_text(page: Page, screen: Screen) -> str:
    """The page for a terminal."""
    severity = _STYLES.get(page.severity, "bold green")
    head = Text.assemble((f"{page.command}: ", "dim"), (page.title, "bold"))
    blocks: list[RenderableType] = [Group(head, Text(page.lead, style=severity))]
    blocks += [_draw_section(section, screen) for section in page.sections]
    return to_text(Group(*(Padding(block, (0, 0, int(block is not blocks[-1]), 0)) for block in blocks)), screen)


def page_markdown(page: Page) -> str:
    """The page as GitHub-flavoured Markdown."""
    lines = [f"## {md(page.command)}: {md(page.title)}", "", f"**{md(page.lead)}**", ""]
    for section in page.sections:
        lines += [f"### {md(section.title)}", ""]
        lines += [line for text in section.text for line in (md(text), "")]
        for notice in section.notices:
            lines.append(f"- **{md(notice.heading)}** {md(f'{notice.message} {notice.suggestion}'.strip())}")
        lines += [""] if section.notices else []
        if section.listing is not None:
            listing = section.listing
            lines += [*markdown_table(listing), ""]
            lines += [listing.extent(), ""] if len(listing.rows) < listing.total else []
            lines += [line for note in listing.notes for line in (md(note), "")]
    return "\n".join(lines).rstrip("\n") + "\n"


def page_html(page: Page) -> str:
    """The page as one HTML file: inline style, no script, nothing loaded from elsewhere."""
    outcome = tagged_html(page.severity, page.verdict, f"<b>{escape(page.lead)}</b>")
    sections = "".join(_section_html(section) for section in page.sections)
    return document_html(page.command, page.title, f"<section>{outcome}</section>\n{sections}")


def _draw_section(section: Section, screen: Screen) -> RenderableType:
    body: list[RenderableType] = [section_title(section.title, screen)]
    body += [indented(Text(text)) for text in section.text]
    for notice in section.notices:
        text = f"{notice.message} {notice.suggestion}".strip()
        body.append(indented(Text.assemble((notice.heading, _STYLES.get(notice.severity, "")), f"  {text}")))
    if section.listing is not None:
        # The section's title is that of the table, unless there is something before it.
        table = draw_listing(section.listing, screen)
        body = [*body, table] if section.text or section.notices else [table]
    return Group(*body)


def _section_html(section: Section) -> str:
    parts = [f"<p>{escape(text)}</p>\n" for text in section.text]
    parts += [notice_html(notice) for notice in section.notices]
    picture = section.picture() if section.picture is not None else ""
    parts += [section.figures()] if section.figures is not None else []
    parts += [picture or table_html(section.listing)] if section.listing is not None else []
    return section_html(section.title, "", "".join(parts))
