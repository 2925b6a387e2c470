"""How fast the dashboard is for a person: a run of millions of events in a real browser.

    python tests/benchmarks/dashboard.py [--hosts 4] [--events 750000] [--dir DIR]

Writes the run once, starts a dashboard on it, and measures in headless chromium: the first look at the run (its files
are read), the first look after a restart (the cache on disk serves it), at once and after five seconds, every page when
it is switched to (first time, and again), and redraws of the timeline. A page counts as there when its title and
everything on it is drawn: no script runs and nothing spins any more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analyzers"), str(ROOT / "dashboards")]

from tpuprof_dashboards.pages import PAGES  # noqa: E402

from tests.benchmarks.pods import write_pod  # noqa: E402
from tests.dashboards.harness import Dashboard, dashboard, settled  # noqa: E402
from tests.services import browser  # noqa: E402

FIRST_PAINT_S, SWITCH_S, REDRAW_MS = 3.0, 1.5, 60.0


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench" / "dashboard")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--events", type=int, default=750_000, help="events per host")
    arguments = parser.parse_args()
    folder: Path = arguments.dir / f"{arguments.hosts}x{arguments.events}"
    write_pod(folder, arguments.hosts, arguments.events)
    os.environ["TPUPROF_CACHE_DIR"] = str(arguments.dir / "cache")
    print(f"{arguments.hosts * arguments.events:,} events on {arguments.hosts} hosts, {os.cpu_count()} cores")
    with browser.launched() as chromium:
        shutil.rmtree(arguments.dir / "cache", ignore_errors=True)
        with dashboard(folder) as running:
            print(f"first look, files are read    {_look(chromium, running):8.2f} s")
            time.sleep(20)  # the cache is written behind the scenes
        with dashboard(folder) as running:
            print(f"in the instant of a restart   {_look(chromium, running):8.2f} s")
        with dashboard(folder) as running:
            time.sleep(5)  # about what it takes to read the address and open it
            seconds = _look(chromium, running)
            print(f"first look after a restart    {seconds:8.2f} s   bar {FIRST_PAINT_S} s")
            print(f"the same in a second tab      {_look(chromium, running):8.2f} s")
            _pages(chromium, running)


def _look(chromium: Any, running: Dashboard) -> float:
    """From the request to the tiles of the overview."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    began = time.perf_counter()
    page.goto(running.url())
    page.get_by_text("Step p50").wait_for(timeout=120_000)
    seconds = time.perf_counter() - began
    settled(page)
    context.close()
    return seconds


def _pages(chromium: Any, running: Dashboard) -> None:
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(running.url())
    page.get_by_text("Step p50").wait_for(timeout=120_000)
    settled(page)
    print(f"{'page':<22} {'first':>8} {'again':>8}   bar {SWITCH_S} s")
    times: dict[str, list[float]] = {slug: [] for slug in PAGES}
    for _ in range(2):
        for slug in PAGES:
            times[slug].append(_switch(page, slug))
            if slug == "timeline":
                _redraws(page)
    for slug, (first, again) in times.items():
        print(f"{PAGES[slug].title:<22} {first:8.2f} {again:8.2f}")
    context.close()


def _switch(page: Any, slug: str) -> float:
    began = time.perf_counter()
    page.get_by_test_id("stSidebarNav").locator(f"a[href$='/{'' if PAGES[slug].default else slug}']").first.click()
    page.get_by_role("heading", name=PAGES[slug].title, exact=True, level=1).wait_for(timeout=60_000)
    settled(page)
    return time.perf_counter() - began


def _redraws(page: Any) -> None:
    """Pans and zooms the timeline, and prints what its canvas says of its redraws."""
    canvas = page.locator("[data-redraw-ms]").first
    canvas.wait_for(timeout=30_000)
    found: list[float] = []
    canvas.focus()
    for key in "wwwddssaawwdd":
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        found.append(float(canvas.get_attribute("data-redraw-ms") or "nan"))
    print(f"timeline redraw: median {sorted(found)[len(found) // 2]:.1f} ms, worst {max(found):.1f} ms, "
          f"bar {REDRAW_MS:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
