"""What all HTML documents share: the frame of the file, sections, notices and tables. All text is escaped here."""

from __future__ import annotations

from html import escape
from typing import Any

from tpuprof._version import __version__
from tpuprof.palette import part_of_kind
from tpuprof.report.facts import Notice
from tpuprof.report.html_style import style
from tpuprof.report.listing import Field, Listing, pick
from tpuprof.units import UNKNOWN

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_TAGS = ("info", "warning", "error")


def document_html(command: str, title: str, body: str, soft: str = "") -> str:
    """One HTML file: inline style, no script, nothing loaded from elsewhere.

    Args:
        body: HTML of its sections.
        soft: a line below the title.
    """
    below = f'<p class="soft">{escape(soft)}</p>' if soft else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)} - {escape(command)}</title>\n<style>{style()}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1><small>{escape(command)}</small>{escape(title)}</h1>{below}</header>\n"
        f"{body}<footer>Made by tpuprof {escape(__version__)}.</footer>\n</main>\n</body>\n</html>\n"
    )


def section_html(title: str, detail: str, body: str) -> str:
    """A section with its title, and what the title is about below it."""
    soft = f'<p class="soft">{escape(detail)}</p>' if detail else ""
    return f"<section>\n<h2>{escape(title)}</h2>{soft}\n{body}</section>\n"


def notice_html(notice: Notice) -> str:
    """An entry with its severity."""
    hint = f" <i>{escape(notice.suggestion)}</i>" if notice.suggestion else ""
    return tagged_html(
        notice.severity, notice.severity, f"<b>{escape(notice.heading)}</b> {escape(notice.message)}{hint}"
    )


def tagged_html(severity: str, word: str, html: str) -> str:
    """A line with a word in the colour of a severity before it."""
    tag = severity if severity in _TAGS else "info"
    return f'<div class="notice"><span class="tag {tag}">{escape(word)}</span><p>{html}</p></div>\n'


def table_html(listing: Listing, *, notes: bool = True) -> str:
    """A listing without its title, or the sentence that it has no rows; how much it shows stands below it.

    Args:
        notes: whether its notes do, too; a figure beside it may say them.
    """
    if not listing.rows:
        return f'<p class="soft">{escape(listing.nothing())}</p>\n'
    named = any(field.heading for field in listing.fields)
    head = "".join(f"<th{_class(field, head=True)}>{escape(field.heading)}</th>" for field in listing.fields)
    rows = "".join(
        f"<tr>{''.join(map(_cell, listing.fields, [row] * len(cells), cells))}</tr>\n"
        for row, cells in zip(listing.rows, listing.cells(), strict=True)
    )
    extent = [listing.extent()] if len(listing.rows) < listing.total else []
    below = "".join(f'<p class="soft">{escape(note)}</p>\n' for note in (*extent, *(listing.notes if notes else ())))
    above = f"<thead><tr>{head}</tr></thead>" if named else ""
    return f'<div class="scroll"><table>{above}<tbody>\n{rows}</tbody></table></div>\n{below}'


def _cell(field: Field, row: dict[str, Any], text: str) -> str:
    shown = escape(text)
    if text == UNKNOWN:
        shown = f'<span class="none">{shown}</span>'
    elif field.role == "kind":
        return f'<td class="kind"><i class="swatch p-{part_of_kind(pick(row, field.key))}"></i>{shown}</td>'
    elif field.role == "tail":
        shown = shown.replace("/", "/<wbr>")  # paths break after a slash
    return f"<td{_class(field)}>{shown}</td>"


def _class(field: Field, *, head: bool = False) -> str:
    if field.right:
        return ' class="r"'
    if head or field.role not in ("name", "tail"):
        return ""
    return ' class="name scope"' if field.role == "tail" else ' class="name"'
