"""The causes that a comparison names: what changed for one reason is told as that."""

from __future__ import annotations

from dataclasses import replace

from tests.compare.models import NS, Op, layers, renumbered, run
from tpuprof.compare import explain
from tpuprof.compare.leading import leading_causes


def test_one_layer_more_is_told_as_a_layer() -> None:
    update = [Op(f"fusion.{70 + n}", 5 * NS, "optimizer/sub", "f32[64,64]", "fusion") for n in range(5)]
    base, new = run([*layers(4), *update[:4]]), run(renumbered([*layers(5), *update]))
    (cause,) = leading_causes(explain(base, new))
    assert cause.title == "another number of layers_* (4 to 5)"
    assert (cause.scope, cause.change, cause.share) == ("layers_*", "count", 1.0)
    assert (cause.base_ps, cause.new_ps, cause.delta_ps) == (180 * NS, 225 * NS, 45 * NS)
    assert "it runs 5 instead of 4 times" in cause.message
    assert len(cause.rows) == 3


def test_several_gathers_are_told_as_one_and_a_single_one_by_its_place() -> None:
    gathers = [
        Op(f"all-gather.{n}", 9 * NS, f"{place}/all_gather", "f32[128,32]", "all-gather")
        for n, place in enumerate(("layers_0/mlp", "head"))
    ]
    (one,) = leading_causes(explain(run(layers(2)), run([*layers(2), gathers[0]])))
    assert (one.title, one.scope) == ("all-gather f32[128,32] in layers_0/mlp/all_gather", "layers_0/mlp/all_gather")
    (both,) = leading_causes(explain(run(layers(2)), run([*layers(2), *gathers])))
    assert both.title == "another number of all-gather (0 to 2)"
    assert both.scope is None
    assert both.delta_ps == 18 * NS


def test_another_type_is_told_with_both() -> None:
    ops = layers(2)
    changed = [
        replace(op, shape=op.shape.replace("f32", "f64"), ps=2 * op.ps) if "layers_1" in (op.scope or "") else op
        for op in ops
    ]
    (cause,) = leading_causes(explain(run(ops), run([*changed, Op("convert.4", NS, None, "f32[8]", "convert")])))
    assert cause.title == "another element type in layers_1 (f32 to f64)"
    assert cause.scope == "layers_1"
    assert cause.delta_ps == 41 * NS


def test_what_has_no_reason_of_its_own_is_told_by_its_scope() -> None:
    slower = [replace(op, ps=op.ps + 4 * NS) if op.scope == "layers_1/mlp/mul" else op for op in layers(2)]
    (cause,) = leading_causes(explain(run(layers(2)), run(slower)))
    assert cause.scope == "layers_*/mlp/mul"
    assert cause.delta_ps == 4 * NS
