"""Explanations with known answers: what was changed in a run is what the rows say, and they sum to the difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tpuprof
from tests.compare.models import NS, Op, built, layers, loaded, on_cpu, renumbered, run, streams, without_steps
from tpuprof.compare import Explanation, Row, explain
from tpuprof.compare.explanation import explain_sides
from tpuprof.compare.side import Side
from tpuprof.tables.schemas import DEVICE_IDLE_CAUSES, IDLE_CAUSES, PARTS
from tpuprof.testing import TraceBuilder

PIECES = ((1, "mul", "f32[64,32]"), (2, "add", "f32[64]"), (3, "exp", "f32[32]"))


def checked(base: tpuprof.Trace, new: tpuprof.Trace) -> Explanation:
    """The explanation, after what holds for every one was checked."""
    found = explain(base, new)
    means = base.breakdown(), new.breakdown()
    assert means[0] is not None
    assert means[1] is not None
    assert found.step_delta_ps is not None
    step = max(means[0]["step_ps"], means[1]["step_ps"])
    assert found.step_delta_ps == pytest.approx(means[1]["step_ps"] - means[0]["step_ps"], abs=1e-6 * step)
    total = sum(row.delta for row in found.rows)
    assert float(total) == found.step_delta_ps
    assert found.residual_ps == 0
    assert found.residuals == {}
    for row in found.rows:
        assert row.count_effect_ps + row.duration_effect_ps == pytest.approx(row.delta_ps, abs=1e-6 * step)
        assert row.new_ps - row.base_ps == pytest.approx(row.delta_ps, abs=1e-6 * step)
    assert sum(row.base_ps for row in found.rows) == pytest.approx(means[0]["step_ps"])
    assert sum(row.new_ps for row in found.rows) == pytest.approx(means[1]["step_ps"])
    negated = explain(new, base)
    assert sorted(-row.delta_ps for row in negated.rows) == sorted(row.delta_ps for row in found.rows)
    turned = {"new": "gone", "gone": "new", "split": "merged", "merged": "split"}
    assert sorted(turned.get(row.change, row.change) for row in negated.rows) == sorted(r.change for r in found.rows)
    assert negated.matched_time_fraction == found.matched_time_fraction
    return found


def only(found: Explanation) -> Row:
    (row,) = found.changed
    return row


def test_the_same_run_with_other_numbers_is_the_same() -> None:
    ops = [*layers(4), Op("copy.3", role="copy"), Op("copy.8", 30 * NS, role="copy")]
    found = checked(run(ops), run(renumbered(ops), number=99))
    assert found.step_delta_ps == 0
    assert found.matched_time_fraction == 1.0
    assert found.changed == ()


def test_an_op_that_takes_longer_is_the_difference() -> None:
    ops = [*layers(2), Op("reduce.1", 20 * NS, "loss/reduce_sum", "f32[64]", "reduce", source="train.py:7")]
    slower = [*ops[:-1], replace(ops[-1], ps=20 * NS + 100)]
    found = checked(run(ops, steps=5), run(renumbered(slower), steps=3))
    row = only(found)
    assert found.step_delta_ps == 100
    assert (row.change, row.kind, row.delta_ps, row.duration_effect_ps) == ("duration", "reduction", 100.0, 100.0)
    assert (row.scope, row.source, row.module) == ("loss/reduce_sum", "train.py:7", "jit_step")
    assert (row.count_base, row.count_new) == (1, 1)
    assert row.members[0].base == "reduce.1"


def test_ops_that_come_and_go() -> None:
    gone = Op("sort.1", 7 * NS, "sample/sort", "f32[64,32]", "sort")
    come = Op("all-gather.9", 9 * NS, "embed/all_gather", "f32[128,32]", "all-gather")
    found = checked(run([*layers(2), gone]), run([*layers(2), come]))
    changes = {row.change: row for row in found.changed}
    assert set(changes) == {"gone", "new"}
    assert changes["gone"].delta_ps == -7 * NS
    assert changes["new"].delta_ps == 9 * NS
    assert changes["new"].count_effect_ps == 9 * NS
    assert (changes["new"].count_base, changes["new"].count_new) == (0, 1)
    assert changes["new"].kind == "collective"
    # What is on one side only is not covered: 16 of 2 x 80 + 16 ns.
    assert found.matched_time_fraction == pytest.approx(160 / 176)


def test_one_layer_more_is_a_change_of_the_count() -> None:
    found = checked(run(layers(4)), run(renumbered(layers(5))))
    assert {row.change for row in found.changed} == {"count"}
    rows = {row.scope: row for row in found.changed}
    assert set(rows) == {"layers_*/attn/dot_general", "layers_*/mlp/mul"}
    assert rows["layers_*/mlp/mul"].count_effect_ps == 30 * NS
    assert rows["layers_*/mlp/mul"].duration_effect_ps == 0
    assert (rows["layers_*/mlp/mul"].count_base, rows["layers_*/mlp/mul"].count_new) == (4, 5)
    assert found.matched_time_fraction == 1.0


def test_another_count_and_another_duration_are_told_apart() -> None:
    found = checked(run(layers(2, ps=10 * NS)), run(layers(3, ps=12 * NS)))
    row = next(row for row in found.changed if row.scope == "layers_*/attn/dot_general")
    assert row.count_effect_ps == 11 * NS  # one more, at the mean of 10 and 12
    assert row.duration_effect_ps == 5 * NS  # 2 ns each, of the mean of 2 and 3


def test_one_layer_in_another_type_is_paired_with_what_it_was() -> None:
    ops = layers(4)
    at = next(n for n, op in enumerate(ops) if op.scope == "layers_2/mlp/mul")
    changed = [*ops[:at], replace(ops[at], shape="bf16[64,64]", ps=45 * NS), *ops[at + 1 :]]
    found = checked(run(ops), run(renumbered(changed)))
    row = only(found)
    assert (row.change, row.delta_ps, row.scope) == ("duration", 15 * NS, "layers_2/mlp/mul")
    assert row.how == "other type"
    assert found.matched_time_fraction == 1.0


@pytest.mark.parametrize("which", [0, 1])
def test_a_fusion_that_was_split(which: int) -> None:
    whole = [*layers(1), Op("fusion.90", 40 * NS, "head/norm/mul", "f32[64,32]", "fusion")]
    pieces = [
        Op("fusion.3", 25 * NS, "head/norm/mul" if which else "head/norm/sub", "f32[64,32]", "fusion"),
        Op("add_fusion.4", 21 * NS, "head/norm/add", "f32[64]", "fusion"),
    ]
    found = checked(run(whole), run([*renumbered(layers(1)), *pieces]))
    row = only(found)
    assert (row.change, row.delta_ps) == ("split", 6 * NS)
    assert (row.count_base, row.count_new) == (1, 2)
    assert row.count_effect_ps == 0
    assert found.matched_time_fraction == 1.0


def test_an_op_beside_one_that_is_a_little_faster_is_new_and_no_piece_of_it() -> None:
    ops = [*layers(1), Op("fusion.90", 400 * NS, "head/norm/mul", "f32[64,32]", "fusion")]
    more = [*ops[:-1], replace(ops[-1], ps=397 * NS), Op("add_fusion.4", 2 * NS, "head/norm/add", "f32[64]", "fusion")]
    assert {row.change for row in checked(run(ops), run(more)).changed} == {"new", "duration"}


def test_fusions_that_were_merged_with_one_that_stayed() -> None:
    pieces = [Op(f"fusion.{n}", 20 * NS, f"head/norm/{op}", shape, "fusion") for n, op, shape in PIECES]
    whole = [Op("fusion.1", 33 * NS, "head/norm/mul", "f32[64,32]", "fusion")]
    row = only(checked(run([*layers(1), *pieces]), run([*layers(1), *whole])))
    assert (row.change, row.delta_ps, row.count_base, row.count_new) == ("merged", -27 * NS, 3, 1)


def test_an_op_that_moved_into_another_scope() -> None:
    ops = [*layers(2), Op("transpose.1", 8 * NS, "prepare/transpose", "f32[32,64]", "transpose")]
    moved = [*ops[:-1], replace(ops[-1], scope="optimizer/update/transpose", name="transpose.77")]
    row = next(row for row in checked(run(ops), run(moved)).changed)
    assert (row.change, row.delta_ps) == ("moved", 0.0)
    assert row.scope == "optimizer/update/transpose"


def test_a_fusion_of_the_same_size_elsewhere_is_another_one() -> None:
    gone = Op("fusion.50", 9 * NS, "head/norm/mul", "f32[64,32]", "fusion")
    come = Op("fusion.51", 9 * NS, "loss/smooth/exp", "f32[64,32]", "fusion")
    assert {row.change for row in checked(run([*layers(1), gone]), run([*layers(1), come])).changed} == {"gone", "new"}


def gather(exposed: int, compute: int) -> list[Op]:
    """An all-gather in flight for ``exposed`` + ``compute`` ps, of which compute hides a part."""
    return [
        Op("all-gather-start.5", 0, "embed/all_gather", "f32[128,32]", "all-gather-start"),
        Op("fusion.6", compute, "mlp/mul", "f32[64,64]", "fusion"),
        Op("all-gather-done.5", exposed, "embed/all_gather", "f32[128,32]", "all-gather-done", of="all-gather-start.5"),
        Op("fusion.7", 60 * NS - compute, "mlp/add", "f32[64,16]", "fusion"),
    ]


def test_an_all_gather_that_is_no_longer_hidden() -> None:
    found = checked(run(gather(1 * NS, 50 * NS)), run(renumbered(gather(31 * NS, 20 * NS))))
    row = next(row for row in found.changed if row.kind == "collective")
    assert (row.change, row.delta_ps) == ("exposure", 30 * NS)
    assert row.exposure_effect_ps == pytest.approx(30 * NS)
    assert (row.count_base, row.count_new) == (1, 1)
    assert row.scope == "embed/all_gather"


def test_an_all_gather_that_takes_longer_is_one_of_duration() -> None:
    found = checked(run(gather(10 * NS, 1)), run(gather(40 * NS, 1)))
    row = next(row for row in found.changed if row.kind == "collective")
    assert (row.change, row.delta_ps) == ("duration", 30 * NS)


def test_an_all_gather_that_became_synchronous_is_still_the_same() -> None:
    sync = [Op("all-gather.8", 51 * NS, "embed/all_gather", "f32[128,32]", "all-gather"), *gather(0, 50 * NS)[1::2]]
    found = checked(run(gather(1 * NS, 50 * NS)), run(sync))
    row = only(found)
    assert (row.change, row.kind, row.delta_ps) == ("exposure", "collective", 50 * NS)


def test_idle_time_without_a_known_cause() -> None:
    ops = layers(2)
    longer = [replace(op, gap=2 * NS) if n == 1 else op for n, op in enumerate(ops)]
    found = checked(run(ops), run(longer))
    assert {row.group for row in found.changed} == {"idle, intra program"}
    assert only(found).delta_ps == 2 * NS
    found = checked(run(ops), run(ops, tail=9 * NS))
    assert (only(found).group, only(found).kind) == ("idle, cause unknown", "idle")
    assert only(found).delta_ps == 4 * NS


def test_a_trace_viewers_json_of_the_same_run_is_the_same() -> None:
    trace = built([*layers(3), *gather(5 * NS, 30 * NS)], cores=2)
    found = checked(loaded(trace), loaded(trace, json=True))
    assert found.matched_time_fraction == 1.0
    assert found.step_delta_ps == 0
    assert found.changed == ()


def test_a_run_without_hlo_is_the_same_where_the_category_tells_another_kind() -> None:
    ops = [*layers(2), Op("fusion.40", 9 * NS, "head/reduce_sum", "f32[4]", "fusion")]
    found = checked(run(ops), run(renumbered(ops), hlo=False))
    assert found.matched_time_fraction == 1.0
    assert found.step_delta_ps == 0


def test_another_mesh_changes_sizes_and_nothing_else() -> None:
    ops = layers(2)
    halved = [replace(op, shape=op.shape.replace("64,", "32,"), ps=op.ps // 2) for op in ops]
    found = checked(run(ops), run(renumbered(halved)))
    assert {row.how for row in found.changed} == {"other sizes"}
    assert found.matched_time_fraction == 1.0


def test_renamed_kernels_are_the_same() -> None:
    ops = [Op("flash_v1.2", 9 * NS, "attn/custom_call", "f32[64,32]", "custom-call", extra=', custom_call_target="x"')]
    named = [replace(ops[0], name="flash_v2_opt.8", ps=8 * NS)]
    row = only(checked(run([*layers(1), *ops]), run([*layers(1), *named])))
    assert (row.change, row.how, row.delta_ps) == ("duration", "renamed", -1 * NS)


def test_runs_without_steps_are_compared_as_a_whole() -> None:
    base, new = (loaded(without_steps(streams(ps))) for ps in (110 * NS, 130 * NS))
    assert base.step_source == new.step_source == "none"
    found = checked(base, new)
    # From the first op to the last: three bursts and the two gaps between them.
    assert found.step_delta_ps == 20 * NS
    assert {row.kind: row.delta_ps for row in found.changed} == {"elementwise": 3 * 20 * NS, "idle": -2 * 20 * NS}


def test_a_run_without_devices_is_not_explained() -> None:
    empty = TraceBuilder()
    empty.add_host("h").add_thread("python").event("something", 1, 5)
    found = explain(loaded(empty), run(layers(1)))
    assert found.step_delta_ps is None
    assert found.rows == ()
    assert found.reason == "The base has no counted step."
    assert explain(loaded(empty), loaded(empty)).reason == "Neither side has a counted step."
    assert explain(run(layers(1)), loaded(empty)).reason == "The new run has no counted step."
    assert found.to_json()["step_delta_ps"] is None


def test_kernels_side_by_side_explain_only_the_time_they_cost() -> None:
    base, new = loaded(streams(40 * NS)), loaded(streams(120 * NS))
    found = checked(base, new)
    changed = {row.group: row.delta_ps for row in found.changed if row.kind == "elementwise"}
    # Three steps: hidden under the matmul it cost nothing; 20 of its 120 ns stand out.
    assert list(changed.values()) == [pytest.approx(20 * NS)]


def test_the_same_program_on_a_cpu_and_on_a_tpu() -> None:
    ops = layers(3)
    found = checked(loaded(on_cpu(ops)), run(renumbered(ops)))
    assert found.matched_time_fraction == 1.0
    assert {row.kind for row in found.changed} == {"idle"}
    fused = [replace(op, name=f"dot_{n}_fusion.{n}", role="multiply", shape="f32[64,99]") for n, op in enumerate(ops)]
    found = checked(loaded(on_cpu(fused)), run(ops))
    assert found.matched_time_fraction == 1.0
    assert {row.how for row in found.rows if row.ops} == {"similar"}


def test_ops_on_several_threads_of_a_cpu() -> None:
    ops = layers(3)
    slower = [*ops[:2], replace(ops[2], ps=ops[2].ps + 4 * NS), *ops[3:]]
    row = only(checked(loaded(on_cpu(ops)), loaded(on_cpu(renumbered(slower), number=8))))
    assert (row.change, row.delta_ps, row.scope) == ("duration", 4 * NS, "layers_*/attn/dot_general")
    assert row.members[0].scope == "jit(step)/jit(main)/layers_1/attn/dot_general"


def test_a_predicted_run_and_a_measured_one() -> None:
    """A prediction is a trace without host and gaps."""
    ops = [*layers(3), *gather(5 * NS, 30 * NS)]
    measured = [replace(op, ps=op.ps + op.ps // 10, gap=1) for op in ops]
    found = checked(run(ops, steps=1, tail=0), run(renumbered(measured), steps=8, tail=20 * NS))
    assert found.matched_time_fraction == 1.0
    assert {row.change for row in found.changed if row.ops} <= {"duration", "exposure"}


def test_rows_as_json() -> None:
    found = explain(run(layers(2)), run(layers(3)))
    data = found.to_json()
    assert data["coverage"] == {"matched_time_fraction": 1.0}
    assert data["step_delta_ps"] == 40 * NS
    assert data["residual_ps"] == 0.0
    first = data["explanation"][0]
    wanted = {"group", "kind", "scope", "count_base", "count_new", "base_ps", "new_ps", "count_effect_ps"}
    assert wanted | {"duration_effect_ps", "delta_ps", "change", "source", "module"} <= set(first)
    assert first["group"] == "fusion f32[64,64]"
    assert (first["count_base"], first["count_new"]) == (2, 3)


def test_the_slowest_core_is_told_beside_the_mean() -> None:
    base = built(layers(2), cores=2)
    new = base.copy()
    for event in new["h"]["/device:TPU:1"]["Steps"].events[1:]:
        event.start_ps += 10 * NS
    found = checked(loaded(base), loaded(new))
    assert found.step_delta_ps is not None
    assert found.slowest_core_delta_ps is not None
    assert found.slowest_core_delta_ps > found.step_delta_ps


def side(causes: dict[str, int | None], idle: int, pairs: int = 1) -> Side:
    parts = dict.fromkeys(PARTS, 0) | {"idle": idle}
    every = {cause: causes.get(cause, 0) for cause in IDLE_CAUSES}
    return Side("x", pairs, idle, parts, (), dict.fromkeys(PARTS[:12], 0), every)


def test_idle_causes_are_compared_as_far_as_both_sides_know_them() -> None:
    known = side({"input": 30, "intra_program": 10}, 40)
    unknown = side(
        {cause: None for cause in IDLE_CAUSES if cause not in DEVICE_IDLE_CAUSES} | {"intra_program": 15}, 70
    )

    def rows(base: Side, new: Side) -> dict[str, float]:
        return {row.group: row.delta_ps for row in explain_sides(base, new).rows}

    assert rows(known, known) == {"idle, input": 0, "idle, intra program": 0}
    assert rows(known, side({"input": 50}, 100, pairs=2)) == {
        "idle, input": -5,
        "idle, intra program": -10,
        "idle, cause unknown": 25,
    }
    assert rows(unknown, unknown) == {"idle, intra program": 0, "idle, cause unknown": 0}
    assert rows(known, unknown) == {"idle, cause unknown": 30}
    assert rows(unknown, known) == {"idle, cause unknown": -30}


def varying(times: list[int], *more: Op) -> tpuprof.Trace:
    """A run whose last op of the layer takes another time in every step."""
    trace = built([*layers(1), Op("wait.1", 0, gap=100 * NS), *more], steps=len(times))
    for event, ps in zip(trace["h"]["/device:TPU:0"]["XLA Ops"].named("fusion.11"), times, strict=True):
        event.duration_ps = ps
    return loaded(trace)


def test_a_small_sure_change_comes_before_a_large_chance() -> None:
    gather = Op("all-gather.9", 4 * NS, "embed/all_gather", "f32[128,32]", "all-gather")
    found = checked(varying([20 * NS, 50 * NS, 20 * NS]), varying([50 * NS, 20 * NS, 50 * NS], gather))
    assert abs(found.changed[0].delta_ps) == pytest.approx(10 * NS)
    assert (found.causes[0].what, found.causes[0].where) == ("collective", "all-gather")
    assert found.causes[0].sure_ps == 4 * NS
    assert found.causes[-1].sure_ps == 0
    (alone,) = explain(run(layers(1), steps=1), run([*layers(1), gather], steps=1)).causes
    assert alone.sure_ps == 4 * NS


def test_the_error_of_a_difference_is_that_of_the_means() -> None:
    base, new = varying([30 * NS, 32 * NS, 34 * NS]), varying([50 * NS, 60 * NS])
    found = {row.group: row for row in checked(base, new).changed}
    # Variances 4 and 50 ns2 over 3 and 2 steps.
    assert found["fusion f32[64,64]"].error_ps == pytest.approx((4 / 3 + 50 / 2) ** 0.5 * NS)
    assert found["idle, intra program"].error_ps == pytest.approx((4 / 3 + 50 / 2) ** 0.5 * NS)
    assert {row.error_ps for row in explain(base, base).rows if row.scope == "layers_0/attn/dot_general"} == {0.0}
    assert {row.error_ps for row in explain(base, run(layers(1), steps=1)).rows} == {None}
