"""Measured servers: every one comes back, in a pool of their own, calibrated by the others."""

from __future__ import annotations

from copy import deepcopy
from statistics import median
from typing import Any

import pytest

from tpuprof.plan.published import bundled_rows
from tpuprof.plan.serve.validation import served_rows, served_scores

ROWS = bundled_rows()
FOUND = served_rows(ROWS)


def _changed(name: str, **changes: Any) -> list[dict[str, Any]]:
    return [row | changes if row["id"] == name else row for row in deepcopy(ROWS)]


def test_every_server_comes_back() -> None:
    assert [one.found.id for one in FOUND.values()] == [row["id"] for row in ROWS if row["kind"] == "serving"]
    assert [ROWS[place]["id"] for place in FOUND] == [one.found.id for one in FOUND.values()]
    for one in FOUND.values():
        assert (one.found.predicted is None) <= bool(one.reason)
        assert one.counts == (not one.reason)


def test_errors_of_servers() -> None:
    (whole,) = (score for score in served_scores(FOUND) if score.group == "all")
    assert whole.rows == 7
    assert whole.absolute_median <= 0.10
    assert whole.calibrated_absolute_median is not None
    assert whole.calibrated_absolute_median <= 0.10
    errors = [one.found.error for one in FOUND.values() if one.counts and one.found.error is not None]
    assert whole.signed_median == median(errors)


def test_a_server_is_calibrated_by_the_others_alone() -> None:
    name = "perf-0514"
    measured = next(row for row in ROWS if row["id"] == name)["measured"]
    again = served_rows(_changed(name, measured=measured | {"output_tokens_per_s": 10 * 2494.8}))
    for place, one in again.items():
        before = FOUND[place]
        if one.found.id == name:
            assert one.calibrated == before.calibrated
        elif one.counts:
            assert one.calibrated is not None
            assert before.calibrated is not None
            assert one.calibrated >= before.calibrated


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unverified": True}, "not checked against its source"),
        ({"upper_bound": True}, "a bound"),
        ({"measured": {}}, "No generated tokens per second are stated."),
        ({"chip": None}, "The row does not state chip."),
    ],
)
def test_rows_that_do_not_count_say_why(changes: dict[str, Any], reason: str) -> None:
    again = served_rows(_changed("perf-0514", **changes))
    one = next(one for one in again.values() if one.found.id == "perf-0514")
    assert not one.counts
    assert reason in one.reason


def test_one_server_alone_is_not_calibrated() -> None:
    (alone,) = served_rows([row for row in ROWS if row["id"] == "perf-0514"]).values()
    assert alone.calibrated == alone.found.predicted
    assert served_rows([]) == {}
    assert served_scores({}) == ()
