"""Ops, roofline and scopes in a real browser: a row, a point or a scope that is clicked is what the address says."""

from __future__ import annotations

from typing import Any

from tests.dashboards.harness import RUNS, Dashboard, settled
from tests.dashboards.odd import WILD

RUN, _, CPU = RUNS.values()
OBEYED = "img[src='x'], a[href^='javascript']"  # what the markup in hostile names would become


def select_row(tab: Any, row: int) -> None:
    """Clicks the box before a row of the first table, which is a canvas: rows are 35 px high, below one of headings."""
    table = tab.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    table.click(position={"x": 16, "y": 35 * (row + 1) + 17})


def says(tab: Any, *texts: str) -> None:
    for text in texts:
        tab.wait_for_function("text => location.search.includes(text)", arg=text)


def test_a_row_becomes_the_op_of_the_address_and_of_other_pages(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("ops", run=RUN))
    settled(tab)
    tab.get_by_text("14 ops:").wait_for()
    select_row(tab, 1)
    says(tab, "op=fusion.10")
    tab.get_by_role("heading", name="fusion.10").wait_for()
    settled(tab)
    tab.get_by_text("Close", exact=True).click()
    tab.get_by_role("heading", name="fusion.10").wait_for(state="detached")
    settled(tab)
    select_row(tab, 1)  # the same row can be selected again
    tab.get_by_role("heading", name="fusion.10").wait_for()
    settled(tab)
    tab.get_by_test_id("stMainBlockContainer").get_by_role("link", name="Roofline").click()
    tab.get_by_role("heading", name="Roofline").wait_for()
    says(tab, "op=fusion.10")
    tab.get_by_role("heading", name="fusion.10").wait_for()
    settled(tab)
    tab.get_by_text("Close", exact=True).click()
    tab.get_by_role("heading", name="fusion.10").wait_for(state="detached")
    assert "op=" not in tab.url


def test_a_row_of_a_group_leads_to_its_ops(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("ops", run=RUN, by="kind"))
    settled(tab)
    tab.get_by_text("7 kinds:").wait_for()
    select_row(tab, 0)
    says(tab, "kind=matmul")
    tab.get_by_text("2 ops:").wait_for()
    assert "by=" not in tab.url


def test_a_point_of_the_roofline_is_an_op(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("roofline", run=RUN))
    settled(tab)
    points = tab.locator('[aria-label^="fusion.9 (elementwise)"]')
    points.first.wait_for()
    points.first.click(force=True)
    says(tab, "op=fusion.9")
    tab.get_by_role("heading", name="fusion.9").wait_for()
    tab.get_by_text("No execution can take less than").wait_for()
    settled(tab)
    tab.get_by_text("Close", exact=True).click()
    tab.get_by_role("heading", name="fusion.9").wait_for(state="detached")
    settled(tab)
    points.first.click(force=True)  # the same point can be selected again
    tab.get_by_role("heading", name="fusion.9").wait_for()
    settled(tab)


def test_scopes_zoom_by_click_and_keyboard_and_are_found(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("scopes", run=CPU))
    settled(tab)
    flame = tab.locator(".flame")
    mlp = flame.locator('[role="treeitem"][aria-label^="mlp,"]')
    mlp.hover()
    flame.locator(".tip", has_text="own time").wait_for()
    narrow = mlp.bounding_box()["width"]
    mlp.click()
    says(tab, "scope=mlp")
    tab.get_by_role("heading", name="mlp").wait_for()
    settled(tab)
    assert mlp.bounding_box()["width"] > 1.5 * narrow
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    says(tab, "scope=mlp%2F")
    settled(tab)
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => !location.search.includes('scope=')")
    settled(tab)
    tab.keyboard.press("/")
    tab.keyboard.type("psum")
    flame.locator(".found", has_text="of the time").wait_for()
    assert flame.locator(".node.hit").count() > 1
    tab.keyboard.press("Tab")
    says(tab, "q=psum")
    tab.wait_for_function("() => document.querySelectorAll('[data-testid=stDataFrame]').length === 1")
    settled(tab)


def test_names_that_are_markup_are_shown_and_not_obeyed(samples: Dashboard, tab: Any) -> None:
    run = "hostile_ops"
    tab.goto(samples.url("ops", run=run, op=f"{WILD}.1", view="hlo"))
    settled(tab)
    tab.get_by_test_id("stHeading").get_by_text("<img src=x").wait_for()
    assert tab.locator(OBEYED).count() == 0
    tab.goto(samples.url("scopes", run=run))
    settled(tab)
    flame = tab.locator(".flame")
    node = flame.locator(".node", has_text="<img src=x onerror=alert(1)>").first
    node.hover()
    flame.locator(".tip", has_text="<img src=x onerror=alert(1)>").wait_for()
    node.click()
    says(tab, "scope=")
    settled(tab)
    assert tab.locator(OBEYED).count() == 0
