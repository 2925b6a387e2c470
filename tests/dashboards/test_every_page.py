"""Every page of the menu, on every sample trace and in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from tpuprof_dashboards.pages import PAGES

from tests.dashboards.harness import RUNS, SAMPLES, Dashboard, page_test, problems, settled

LOOP, HOSTS, CPU = RUNS.values()
SIDEWAYS = """() => ["html", "[data-testid=stMain]", "[data-testid=stMainBlockContainer]"]
  .map((name) => document.querySelector(name)).filter((each) => each.scrollWidth > each.clientWidth).length"""
PAINT_MS = 20_000  # loose: what it takes is measured elsewhere, not where other tests run too


@pytest.mark.parametrize("slug", PAGES)
def test_it_is_drawn_for_every_sample(slug: str) -> None:
    several = ((LOOP, HOSTS), (HOSTS, CPU), (CPU, LOOP))
    for run, base in several if PAGES[slug].needs == "run" else several[:1]:
        test = page_test(slug, SAMPLES, run=run, base=base)
        assert problems(test) == []
        assert [title.value for title in test.title] == [PAGES[slug].title]


@pytest.mark.slow
@pytest.mark.parametrize(("theme", "width", "run"), [("light", 1366, HOSTS), ("dark", 800, CPU)])
def test_it_is_drawn_in_a_browser(samples: Dashboard, screen: Any, theme: str, width: int, run: str) -> None:
    """One after the other, by the menu; ``screen`` fails on anything that a console shows."""
    tab = screen(width, theme)
    tab.goto(samples.url(run=run, base=LOOP))
    tab.get_by_text("Step p50").wait_for(timeout=PAINT_MS)
    dark = tab.evaluate("() => getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert (sum(int(part) for part in dark.strip("rgb()").split(",")) < 300) is (theme == "dark")
    for slug, entry in PAGES.items():
        tab.get_by_test_id("stSidebarNav").get_by_text(entry.title, exact=True).last.click()  # sections have titles too
        tab.get_by_role("heading", name=entry.title, exact=True, level=1).wait_for(timeout=PAINT_MS)
        settled(tab)
        assert tab.locator("[data-testid=stException]").count() == 0, slug
        assert f"run={run}" in tab.url, slug
        assert tab.evaluate(SIDEWAYS) == 0, f"{slug} scrolls sideways at {width} px"


def test_two_runs_are_compared_in_a_browser(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("compare", run="2026_01_02_00_00_00", base="2026_01_01_00_00_00"))
    tab.get_by_text("Regressed.").wait_for(timeout=PAINT_MS)
    settled(tab)
    tab.get_by_role("tab", name="Timelines").click()
    tab.locator(".timeline[data-redraws]").nth(1).wait_for(timeout=PAINT_MS)
    settled(tab)
