"""Views of an explanation: the lowest scope that holds a change, kinds, source lines."""

from __future__ import annotations

import pytest

from tests.compare.models import NS, Op, run
from tpuprof.compare import by_kind, by_scope, by_source, explain


def model(attn: int, mlp: int, head: int = 0, tail: int = 5 * NS) -> list[Op]:
    return [
        Op("dot.1", 40 * NS + attn, "layers/attn/dot_general", "f32[64,64]", "dot", source="model.py:3"),
        Op("exp.2", 20 * NS + attn, "layers/attn/exp", "f32[64,8]", "exponential", source="model.py:4"),
        Op("add.3", 30 * NS + mlp, "layers/mlp/add", "f32[64,32]", "add", source="model.py:9"),
        Op("copy.4", 9 * NS + head, None, "f32[64,32]", "copy"),
    ]


def names(base: list[Op], new: list[Op], **options: int) -> list[tuple[str, float]]:
    found = explain(run(base), run(new, **options))
    return [(delta.name, delta.delta_ps) for delta in by_scope(found.rows)]


def test_changes_of_one_scope_are_one_entry() -> None:
    found = by_scope(explain(run(model(0, 0)), run(model(6 * NS, 0))).rows)
    (attn,) = found
    assert (attn.name, attn.delta_ps, attn.base_ps, attn.new_ps) == ("layers/attn", 12 * NS, 60 * NS, 72 * NS)
    assert {child.name for child in attn.children} == {"layers/attn/dot_general", "layers/attn/exp"}
    assert sum(child.delta_ps for child in attn.children) == attn.delta_ps
    assert attn.to_json()["children"] == [child.to_json() for child in attn.children]


def test_a_change_of_one_op_stands_at_the_op() -> None:
    assert names(model(0, 0), model(0, 7 * NS)) == [("layers/mlp/add", 7 * NS)]


def test_a_small_change_beside_a_large_one_does_not_hide_its_place() -> None:
    assert names(model(0, 0), model(50 * NS, 1 * NS)) == [("layers/attn", 100 * NS), ("layers/mlp/add", 1 * NS)]


def test_changes_everywhere_stand_at_the_common_scope() -> None:
    assert names(model(0, 0), model(5 * NS, 8 * NS)) == [("layers", 18 * NS)]


def test_changes_that_cancel_are_seen() -> None:
    (delta,) = by_scope(explain(run(model(0, 0)), run(model(4 * NS, -8 * NS))).rows)
    assert (delta.name, delta.delta_ps, delta.gross_ps) == ("layers", 0, 16 * NS)


def test_idle_time_and_ops_without_scope_are_entries_of_their_own() -> None:
    found = names(model(0, 0), model(0, 0, 3 * NS), tail=9 * NS)
    assert found == [("(idle, cause unknown)", 4 * NS), ("(no scope)", 3 * NS)]


def test_by_kind() -> None:
    found = {delta.name: delta.delta_ps for delta in by_kind(explain(run(model(0, 0)), run(model(6 * NS, 2 * NS))))}
    assert found["matmul"] == 6 * NS
    assert found["elementwise"] == 8 * NS
    assert found["idle"] == 0


def test_by_source() -> None:
    found = by_source(explain(run(model(0, 0)), run(model(6 * NS, 2 * NS), tail=6 * NS)).rows)
    assert {delta.name: delta.delta_ps for delta in found} == {
        "model.py:3": 6 * NS,
        "model.py:4": 6 * NS,
        "model.py:9": 2 * NS,
        "(no source)": 0,
        "(idle, cause unknown)": 1 * NS,
    }


@pytest.mark.parametrize("view", [by_scope, by_source])
def test_views_of_nothing(view: object) -> None:
    assert callable(view)
    assert view(()) == ()
