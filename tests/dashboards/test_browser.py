"""The dashboard in a real browser."""

from __future__ import annotations

from typing import Any

from tests.dashboards.harness import Dashboard, settled


def test_the_first_page_shows_the_step_and_keeps_the_run_in_the_url(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url(run="2025_11_24_17_00_00"))
    settled(tab)
    tab.get_by_role("heading", name="Overview").wait_for()
    tab.get_by_text("Step p50").wait_for()
    assert "run=2025_11_24_17_00_00" in tab.url
