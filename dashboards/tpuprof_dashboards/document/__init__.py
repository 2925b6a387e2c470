"""A whole HTML document inside of a page, in a frame that may run nothing and read nothing.

Reports hold no scripts and escape what traces say. The frame is the second lock: ``sandbox=""`` gives its content an
origin of its own and no scripts, whatever a mistake in the report would let through.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tpuprof_dashboards.ui import component

_HERE = Path(__file__).parent


def show_document(html: str, title: str, key: str, height: int = 720) -> None:
    """Shows the document; ``title`` is what screen readers call it."""
    _component()(data={"html": html, "title": title, "height": height}, key=key)


@cache
def _component() -> Any:
    return component("tpuprof.document", js=(_HERE / "document.js").read_text(encoding="utf-8"))
