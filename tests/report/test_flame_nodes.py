"""The scope tree in few nodes: parts add up, whatever is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tpuprof.report.plain import records
from tpuprof.report.scopes import flame_nodes
from tpuprof.tables.scopes import SCOPE_KINDS

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return records(tpuprof.load(SAMPLES / "cpu_demo").scopes)


@pytest.mark.parametrize("most", [1, 2, 5, 20, 10_000])
def test_a_node_is_its_own_time_and_its_children(rows: list[dict[str, Any]], most: int) -> None:
    nodes = flame_nodes(rows, most)
    assert nodes[0]["path"] == ""
    assert nodes[0]["above"] is None
    assert sum(node["path"] is not None for node in nodes) == min(most, sum(row["total_ps"] > 0 for row in rows))
    for at, node in enumerate(nodes):
        children = [child for child in nodes if child["above"] == at]
        if node["path"] is not None:
            assert node["self_ps"] + sum(child["total_ps"] for child in children) == node["total_ps"]
        assert at == 0 or node["above"] < at or node["path"] is None
    assert sum(node["self_ps"] for node in nodes) == rows[0]["total_ps"]


def test_what_is_left_out_becomes_one_node_per_parent(rows: list[dict[str, Any]]) -> None:
    nodes = flame_nodes(rows, 3)
    rest = [node for node in nodes if node["path"] is None]
    assert {node["above"] for node in rest} <= {0, 1, 2}
    first = next(node for node in rest if node["above"] == 0)
    children = [row for row in rows if row["parent"] == ""]
    left = [row for row in children if row["path"] not in {node["path"] for node in nodes} and row["total_ps"]]
    assert first["scopes"] == len(left)
    assert first["name"] == f"{len(left)} more"
    assert first["total_ps"] == sum(row["total_ps"] for row in left)
    assert first["backward_ps"] == sum(row["backward_ps"] for row in left)
    assert first["step_fraction"] == pytest.approx(sum(row["step_fraction"] for row in left))


def test_the_kind_is_the_one_with_most_time(rows: list[dict[str, Any]]) -> None:
    for node in flame_nodes(rows, 10_000):
        assert node[f"{node['kind']}_ps"] == max(node[f"{kind}_ps"] for kind in SCOPE_KINDS)


def test_nothing_gives_nothing() -> None:
    assert flame_nodes([], 10) == []
