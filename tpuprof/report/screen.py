"""What terminal text is made for, and the little that all of it shares."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

Colors = Literal["standard", "256", "truecolor"]

INDENT = 2
GAP = 2
_WHOLE = 4000  # wider than any row that names of a trace make
_ASCII = str.maketrans(
    {
        "×": "x",
        "·": "-",
        "→": ">",
        "≤": "<",
        "≥": ">",
        "…": "~",
        "■": "#",
        "█": "#",
        "▇": "#",
        "━": "=",
        "╸": "-",
        "\ufffd": "?",
    }
)


@dataclass(frozen=True, slots=True)
class Screen:
    """What the text is made for.

    Args:
        width: characters per line.
        color: the terminal's colours, null for none at all.
        plain: only ASCII characters (for outputs that take nothing else).
        whole: tables are as wide as what they hold, however narrow the screen.
    """

    width: int = 100
    color: Colors | None = None
    plain: bool = False
    whole: bool = False

    @property
    def letters(self) -> bool:
        """Whether bars are drawn with the parts' letters because colours cannot tell them apart."""
        return self.color in (None, "standard")

    @property
    def for_tables(self) -> Screen:
        """The screen that a table is made for when it stands alone."""
        return replace(self, width=max(self.width, _WHOLE)) if self.whole else self


def to_text(renderable: RenderableType, screen: Screen) -> str:
    """The text of anything that rich draws, without trailing blanks."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=screen.width,
        force_terminal=screen.color is not None,
        no_color=screen.color is None,
        color_system=screen.color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(renderable)
    text = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    return text.translate(_ASCII).encode("ascii", "replace").decode() if screen.plain else text


def section_title(text: str, screen: Screen) -> RenderableType:
    """A section's title; what follows a colon is its detail, on a line of its own where the width asks for it."""
    head, _, detail = text.partition(": ")
    shown = Text(head, style="bold")
    if not detail:
        return shown
    if len(head) + GAP + len(detail) > screen.width:
        return Group(shown, indented(Text(detail, style="dim")))
    return Text.assemble(shown, " " * GAP, (detail, "dim"))


def indented(renderable: RenderableType) -> Padding:
    """The renderable, moved to the right as the body of a section."""
    return Padding(renderable, (0, 0, 0, INDENT))
