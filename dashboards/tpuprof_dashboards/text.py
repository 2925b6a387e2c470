"""Names from traces inside of Markdown, which streamlit reads in most texts: shown as they are, never obeyed."""

from __future__ import annotations

import re

from tpuprof.text import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&@^=\"'])")
_SHORTCODE = re.compile(r":(?=(?:material/\w+|100|1234|[+-]1|\d*[a-z_][\w+-]*):)", re.IGNORECASE)
_JOINER = "\u2060"


def plain(text: object) -> str:
    """The text with every character escaped that Markdown, HTML, LaTeX, links or icons begin with.

    Icons and emoji (``:material/bug:``, ``:bug:``) are looked for after escapes are gone: they get a character without
    width behind the first colon.
    """
    return _SPECIAL.sub(r"\\\1", _SHORTCODE.sub(":" + _JOINER, clean(text)))


def sentence(text: object) -> str:
    """A message of ours that may hold names: as :func:`plain`, without the backquotes that mark code in it."""
    return plain(str(text).replace("`", ""))


def code(text: object) -> str:
    """The text as inline code; backquotes inside of it become apostrophes."""
    shown = clean(text).replace("`", "'")
    return f"`{shown}`" if shown.strip() else ""


def shortened(text: object, most: int) -> str:
    """The text on one line, its middle left out if it is long."""
    from tpuprof.charts.drawing import shortened as shorten

    return shorten(text, most)
