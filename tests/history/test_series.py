"""Trends: which run was the first bad one, what else changed there, and that unlike runs are never in one series."""

from __future__ import annotations

import numpy as np
import pytest

from tests.history import made
from tpuprof.errors import UsageError
from tpuprof.history import Metric, Store
from tpuprof.history.series import MIN_RUNS, differences, trends


def fill(store: Store, values: list[float | None]) -> None:
    """Runs with these medians of the step time in us, oldest first."""
    for number, value in enumerate(values):
        store.add_facts(made.facts(number, None if value is None else value * 1e6), {"commit": f"c{number}"})


def noisy(n: int, at: int, factor: float) -> list[float | None]:
    values = 100 * (1 + 0.005 * np.random.default_rng(4).standard_normal(n))
    values[at:] *= factor
    return [float(value) for value in values]


def test_the_first_bad_run_is_named_with_what_changed(store: Store) -> None:
    for number, value in enumerate(noisy(24, 15, 1.06)):
        version = "0.10.2" if number < 15 else "0.10.3"
        store.add_facts(
            made.facts(
                number,
                (value or 0) * 1e6,
                structure=("s" if number < 15 else "t") * 32,
                about={"versions": {"jaxlib": version}, "environment": {"XLA_FLAGS": "--a"}},
            ),
            {"branch": "main", "commit": f"c{number}"},
        )
    (trend,) = trends(store)
    assert (trend.verdict, trend.branch, trend.reason, trend.pending) == ("regressed", "main", None, None)
    (change,) = trend.changes
    assert (change.direction, change.first.name, change.last_before.name) == ("regressed", "run15", "run14")
    assert change.point.relative == pytest.approx(0.06, abs=0.01)
    found = [(d.what, d.before, d.after) for d in change.differences]
    assert found == [
        ("tag commit", "c14", "c15"),
        ("jaxlib", "0.10.2", "0.10.3"),
        ("compiled program", "ssssssss", "tttttttt"),
    ]
    assert [(start, stop) for start, stop, _ in trend.levels] == [(0, 15), (15, 24)]


def test_directions(file_store: Store) -> None:
    for number in range(20):
        late = number >= 10
        figures = {"step_p50_ps": 90e6 if late else 100e6, "mfu": 0.3 if late else 0.4, "n_steps": 20 if late else 10}
        file_store.add_facts(made.facts(number, metrics=tuple(Metric(*figure) for figure in figures.items())))
    assert [trend.verdict for trend in trends(file_store)] == ["improved"]
    assert [trend.verdict for trend in trends(file_store, "mfu")] == ["regressed"]
    assert [trend.verdict for trend in trends(file_store, "n_steps")] == ["changed"]


def test_unlike_runs_never_share_a_series(file_store: Store) -> None:
    store = file_store
    # Mixed, the two kinds of hardware, programs and branches would look like steps of 50 %.
    for number in range(48):
        store.add_facts(
            made.facts(
                number,
                100e6 + 50e6 * (number % 2) + 20e6 * (number // 2 % 2) + 5e6 * (number // 4 % 2),
                hardware=("h", "i")[number % 2] * 32,
                program=("p", "q")[number // 2 % 2] * 32,
            ),
            {"branch": ("main", "dev")[number // 4 % 2]},
        )
    found = trends(store)
    assert len(found) == 8
    assert all(len(trend.runs) == 6 and trend.changes == () for trend in found)
    assert {trend.branch for trend in trends(store, tags={"branch": "dev"})} == {"dev"}


def test_runs_without_fingerprint_are_in_no_series(file_store: Store) -> None:
    file_store.add_facts(made.facts(0, program=None))
    file_store.add_facts(made.facts(1, hardware=None))
    assert trends(file_store) == []


def test_a_short_series_cannot_tell(file_store: Store) -> None:
    fill(file_store, [100.0] * (MIN_RUNS - 1))
    (trend,) = trends(file_store)
    assert trend.verdict == "cannot_tell"
    assert trend.reason == f"A series needs {MIN_RUNS} runs with this metric to show a change; this one has 11."
    file_store.add_facts(made.facts(99, 100e6))
    assert [trend.verdict for trend in trends(file_store)] == ["steady"]


def test_a_large_step_in_the_shortest_series_is_found(file_store: Store) -> None:
    fill(file_store, noisy(MIN_RUNS, MIN_RUNS // 2, 1.2))
    assert [trend.verdict for trend in trends(file_store)] == ["regressed"]


def test_unknown_values_are_left_out_and_counted(file_store: Store) -> None:
    values = noisy(24, 12, 1.1)
    fill(file_store, [*values[:12], None, None, *values[12:]])
    (trend,) = trends(file_store)
    assert (len(trend.runs), trend.without_value) == (24, 2)
    assert trend.changes[0].first.name == "run14"
    (nothing,) = trends(file_store, "mfu")
    assert (nothing.verdict, len(nothing.runs), nothing.without_value, nothing.levels) == ("cannot_tell", 0, 26, ())


def test_one_bad_run_is_not_a_change_and_two_wait(file_store: Store) -> None:
    fill(file_store, [*noisy(20, 20, 1.0), 120.0, 121.0])
    (trend,) = trends(file_store)
    assert (trend.verdict, trend.pending_direction) == ("steady", "regressed")
    assert trend.pending is not None
    assert trend.runs[trend.pending.index].name == "run20"


def test_the_newest_runs_only(file_store: Store) -> None:
    fill(file_store, noisy(40, 10, 1.2))
    assert [trend.verdict for trend in trends(file_store)] == ["regressed"]
    assert [trend.verdict for trend in trends(file_store, last=20)] == ["steady"]


def test_series_are_bounded(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuprof.history.series.MAX_VALUES", 15)
    fill(file_store, noisy(20, 20, 1.0))
    (trend,) = trends(file_store)
    assert (len(trend.runs), trend.left_out, trend.runs[-1].name) == (15, 5, "run19")


def test_an_unknown_metric_is_refused_with_the_known_ones(file_store: Store) -> None:
    with pytest.raises(UsageError, match="There is no metric 'step_time'") as error:
        trends(file_store, "step_time")
    assert "step_p50_ps, step_p95_ps" in error.value.hint


def test_differences_say_what_only_one_side_has(file_store: Store) -> None:
    a = file_store.add_facts(made.facts(0), {"x": "1"}).run
    b = file_store.add_facts(made.facts(1, structure=None, tool_version="9"), {"y": "2"}).run
    found = {d.what: (d.before, d.after) for d in differences(a, b)}
    assert found == {
        "tag x": ("1", None),
        "tag y": (None, "2"),
        "compiled program": ("ssssssss", None),
        "added by tpuprof": (a.tool_version, "9"),
    }
    assert differences(a, a) == ()
