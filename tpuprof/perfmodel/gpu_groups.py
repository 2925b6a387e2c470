"""Groups of GPUs on the two levels of their network: the links inside a node, and each GPU's share beyond it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip
from tpuprof.hardware.layout import check_groups
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step

_SOURCE = "scaling book, GPUs"


def gpu_traffic(kind: str, size: float, chip: Chip, groups: Sequence[Sequence[int]]) -> Derivation:
    """Seconds of a collective of GPUs at least; null if a bandwidth or the size of a node is not known.

    Args:
        kind: as in `tpuprof.perfmodel.collective_time.KINDS`.
        size: as there, bytes.
        chip: the GPU; ids run node by node of its ``scale_up_size``.
        groups: device ids, or the pairs (source, target) of a permute.

    Raises:
        UsageError: groups differ in size, a device is named twice, or an id is negative.
    """
    pairwise = kind in {"collective_permute", "send_recv"}
    if not pairwise:
        check_groups(groups)
    elif any(len(pair) != 2 for pair in groups) or not groups:
        raise UsageError("A pair of a permute does not have two devices.", hint="Give (source, target) each.")
    if any(device < 0 for group in groups for device in group):
        raise UsageError("A device id is negative.")
    if chip.scale_up_size is None:
        return Derivation(
            None, "s", "", {"size": Quantity(size, "B")}, None, (f"How many {chip.name} form a node is not known.",)
        )
    per_node = chip.scale_up_size
    inside, outside, formula_in, formula_out = (
        _permuted(groups, per_node, size) if pairwise else _shares(kind, size, groups, per_node)
    )
    figures = (
        ("switch", "node level", "W_node", inside, formula_in, chip.scale_up_bandwidth),
        ("tree", "beyond the node", "W_out", outside, formula_out, chip.scale_out_bandwidth),
    )
    inputs = {"size": Quantity(size, "B"), "n": Quantity(len(groups[0]), "gpu"), "node": Quantity(per_node, "gpu")}
    assumed = ["switches have no bottleneck of their own", "both levels work at the same time"]
    steps: list[Step] = []
    times: list[tuple[float, str]] = []
    known = True
    for regime, what, symbol, load, formula, figure in figures:
        if not load:
            continue
        if figure is None:
            assumed.append(f"The bandwidth {what} of {chip.name} is not known.")
            known = False
            continue
        inputs[symbol] = Quantity(figure.value, "B/s", figure.source)
        times.append((load / figure.value, regime))
        steps.append(Step(f"{what}, bytes of the busiest GPU in one direction", formula, load, "B"))
        steps.append(Step(f"{what}, time", f"bytes / {symbol}", times[-1][0], "s"))
    seconds, regime = max(times, default=(0.0, "none"))
    formula = "the slower of the two levels"
    return Derivation(seconds if known else None, "s", formula, inputs, regime, tuple(assumed), tuple(steps), _SOURCE)


def _shares(kind: str, size: float, groups: Sequence[Sequence[int]], per_node: int) -> tuple[float, float, str, str]:
    # Bytes of the busiest GPU within its node and beyond. A group may hold different numbers of GPUs per node; the
    # node with fewest has the fewest links to the outside.
    inside = outside = 0.0
    n = len(groups[0])
    passes = 2 if kind == "all_reduce" else 1
    formula_in = formula_out = ""
    for group in groups:
        nodes = Counter(device // per_node for device in group)
        most, fewest = max(nodes.values()), min(nodes.values())
        if kind in {"all_to_all", "ragged_all_to_all"}:
            within, beyond = size * (most - 1) / n, size * (n - fewest) / n
            formula_in, formula_out = "size * (g-1)/n", "size * (n-g)/n"
        elif kind == "collective_broadcast":
            within, beyond = size * (most > 1), size * (len(nodes) > 1) / fewest
            formula_in, formula_out = "size", "size / g"
        else:
            # Every node receives what the others hold over its own GPUs' shares, then spreads it inside.
            within = passes * size * (most - 1) / most
            beyond = passes * size * (n - fewest) / n / fewest
            twice = "2 * " if passes == 2 else ""
            formula_in, formula_out = f"{twice}size * (g-1)/g", f"{twice}size * (n-g)/n / g"
        inside, outside = max(inside, within), max(outside, beyond)
    return inside, outside, formula_in, formula_out


def _permuted(pairs: Sequence[Sequence[int]], per_node: int, size: float) -> tuple[float, float, str, str]:
    inside: Counter[tuple[str, int]] = Counter()
    outside: Counter[tuple[str, int]] = Counter()
    for source, target in pairs:
        if source == target:
            continue
        counter = inside if source // per_node == target // per_node else outside
        counter["out", source] += 1
        counter["in", target] += 1
    return max(inside.values(), default=0) * size, max(outside.values(), default=0) * size, "size", "size"
