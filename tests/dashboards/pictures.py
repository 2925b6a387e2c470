"""The pictures of the dashboard in ``docs/``: ``python -m tests.dashboards.pictures [--place DIR] [PAGE …]``.

Every page is drawn on the sample traces and a pair of built runs, in a laptop's width and as high as it is, light; the
overview and the timeline dark too. Pages show where runs are: ``--place`` is a directory to write them to; the default
is the usual place for temporary files. To be looked at, by a person, whenever a page changes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
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
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=Path)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    arguments = parser.parse_args()
    wanted = arguments.pages or list(PAGES)
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="train-", dir=arguments.place) as place, browser.launched() as chromium:
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
    shot = page.screenshot()
    context.close()
    _save(Image.open(BytesIO(shot)).convert("RGB"), target)


def _save(picture: Image.Image, target: Path) -> None:
    """With 256 colours, which stay exact: a third as large, and only edges of letters change.

    Up to 96 of them are bright ones, of small marks and legends; the others are the commonest, mostly shades of grey.
    """
    pixels = np.asarray(picture)
    colors, where, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    bright = (np.ptp(colors.astype(np.int16), axis=1) > 40) & (counts >= 12)
    first = order[bright[order]][:96]
    common = colors[np.concatenate([first, order[~np.isin(order, first)]])[:256]]
    apart = np.abs(colors[:, None].astype(np.int16) - common[None]).sum(axis=2)
    made = Image.fromarray(apart.argmin(axis=1).astype(np.uint8)[where].reshape(pixels.shape[:2]), "P")
    made.putpalette(common.tobytes())
    made.save(target, optimize=True)


def _fill(store: Path) -> None:
    """Sixty runs: a level, a slower one, a faster one."""
    keep = Store.open(store)
    for number in range(60):
        level = 1e9 if number < 22 else 1.08e9 if number < 41 else 0.97e9
        wobble = (number * 7919 % 13 - 6) / 10
        keep.add_facts(made.facts(number, (100 + wobble) * level), {"branch": "main", "commit": f"c{number:04}"})


if __name__ == "__main__":
    main()
