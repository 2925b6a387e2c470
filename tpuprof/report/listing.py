"""Tables for people and programs: one description of the columns, drawn as text, Markdown, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from tpuprof.report.plain import to_json
from tpuprof.text import clean, csv_text, plural, plural_noun
from tpuprof.units import UNKNOWN


def show_text(value: object) -> str:
    """A value as clean text; null is ``n/a``."""
    return UNKNOWN if value is None else clean(value)


def show_count(value: int | None) -> str:
    """An integer with thousands separators."""
    return UNKNOWN if value is None else f"{value:,}"


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a listing.

    Args:
        key: the key in a row; dots lead into nested objects.
        heading: the column's heading.
        show: turns a value into text for people.
        right: align to the right (numbers).
        rank: columns with the largest rank are dropped first where the width does not suffice; 0 is never dropped.
        role: ``name`` may be shortened, ``kind`` is coloured as the kind it holds, ``plain`` is neither.
    """

    key: str
    heading: str
    show: Callable[[Any], str] = show_text
    right: bool = False
    rank: int = 0
    role: str = "plain"


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows with the columns that people see.

    Args:
        title: what the table shows, with the denominator of its shares.
        noun: what a row is, in the singular (``op``).
        total: how many rows there are in all; ``rows`` may be the first of them.
    """

    title: str
    noun: str
    fields: tuple[Field, ...]
    rows: list[dict[str, Any]]
    total: int
    notes: tuple[str, ...] = ()

    def cells(self) -> list[list[str]]:
        """The rows as clean text."""
        return [[field.show(pick(row, field.key)) for field in self.fields] for row in self.rows]

    def extent(self) -> str:
        """``30 of 138 ops``, or ``12 ops`` when all are shown."""
        shown = len(self.rows)
        return f"{shown:,} of {plural(self.total, self.noun)}" if shown < self.total else plural(shown, self.noun)

    def nothing(self) -> str:
        """What stands in place of a table without rows."""
        return f"No {plural_noun(self.noun)}."


@dataclass(frozen=True, slots=True)
class Result:
    """What a table command gives: the JSON document, the key of its rows, and the listings for people.

    Args:
        columns: the columns of the CSV form, dots leading into nested objects.
        flat: the rows of CSV and JSON lines, where the document nests them; null where they are those of the key.
    """

    document: dict[str, Any]
    key: str
    columns: tuple[str, ...]
    listings: tuple[Listing, ...]
    flat: list[dict[str, Any]] | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as raw data."""
        return self.document[self.key] if self.flat is None else self.flat


def pick(row: dict[str, Any], key: str) -> Any:
    """The value at a dotted key, null if any part of the way is missing or null."""
    value: Any = row
    for part in key.split("."):
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(part)
    return value


def to_csv(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    """CSV with a header and raw numbers; null is the empty field, names are clean and no formulas."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_value(pick(row, column)) for column in columns])
    return out.getvalue()


def to_jsonl(rows: list[dict[str, Any]]) -> str:
    """One JSON object per line, strict and in ASCII."""
    return "".join(to_json(row, indent=None) for row in rows)


def to_markdown(listings: tuple[Listing, ...]) -> str:
    """Titled Markdown tables."""
    blocks: list[str] = []
    for listing in listings:
        lines = [f"### {md(listing.title)}", "", *markdown_table(listing)]
        lines += ["", listing.extent()] if listing.rows else []
        for note in listing.notes:
            lines += ["", md(note)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def markdown_table(listing: Listing) -> list[str]:
    """The lines of the table alone, or one line that says there is nothing."""
    if not listing.rows:
        return [listing.nothing()]
    head = "| " + " | ".join(md(field.heading) for field in listing.fields) + " |"
    rule = "|" + "|".join("---:" if field.right else "---" for field in listing.fields) + "|"
    return [head, rule, *("| " + " | ".join(md(cell) for cell in row) + " |" for row in listing.cells())]


_MD_SPECIAL = {character: f"\\{character}" for character in "\\`*[]|#~"} | {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
}
_MD_TABLE = str.maketrans(_MD_SPECIAL | {"@": "&#64;"})
_MD_EDGE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # an underscore inside a word means nothing
_MD_LINK = re.compile(r":(?=//)|(?<=www)\.")


def md(text: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no new cell or line, no automatic link or mention."""
    marked = _MD_EDGE.sub(r"\\_", clean(text).translate(_MD_TABLE))
    return _MD_LINK.sub(lambda found: f"&#{ord(found[0])};", marked)


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return csv_text(value) if isinstance(value, str) else value
