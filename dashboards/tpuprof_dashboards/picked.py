"""The step and the core that the URL names, where the run has them."""

from __future__ import annotations

from collections.abc import Mapping

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
