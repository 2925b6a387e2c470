"""Some of the ops, chosen by filters; and one op by occurrence, step and core: against brute force over the rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.test_scopes import ops
from tpuprof.errors import UsageError
from tpuprof.report.plain import records
from tpuprof.tables.chosen import Chosen, chosen_mask, chosen_op_stats
from tpuprof.tables.one_op import op_runs
from tpuprof.tables.scopes import NO_SCOPE, in_scope, scope_path
from tpuprof.trace import Trace

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "tpu_loop_async"
SCOPES = [None, "jit(f)/jit(main)/layer/mul", "jit(f)/transpose(jvp(layer))/dot_general", "jit(f)/layers/add", "(odd"]
KINDS = ["matmul", "elementwise", "collective"]
ROWS = st.lists(
    st.tuples(st.sampled_from(SCOPES), st.sampled_from(KINDS), st.integers(0, 99), st.sampled_from([None, 1, 2])),
    min_size=1, max_size=30,
)  # fmt: skip


@pytest.fixture(scope="module")
def sample() -> Trace:
    return tpuprof.load(SAMPLE)


def test_a_scope_is_itself_and_what_lies_in_it() -> None:
    assert scope_path("jit(f)/jit(main)/layer/mul") == "layer/mul"
    assert scope_path(None) == scope_path("") == NO_SCOPE
    assert in_scope("layer/mul", "layer")
    assert in_scope("layer/mul", "layer/mul")
    assert not in_scope("layers/mul", "layer")  # a longer name is another scope
    assert in_scope("layer/mul", "jit(f)/jit(main)/layer")  # as ops have it
    assert in_scope(NO_SCOPE, NO_SCOPE)


@settings(max_examples=30)
@given(
    ROWS, st.sampled_from(["", *KINDS, "nothing"]), st.sampled_from(["", "layer", "layer/mul", NO_SCOPE, "x"]),
    st.sampled_from(["", "h/TPU:1", "h/TPU:7"]), st.sampled_from([None, 1, 3]),
)  # fmt: skip
def test_the_mask_is_what_each_row_says(rows: list[tuple[str | None, str, int, int | None]], kind: str, scope: str,
                                        device: str, step: int | None) -> None:  # fmt: skip
    frame = ops(rows)
    mask = chosen_mask(frame, Chosen(kind=kind, scope=scope, device=device, step=step))
    paths = [scope_path(row[0]) for row in rows]
    expected = [
        (not kind or row[1] == kind)
        and (not scope or path == scope or path.startswith(scope + "/"))
        and (not device or device == f"h/TPU:{at % 2}")
        and (step is None or row[3] == step)
        for at, (row, path) in enumerate(zip(rows, paths, strict=True))
    ]
    assert mask.tolist() == expected


@settings(max_examples=20)
@given(ROWS)
def test_groups_of_a_choice_and_of_the_rest_are_all(rows: list[tuple[str | None, str, int, int | None]]) -> None:
    frame = ops(rows)
    parts = [chosen_op_stats(frame, "scope", Chosen(kind=kind)) for kind in KINDS]
    assert sum(int(part["self_ps"].sum()) for part in parts) == sum(row[2] for row in rows)
    if sum(row[2] for row in rows):
        assert sum(float(part["self_fraction"].sum()) for part in parts) == pytest.approx(1)


def test_what_is_chosen_is_a_share_of_all_ops(sample: Trace) -> None:
    whole = sample.op_stats("op")
    some = chosen_op_stats(sample.ops, "op", Chosen(kind="matmul"))
    expected = whole[whole["kind"] == "matmul"]
    assert some["name"].tolist() == expected["name"].tolist()
    assert some["self_fraction"].tolist() == pytest.approx(expected["self_fraction"].tolist())
    assert chosen_op_stats(sample.ops, "op", Chosen()).equals(whole)
    assert len(chosen_op_stats(sample.ops, "op", Chosen(op="no such op"))) == 0
    with pytest.raises(UsageError, match="Cannot group ops by 'colour'"):
        chosen_op_stats(sample.ops, "colour", Chosen(kind="matmul"))


def test_an_op_by_occurrence_by_step_and_by_core(sample: Trace) -> None:
    rows = [row for row in records(sample.ops) if row["op"] == "fusion.7"]
    runs = op_runs(sample.ops, Chosen(op="fusion.7", module=rows[0]["module"]))
    assert sorted(runs.durations_ps.tolist()) == sorted(row["duration_ps"] for row in rows)
    sums: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row["step"] is not None:
            sums[row["step"]][row["device"]] += row["self_ps"]
    assert runs.steps["step"].tolist() == sorted(sums)
    for step in records(runs.steps):
        cores = sums[step["step"]]
        assert step["self_ps"] == sum(cores.values())
        assert step["mean_ps"] == pytest.approx(sum(cores.values()) / len(cores))
        assert step["most_ps"] == max(cores.values()) == cores[step["device"]]
    assert runs.outside + int(runs.steps["occurrences"].sum()) == len(rows) == int(runs.devices["occurrences"].sum())
    for core in records(runs.devices):
        mine = [row["duration_ps"] for row in rows if row["device"] == core["device"]]
        assert (core["min_ps"], core["max_ps"]) == (min(mine), max(mine))
        assert core["mean_ps"] == pytest.approx(sum(mine) / len(mine))
    assert runs.devices["self_ps"].is_monotonic_decreasing


def test_an_op_that_never_ran_and_one_outside_of_steps(sample: Trace) -> None:
    nothing = op_runs(sample.ops, Chosen(op="no such op"))
    assert (len(nothing.durations_ps), len(nothing.steps), len(nothing.devices), nothing.outside) == (0, 0, 0, 0)
    outside = op_runs(ops([(None, "matmul", 5, None), (None, "matmul", 7, None)]), Chosen(kind="matmul"))
    assert (outside.outside, len(outside.steps), int(outside.devices["self_ps"].sum())) == (2, 0, 12)
