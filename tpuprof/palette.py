"""The colours, labels and letters of the parts of a step: defined once, used by every view.

The colours were chosen so that any two parts stay apart (CIE76 difference of at least 20) for normal sight and for
each of the three kinds of colour blindness, on a light and on a dark background; a test holds them to it. Even so
no view relies on colour alone: each draws labels or letters in a fixed order as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpuprof.tables.schemas import PARTS


@dataclass(frozen=True, slots=True)
class Look:
    """How one part of a step is shown.

    Args:
        label: the name for people.
        short: a label of at most 8 characters, for column headings.
        letter: one ASCII letter, unique, for bars without colour.
        light: ``#rrggbb`` on a light background.
        dark: ``#rrggbb`` on a dark background; terminals use it too.
        group: ``compute``, ``wait`` or ``idle``.
    """

    label: str
    short: str
    letter: str
    light: str
    dark: str
    group: str


LOOKS: dict[str, Look] = {
    "matmul": Look("matmul", "matmul", "M", "#2433a5", "#6150df", "compute"),
    "attention": Look("attention", "attn", "A", "#6a4170", "#824dad", "compute"),
    "custom_kernel": Look("custom kernel", "kernel", "K", "#1d6d52", "#1bb75c", "compute"),
    "convolution": Look("convolution", "conv", "C", "#6899f0", "#648cf0", "compute"),
    "reduction": Look("reduction", "reduce", "R", "#688b4e", "#397b50", "compute"),
    "elementwise": Look("elementwise", "elemwise", "E", "#73e0a0", "#8df09d", "compute"),
    "gather_scatter": Look("gather/scatter", "gather", "G", "#beb057", "#c9e56d", "compute"),
    "data_movement": Look("data movement", "move", "D", "#a3c6f0", "#a2b1f0", "compute"),
    "other_compute": Look("other compute", "other", "O", "#8d7a93", "#b76fae", "compute"),
    "collective_exposed": Look("collective, exposed", "coll", "X", "#a12816", "#b7521d", "wait"),
    "host_transfer": Look("host transfer", "host", "H", "#c4700a", "#d78f1b", "wait"),
    "dma_wait": Look("DMA wait", "dma", "W", "#f0b81b", "#f0db32", "wait"),
    "barrier_wait": Look("barrier wait", "barrier", "B", "#a34fb0", "#b7a1a6", "wait"),
    "idle": Look("idle", "idle", ".", "#c9ccd1", "#5b626c", "idle"),
}
"""The look of each part, in the order of :data:`tpuprof.tables.schemas.PARTS`."""

CHROME: dict[str, tuple[str, str]] = {
    "page": ("#f6f7f9", "#101317"),
    "card": ("#fff", "#181c22"),
    "ink": ("#1b1f24", "#e6e9ed"),
    "soft": ("#59636e", "#9aa4af"),
    "line": ("#dfe3e8", "#2c333c"),
    "stripe": ("#f8f9fb", "#1c2128"),
}
"""What surrounds the data, light and dark: the page, boxes on it, text, text of less weight, rules, every other row."""

SEVERITY_LIGHT = {"info": "#2f5fa8", "warning": "#8a5a00", "error": "#a3122a"}
SEVERITY_DARK = {"info": "#8ab4f8", "warning": "#f2c14e", "error": "#ff8a80"}

_PART_OF_KIND = {"collective": "collective_exposed", "container": "idle"}


def part_of_kind(kind: str | None) -> str:
    """The part whose look an op kind has; those that are no part (``collective``, ``container``, null) borrow one."""
    part = _PART_OF_KIND.get(kind or "", kind or "")
    return part if part in LOOKS else "other_compute"


def kind_label(kind: str | None) -> str:
    """The name of an op kind for people; those that are no part keep their own."""
    return LOOKS[kind].label if kind in LOOKS else (kind or "unknown").replace("_", " ")


def present_parts(rows: list[dict[str, Any]]) -> list[str]:
    """The parts that are not zero in at least one of the rows of parts (``{matmul_ps: …}``), in order."""
    return [part for part in PARTS if any((row.get(f"{part}_ps") or 0) > 0 for row in rows)]
