"""On a narrow screen what is wide scrolls in its own box, and the page does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboards.harness import Dashboard, settled


@pytest.mark.parametrize("slug", ["", "steps"])
def test_a_page_does_not_scroll_sideways(samples: Dashboard, tab: Any, slug: str) -> None:
    tab.set_viewport_size({"width": 800, "height": 900})
    tab.goto(samples.url(slug, run="2025_11_24_17_00_00"))
    tab.wait_for_selector('[data-testid="stVegaLiteChart"] svg')
    settled(tab)
    widths = tab.evaluate(
        """() => {
          const boxes = ["stMain", "stVegaLiteChart"].map((id) => document.querySelector(`[data-testid="${id}"]`));
          return boxes.map((box) => [box.scrollWidth, box.clientWidth]);
        }"""
    )
    (page, seen), (chart, box) = widths
    assert page <= seen
    assert chart > box  # its labels keep their size
