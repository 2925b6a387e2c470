"""What holds for the explanation of any two traces, on random ones of all device kinds."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compare.models import loaded
from tests.tables.random_traces import Truth, cpu_truths, truths
from tests.tables.test_metamorphic import renumbered
from tpuprof.compare import by_kind, by_scope, by_source, explain
from tpuprof.compare.claims import last_started
from tpuprof.compare.side import side_of
from tpuprof.tables.schemas import PARTS

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
anything = st.one_of(truths(), cpu_truths())


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=12)


@given(spans, st.lists(st.integers(-2, 45), max_size=20))
def test_the_interval_that_started_last_holds_a_time(intervals: list[tuple[int, int]], times: list[int]) -> None:
    intervals.sort(key=lambda span: span[0])
    times.sort()
    start = np.array([begin for begin, _ in intervals], np.int64)
    end = np.array([begin + length for begin, length in intervals], np.int64)
    found = last_started(start, end, np.array(times, np.int64))
    for time, owner in zip(times, found.tolist(), strict=True):
        holding = [n for n, (begin, length) in enumerate(intervals) if begin <= time < begin + length]
        assert owner == max(holding, default=-1)


@few
@given(anything)
def test_ops_claim_the_partition_part_by_part(truth: Truth) -> None:
    trace = loaded(truth.trace)
    side = side_of(trace)
    counted = trace.partition[trace.steps["counted"].to_numpy()]
    claimed: Counter[str] = Counter()
    for item in side.items:
        claimed[item.part] += item.ps
    for part, total in side.parts.items():
        assert total == int(counted[f"{part}_ps"].sum())
        if part not in ("barrier_wait", "idle"):
            assert claimed[part] == total, part
    assert set(side.unclaimed.values()) <= {0}
    assert sum(side.parts.values()) == side.step_ps == int(counted["duration_ps"].sum())
    assert side.pairs == len(counted)
    assert side.per_step is not None
    assert int(side.per_step.ops.sum()) == side.op_ps
    assert int(side.per_step.pairs.sum()) == side.pairs
    assert dict(zip(PARTS, side.per_step.parts.sum(axis=0).tolist(), strict=True)) == side.parts


@few
@given(anything, anything)
def test_rows_sum_to_the_difference_and_turn_with_the_sides(one: Truth, other: Truth) -> None:
    base, new = loaded(one.trace), loaded(other.trace)
    found, turned = explain(base, new), explain(new, base)
    means = base.breakdown(), new.breakdown()
    if means[0] is None or means[1] is None:
        assert found.step_delta_ps is None
        assert found.reason
        return
    assert found.step_delta_ps is not None
    step = max(means[0]["step_ps"], means[1]["step_ps"], 1)
    assert abs(found.step_delta_ps - (means[1]["step_ps"] - means[0]["step_ps"])) <= 1e-9 * step
    assert float(sum((row.delta for row in found.rows), Fraction(0))) == found.step_delta_ps
    assert found.residual_ps == 0
    for row in found.rows:
        assert abs(row.count_effect_ps + row.duration_effect_ps - row.delta_ps) <= 1e-9 * step
        assert abs(row.new_ps - row.base_ps - row.delta_ps) <= 1e-9 * step
    for view in (by_scope(found.rows), by_kind(found), by_source(found.rows)):
        assert abs(sum(delta.delta_ps for delta in view) - found.step_delta_ps) <= 1e-9 * step
    assert turned.step_delta_ps == -found.step_delta_ps
    assert Counter(-row.delta for row in turned.rows) == Counter(row.delta for row in found.rows)
    assert turned.matched_time_fraction == found.matched_time_fraction


@few
@given(anything, st.integers(0, 2**32))
def test_a_run_against_itself_and_against_itself_renumbered(truth: Truth, seed: int) -> None:
    trace = loaded(truth.trace)
    changed = truth.trace.copy()
    renumbered(changed, random.Random(seed))
    for other in (trace, loaded(changed)):
        found = explain(trace, other)
        assert found.step_delta_ps in (0, None)
        assert found.changed == ()
        assert found.matched_time_fraction in (1.0, None)
        assert by_scope(found.rows) == ()
