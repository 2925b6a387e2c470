"""Collectives of GPUs: inside a node of switches and over the levels of a fat tree, as functions of plain numbers.

Bandwidths are one-way egress. Source of the formulas: the scaling book, chapter "GPUs".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step

_GPUS = "scaling book, GPUs"


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """One level of a fat tree.

    Args:
        name: such as ``node`` or ``leaf``.
        bandwidth: egress of one GPU at this level, B/s.
        members: units that the collective joins here (GPUs of a node, nodes of a leaf switch); null drops (D-1)/D.
        gpus_below: GPUs of one such unit.
    """

    name: str
    bandwidth: float
    members: int | None = None
    gpus_below: int = 1


def node(
    kind: str, size: float, bandwidth: float, *, members: int | None = None, in_network: bool = False
) -> Derivation:
    """Seconds of a collective among units that a switch joins: GPUs of a node, or nodes as units.

    Args:
        kind: all_gather, reduce_scatter, all_reduce or all_to_all.
        size: V of the whole group (summed over its members for an all_to_all), bytes.
        bandwidth: egress of one member, B/s.
        members: n; null drops (n-1)/n, which an all_to_all needs.
        in_network: an all-reduce whose sum is formed in the switch: every member sends V once.

    Raises:
        UsageError: a number is out of range, or the kind is not known.
    """
    n = None if members is None else counted("The number of members", members)
    share = 1.0 if n is None else 1 - 1 / n
    inputs = {
        "V": Quantity(not_negative("The size", size), "B"),
        "W": Quantity(positive("The bandwidth", bandwidth), "B/s"),
    }
    if n is not None:
        inputs["n"] = Quantity(n, "member")
    factor = "" if n is None else " * (n-1)/n"
    if in_network:
        if kind != "all_reduce":
            raise UsageError(f"{kind!r} sums nothing in the network.", hint="Only an all_reduce does.")
        value, formula, regime = size / bandwidth, "V / W", "switch, in-network reduction"
    elif kind in {"all_gather", "reduce_scatter"}:
        value, formula, regime = size * share / bandwidth, f"V{factor} / W", "switch"
    elif kind == "all_reduce":
        value, formula, regime = 2 * size * share / bandwidth, f"2 * V{factor} / W", "switch"
    elif kind == "all_to_all":
        if n is None:
            raise UsageError("An all_to_all needs its number of members.")
        value, formula, regime = size * share / n / bandwidth, "V * (n-1)/n^2 / W", "switch"
    else:
        raise UsageError(
            f"No time is known for {kind!r} over a switch.",
            hint="Give all_gather, reduce_scatter, all_reduce or all_to_all.",
        )
    assumed = ("the switch has no bottleneck of its own",)
    return Derivation(value, "s", formula, inputs, regime, assumed, source=_GPUS)


def all_to_all_slowdown(members: int, bandwidth: float, nodes: int, node_bandwidth: float) -> Derivation:
    """How much longer an all-to-all of large groups takes over nodes than inside one: ``n W / (M W_node)``.

    Raises:
        UsageError: a number is out of range.
    """
    value = (counted("The number of members", members) * positive("The bandwidth", bandwidth)) / (
        counted("The number of nodes", nodes) * positive("The bandwidth of a node", node_bandwidth)
    )
    inputs = {
        "n": Quantity(members, "gpu"),
        "W": Quantity(bandwidth, "B/s"),
        "M": Quantity(nodes, "node"),
        "W_node": Quantity(node_bandwidth, "B/s"),
    }
    assumed = ("V/(M W_node) against V/(n W): the factors (n-1)/n and (M-1)/M are left out",)
    return Derivation(value, "x", "n * W / (M * W_node)", inputs, None, assumed, source=_GPUS)


def level_bandwidth(members: int, bandwidth: float) -> Derivation:
    """Collective bandwidth of one level of a fat tree: ``D W / (D-1)``, infinite for a single member.

    Args:
        members: D, children of the switch.
        bandwidth: W, of one child's links upwards, B/s.

    Raises:
        UsageError: a number is out of range.
    """
    d = counted("The number of children", members)
    w = positive("The bandwidth", bandwidth)
    value = float("inf") if d == 1 else d * w / (d - 1)
    inputs = {"D": Quantity(d, "child"), "W": Quantity(w, "B/s")}
    return Derivation(value, "B/s", "D * W / (D-1)", inputs, "tree", source=_GPUS)


def slowest_level(bandwidths: Sequence[float]) -> Derivation:
    """End-to-end bandwidth of a tree whose levels have these collective bandwidths.

    Raises:
        UsageError: there is no level, or a bandwidth is not above zero.
    """
    if not bandwidths:
        raise UsageError("A tree without levels.", hint="Give the bandwidth of every level.")
    for bandwidth in bandwidths:
        positive("The bandwidth of a level", bandwidth)
    value = min(bandwidths)
    inputs = {"levels": Quantity(list(bandwidths), "B/s")}
    return Derivation(value, "B/s", "min(levels)", inputs, "tree", source=_GPUS)


def fat_tree(size: float, levels: Sequence[TreeLevel], *, inner: int = 1, passes: int = 1) -> Derivation:
    """Seconds of an all-gather (or, with two passes, an all-reduce) over the levels of a fat tree.

    All levels work at once, so the slowest decides: ``V max_i (D_i-1)/D_i / (max(Y, S_i) W_i)``. An inner sharding of
    Y GPUs only helps where it spans more than the S_i GPUs of one unit of the level.

    Args:
        size: V, the whole array, bytes.
        levels: from the GPUs upwards.
        inner: Y, GPUs over which another, inner axis shards the array too.

    Raises:
        UsageError: there is no level, or a number is out of range.
    """
    if not levels:
        raise UsageError("A tree without levels.", hint="Give at least one level.")
    counted("The inner sharding", inner)
    not_negative("The size", size)
    times: list[float] = []
    steps: list[Step] = []
    for level in levels:
        share = 1.0 if level.members is None else 1 - 1 / counted("The number of units", level.members)
        rate = max(inner, counted("The GPUs of a unit", level.gpus_below)) * positive(
            "The bandwidth of a GPU", level.bandwidth
        )
        times.append(counted("The number of passes", passes) * size * share / rate)
        factor = "" if level.members is None else f" * {level.members - 1}/{level.members}"
        formula = f"{'2 * ' if passes == 2 else ''}V{factor} / ({max(inner, level.gpus_below)} * {level.bandwidth:g})"
        steps.append(Step(f"{level.name} level", formula, times[-1], "s"))
    slowest = levels[times.index(max(times))]
    inputs = {"V": Quantity(size, "B"), "Y": Quantity(inner, "gpu")}
    assumed = ("all levels of the tree work at the same time",)
    formula = "max over levels of V * (D-1)/D / (max(Y, S) * W)"
    regime = f"tree, {slowest.name} level"
    return Derivation(max(times), "s", formula, inputs, regime, assumed, tuple(steps), _GPUS)


def tree_traffic(size: float, nodes: int, gpus_per_node: int) -> dict[str, Derivation]:
    """Bytes through the switches in an all-gather over nodes: ``node_egress``, ``node_ingress``, ``top_egress``.

    Raises:
        UsageError: a number is out of range.
    """
    v = not_negative("The size", size)
    m, n = counted("The number of nodes", nodes), counted("The GPUs of a node", gpus_per_node)
    inputs = {"V": Quantity(v, "B"), "M": Quantity(m, "node"), "N": Quantity(n, "gpu")}

    def derived(value: float, formula: str, *steps: Step) -> Derivation:
        return Derivation(value, "B", formula, inputs, "tree", ("every switch sends each byte once",), steps, _GPUS)

    up, down = Step("to the spine", "V / M", v / m, "B"), Step("to the GPUs", "N*V - V/M", n * v - v / m, "B")
    own, others = Step("from the GPUs", "V / M", v / m, "B"), Step("from the spine", "V*(M-1)/M", v * (m - 1) / m, "B")
    return {
        "node_egress": derived(v * n, "V * N", up, down),
        "node_ingress": derived(v, "V", own, others),
        "top_egress": derived(v * (m - 1), "V * (M-1)"),
    }


def in_network_traffic(size: float, members: int) -> Derivation:
    """Bytes through a switch, in each direction, in an all-reduce that it sums: every member sends V and receives V.

    Raises:
        UsageError: a number is out of range.
    """
    value = not_negative("The size", size) * counted("The number of members", members)
    inputs = {"V": Quantity(size, "B"), "n": Quantity(members, "gpu")}
    return Derivation(value, "B", "V * n", inputs, "switch, in-network reduction", source=_GPUS)


def in_network_gain(members: int) -> Derivation:
    """How much faster an all-reduce is in theory if the switch forms the sum: ``2 (n-1)/n``.

    Raises:
        UsageError: there are no members.
    """
    value = 2 * (1 - 1 / counted("The number of members", members))
    return Derivation(value, "x", "2 * (n-1)/n", {"n": Quantity(members, "gpu")}, source=_GPUS)


def ragged_share(members: int, choices: float) -> Derivation:
    """Part of V/W that a ragged all-to-all takes when a token goes to k of n members: ``min(k/n, 1) (n-1)/n``.

    Raises:
        UsageError: a number is out of range.
    """
    n = counted("The number of members", members)
    value = min(positive("The number of choices", choices) / n, 1.0) * (n - 1) / n
    inputs = {"n": Quantity(n, "gpu"), "k": Quantity(choices)}
    assumed = ("no member is chosen twice by one token",)
    return Derivation(value, "fraction", "min(k/n, 1) * (n-1)/n", inputs, None, assumed, source=_GPUS)


def ragged_share_expected(members: int, choices: float) -> Derivation:
    """The same if a token's k choices are independent and may meet: ``(1 - ((n-1)/n)^k) (n-1)/n``.

    Raises:
        UsageError: a number is out of range.
    """
    n = counted("The number of members", members)
    other = (n - 1) / n
    value = (1 - other ** positive("The number of choices", choices)) * other
    inputs = {"n": Quantity(n, "gpu"), "k": Quantity(choices)}
    assumed = ("the choices are uniform and independent",)
    return Derivation(value, "fraction", "(1 - ((n-1)/n)^k) * (n-1)/n", inputs, None, assumed, source=_GPUS)
