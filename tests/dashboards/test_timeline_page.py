"""Page Timeline; the component has tests of its own in ``tests/timeline``."""

from __future__ import annotations

from typing import Any

import pytest
from tpuprof_dashboards.pages.timeline import stretch_of

from tests.dashboards.harness import RUNS, SAMPLES, Dashboard, page_test, problems, sample, settled

RUN = RUNS["tpu_two_hosts"]


@pytest.mark.parametrize("view", ["5-1", "9" * 40 + "-1", "-5-100000000"])
def test_any_stretch_in_the_url_is_harmless(view: str) -> None:
    assert problems(page_test("timeline", SAMPLES, run=RUN, view=view)) == []


@pytest.mark.parametrize(("device", "cores"), [("", 4), ("worker-1/TPU:0", 1), ("nobody", 4)])
def test_a_step_of_the_url_is_the_stretch_that_is_shown(device: str, cores: int) -> None:
    steps = sample("tpu_two_hosts").steps
    rows = steps[(steps["step"] == 1) & ((steps["device"] == device) | (cores > 1))]
    assert len(rows) == cores
    found = stretch_of(steps, "1", device)
    assert found is not None
    start, end = int(rows["start_ps"].min()), int((rows["start_ps"] + rows["duration_ps"]).max())
    assert found[0] < start < end < found[1]
    assert found[1] - found[0] < 1.11 * (end - start)
    assert stretch_of(steps, "<b>", device) is None
    assert stretch_of(steps, "", device) is None
    assert problems(page_test("timeline", SAMPLES / "tpu_two_hosts", step="1", device=device)) == []


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
