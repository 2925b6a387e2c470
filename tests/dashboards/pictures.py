"""The pictures of the dashboard in ``docs/``: ``python -m tests.dashboards.pictures [PAGE …]``.

Every page is drawn on the sample traces and a pair of built runs, in a laptop's width and as high as it is, light; the
overview and the timeline dark too. To be looked at, by a person, whenever a page changes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tpuprof_dashboards.pages import PAGES

from tests.dashboards.harness import RUNS, SAMPLES, dashboard, pair, settled
from tests.history import made
from tests.services import browser
from tpuprof.history import Store

TARGET = Path(__file__).parents[2] / "docs" / "images" / "dashboard"
WIDTH, LOWEST, HIGHEST = 1366, 768, 2000
LOOP, RUN, CPU = RUNS.values()
QUERIES: dict[str, dict[str, str]] = {
    "compare": {"run": "2026_01_02_00_00_00", "base": "2026_01_01_00_00_00"},
    "runs": {},
    "history": {},
    "planner": {},
    "memory": {"run": CPU},
    "scopes": {"run": CPU, "scope": "mlp"},
    "ops": {"run": LOOP, "op": "fusion.7"},
    "roofline": {"run": LOOP},
}
DARK = ("overview", "timeline")


def main() -> None:
    """Makes the pictures of the pages that are named, or of all."""
    wanted = sys.argv[1:] or list(PAGES)
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, browser.launched() as chromium:
        logs, store = Path(place) / "logs", Path(place) / "history.db"
        for sample in ("cpu_demo", "tpu_loop_async", "tpu_two_hosts"):
            shutil.copytree(SAMPLES / sample, logs, dirs_exist_ok=True)
        pair(logs)
        _fill(store)
        with dashboard(logs, "--store", str(store)) as running:
            for slug in wanted:
                for theme in ("light", "dark") if slug in DARK else ("light",):
                    name = slug if theme == "light" else f"{slug}-dark"
                    url = running.url("" if PAGES[slug].default else slug, **QUERIES.get(slug, {"run": RUN}))
                    _picture(chromium, url, theme, TARGET / f"{name}.png")
                    print(f"{name}.png")


def _picture(chromium: Any, url: str, theme: str, target: Path) -> None:
    context = chromium.new_context(viewport={"width": WIDTH, "height": LOWEST}, color_scheme=theme)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("h1")
    settled(page)
    page.wait_for_timeout(1500)
    height = page.evaluate("() => document.querySelector('[data-testid=\"stMainBlockContainer\"]').scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": max(LOWEST, min(HIGHEST, height))})
    page.wait_for_timeout(1000)
    page.screenshot(path=target)
    context.close()


def _fill(store: Path) -> None:
    """Sixty runs: a level, a slower one, a faster one."""
    keep = Store.open(store)
    for number in range(60):
        level = 1e9 if number < 22 else 1.08e9 if number < 41 else 0.97e9
        wobble = (number * 7919 % 13 - 6) / 10
        keep.add_facts(made.facts(number, (100 + wobble) * level), {"branch": "main", "commit": f"c{number:04}"})


if __name__ == "__main__":
    main()
