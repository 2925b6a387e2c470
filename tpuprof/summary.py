"""The small views of a trace in a notebook or a rich console: a title and a handful of facts, bounded in size."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from tpuprof.text import clean

if TYPE_CHECKING:
    from rich.text import Text

MAX_FACTS = 18
MAX_LENGTH = 160


def rich_summary(title: str, facts: Mapping[str, object]) -> Text:
    """The facts for ``__rich__``: at most 20 lines, names without control characters."""
    from rich.text import Text

    shown = _bounded(facts)
    width = max((len(label) for label, _ in shown), default=0)
    text = Text(_short(title), style="bold")
    for label, value in shown:
        text.append("\n")
        text.append(f"  {label:<{width}}  ", style="dim not bold")
        text.append(value, style="not bold")
    return text


def html_summary(title: str, facts: Mapping[str, object]) -> str:
    """The facts for ``_repr_html_``: a small table, everything escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(label)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for label, value in _bounded(facts)
    )
    return f"<div><strong>{escape(_short(title))}</strong><table>{rows}</table></div>"


def _bounded(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    shown = [(_short(label), _short(value)) for label, value in facts.items()]
    if len(shown) > MAX_FACTS:
        return [*shown[:MAX_FACTS], ("…", f"{len(shown) - MAX_FACTS} more")]
    return shown


def _short(value: object) -> str:
    text = clean(value)
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
