"""The timeline in Chromium: it paints, zooms, searches, measures, and tells Python what was clicked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tpuprof
from tests.timeline.driving import browser_at, page_at, served
from tests.timeline.hostile import SCRIPT, hostile_trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

LOOP = str(Path(__file__).resolve().parents[2] / "sample_traces" / "tpu_loop_async")
FIRST_ROW_Y = 30 + 24 + 24 + 9  # below overview, ruler and the head of the device: its steps
GUTTER = 208

Opener = Callable[..., Any]


@pytest.fixture(scope="module")
def opener() -> Iterator[Opener]:
    """Opens pages of one server in one browser."""
    pytest.importorskip("streamlit")
    pytest.importorskip("playwright")
    chromium = os.environ.get("TPUPROF_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with served() as server, browser_at(Path(chromium)) as browser:

        def open_page(browser: Browser = browser, **query: Any) -> Any:
            return page_at(browser, server, **{"model": LOOP, **query})

        yield open_page


def said(page: Page, name: str) -> str:
    return page.locator(".timeline").first.get_attribute(f"data-{name}") or ""


def view(page: Page) -> tuple[int, int]:
    return int(said(page, "t0")), int(said(page, "t1"))


def changed(page: Page, name: str, before: str) -> str:
    """What the timeline says once it says something else."""
    page.locator(f'.timeline:not([data-{name}="{before}"])').first.wait_for(timeout=10_000)
    return said(page, name)


def settled(page: Page) -> None:
    """Waits until everything asked for is there."""
    page.wait_for_timeout(150)
    page.locator(".timeline:not([data-pending])").first.wait_for(timeout=10_000)


def stage(page: Page) -> Locator:
    return page.locator(".stage").first


def at(page: Page, share: float, y: float) -> tuple[float, float]:
    """A point of the page: a share of the way along the time axis, and pixels below the top of the canvas."""
    box = stage(page).bounding_box()
    assert box is not None
    return box["x"] + GUTTER + share * (box["width"] - GUTTER - 10), box["y"] + y


def pixel(page: Page, share: float, y: float) -> tuple[int, int, int]:
    """The colour of the canvas at a point."""
    found: list[int] = (
        stage(page)
        .locator("canvas.scene")
        .evaluate(
            """(canvas, [share, y, gutter]) => {
          const ratio = canvas.width / canvas.clientWidth;
          const x = gutter + share * (canvas.clientWidth - gutter - 10);
          return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data.slice(0, 3)];
        }""",
            [share, y, GUTTER],
        )
    )
    return found[0], found[1], found[2]


def test_it_paints_and_says_so(opener: Opener) -> None:
    with opener() as page:
        model = page.locator(".stage").first.get_attribute("aria-label")
        assert "540 events" in model
        assert int(said(page, "drawn")) > 100
        assert float(said(page, "redraw-ms")) < 60
        assert pixel(page, 0.3, FIRST_ROW_Y) != (255, 255, 255)
        assert pixel(page, 0.1, FIRST_ROW_Y) in {(0xB9, 0xC3, 0xCF), (0xA9, 0xB9, 0xC9)}  # a step's quiet tone
        legend = page.locator(".legend").first.inner_text()
        assert "matmul" in legend
        assert "collective" in legend


def test_keys_zoom_move_and_fit(opener: Opener) -> None:
    with opener() as page:
        t0, t1 = view(page)
        stage(page).focus()
        page.keyboard.press("w")
        changed(page, "t1", str(t1))
        a, b = view(page)
        assert t0 < a < b < t1
        page.keyboard.press("d")
        changed(page, "t0", str(a))
        c, d = view(page)
        assert c > a
        assert d - c == pytest.approx(b - a, abs=2)
        page.keyboard.press("s")
        changed(page, "t0", str(c))
        assert view(page)[1] - view(page)[0] > d - c
        page.keyboard.press("0")
        changed(page, "t0", said(page, "t0"))
        page.wait_for_timeout(100)
        assert view(page)[0] == 0
        page.keyboard.press("f")
        page.wait_for_timeout(100)
        assert view(page) == (t0, t1)
        assert (
            page.get_by_text("page runs: 1").count() == 1
        )  # looking around runs the fragment alone, no shortcut of the page


def test_the_wheel_zooms_at_the_pointer_and_asks_for_more(opener: Opener) -> None:
    with opener(model="made:200000") as page:
        page.mouse.move(*at(page, 0.5, 150))
        t0, t1 = view(page)
        middle = t0 + 0.5 * (t1 - t0)
        answers = said(page, "answers")
        for _ in range(8):
            page.mouse.wheel(0, -250)
            page.wait_for_timeout(20)
        changed(page, "answers", answers)
        settled(page)
        a, b = view(page)
        assert b - a < (t1 - t0) / 20
        assert a + 0.5 * (b - a) == pytest.approx(middle, rel=1e-3)
        assert float(said(page, "redraw-ms")) < 60
        drawn = int(said(page, "drawn"))
        page.mouse.wheel(0, -1)
        page.wait_for_timeout(50)
        assert int(said(page, "drawn")) > 0
        assert drawn > 100


def test_a_drag_moves_and_one_on_the_ruler_zooms(opener: Opener) -> None:
    with opener() as page:
        t0, t1 = view(page)
        page.mouse.move(*at(page, 0.6, 200))
        page.mouse.down()
        page.mouse.move(*at(page, 0.8, 200), steps=4)
        page.mouse.up()
        changed(page, "t0", str(t0))
        moved = view(page)
        assert t0 - moved[0] == pytest.approx(0.2 * (t1 - t0), rel=0.05)
        page.mouse.move(*at(page, 0.4, 40))
        page.mouse.down()
        page.mouse.move(*at(page, 0.5, 40), steps=4)
        page.mouse.up()
        changed(page, "t0", str(moved[0]))
        a, b = view(page)
        assert b - a == pytest.approx(0.1 * (t1 - t0), rel=0.05)


def test_a_click_tells_python_which_op(opener: Opener) -> None:
    trace = tpuprof.load(LOOP)
    device = trace.devices[0].id
    ops = trace.ops
    longest = ops[
        (ops["device"] == device) & (ops["op"] == "dot.1" if (ops["op"] == "dot.1").any() else ops["device"] == device)
    ]
    op = longest.sort_values("duration_ps").iloc[-1]
    with opener() as page:
        page.locator(".search").first.fill(str(op["op"]))
        page.locator(".search").first.press("Enter")
        page.locator(".timeline[data-selected]").first.wait_for()
        page.get_by_text("picked: nothing").wait_for(state="detached", timeout=10_000)
        told = page.get_by_text("picked: ").inner_text().removeprefix("picked: ").split("|")
        assert told[0] == op["op"]
        # The same event by a click into the middle of the view, where the search has put it.
        page.keyboard.press("Escape")
        assert told[2] == device
        settled(page)
        page.keyboard.press("f")
        settled(page)
        row, position = said(page, "selected").split(":")
        page.keyboard.press("Escape")
        page.locator(".timeline:not([data-selected])").first.wait_for()
        page.get_by_text("picked: nothing").wait_for(timeout=10_000)
        y = page.locator(".timeline").first.evaluate("(root, row) => 0", int(row))
        del y, position
        page.mouse.click(*at(page, 0.5, FIRST_ROW_Y + 2 * 23 + (18 if int(row) == 3 else 0)))
        page.locator(".timeline[data-selected]").first.wait_for()
        assert said(page, "selected").split(":")[0] == row
        page.get_by_text(f"picked: {told[0]}|").wait_for(timeout=10_000)
        details = page.locator(".details").first.inner_text()
        assert str(op["op"]) in details
        assert "duration" in details


def test_shift_and_drag_measures(opener: Opener) -> None:
    with opener() as page:
        t0, t1 = view(page)
        page.keyboard.down("Shift")
        page.mouse.move(*at(page, 0.25, 420))
        page.mouse.down()
        page.mouse.move(*at(page, 0.75, 420), steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")
        page.locator(".timeline[data-measure-ps]").first.wait_for()
        assert int(said(page, "measure-ps")) == pytest.approx(0.5 * (t1 - t0), rel=0.03)
        assert view(page) == (t0, t1)
        page.keyboard.press("Escape")
        page.locator(".timeline:not([data-measure-ps])").first.wait_for()
        page.keyboard.press("m")
        assert said(page, "mode") == "measure"


def test_search_counts_and_goes_from_match_to_match(opener: Opener) -> None:
    trace = tpuprof.load(LOOP)
    with opener() as page:
        stage(page).focus()
        page.keyboard.press("/")
        page.keyboard.type("all-gather")
        page.locator(".timeline[data-matches]").first.wait_for()
        total = int(said(page, "matches"))
        assert total > 0
        assert total >= int(trace.ops["op"].astype(str).str.contains("all-gather").sum())
        page.keyboard.press("Enter")
        changed(page, "match", "-1")
        first = int(said(page, "match"))
        page.keyboard.press("Enter")
        changed(page, "match", str(first))
        assert int(said(page, "match")) == first + 1
        page.keyboard.press("Shift+Enter")
        changed(page, "match", str(first + 1))
        assert int(said(page, "match")) == first
        assert f"of {total}" in page.locator(".found").first.inner_text()
        page.locator(".search").first.fill("no such op")
        page.get_by_text("none", exact=True).wait_for()


def test_more_matches_than_are_sent_are_counted_and_reached(opener: Opener) -> None:
    with opener(model="made:60000") as page:
        page.locator(".search").first.fill("matmul")
        page.locator(".timeline[data-matches]").first.wait_for()
        assert int(said(page, "matches")) > 5_000
        page.locator(".search").first.press("Shift+Enter")
        page.locator(".timeline[data-selected]").first.wait_for()
        page.locator(".search").first.press("Shift+Enter")
        page.wait_for_timeout(100)
        assert "nearest" in page.locator(".found").first.inner_text()


def test_hover_says_what_it_is(opener: Opener) -> None:
    with opener() as page:
        page.mouse.move(*at(page, 0.1, FIRST_ROW_Y + 23))
        tip = page.locator(".tip").first
        tip.wait_for(state="visible")
        assert "jit_train_step" in tip.inner_text()
        assert "duration" in tip.inner_text()
        page.mouse.move(*at(page, -0.1, FIRST_ROW_Y + 90))
        page.get_by_text("Time in which a collective runs or is waited for").or_(
            page.get_by_text("Copies and collectives in flight")
        ).first.wait_for()


def test_hostile_names_are_only_names(opener: Opener, tmp_path: Path) -> None:
    hostile_trace().write(tmp_path)
    with opener(model=str(tmp_path)) as page:
        page.locator(".search").first.fill(SCRIPT)
        page.locator(".search").first.press("Enter")
        page.locator(".timeline[data-selected]").first.wait_for()
        assert SCRIPT in page.locator(".details").first.inner_text()
        settled(page)
        page.keyboard.press("Escape")
        page.mouse.move(*at(page, 0.5, FIRST_ROW_Y + 46))
        page.wait_for_timeout(100)
        assert page.locator(".timeline img, .timeline script").count() == 0
        page.get_by_text(f"picked: {SCRIPT}").wait_for(timeout=10_000)


def test_light_and_dark(opener: Opener) -> None:
    with opener() as page:
        assert said(page, "theme") == "light"
        light = pixel(page, 0.999, 500)
    with opener(dark=True, ratio=2) as page:
        assert said(page, "theme") == "dark"
        assert sum(pixel(page, 0.999, 500)) < 150 < sum(light)
        scene = page.locator("canvas.scene").first
        assert scene.evaluate("c => c.width === Math.round(c.clientWidth * 2)")


def test_tracks_close_and_open_and_scroll(opener: Opener) -> None:
    with opener() as page:
        drawn = said(page, "drawn")
        page.mouse.click(*at(page, -0.1, FIRST_ROW_Y - 20))  # the device's head
        changed(page, "drawn", drawn)
        assert int(said(page, "drawn")) < int(drawn)
        page.mouse.click(*at(page, -0.1, FIRST_ROW_Y - 20))
        changed(page, "drawn", said(page, "drawn")) if said(page, "drawn") != drawn else None
        before = said(page, "redraws")
        page.mouse.move(*at(page, -0.1, 300))
        page.mouse.wheel(0, 120)
        changed(page, "redraws", before)


def test_help_opens_and_closes(opener: Opener) -> None:
    with opener() as page:
        stage(page).focus()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for(state="visible")
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")


def test_two_linked_timelines_move_together(opener: Opener) -> None:
    with opener(second="1") as page:
        page.locator(".timeline[data-redraws]").nth(1).wait_for()
        other = page.locator(".timeline").nth(1)
        before = other.get_attribute("data-t1")
        stage(page).focus()
        page.keyboard.press("w")
        page.locator(f'.timeline:not([data-t1="{before}"])').nth(1).wait_for()
        assert other.get_attribute("data-t1") == said(page, "t1")
        page.get_by_role("button", name="Linked").nth(1).click()
        kept = other.get_attribute("data-t1")
        page.keyboard.press("0")
        stage(page).focus()
        page.keyboard.press("s")
        page.wait_for_timeout(150)
        assert other.get_attribute("data-t1") == kept
