"""What only a browser can tell of the pages on steps, idle time and collectives: clicks in charts and tables."""

from __future__ import annotations

from typing import Any

from tests.dashboards.harness import RUNS, Dashboard, settled

_, HOSTS, CPU = RUNS.values()


def test_a_click_in_the_heat_map_looks_at_a_step_and_can_be_taken_back(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("steps", run=CPU))
    tab.get_by_role("heading", name="Steps & stragglers").wait_for()
    settled(tab)
    tab.locator('[aria-label^="vm/CPU:0, step 3"]').first.click()
    tab.get_by_role("heading", name="Step 3 of vm/CPU:0").wait_for()
    settled(tab)
    assert "step=3" in tab.url
    assert "device=vm%2FCPU%3A0" in tab.url
    tab.get_by_role("button", name="step: 3").click()
    tab.get_by_role("heading", name="Core vm/CPU:0").wait_for()
    settled(tab)
    assert "step=" not in tab.url.replace("steps?", "")


def test_a_row_of_the_cores_becomes_a_filter_of_other_pages(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("steps", run=HOSTS))
    tab.get_by_role("heading", name="Cores", exact=True).wait_for()
    settled(tab)
    _click_first_row(tab.get_by_test_id("stDataFrame").first)
    tab.wait_for_function("() => location.search.includes('device=worker-1')")
    settled(tab)
    assert tab.locator("[role=row][aria-selected=true]").count() == 1
    tab.get_by_role("button", name="core: worker").click()
    tab.wait_for_function("() => !location.search.includes('device=')")
    settled(tab)
    assert tab.locator("[role=row][aria-selected=true]").count() == 0  # nothing stays marked that is no filter any more
    _click_first_row(tab.get_by_test_id("stDataFrame").first)
    tab.wait_for_function("() => location.search.includes('device=worker-1')")
    settled(tab)
    tab.get_by_role("link", name="Its gaps").click()
    tab.get_by_role("heading", name="Idle", exact=True).wait_for()
    settled(tab)
    assert "device=worker-1%2FTPU%3A1" in tab.url
    assert tab.get_by_test_id("stMetricValue").all_inner_texts()[2] == "3"  # one gap in each of its three steps


def _click_first_row(table: Any) -> None:
    """Marks the first row: its box is in the first column, below the heading."""
    table.scroll_into_view_if_needed()
    table.click(position={"x": 16, "y": 52})
