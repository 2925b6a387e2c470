"""Names from traces inside of Markdown, which streamlit reads in most texts: shown as they are, never obeyed."""

from __future__ import annotations

import re

from tpuprof.text import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&@^=\"'])")


def plain(text: object) -> str:
    """The text with every character escaped that Markdown, HTML, LaTeX, links or icons begin with."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def code(text: object) -> str:
    """The text as inline code; backquotes inside of it become apostrophes."""
    shown = clean(text).replace("`", "'")
    return f"`{shown}`" if shown.strip() else ""


def shortened(text: object, most: int) -> str:
    """The text on one line, its middle left out if it is long."""
    from tpuprof.charts.drawing import shortened as shorten

    return shorten(text, most)
