"""The colours of a timeline: those of the parts of a step from the palette, and quiet tones for all that is no op."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tpuprof.palette import LOOKS, part_of_kind


@dataclass(frozen=True, slots=True)
class Colour:
    """A colour: its key, its label (empty for tones, which mean nothing), ``#rrggbb`` on light and on dark."""

    key: str
    label: str
    light: str
    dark: str


_TONES = (  # steps, programs, threads: told apart by name; unsaturated, so that none passes for a kind of op
    ("#b9c3cf", "#3f4a57"),
    ("#c9c2b6", "#4d473d"),
    ("#b5c8c0", "#3a4d46"),
    ("#c8bcc9", "#4c424f"),
    ("#a9b9c9", "#34434f"),
    ("#c4c8b4", "#474b38"),
    ("#b4bdd0", "#3c4358"),
    ("#cdbfbb", "#50433f"),
)
_CAUSES = {  # all idle, yet one wants to know which: told apart within their lane, quieter than the kinds of ops
    "compile": "#8c6d8f",
    "garbage_collection": "#9c7b52",
    "checkpoint": "#5e8a8a",
    "host_sync": "#7d8f4e",
    "input": "#b0725f",
    "dispatch": "#6f7fb0",
    "host_python": "#a08a3c",
    "dma_in_flight": "#7f9cb8",
    "intra_program": "#9aa0a6",
    "unexplained": "#6b7178",
    "unknown": "#aeb3b9",
}
_LABELS = {"collective_exposed": "collective"}  # on a timeline it also runs hidden
COLOURS: tuple[Colour, ...] = (
    *(Colour(key, _LABELS.get(key, look.label), look.light, look.dark) for key, look in LOOKS.items()),
    Colour("container", "loop, branch or call", "#d6dbe1", "#39414b"),
    *(Colour(f"idle_{cause}", f"idle: {cause.replace('_', ' ')}", hue, hue) for cause, hue in _CAUSES.items()),
    *(Colour(f"tone{number}", "", light, dark) for number, (light, dark) in enumerate(_TONES)),
)
"""All colours; events carry the position of theirs."""

_AT = {colour.key: number for number, colour in enumerate(COLOURS)}


def colour_of_kind(kind: str) -> int:
    """The colour of an op of this kind."""
    return _AT["container"] if kind == "container" else _AT[part_of_kind(kind)]


def colour_of_part(part: str) -> int:
    """The colour of a part of the step."""
    return _AT[part_of_kind(part)]


def colour_of_cause(cause: str) -> int:
    """The colour of a cause of idle time; ``unknown`` is one."""
    return _AT[f"idle_{cause}"]


def tone(number: int) -> int:
    """A quiet colour; the numbers go round."""
    return _AT[f"tone{number % len(_TONES)}"]


def tone_of(name: str) -> int:
    """A quiet colour that depends on the name alone, so that it is the same in every run."""
    return tone(zlib.crc32(name.encode("utf-8", "replace")))
