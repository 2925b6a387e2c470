"""Page Overview."""

from __future__ import annotations

from tests.dashboards.harness import SAMPLES, page_test, problems, texts


def test_it_shows_the_step_and_the_first_findings() -> None:
    test = page_test("overview", SAMPLES / "tpu_two_hosts")
    assert problems(test) == []
    shown = texts(test)
    assert "Step p50" in shown
    assert "TPU" in shown
