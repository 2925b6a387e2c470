"""Page Timeline; the component has tests of its own in ``tests/timeline``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboards.harness import SAMPLES, Dashboard, page_test, problems, settled

RUN = "2025_11_24_17_00_00"


@pytest.mark.parametrize("view", ["", "1-2", "5-1", "x", "9" * 40 + "-1", "-5-100000000"])
def test_any_stretch_in_the_url_is_harmless(view: str) -> None:
    assert problems(page_test("timeline", SAMPLES, run=RUN, view=view)) == []


@pytest.mark.slow
def test_an_op_that_is_clicked_is_the_filter_of_the_other_pages(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("timeline", run=RUN, op="fusion.1"))
    tab.get_by_role("heading", name="Timeline").wait_for()
    settled(tab)
    canvas = tab.locator("canvas").last
    canvas.wait_for()
    box = canvas.bounding_box()
    assert box is not None
    for y in range(20, int(box["height"]), 9):  # down a column of the picture until an op is under the pointer
        tab.mouse.click(box["x"] + box["width"] * 0.35, box["y"] + y)
        tab.wait_for_timeout(500)  # nothing else says that no event was there
        if tab.get_by_text("All its executions").count():
            break
    tab.wait_for_function("() => location.search.includes('of=')")
    settled(tab)
    tab.get_by_role("link", name="All its executions").click()
    tab.get_by_role("heading", name="Ops", exact=True).wait_for()
    assert "op=" in tab.url
