"""Waterfalls: bars that start where the one before ended, and sums that stay what they were."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.charts.samples import HOSTILE, MS, rows
from tpuprof.charts import delta_chart, ladder_chart, themed
from tpuprof.charts.waterfall import MOST_DELTAS

RUNGS = [
    {"name": "measured", "label": "measured", "step_ps": 100 * MS, "gain_ps": 0.0, "reason": None},
    {"name": "without_skew", "label": "without waiting", "step_ps": 90 * MS, "gain_ps": 10 * MS, "reason": None},
    {"name": "without_idle", "label": "without idle time", "step_ps": 60 * MS, "gain_ps": 30 * MS, "reason": None},
    {"name": "ops_at_roofline", "label": "every op at its roofline", "step_ps": 60 * MS, "gain_ps": 0.0,
     "reason": "The chip is not known."},
]  # fmt: skip


def bars(drawing: Any) -> list[tuple[str, float, float, str]]:
    assert drawing.chart is not None, drawing.caption
    return [(row["label"], row["x"], row["x2"], row["text"]) for row in rows(themed(drawing.chart), 1)]


def test_ladder_goes_from_the_measured_step_to_what_remains() -> None:
    drawing = ladder_chart(RUNGS)
    assert bars(drawing) == [
        ("measured step", 0, 100, "100 ms"),
        ("without waiting", 100, 90, "−10 ms · 10.0 %"),
        ("without idle time", 90, 60, "−30 ms · 30.0 %"),
        ("every op at its roofline", 60, 60, "not known"),
        ("what remains", 0, 60, "60 ms · 60.0 %"),
    ]
    assert drawing.caption.endswith("Not known, every op at its roofline: The chip is not known.")
    spec = themed(ladder_chart(RUNGS[:3]).chart)  # type: ignore[arg-type]
    assert spec["layer"][1]["encoding"]["x"]["scale"]["domain"] == [0, 100]
    assert spec["layer"][1]["encoding"]["x"]["axis"]["title"] == "time of the mean step (ms)"
    assert rows(spec, 1)[-1]["label"] == "what remains: the bound"


def test_without_a_step_there_is_a_sentence() -> None:
    for rungs in ([], RUNGS[:1], [{**RUNGS[0], "step_ps": None}, RUNGS[1]], [{**RUNGS[0], "step_ps": 0}, RUNGS[1]]):
        drawing = ladder_chart(rungs)
        assert (drawing.chart, drawing.caption) == (None, "No ladder: there is no counted step.")


def test_delta_waterfall_between_two_totals() -> None:
    deltas = [{"label": "a", "delta_ps": 3 * MS}, {"label": "a", "delta_ps": -5 * MS}, {"label": "same", "delta_ps": 0}]
    drawing = delta_chart(deltas, 10 * MS, ("run 1", "run 2"))
    assert bars(drawing) == [
        ("run 1", 0, 10, "10 ms"),
        ("a", 10, 13, "+3 ms"),
        ("a", 13, 8, "−5 ms"),
        ("run 2", 0, 8, "8 ms · -20.0 %"),
    ]
    tones = [row["tone"] for row in rows(themed(drawing.chart), 1)]  # type: ignore[arg-type]
    assert tones == ["soft", "host_transfer", "convolution", "soft"]  # orange is slower, blue faster
    assert bars(delta_chart(deltas))[0] == ("a", 0, 3, "+3 ms")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=60))
def test_every_bar_starts_where_the_one_before_ended_and_nothing_is_lost(changes: list[int]) -> None:
    drawing = delta_chart([{"label": str(at), "delta_ps": change} for at, change in enumerate(changes)], 10**12)
    if not any(changes):
        assert (drawing.chart, drawing.caption) == (None, "No waterfall: nothing changed.")
        return
    found = bars(drawing)
    assert len(found) <= MOST_DELTAS + 2
    for before, after in itertools.pairwise(found[:-1]):
        assert after[1] == pytest.approx(before[2])
    scale = 10**12 / found[0][2]
    assert found[-1][2] * scale == pytest.approx(10**12 + sum(changes), abs=10)
    if sum(1 for change in changes if change) > MOST_DELTAS:
        assert found[-2][0].startswith("the other ")
        assert f"of {sum(1 for change in changes if change)} changes" in drawing.caption


def test_odd_rows_and_hostile_labels() -> None:
    drawing = delta_chart([{"label": HOSTILE, "delta_ps": MS}, {"delta_ps": float("nan")}, {"label": "b"}])
    ((label, *_),) = bars(drawing)
    assert len(label) <= 32
    assert not {"\n", "\x1b", "\u202e"} & set(label)
