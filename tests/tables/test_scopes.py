"""The tree of name scopes: how paths are taken apart, and that times add up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tests.inputs.clean import f00
from tpuprof.tables.schemas import OPS
from tpuprof.tables.scopes import MAX_DEPTH, NO_SCOPE, SCOPE_KINDS, scope_tree, split_scope


@pytest.mark.parametrize(
    ("path", "names", "marks"),
    [
        ("jit(f)/jit(main)/layer/attn/dot_general", "layer attn dot_general", "jit"),
        ("jit(f)/jvp(layer)/mul", "layer mul", "jit jvp"),
        ("jit(f)/jit(main)/transpose(jvp(layer/attn))/dot_general", "layer attn dot_general", "jit transpose jvp"),
        ("jit(f)/transpose(jvp())/while/body/closed_call/checkpoint/mlp/add", "mlp add",
         "jit transpose jvp while closed_call checkpoint"),
        ("jit(f)/checkpoint/rematted_computation/mlp/add", "mlp add", "jit checkpoint rematted_computation"),
        ("jit(f)/vmap(layer)/jit(silu)/mul", "layer silu mul", "jit vmap"),
        ("jit(f)/shard_map/jit(attn)/pallas_call", "attn pallas_call", "jit shard_map"),
        ("jit(f)/cond/branch_1_fun/sub", "sub", "jit cond"),
        ("jit(f)/while/cond/lt", "lt", "jit while"),
        # The last part is the operation, whatever it is called.
        ("jit(f)/transpose", "transpose", "jit"),
        ("jit(f)/layer/while", "layer while", "jit"),
        ("jit(f)/while/body", "while body", "jit"),
        ("jit(f)/checkpoint", "checkpoint", "jit"),
        ("jit(f)", "f", "jit"),
        ("body/norm/add", "body norm add", ""),
        ("linear/...a,ba->...b/dot_general", "linear ...a,ba->...b dot_general", ""),
        ("a//b/", "a b", ""),
        ("f(a/b/c", "f(a/b/c", ""),
    ],
)  # fmt: skip
def test_paths(path: str, names: str, marks: str) -> None:
    split = split_scope(path)
    assert " ".join(split.names) == names
    assert " ".join(split.marks) == marks


def test_a_path_without_end_stays_bounded() -> None:
    split = split_scope("/".join(f"n{i}" for i in range(100_000)))
    assert len(split.names) == MAX_DEPTH
    assert split.names[-1].endswith("n99999")


def ops(rows: list[tuple[str | None, str, int, int | None]]) -> pd.DataFrame:
    """Ops of two cores in turn, as (scope, kind, self time, step)."""
    frame = pd.DataFrame({
        column.name: pd.Series(
            [{"device": f"h/TPU:{i % 2}", "scope": scope, "kind": kind, "self_ps": ps, "duration_ps": ps, "step": step,
              "start_ps": i, "line": "XLA Ops", "op": "x", "kind_source": "hlo", "clock": "device"}.get(column.name)
             for i, (scope, kind, ps, step) in enumerate(rows)],
            dtype=column.pandas_dtype if column.dtype != "category" else "str",
        )
        for column in OPS
    })  # fmt: skip
    for column in OPS:
        if column.dtype == "category":
            frame[column.name] = frame[column.name].astype("category")
    return OPS.check(frame)


def test_known_tree() -> None:
    tree = scope_tree(
        ops([
            ("jit(f)/layer/attn/dot", "matmul", 50, 0),
            ("jit(f)/transpose(jvp(layer))/attn/dot", "matmul", 70, 0),
            ("jit(f)/layer/add", "elementwise", 5, 0),
            (None, "data_movement", 3, 0),
            ("jit(f)/layer", "reduction", 2, None),
        ]),
        pd.DataFrame({"duration_ps": [100, 100]}),
    )  # fmt: skip
    rows = {row["path"]: row for row in tree.to_dict("records")}
    assert list(rows) == ["", "layer", "layer/attn", "layer/attn/dot", "layer/add", NO_SCOPE]
    assert [row["total_ps"] for row in rows.values()] == [130, 127, 120, 120, 5, 3]
    assert [row["self_ps"] for row in rows.values()] == [0, 2, 0, 120, 5, 3]
    assert rows["layer/attn"]["backward_ps"] == 70
    assert rows["layer/attn"]["marks"] == "jit,transpose,jvp"
    assert rows["layer"]["matmul_ps"] == 120
    assert rows["layer"]["occurrences"] == 4
    assert rows["layer"]["occurrences_per_core"] == 2.0
    assert rows["layer"]["parent"] == ""
    assert rows["layer"]["step_fraction"] == 125 / 200  # the op outside of steps does not count
    assert pd.isna(scope_tree(ops([("a", "matmul", 1, None)]))["step_fraction"]).all()


_part = st.sampled_from(
    ["a", "b", "jit(f)", "jit(main)", "jvp(a)", "transpose(jvp(b/c))", "while", "body", "checkpoint"]
)
_path = st.one_of(st.none(), st.lists(_part, min_size=1, max_size=5).map("/".join), st.text("a/()jit", min_size=1))
_rows = st.lists(
    st.tuples(_path, st.sampled_from(SCOPE_KINDS), st.integers(0, 1 << 55), st.sampled_from([None, 0, 1])),
    min_size=1,
    max_size=12,
)


@given(_rows)
def test_times_add_up_at_every_scope(rows: list[tuple[str | None, str, int, int | None]]) -> None:
    tree: list[dict[str, Any]] = scope_tree(ops(rows)).to_dict("records")
    assert tree[0]["total_ps"] == sum(row[2] for row in rows)
    assert tree[0]["occurrences"] == len(rows)
    children: Counter[str] = Counter()
    paths = [row["path"] for row in tree]
    assert len(set(paths)) == len(paths)
    for row in tree[1:]:
        children[row["parent"]] += row["total_ps"]
        assert paths.index(row["parent"]) < paths.index(row["path"])
    for row in tree:
        assert row["self_ps"] + children[row["path"]] == row["total_ps"]
        assert sum(row[f"{kind}_ps"] for kind in SCOPE_KINDS) == row["total_ps"]
    # Brute force: an op's time is in the scopes whose names begin its own.
    for row in tree[1:]:
        names = _names_of_path(tree, row)
        expected = sum(ps for scope, _, ps, _ in rows if _names(scope)[: len(names)] == names)
        assert row["total_ps"] == expected


def _names(scope: str | None) -> tuple[str, ...]:
    return (split_scope(scope).names if scope else ()) or (NO_SCOPE,)


def _names_of_path(tree: list[dict[str, Any]], row: dict[str, Any]) -> tuple[str, ...]:
    by_path = {one["path"]: one for one in tree}
    names: list[str] = []
    while row["depth"]:
        names.append(row["name"])
        row = by_path[row["parent"]]
    return tuple(reversed(names))


def test_of_a_trace(tmp_path: Path) -> None:
    trace = tpuprof.load(f00(tmp_path))
    tree = trace.scopes
    assert int(tree["total_ps"].iloc[0]) == int(trace.ops["self_ps"].sum())
    only = trace.select(steps=[1]).scopes
    assert int(only["total_ps"].iloc[0]) * 3 == int(tree["total_ps"].iloc[0])
    assert only["step_fraction"].iloc[0] == pytest.approx(0.95)
