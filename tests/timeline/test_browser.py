"""The timeline in Chromium: it paints, zooms, searches, measures, and tells Python what was clicked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tpuprof_dashboards.timeline import build_timeline

import tpuprof
from tests.timeline.driving import page_at, served
from tests.timeline.hostile import SCRIPT, hostile_trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
LOOP = str(Path(__file__).resolve().parents[2] / "sample_traces" / "tpu_loop_async")
GUTTER, TOP, HEAD, TRACK, ROW = 208, 54, 24, 23, 18
STEPS_Y = TOP + HEAD + ROW // 2
PROGRAMS_Y, OPS_Y = STEPS_Y + TRACK, STEPS_Y + 2 * TRACK

Opener = Callable[..., AbstractContextManager["Page"]]


@pytest.fixture(scope="module")
def opener(chromium: Browser) -> Iterator[Opener]:
    """Opens pages of one server in one browser."""
    with served() as server:

        def open_page(**query: Any) -> AbstractContextManager[Page]:
            return page_at(chromium, server, **{"model": LOOP, **query})

        yield open_page


@pytest.fixture(scope="module")
def shared(opener: Opener) -> Iterator[Page]:
    """One page for many tests: a page takes seconds to open."""
    with opener() as page:
        yield page


@pytest.fixture
def page(shared: Page) -> Page:
    """The shared page as it was at first."""
    shared.locator(".search").fill("")
    stage(shared).focus()
    for _ in range(5):
        shared.keyboard.press("Escape")
    shared.mouse.move(5, 5)
    shared.keyboard.press("0")
    shared.keyboard.press("f")
    home = build_timeline(tpuprof.load(LOOP))
    until(lambda: view(shared) == (home.home[0] - home.start, home.home[1] - home.start))
    settled(shared)
    return shared


def said(page: Page, name: str) -> str:
    return page.locator(".timeline").first.get_attribute(f"data-{name}") or ""


def view(page: Page) -> tuple[int, int]:
    return int(said(page, "t0")), int(said(page, "t1"))


def until(condition: Callable[[], bool]) -> None:
    """Waits until something holds."""
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.03)


def settled(page: Page) -> None:
    """Waits until everything asked for is there."""
    page.wait_for_timeout(120)
    page.locator(".timeline:not([data-pending])").first.wait_for(timeout=15_000)


def stage(page: Page) -> Locator:
    return page.locator(".stage").first


def at(page: Page, share: float, y: float) -> tuple[float, float]:
    """A point of the page: a share of the way along the time axis, and pixels below the top of the canvas."""
    box = stage(page).bounding_box()
    assert box is not None
    return box["x"] + GUTTER + share * (box["width"] - GUTTER - 10), box["y"] + y


def drag(page: Page, share: float, to: float, y: float) -> None:
    page.mouse.move(*at(page, share, y))
    page.mouse.down()
    page.mouse.move(*at(page, to, y), steps=4)
    page.mouse.up()


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


def test_it_paints_and_says_so(page: Page) -> None:
    assert "540 events" in (stage(page).get_attribute("aria-label") or "")
    assert int(said(page, "drawn")) > 100
    assert float(said(page, "redraw-ms")) < 60
    assert pixel(page, 0.2, STEPS_Y) in {(0xB9, 0xC3, 0xCF), (0xA9, 0xB9, 0xC9)}  # a step's quiet tone
    legend = page.locator(".legend").inner_text()
    assert "matmul" in legend
    assert "collective" in legend


def test_keys_zoom_move_and_fit(page: Page) -> None:
    runs = page.get_by_text("page runs: ").inner_text()
    t0, t1 = view(page)
    page.keyboard.press("w")
    until(lambda: view(page)[1] < t1)
    a, b = view(page)
    assert t0 < a < b < t1
    page.keyboard.press("d")
    until(lambda: view(page)[0] > a)
    c, d = view(page)
    assert d - c == pytest.approx(b - a, abs=2)
    page.keyboard.press("s")
    until(lambda: view(page)[1] - view(page)[0] > d - c)
    page.keyboard.press("0")
    until(lambda: view(page)[0] == 0)
    page.keyboard.press("f")
    until(lambda: view(page) == (t0, t1))
    settled(page)
    assert page.get_by_text("page runs: ").inner_text() == runs  # looking around reruns a fragment alone


def test_a_drag_moves_and_one_on_the_ruler_zooms(page: Page) -> None:
    t0, t1 = view(page)
    drag(page, 0.6, 0.8, 200)
    until(lambda: view(page)[0] < t0)
    moved = view(page)
    assert t0 - moved[0] == pytest.approx(0.2 * (t1 - t0), rel=0.05)
    drag(page, 0.4, 0.5, 40)
    until(lambda: view(page) != moved)
    assert view(page)[1] - view(page)[0] == pytest.approx(0.1 * (t1 - t0), rel=0.05)


def test_a_click_tells_python_which_op(page: Page) -> None:
    trace = tpuprof.load(LOOP)
    model = build_timeline(trace)
    device = trace.devices[0].id
    op = trace.ops[trace.ops["device"] == device].sort_values("duration_ps").iloc[-1]
    middle = int(op["start_ps"]) + int(op["duration_ps"]) // 2 - model.start
    (row,) = [
        number
        for number, place in enumerate(model.places)
        if place.group.device == device and place.track.name == "XLA Ops"
        for start, end in [(model.rows[number].events.start, model.rows[number].events.end)]
        if ((start == op["start_ps"]) & (end - start == op["duration_ps"])).any()
    ]
    t0, t1 = view(page)
    point = at(page, (middle - t0) / (t1 - t0), OPS_Y + ROW * model.places[row].depth)
    page.mouse.click(*point)
    page.get_by_text(f"picked: {op['op']}|{op['kind']}|{device}|{op['start_ps']}|{op['duration_ps']}").wait_for()
    assert said(page, "selected").split(":")[0] == str(row)
    details = page.locator(".details").inner_text()
    assert str(op["op"]) in details
    assert "duration" in details
    assert str(op["scope"]) in details
    page.keyboard.press("Escape")
    page.get_by_text("picked: nothing").wait_for()
    page.mouse.dblclick(*point)
    until(lambda: view(page)[1] - view(page)[0] < 2 * int(op["duration_ps"]))
    before = said(page, "selected")
    page.keyboard.press(",")
    until(lambda: said(page, "selected") not in {"", before})
    assert said(page, "selected") == f"{row}:{int(before.split(':')[1]) - 1}"


def test_shift_and_drag_measures(page: Page) -> None:
    t0, t1 = view(page)
    page.keyboard.down("Shift")
    drag(page, 0.25, 0.75, TOP + HEAD + 210)
    page.keyboard.up("Shift")
    page.locator(".timeline[data-measure-ps]").wait_for()
    assert int(said(page, "measure-ps")) == pytest.approx(0.5 * (t1 - t0), rel=0.03)
    assert view(page) == (t0, t1)
    page.keyboard.press("Escape")
    page.locator(".timeline:not([data-measure-ps])").wait_for()
    page.keyboard.press("m")
    assert said(page, "mode") == "measure"


def test_measuring_takes_the_edges_of_events(page: Page) -> None:
    model = build_timeline(tpuprof.load(LOOP))
    steps = model.rows[0].events
    t0, t1 = view(page)
    a, b = ((int(t) - model.start - t0) / (t1 - t0) for t in (steps.start[1], steps.end[1]))
    page.keyboard.press("m")
    drag(page, a + 0.002, b - 0.002, STEPS_Y)
    until(lambda: said(page, "measure-ps") == str(int(steps.end[1] - steps.start[1])))


def test_search_counts_and_goes_from_match_to_match(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("all-gather")
    page.locator(".timeline[data-matches]").wait_for()
    total = int(said(page, "matches"))
    assert total >= int(tpuprof.load(LOOP).ops["op"].astype(str).str.contains("all-gather").sum()) > 0
    page.keyboard.press("Enter")
    until(lambda: said(page, "match") != "-1")
    first = int(said(page, "match"))
    page.keyboard.press("Enter")
    until(lambda: said(page, "match") == str(first + 1))
    page.keyboard.press("Shift+Enter")
    until(lambda: said(page, "match") == str(first))
    assert f"of {total}" in page.locator(".found").inner_text()
    page.locator(".search").fill("no such op")
    page.get_by_text("none", exact=True).wait_for()


def test_hover_says_what_it_is(page: Page) -> None:
    page.mouse.move(*at(page, 0.1, PROGRAMS_Y))
    tip = page.locator(".tip")
    tip.wait_for(state="visible")
    assert "jit_train_step" in tip.inner_text()
    assert "duration" in tip.inner_text()
    page.mouse.move(*at(page, -0.1, PROGRAMS_Y))
    until(lambda: "Executions of programs" in tip.inner_text())


def test_tracks_close_and_open_and_scroll(page: Page) -> None:
    drawn = said(page, "drawn")
    head = at(page, -0.1, TOP + HEAD // 2)
    page.mouse.click(*head)
    until(lambda: int(said(page, "drawn")) < int(drawn))
    page.mouse.click(*head)
    until(lambda: said(page, "drawn") == drawn)
    assert pixel(page, 0.2, STEPS_Y) != pixel(page, 0.2, TOP + HEAD // 2)
    page.mouse.move(*at(page, -0.1, 300))
    page.mouse.wheel(0, 400)
    until(lambda: said(page, "drawn") != drawn)
    page.keyboard.press("Home")
    until(lambda: said(page, "drawn") == drawn)


def test_help_opens_and_closes(page: Page) -> None:
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for(state="visible")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


def test_a_large_run_zooms_at_the_pointer_and_counts_all_matches(opener: Opener) -> None:
    with opener(model="made:60000") as page:
        page.mouse.move(*at(page, 0.5, 150))
        t0, t1 = view(page)
        middle = t0 + 0.5 * (t1 - t0)
        answers = said(page, "answers")
        for _ in range(8):
            page.mouse.wheel(0, -250)
            page.wait_for_timeout(20)
        until(lambda: said(page, "answers") != answers)
        settled(page)
        a, b = view(page)
        assert b - a < (t1 - t0) / 20
        assert a + 0.5 * (b - a) == pytest.approx(middle, rel=1e-3)
        assert float(said(page, "redraw-ms")) < 60
        assert int(said(page, "drawn")) > 100
        page.locator(".search").fill("matmul")
        page.locator(".timeline[data-matches]").wait_for()
        assert int(said(page, "matches")) > 5_000  # more than are sent
        page.locator(".search").press("Shift+Enter")
        until(lambda: "nearest" in page.locator(".found").inner_text())


FORMATS = """async (text) => {
  const of = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const ruler = (a, b) => {
    const t = of.ticks(a, b, 9);
    return [t.base, ...t.at.slice(0, 2).map((x) => of.tickLabel(x, t))];
  };
  return {
    durations: [0, 1, 999, 1000, 999999, 784.2e9, 98.6e12, -5e6, NaN].map(of.duration),
    exact: [18716083984988, 1500, 7, -2e6].map((t) => of.exact(t).replaceAll("\\u2009", " ")),
    percent: [0, 1, 0.99999, 0.0001, 0.5, 0.015].map(of.percent),
    rulers: [[0, 1e12], [1.15e12, 1.15e12 + 3e8], [-5e9, 5e9], [0, 20], [3.2e9, 3.7e9]].map(([a, b]) => ruler(a, b)),
  };
}"""


def test_times_are_written_for_people(shared: Page) -> None:
    text = (files("tpuprof_dashboards.timeline") / "assets" / "format.js").read_text("utf-8")
    assert shared.evaluate(FORMATS, text) == {
        "durations": ["0 ps", "1 ps", "999 ps", "1 ns", "1 µs", "784.2 ms", "98.6 s", "-5 µs", "unknown"],
        "exact": ["18.716 083 984 988 s", "1.500 ns", "7 ps", "−2 µs"],
        "percent": ["0 %", "100 %", "> 99.9 %", "< 0.1 %", "50 %", "1.5 %"],
        "rulers": [
            [0, "0.0 s", "0.2 s"],
            [1.15e12, "+0 µs", "+50 µs"],
            [0, "-4 ms", "-2 ms"],
            [0, "0 ps", "5 ps"],
            [0, "3.2 ms", "3.3 ms"],
        ],
    }


def test_the_address_restores_the_view(opener: Opener, shared: Page) -> None:
    model = build_timeline(tpuprof.load(LOOP))
    with opener(seen=f"{model.start + 1_500_000_000}-{model.start + 1_600_000_000}") as page:
        assert view(page) == (1_500_000_000, 1_600_000_000)
        stage(page).focus()
        page.keyboard.press("d")
        until(lambda: view(page)[0] > 1_500_000_000)
        until(lambda: f"seen={model.start + view(page)[0]}-{model.start + view(page)[1]}" in page.url)
        assert page.get_by_text("page runs: 1").count() == 1


def test_hostile_names_are_only_names(opener: Opener, tmp_path: Path) -> None:
    hostile_trace().write(tmp_path)
    with opener(model=str(tmp_path)) as page:
        page.locator(".search").fill(SCRIPT)
        page.locator(".search").press("Enter")
        page.locator(".timeline[data-selected]").wait_for()
        assert SCRIPT in page.locator(".details").inner_text()
        page.get_by_text(f"picked: {SCRIPT}").wait_for()
        page.mouse.move(*at(page, 0.5, OPS_Y))
        page.locator(".tip").wait_for(state="visible")
        assert page.locator(".timeline img, .timeline script").count() == 0


def test_light_and_dark(shared: Page, opener: Opener) -> None:
    assert said(shared, "theme") == "light"
    with opener(dark=True, ratio=2) as page:
        assert said(page, "theme") == "dark"
        assert sum(pixel(page, 0.999, 300)) < 150 < sum(pixel(shared, 0.999, 300))
        scene = page.locator("canvas.scene")
        assert scene.evaluate("c => c.width === Math.round(c.clientWidth * 2)")


def test_two_linked_timelines_move_together(opener: Opener) -> None:
    with opener(second="1") as page:
        other = page.locator(".timeline[data-redraws]").nth(1)
        other.wait_for()
        before = view(page)
        stage(page).focus()
        page.keyboard.press("w")
        until(lambda: view(page) != before and other.get_attribute("data-t1") == said(page, "t1"))
        page.get_by_role("button", name="Linked").nth(1).click()
        kept, here = other.get_attribute("data-t1"), view(page)
        stage(page).focus()
        page.keyboard.press("s")
        until(lambda: view(page) != here)
        page.wait_for_timeout(100)
        assert other.get_attribute("data-t1") == kept
