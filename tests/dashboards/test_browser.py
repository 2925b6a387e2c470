"""The dashboard in a real browser: what only a browser can tell."""

from __future__ import annotations

from typing import Any

from tests.dashboards.harness import RUNS, Dashboard, settled

RUN = RUNS["tpu_two_hosts"]


def test_a_link_reproduces_the_view_in_a_new_tab(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url(run=RUN))
    settled(tab)
    tab.get_by_text("Step p50").wait_for()
    tab.get_by_label("Steps", exact=True).fill("1:3")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => location.search.includes('steps=1%3A3')")
    settled(tab)
    tab.get_by_test_id("stSidebarNav").get_by_text("Runs", exact=True).last.click()
    tab.get_by_role("heading", name="Runs").wait_for()
    settled(tab)
    assert "steps=1%3A3" in tab.url  # what was picked stays picked on the next page
    tab.get_by_test_id("stSidebarNav").get_by_text("Overview", exact=True).click()
    tab.get_by_role("heading", name="Overview").wait_for()
    settled(tab)
    shown = tab.get_by_test_id("stMetricValue").all_inner_texts()
    other = tab.context.new_page()
    other.goto(tab.url)
    other.get_by_text("Step p50").wait_for()
    settled(other)
    assert other.get_by_label("Steps", exact=True).input_value() == "1:3"
    assert other.get_by_test_id("stMetricValue").all_inner_texts() == shown
    other.goto(samples.url(run="2025_11_24_16_00_00"))  # two people on one server do not mix
    other.get_by_text("Step p50").wait_for()
    settled(other)
    assert other.get_by_label("Steps", exact=True).input_value() == ""
    assert "steps" not in other.url
    assert tab.get_by_label("Steps", exact=True).input_value() == "1:3"
    assert tab.get_by_test_id("stMetricValue").all_inner_texts() == shown
    tab.go_back()
    tab.get_by_role("heading", name="Runs").wait_for()
    settled(tab)
    assert RUN in tab.url
