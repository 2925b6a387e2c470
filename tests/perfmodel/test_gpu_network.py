"""Collectives of GPUs by plain numbers: nodes, trees, in-network reduction, ragged all-to-alls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpuprof.errors import UsageError
from tpuprof.perfmodel import gpu_network as g
from tpuprof.perfmodel.derivation import Derivation

NVLINK, NODE, NIC = 450e9, 400e9, 50e9
ARRAY = 2 * 8192 * 32768


@pytest.mark.parametrize(
    ("found", "value", "unit"),
    [
        (g.node("all_gather", 2 * 4096 * 65536, NVLINK, members=8), 0.001043916, "s"),
        (g.node("all_gather", 2 * 4096 * 65536, NVLINK), 0.001193046, "s"),
        (g.node("reduce_scatter", 2 * 1024 * 16384, NVLINK, members=8), 6.524473e-05, "s"),
        (g.node("all_reduce", 1e9, NVLINK, members=8), 2 * 0.875e9 / NVLINK, "s"),
        (g.node("all_reduce", 2 * 8192 * 28672 / 4, NVLINK, in_network=True), 0.0002609789, "s"),
        (g.node("all_to_all", 1e9, NVLINK, members=8), 0.0002430556, "s"),
        (g.node("all_to_all", 1e9, NODE, members=2), 0.000625, "s"),
        (g.level_bandwidth(8, NVLINK), 514.2857e9, "B/s"),
        (g.level_bandwidth(32, NODE), 412.9032e9, "B/s"),
        (g.level_bandwidth(4, 12.8e12), 17.06667e12, "B/s"),
        (g.level_bandwidth(2, NODE), 800e9, "B/s"),
        (g.level_bandwidth(1, NODE), float("inf"), "B/s"),
        (g.slowest_level([514.3e9, 412.9032e9, 17e12]), 412.9032e9, "B/s"),
        (g.all_to_all_slowdown(8, NVLINK, 2, NODE), 4.5, "x"),
        (g.in_network_gain(8), 1.75, "x"),
        (g.in_network_traffic(1e9, 8), 8e9, "B"),
        (g.ragged_share(8, 2), 0.21875, "fraction"),
        (g.ragged_share(8, 20), 0.875, "fraction"),
        (g.ragged_share_expected(8, 2), 0.2050781, "fraction"),
        # An inner sharding helps only beyond a node of 8.
        (g.fat_tree(ARRAY, [g.TreeLevel("leaf", NIC, 32, 8)], inner=4), 0.001300234, "s"),
        (g.fat_tree(ARRAY, [g.TreeLevel("leaf", NIC, 32, 8)], inner=8), 0.001300234, "s"),
        (g.fat_tree(ARRAY, [g.TreeLevel("leaf", NIC, None, 8)], inner=32), 0.0003355443, "s"),
        (g.fat_tree(ARRAY, [g.TreeLevel("leaf", NIC, None, 8)], inner=128), 8.388608e-05, "s"),
    ],
)
def test_worked_numbers(found: Derivation, value: float, unit: str) -> None:
    assert found.number() == pytest.approx(value, rel=1e-5)
    assert found.unit == unit
    assert found.source == "scaling book, GPUs"


def test_the_slowest_level_of_a_tree_is_named() -> None:
    levels = [g.TreeLevel("node", NVLINK, 8), g.TreeLevel("leaf", NIC, 32, 8)]
    assert g.fat_tree(1e9, levels).regime == "tree, leaf level"
    # Between two nodes the factor (D-1)/D is a half, and the node is the bottleneck.
    two = g.fat_tree(1e9, [g.TreeLevel("node", NVLINK, 8), g.TreeLevel("leaf", NIC, 2, 8)])
    assert two.regime == "tree, node level"
    assert g.fat_tree(1e9, levels, passes=2).number() == 2 * g.fat_tree(1e9, levels).number()


def test_traffic_of_an_all_gather_over_nodes() -> None:
    found = g.tree_traffic(1e9, 32, 8)
    assert {name: part.number() for name, part in found.items()} == {
        "node_egress": 8e9,
        "node_ingress": 1e9,
        "top_egress": 31e9,
    }
    for name in ("node_egress", "node_ingress"):
        steps = [float(str(step.value)) for step in found[name].steps]
        assert sum(steps) == pytest.approx(found[name].number())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: g.node("all_to_all", 1.0, 1.0), "needs its number of members"),
        (lambda: g.node("permute", 1.0, 1.0), "No time is known for 'permute'"),
        (lambda: g.node("all_gather", 1.0, 1.0, in_network=True), "sums nothing in the network"),
        (lambda: g.node("all_gather", 1.0, 0.0), "The bandwidth is 0.0"),
        (lambda: g.slowest_level([]), "A tree without levels"),
        (lambda: g.fat_tree(1.0, []), "A tree without levels"),
        (lambda: g.fat_tree(1.0, [g.TreeLevel("node", -1.0, 8)]), "The bandwidth of a GPU is -1.0"),
        (lambda: g.level_bandwidth(0, 1.0), "The number of children is 0"),
        (lambda: g.ragged_share(8, 0), "The number of choices is 0"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert words in str(caught.value)
