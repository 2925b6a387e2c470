"""Figures as tiles, each with its definition, and findings as cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.definitions import meaning
from tpuprof_dashboards.text import plain, sentence

SEVERITY_ICONS = {"error": ":material/error:", "warning": ":material/warning:", "info": ":material/info:"}
MOST_ENTRIES = 30
SEVERITY_COLORS = {"error": "red", "warning": "orange", "info": "blue"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure.

    Args:
        name: its name in ``definitions``.
        label: what stands above it.
        value: the figure, scaled; ``n/a`` if it is unknown.
        note: what stands below it, in small letters: of what it is, or why it is unknown.
        why: why the figure is unknown or uncertain, for its tooltip.
    """

    name: str
    label: str
    value: str
    note: str = ""
    why: str = ""


def show_tiles(tiles: Sequence[Tile], key: str = "tiles") -> None:
    """Draws the tiles side by side; they wrap on a narrow screen. ``key`` tells several rows of a page apart."""
    with st.container(horizontal=True, gap="small", key=key):
        for tile in tiles:
            help_text = " ".join(filter(None, (meaning(tile.name), plain(tile.why) if tile.why else "")))
            st.metric(
                tile.label,
                tile.value,
                delta=plain(tile.note) if tile.note else None,
                delta_color="off",
                delta_arrow="off",
                help=help_text or None,
                border=True,
                width="stretch",
                height="stretch",
            )


def show_notice(
    severity: str, heading: str, message: str, suggestion: str = "", impact_ps: float | None = None,
    fraction: float | None = None,
) -> None:  # fmt: skip
    """One finding or quality entry as a card: how bad, what, what it costs, what to do."""
    with st.container(border=True, gap="xsmall"):
        write_notice(severity, heading, message, suggestion, impact_ps, fraction)


def write_notice(
    severity: str, heading: str, message: str, suggestion: str = "", impact_ps: float | None = None,
    fraction: float | None = None, stepped: bool = True,
) -> None:  # fmt: skip
    """The same without the card around it, for cards that hold more.

    Without steps (``stepped``) the impact is of the whole recording.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(severity, icon=SEVERITY_ICONS.get(severity), color=_color(severity))
        st.markdown(f"**{plain(heading)}**", width="content")
        st.space("stretch")
        if impact_ps is not None:
            whole = "of the step" if stepped else "of what was recorded"
            share = f" · {format_percent(fraction)} {whole}" if fraction is not None else ""
            st.markdown(f"**{format_ps(impact_ps)}{'/step' if stepped else ''}**{share}", width="content")
    st.markdown(sentence(message))
    if suggestion:
        st.markdown(f":material/arrow_forward: {sentence(suggestion)}")


def show_quality(entries: Sequence[Mapping[str, Any]]) -> None:
    """What was noticed about the recording, at a glance: the worst of it as a button that opens all of it."""
    if not entries:
        st.badge("data: nothing noticed", icon=":material/check:", color="green")
        return
    worst = next(severity for severity in SEVERITY_ICONS if any(entry["severity"] == severity for entry in entries))
    label = f"Data quality: {plural(len(entries), 'entry')}"
    with st.popover(label, icon=SEVERITY_ICONS[worst], help="What was noticed about the recording.", width="content"):
        for entry in entries[:MOST_ENTRIES]:
            show_notice(entry["severity"], entry["id"], entry["message"])
        if len(entries) > MOST_ENTRIES:
            st.caption(f"The first {MOST_ENTRIES} of {len(entries):,}; the report has all.")


def _color(severity: str) -> Any:
    return SEVERITY_COLORS.get(severity, "gray")
