"""Listings as tables for terminals, with rich. Columns give way where the width does not suffice."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuprof.palette import LOOKS, part_of_kind
from tpuprof.report.listing import Field, Listing, pick
from tpuprof.report.screen import GAP, INDENT, Screen, indented, section_title
from tpuprof.units import UNKNOWN

NARROWEST_NAME = 14
_WIDEST_SHORTENED = 32
_NARROWEST = 4
_KEPT_ENDING = 8
_SWATCH = "■ "


def draw_listing(listing: Listing, screen: Screen) -> RenderableType:
    """A listing for a rich console of the screen's width."""
    if not listing.rows:
        return Group(section_title(listing.title, screen), indented(Text(listing.nothing(), style="dim")))
    cells = listing.cells()
    swatch = "" if screen.letters else _SWATCH
    widths = fit(listing.fields, cells, screen.width - INDENT, len(swatch))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    kept = [index for index, width in enumerate(widths) if width]
    for index in kept:
        field = listing.fields[index]
        justify = "right" if field.right else "left"
        table.add_column(field.heading, justify=justify, no_wrap=True, width=widths[index], overflow="crop")
    for row, line in zip(listing.rows, cells, strict=True):
        table.add_row(*(_cell(listing.fields[i], row, line[i], widths[i], swatch) for i in kept))
    parts: list[RenderableType] = [section_title(listing.title, screen), indented(table)]
    notes = [listing.extent()] if len(listing.rows) < listing.total else []
    parts.extend(indented(Text(note, style="dim")) for note in (*notes, *listing.notes))
    return Group(*parts)


def fit(fields: tuple[Field, ...], cells: list[list[str]], room: int, swatch: int) -> list[int]:
    """The width of each column, 0 for those left out.

    Names are shortened first, those of the main columns (rank 0) to a quarter of the room; then the columns of the
    largest rank go, one by one; what is still too wide then is shortened further, the widest first.
    """
    natural = [
        max(len(field.heading), *(cell_len(row[index]) + swatch * (field.role == "kind") for row in cells))
        for index, field in enumerate(fields)
    ]
    main = min(max(room // 4, NARROWEST_NAME), _WIDEST_SHORTENED)
    widths = [
        min(width, NARROWEST_NAME if field.rank else main) if field.role in ("name", "tail") else width
        for width, field in zip(natural, fields, strict=True)
    ]
    kept = list(range(len(fields)))

    def spare() -> int:
        return room - sum(widths[index] for index in kept) - GAP * (len(kept) - 1)

    while spare() < 0 and any(fields[index].rank for index in kept):
        kept.remove(max(kept, key=lambda index: fields[index].rank))
    for index in sorted(kept, key=lambda index: fields[index].rank):
        # The main column takes what it needs first, then those of less weight.
        widths[index] += min(natural[index] - widths[index], max(spare(), 0))
    for index in sorted(
        kept, key=lambda index: (fields[index].right, -widths[index])
    ):  # numbers last, short words whole
        widths[index] = max(widths[index] + min(spare(), 0), min(natural[index], _NARROWEST))
    return [widths[index] if index in kept else 0 for index in range(len(fields))]


def shortened(text: str, width: int, *, keep_tail: bool) -> Text:
    """At most ``width`` cells, with an ellipsis where something is left out.

    A path keeps its end, which tells more; a name keeps its begin and its last few characters, where the number is.
    """
    if cell_len(text) > width:
        ending = width - 1 if keep_tail else min(_KEPT_ENDING, width // 3)
        text = f"{_cells(text, width - 1 - ending, 1)}…{_cells(text, ending, -1)}"
    return Text(text, no_wrap=True, overflow="crop")


def _cells(text: str, width: int, step: int) -> str:
    """As much of the text as fits into ``width`` cells, from its begin (step 1) or end (step -1)."""
    kept = ""
    for character in text[::step]:
        if cell_len(kept + character) > width:
            break
        kept += character
    return kept[::step]


def _cell(field: Field, row: dict[str, Any], text: str, width: int, swatch: str) -> Text:
    if text == UNKNOWN:
        return Text(text, style="dim")
    if field.role == "kind" and swatch:
        return Text.assemble((swatch, LOOKS[part_of_kind(pick(row, field.key))].dark), text)
    return shortened(text, width, keep_tail=field.role == "tail")
