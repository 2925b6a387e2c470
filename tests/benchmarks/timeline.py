"""How fast a timeline is built, answers, and is drawn. One command, one table:

    python tests/benchmarks/timeline.py [--events 3000000 10000000] [--chromium PATH]

Timelines are made of random ops on eight devices, a tenth of them in loops. Windows of all sizes are asked for at all
places, over all rows at once. With a Chromium the component is opened on a page; the time to redraw is that which it
measures by itself while one zooms and moves.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "dashboards")]

from tpuprof_dashboards.timeline.model import TimelineModel  # noqa: E402
from tpuprof_dashboards.timeline.payload import layout, window_data  # noqa: E402
from tpuprof_dashboards.timeline.search import search  # noqa: E402
from tpuprof_dashboards.timeline.window import DEFAULT_WIDTH_PX, Request, query  # noqa: E402

from tests.timeline.made import made_model  # noqa: E402

PLACES = 40


def main() -> None:
    """Measure each size; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[3_000_000, 10_000_000])
    parser.add_argument("--chromium", action="store_true", help="also measure redraws in a browser")
    arguments = parser.parse_args()
    made_model(10_000)  # compiles
    for events in arguments.events:
        measure(events)
    if arguments.chromium:
        for events in arguments.events:
            print(f"redraws at {events:,} events: {redraws(events)}")


def measure(events: int) -> None:
    """One size without a browser."""
    began = time.process_time()
    model = made_model(events)
    built = time.process_time() - began
    held = sum(
        column.nbytes for row in model.rows for column in (row.events.start, row.events.end, row.events.item, row.sums)
    )
    print(f"{model.n_events:,} events on {len(model.rows)} rows: made and built in {built:.2f} s, {held / 1e6:.0f} MB")
    rng = np.random.default_rng(1)
    rows = tuple(range(len(model.rows)))
    for share in (1.0, 0.1, 1e-3, 1e-6):
        span = max(int((model.end - model.start) * share), 1_000)
        starts = [int(model.start + at * (model.end - model.start - span)) for at in rng.random(PLACES)]
        requests = [Request(t0, t0 + span, 2 * DEFAULT_WIDTH_PX, rows) for t0 in starts]
        answers = timed([lambda r=r: query(model, r) for r in requests])
        sent = timed([lambda r=r: window_data(model, query(model, r)) for r in requests])
        biggest = max((size_of(model, r) for r in requests[:5]), default=0)
        print(
            f"  window of {share:g} of the run: {answers} ms; with its tables {sent} ms; at most {biggest / 1e3:.0f} kB"
        )
    print(
        f"  layout {timed([lambda: layout(model)] * 3)} ms; first search {timed([lambda: search(model, 'matmul')])} ms"
    )


def size_of(model: TimelineModel, request: Request) -> int:
    """Bytes of an answer, about."""
    data = window_data(model, query(model, request))
    return sum(data[name].nbytes for name in ("events", "blocks", "matches")) + len(
        repr([data["items"], data["texts"]])
    )


def timed(calls: list[Callable[[], object]]) -> str:
    """Median and longest processor time of some calls, in ms: other work on the machine does not count."""
    spent: list[float] = []
    for call in calls:
        began = time.process_time()
        call()
        spent.append(1000 * (time.process_time() - began))
    return f"{np.median(spent):.1f} (longest {max(spent):.1f})"


def redraws(events: int) -> str:
    """Times of redraws in a browser while one zooms, moves and scrolls, and how long answers take."""
    from tests.timeline.driving import opened

    with opened(model=f"made:{events}") as page:
        spent: list[float] = []
        waited: list[float] = []
        box = page.locator(".stage").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 700, box["y"] + 200)
        for turn in range(60):
            page.mouse.wheel(0, -120 if turn < 30 else 120)
            page.wait_for_timeout(30)
            spent.append(float(page.locator(".timeline").get_attribute("data-redraw-ms") or "nan"))
            if turn % 10 == 9:
                began = time.perf_counter()
                page.wait_for_timeout(120)
                page.locator(".timeline:not([data-pending])").wait_for(timeout=10_000)
                waited.append(1000 * (time.perf_counter() - began))
                spent.append(float(page.locator(".timeline").get_attribute("data-redraw-ms") or "nan"))
        return (
            f"median {np.median(spent):.1f} ms, 19 of 20 {np.percentile(spent, 95):.1f}, longest {max(spent):.1f};"
            f" settled after a move in {np.median(waited):.0f} ms (longest {max(waited):.0f})"
        )


if __name__ == "__main__":
    main()
