"""What must hold of any op and step: ladders descend, parts sum up, and figures scale with times and peaks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.roofline.made import op_of, rates
from tpuprof.roofline.ladder import ladder
from tpuprof.roofline.schemas import BOUNDS, LADDER_RUNGS
from tpuprof.roofline.step import utilisation
from tpuprof.roofline.table import OpWork, roofline_frame
from tpuprof.tables.schemas import COMPUTE_KINDS, PARTS

STEP_PS = 1e9
costs = st.none() | st.integers(0, 10**15).map(float)


@st.composite
def ops(draw: st.DrawFn) -> OpWork:
    return op_of(
        draw(st.sampled_from(["a", "b", "c", "d"])),
        draw(st.integers(0, 10**12)),
        kind=draw(st.sampled_from(["matmul", "elementwise", "custom_kernel", "data_movement"])),
        executions=draw(st.integers(1, 1000)),
        flops=draw(costs),
        vector=draw(st.integers(0, 10**12).map(float)),
        hbm=draw(st.none() | st.integers(0, 10**13)),
        remat=draw(st.booleans()),
    )


works = st.lists(ops(), max_size=8)


@given(works, st.integers(1, 50))
def test_times_by_bound_sum_to_all_compute_time(found: list[OpWork], pairs: int) -> None:
    used = utilisation(found, rates(), STEP_PS, pairs)
    assert set(used.bound_by) == {*BOUNDS, "nothing", "unknown"}
    assert sum(used.bound_by.values()) == pytest.approx(sum(w.self_ps for w in found) / pairs)
    assert all(ps >= 0 for ps in used.bound_by.values())


@given(works, st.integers(1, 50), st.floats(1e3, 1e15))
def test_a_step_of_twice_the_time_has_half_the_use(found: list[OpWork], pairs: int, step_ps: float) -> None:
    once, twice = (utilisation(found, rates(), step_ps * factor, pairs) for factor in (1, 2))
    for name in ("mfu", "hfu", "hbm_utilisation"):
        assert getattr(once, name) == pytest.approx(2 * getattr(twice, name), rel=1e-12, abs=0)
    assert once.bound_by == twice.bound_by


@given(works, st.integers(1, 50))
def test_twice_the_peaks_are_half_the_use(found: list[OpWork], pairs: int) -> None:
    once, twice = (utilisation(found, rates(200e12 * factor, 800e9 * factor), STEP_PS, pairs) for factor in (1, 2))
    for name in ("mfu", "hfu", "hbm_utilisation"):
        assert getattr(once, name) == pytest.approx(2 * getattr(twice, name), rel=1e-12, abs=0)
    assert once.mfu <= once.hfu * (1 + 1e-12), "recomputation is no work of the model"


@settings(max_examples=40)
@given(works)
def test_no_efficiency_above_one_that_is_not_flagged(found: list[OpWork]) -> None:
    table = roofline_frame(found, rates())
    assert len(table) == len(found)
    for row in table.itertuples():
        if pd.isna(row.bound_ps):
            assert pd.isna(row.efficiency)
            assert not row.above_peak
            assert row.cost_source is None or pd.isna(row.cost_source) or pd.isna(row.hbm_bytes)
            continue
        parts = [p for p in (row.compute_ps, row.hbm_ps, row.vmem_ps) if not pd.isna(p)]
        assert row.bound_ps == max(parts)
        if row.mean_ps < row.bound_ps * 0.98 - 10_000:
            assert row.above_peak
        if row.above_peak:
            assert pd.isna(row.efficiency)
            assert row.mean_ps < row.bound_ps
        elif row.mean_ps:
            assert 0 <= row.efficiency <= 1
        assert 0 <= row.recoverable_ps <= row.self_ps


@settings(max_examples=40)
@given(ops(), st.integers(2, 5))
def test_an_op_of_more_time_is_less_efficient(op: OpWork, factor: int) -> None:
    once, more = (roofline_frame([replace(op, self_ps=op.self_ps * k)], rates()).iloc[0] for k in (1, factor))
    if not pd.isna(once["efficiency"]) and not pd.isna(more["efficiency"]) and once["efficiency"] < 1:
        assert once["efficiency"] == pytest.approx(factor * more["efficiency"])


parts = st.fixed_dictionaries({f"{part}_ps": st.integers(0, 10**12).map(float) for part in PARTS})
rows = st.lists(st.tuples(*[st.none() | st.integers(0, 10**12)] * 3), max_size=6)


@settings(max_examples=60)
@given(parts, rows, st.none() | works, st.integers(1, 20), st.booleans())
def test_a_ladder_never_rises_and_never_falls_below_nothing(
    times: dict[str, float],
    collectives: list[tuple[int | None, ...]],
    found: list[OpWork] | None,
    pairs: int,
    sequential: bool,
) -> None:
    step_ps = sum(times.values())
    frame = pd.DataFrame(collectives, columns=["window_ps", "transfer_ps", "exposed_ps"], dtype="Int64")
    frame["window_ps"] = frame["window_ps"].fillna(0)
    table = None if found is None else roofline_frame(found, rates())
    rungs = ladder({"parts": times, "step_ps": step_ps}, frame, table, pairs, sequential=sequential)
    assert [rung.name for rung in rungs] == list(LADDER_RUNGS)
    assert (rungs[0].step_ps, rungs[0].gain_ps) == (step_ps, 0)
    for before, after in itertools.pairwise(rungs):
        assert 0 <= after.step_ps <= before.step_ps
        assert after.gain_ps == pytest.approx(before.step_ps - after.step_ps)
    compute = sum(times[f"{kind}_ps"] for kind in COMPUTE_KINDS)
    assert rungs[-2].step_ps == pytest.approx(compute, rel=1e-9, abs=1e-3), "without all losses only compute is left"
    if table is None:
        assert rungs[-1].step_ps == rungs[-2].step_ps
        assert rungs[-1].reason


@settings(max_examples=40)
@given(works, st.integers(1, 20))
def test_the_last_rung_is_the_sum_of_bounds_where_all_are_known(found: list[OpWork], pairs: int) -> None:
    table = roofline_frame(found, rates())
    total = float(table["self_ps"].sum()) / pairs
    times = {f"{part}_ps": 0.0 for part in PARTS} | {"matmul_ps": total}
    empty = pd.DataFrame({name: pd.array([], "Int64") for name in ("window_ps", "transfer_ps", "exposed_ps")})
    rungs = ladder({"parts": times, "step_ps": total}, empty, table, pairs, sequential=True)
    least = 0.0
    for row in table.itertuples():
        least += row.self_ps if pd.isna(row.bound_ps) else min(row.self_ps, row.bound_ps * row.executions)
    assert rungs[-1].step_ps == pytest.approx(least / pairs, rel=1e-9, abs=1e-3)
