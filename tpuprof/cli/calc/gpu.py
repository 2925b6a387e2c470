"""Calculators of GPU networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import Answers, array_options, bytes_of, calculator, quantity
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.gpu_network import TreeLevel


@calculator("fat-tree")
@array_options
@click.option(
    "--level",
    "levels",
    multiple=True,
    required=True,
    metavar="NAME:BANDWIDTH[:UNITS[:GPUS]]",
    help="A level from the GPUs upwards: egress of one GPU, units joined, GPUs of a unit; leaf:50GB/s:32:8.",
)
@click.option("--inner", type=int, default=1, show_default=True, help="GPUs of an inner axis that splits it too.")
@click.option("--all-reduce", is_flag=True, help="Two passes instead of the one of an all-gather.")
def fat_tree(array: Array | None, size: float | None, levels: tuple[str, ...], inner: int, all_reduce: bool) -> Answers:
    """Time of a collective over the levels of a fat tree."""
    from tpuprof.perfmodel.gpu_network import fat_tree as tree_of

    parsed = [_level(text) for text in levels]
    return {"time": tree_of(bytes_of(array, size), parsed, inner=inner, passes=2 if all_reduce else 1)}


@calculator("level-bandwidth")
@click.option("--children", type=int, help="Children of the switch.")
@click.option("--bandwidth", type=quantity("B/s"), help="Of one child's links upwards, such as 450GB/s.")
@click.option(
    "--level", "levels", type=quantity("B/s"), multiple=True, help="Instead: collective bandwidth of a level."
)
def level_bandwidth(children: int | None, bandwidth: float | None, levels: tuple[float, ...]) -> Answers:
    """Collective bandwidth of one level of a fat tree, or of all.

    With --children and --bandwidth that of one level; with --level, several times, that of the whole tree.
    """
    from tpuprof.perfmodel import gpu_network

    if levels and children is None and bandwidth is None:
        return {"bandwidth": gpu_network.slowest_level(levels)}
    if children is None or bandwidth is None or levels:
        raise UsageError("One level or all of them.", hint="Give --children and --bandwidth, or --level several times.")
    return {"bandwidth": gpu_network.level_bandwidth(children, bandwidth)}


@calculator("tree-traffic")
@array_options
@click.option("--nodes", type=int, required=True, help="Nodes that the top switch joins.")
@click.option("--gpus-per-node", type=int, default=1, show_default=True, help="GPUs of a node.")
def tree_traffic(array: Array | None, size: float | None, nodes: int, gpus_per_node: int) -> Answers:
    """Bytes through the switches of a tree.

    In an all-gather of the bytes over all nodes: out of and into a node's switch, and out of the top one.
    """
    from tpuprof.perfmodel.gpu_network import tree_traffic as traffic_of

    found = traffic_of(bytes_of(array, size), nodes, gpus_per_node)
    return {name.replace("_", "-"): answer for name, answer in found.items()}


@calculator("in-network")
@click.option("--members", type=int, required=True, help="GPUs of the group.")
@array_options
def in_network(members: int, array: Array | None, size: float | None) -> Answers:
    """Gain and bytes of reductions inside switches.

    The theoretical speed-up of an all-reduce; with --array or --bytes also the `traffic` through the switch.
    """
    from tpuprof.perfmodel.gpu_network import in_network_gain, in_network_traffic

    found = {"gain": in_network_gain(members)}
    if array is None and size is None:
        return found
    return found | {"traffic": in_network_traffic(bytes_of(array, size), members)}


@calculator("ragged")
@click.option("--members", type=int, required=True, help="GPUs of the group.")
@click.option("--choices", type=float, required=True, help="Members that each token goes to.")
def ragged(members: int, choices: float) -> Answers:
    """Cost of an all-to-all in which each token goes to few members.

    As a part of V/W. `expected` lets a token's choices meet; `of-dense` is the cost over that of a dense all-to-all.
    """
    from tpuprof.perfmodel.compare import ratio
    from tpuprof.perfmodel.gpu_network import ragged_share, ragged_share_expected

    share = ragged_share(members, choices)
    found: dict[str, Derivation] = {"share": share, "expected": ragged_share_expected(members, choices)}
    dense = ragged_share(members, members)
    return found if members == 1 else {**found, "of-dense": ratio(share.number(), dense.number(), dense.unit)}


@calculator("all-to-all-slowdown")
@click.option("--members", type=int, required=True, help="GPUs of a node.")
@click.option("--bandwidth", type=quantity("B/s"), required=True, help="Egress of one GPU, such as 450GB/s.")
@click.option("--nodes", type=int, required=True, help="Nodes that it spans.")
@click.option("--node-bandwidth", type=quantity("B/s"), required=True, help="Egress of a node, such as 400GB/s.")
def all_to_all_slowdown(members: int, bandwidth: float, nodes: int, node_bandwidth: float) -> Answers:
    """Slow-down of an all-to-all that leaves its node."""
    from tpuprof.perfmodel.gpu_network import all_to_all_slowdown as slowdown_of

    return {"slowdown": slowdown_of(members, bandwidth, nodes, node_bandwidth)}


@calculator("occupancy")
@click.option("--register-file", type=quantity("B"), required=True, help="Bytes of one multiprocessor: 256KiB.")
@click.option("--registers", type=int, required=True, help="Registers per thread.")
@click.option("--lanes", type=int, default=32, show_default=True, help="Threads of a warp.")
@click.option("--register-bytes", type=int, default=4, show_default=True, help="Bytes of a register.")
def occupancy(register_file: float, registers: int, lanes: int, register_bytes: int) -> Answers:
    """Warps that a multiprocessor can hold."""
    from tpuprof.perfmodel.peaks import resident_warps

    return {"warps": resident_warps(register_file, registers, lanes, register_bytes)}


def _level(text: str) -> TreeLevel:
    from tpuprof.hardware.quantity import parse_quantity
    from tpuprof.perfmodel.gpu_network import TreeLevel

    parts = text.split(":")
    if not 2 <= len(parts) <= 4 or not all(part.isdecimal() and len(part) < 19 for part in parts[2:] if part):
        raise UsageError(f"{text!r} is no level of a tree.", hint="Write it like leaf:50GB/s:32:8 or node:450GB/s:8.")
    bandwidth = parse_quantity(parts[1], "B/s", f"The bandwidth of level {parts[0]}")
    units = int(parts[2]) if len(parts) > 2 and parts[2] else None
    return TreeLevel(parts[0], bandwidth, units, int(parts[3]) if len(parts) > 3 and parts[3] else 1)
