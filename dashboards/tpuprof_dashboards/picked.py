"""The step, the core and the event that the URL names, where the run has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from tpuprof_dashboards.page import Page
from tpuprof_dashboards.text import code


def step_and_device(page: Page, chosen: Mapping[str, str]) -> tuple[int | None, str]:
    """The step's number and the core's id; null and empty where none is chosen or the selection has none such.

    What the selection lacks is said, so that nobody takes the whole for the part that a link meant.

    Args:
        page: the page.
        chosen: the filters that are set.
    """
    numbers = page.selection.derived("picked.steps", lambda: {int(number) for number in page.trace.steps["step"]})
    step, device = chosen.get("step", ""), chosen.get("device", "")
    missing: list[str] = []
    digits = step.removeprefix("-")
    found = int(step) if digits.isascii() and digits.isdecimal() and len(digits) < 19 and int(step) in numbers else None
    if step and found is None:
        missing.append(f"step {code(step[:40])}")
    if device and device not in {core.id for core in page.trace.devices}:
        missing.append(f"core {code(device[:80])}")
        device = ""
    if missing:
        st.warning(f"This selection has no {' and no '.join(missing)}.")
    return found, device


def row_named(row: Mapping[str, Any]) -> dict[str, str | None]:
    """What the URL says once this row was selected: an event by its start and its core, which no other one has."""
    return {"at": f"{row['start_ps']}@{row['device']}"}


def row_at(page: Page, rows: Sequence[Mapping[str, Any]]) -> int | None:
    """The position of the row that the URL names; null where it is none of these."""
    wanted = page.get("at")
    return next((n for n, row in enumerate(rows) if wanted and row_named(row)["at"] == wanted), None)
