"""How long a collective takes at least on given hardware, and how long it is expected to take.

The bound is physical: the bytes of the busiest link (or link between cores, or share of the network) at full
bandwidth, and no less than the hops to the farthest member. The expectation adds what measurements show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip, Figure
from tpuprof.hardware.layout import lay_out
from tpuprof.hardware.mesh import MeshMapping, map_mesh, torus_mesh
from tpuprof.hardware.topology import TORUS_AXES, Slice
from tpuprof.perfmodel.checks import not_negative, positive
from tpuprof.perfmodel.collective_constants import Calibration, calibration, core_link
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.gpu_groups import gpu_traffic
from tpuprof.perfmodel.routing import Traffic, exchange, gather, permute

Kind = Literal[
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
    "ragged_all_to_all",
    "collective_permute",
    "collective_broadcast",
    "send_recv",
]
KINDS: tuple[str, ...] = get_args(Kind)
_PAIRWISE = frozenset({"collective_permute", "send_recv"})
_SOURCE = "link loads by routing; scaling book, sharded matrices and GPUs"


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """The time of a collective.

    Args:
        seconds: the physical bound; null if a bandwidth that decides it is not known.
        regime: what decides: ``ring``, ``line``, ``ring and line``, ``mesh``, ``twisted torus``, ``embedded ring``
            (ICI links), ``latency`` (hops), ``on_chip``, ``dcn``, ``switch``, ``tree``, or ``none`` for a group of
            one.
        bound_bytes_per_s: the size divided by the bound; null if that is 0 or not known.
        expected_s: what measurements of such collectives lead to expect; null with the bound.
        calibration: the constants behind the expectation and their source; null for a group of one.
        shared: groups on the busiest link.
        derivation: the bound with its formula, inputs and steps.
    """

    seconds: float | None
    regime: str
    bound_bytes_per_s: float | None
    expected_s: float | None
    calibration: Calibration | None
    shared: float
    derivation: Derivation


def collective_time(
    kind: str,
    size: float,
    where: Slice | Chip,
    *,
    groups: Iterable[Sequence[int]] | None = None,
    axes: Sequence[str] | None = None,
    mesh: MeshMapping | Mapping[str, int] | None = None,
    link_bandwidth: float | None = None,
) -> CollectiveTime:
    """How long a collective takes at least, with all its groups at work at the same time.

    Args:
        kind: one of `KINDS`; HLO's spelling (``all-gather``) is understood, too.
        size: bytes. all_gather: the gathered array of one group. reduce_scatter, all_reduce: the input of one
            device. all_to_all: what one device holds. ragged_all_to_all: what one device sends. Others: the message.
        where: a slice, or the chip of a GPU cluster, whose device ids run node by node.
        groups: device ids of every group; for collective_permute and send_recv the pairs (source, target). Without
            groups and axes, all devices of the slice are one group.
        axes: mesh axes instead of groups; a permute along an axis goes to the next device, the last to the first.
        mesh: what the axes belong to; the torus itself (``x``, ``y``, ``z``, ``core``, ``slice``) if not given.
        link_bandwidth: of an ICI link in one direction, B/s, instead of the chip's figure.

    Raises:
        UsageError: the kind is unknown, the size negative, both or conflicting groups and axes are given, groups
            differ in size, or a device is outside the slice.
    """
    name = kind.replace("-", "_")
    if name not in KINDS:
        raise UsageError(f"There is no collective {kind!r}.", hint=f"Known are {', '.join(KINDS)}.")
    not_negative("The size", size)
    if isinstance(where, Chip):
        if axes is not None or mesh is not None or where.platform != "gpu":
            raise UsageError(
                f"{where.name} alone has no mesh axes.", hint="Give a slice such as v5e:4x4, or groups of GPUs."
            )
        if groups is None:
            raise UsageError("Which GPUs take part is not said.", hint="Give groups of device ids.")
        members = [tuple(group) for group in groups]
        return _gpu_time(name, size, where, members)
    chosen = _groups(name, where, groups, axes, mesh)
    traffic, n = _unit_traffic(name, where, tuple(chosen))
    passes = 2 if name == "all_reduce" else 1
    figure = where.chip.ici.link_bandwidth if where.chip.ici is not None else None
    if link_bandwidth is not None:
        figure = Figure(positive("The link bandwidth", link_bandwidth), "B/s", "given")
    return _slice_time(name, size, where, traffic.times(size), n, passes, figure)


def _groups(
    kind: str,
    where: Slice,
    groups: Iterable[Sequence[int]] | None,
    axes: Sequence[str] | None,
    mesh: MeshMapping | Mapping[str, int] | None,
) -> list[tuple[int, ...]]:
    if groups is not None and (axes is not None or mesh is not None):
        raise UsageError("Groups and mesh axes are both given.", hint="Give one of them.")
    if groups is not None:
        return [tuple(group) for group in groups]
    if axes is None:
        joined = [tuple(range(where.n_devices))]
    else:
        known = torus_mesh(where) if mesh is None else mesh if isinstance(mesh, MeshMapping) else map_mesh(where, mesh)
        idle = {*TORUS_AXES[: where.dims], "core", "slice"} if mesh is None else set[str]()
        # An axis of length 1 is no axis of the torus mesh, and joins nobody.
        joined = list(known.groups([axis for axis in axes if axis in known.shape or axis not in idle]))
    if kind not in _PAIRWISE:
        return joined
    return [(a, b) for group in joined if len(group) > 1 for a, b in zip(group, group[1:] + group[:1], strict=True)]


@lru_cache(maxsize=512)
def _unit_traffic(kind: str, where: Slice, groups: tuple[tuple[int, ...], ...]) -> tuple[Traffic, int]:
    # Traffic is proportional to the size, so that one routing serves all collectives of the same groups.
    if kind in _PAIRWISE:
        if any(len(pair) != 2 for pair in groups):
            raise UsageError("A pair of a permute does not have two devices.", hint="Give (source, target) each.")
        return (permute(where, [(a, b) for a, b in groups], 1.0), 2) if groups else (Traffic(0.0), 1)
    layout = lay_out(where, groups)
    n = layout.size
    if kind in {"all_to_all", "ragged_all_to_all"}:
        return exchange(layout, 1.0), n
    # What a broadcast sends is not divided: every member receives all of it.
    return gather(layout, n / (n - 1) if kind == "collective_broadcast" and n > 1 else 1.0), n


def _slice_time(
    kind: str, size: float, where: Slice, traffic: Traffic, n: int, passes: int, link: Figure | None
) -> CollectiveTime:
    chip = where.chip
    hop = chip.ici.hop_latency_s if chip.ici is not None else None
    between = core_link(chip.name)
    core = None if between is None else Figure(between.bandwidth, "B/s", between.source, between.note)
    resources = [
        (traffic.way, "busiest link", "W", traffic.link_bytes, link),
        ("on_chip", "link between cores", "W_core", traffic.core_bytes, core),
        ("dcn", "network share of the busiest chip", "W_dcn", traffic.network_bytes, chip.dcn_bandwidth),
    ]
    inputs = {"size": Quantity(size, "B"), "n": Quantity(n, "device")}
    assumed = ["all groups work at the same time", "links carry their full bandwidth in both directions at once"]
    steps: list[Step] = []
    times: list[tuple[float, str]] = []
    unknown = False
    if traffic.directions is not None and traffic.link_bytes:
        what = "link directions over which every chip of a group receives, L"
        steps.append(Step(what, "sum over the axes, divided among groups that share links", traffic.directions, ""))
    for regime, what, symbol, load, figure in resources:
        if not load:
            continue
        steps.append(
            Step(f"bytes on the {what}, one direction", _load_formula(kind, symbol, traffic), passes * load, "B")
        )
        if figure is None:
            reason = f"The bandwidth of the {what} of {chip.name} is not known"
            # Cores of a chip are joined far better than chips are, so a bound without their link is still close.
            left_out = regime == "on_chip" and (traffic.link_bytes or traffic.network_bytes)
            unknown = unknown or not left_out
            assumed.append(f"{reason}; it is left out." if left_out else f"{reason}.")
            continue
        inputs[symbol] = Quantity(figure.value, "B/s", figure.source)
        times.append((passes * load / figure.value, regime))
        steps.append(Step(f"time of the {what}", f"bytes / {symbol}", times[-1][0], "s"))
    for axis in traffic.axes:
        named = TORUS_AXES[axis.axis] if axis.axis < len(TORUS_AXES) else str(axis.axis)
        assumed.append(f"along {named}: a {axis.way} of {axis.count}, {axis.shared:g} group(s) on the busiest link")
    if traffic.axes:
        assumed.append("the data of a group stays in the rows of chips that the group spans")
    elif traffic.way == "embedded ring":
        assumed.append("the groups are no boxes of the torus: one ring through all members, not the best way possible")
    floor = passes * traffic.hops * hop.value if hop is not None else 0.0
    if hop is not None and traffic.hops:
        inputs["t_hop"] = Quantity(hop.value, "s", hop.source)
        steps.append(Step("latency", f"{'2 * ' if passes == 2 else ''}{traffic.hops:g} hops * t_hop", floor, "s"))
    transfer, regime = max(times, default=(0.0, "none"))
    adds = kind in _PAIRWISE
    seconds: float | None = transfer + floor if adds else max(transfer, floor)
    if floor > transfer:
        regime = "latency"
    if unknown:
        seconds = None
    formula = f"busiest of the transfers {'+ latency' if adds else 'or the latency, whichever is longer'}"
    derivation = Derivation(seconds, "s", formula, inputs, regime, tuple(assumed), tuple(steps), _SOURCE)
    way = traffic.way if regime == "latency" else regime
    known = calibration(chip.name, kind, way, len(traffic.axes))
    return _finish(size, regime, seconds, traffic.shared, derivation, known)


def _load_formula(kind: str, symbol: str, traffic: Traffic) -> str:
    twice = "2 * " if kind == "all_reduce" else ""
    if symbol == "W" and traffic.directions is not None:
        # m is the number of chips of a group in one slice.
        return f"{twice}size / L" if kind == "collective_broadcast" else f"{twice}size * (m-1)/m / L"
    return {"W": "sum of the messages over the link", "W_core": "what one core receives from the other"}.get(
        symbol, "what the chip's devices receive from other slices"
    )


def _gpu_time(kind: str, size: float, chip: Chip, groups: list[tuple[int, ...]]) -> CollectiveTime:
    derivation = gpu_traffic(kind, size, chip, groups)
    seconds = None if derivation.value is None else derivation.number()
    regime = derivation.regime or "none"
    return _finish(size, regime, seconds, 1.0, derivation, calibration(chip.name, kind, regime))


def _finish(
    size: float, regime: str, seconds: float | None, shared: float, found: Derivation, known: Calibration
) -> CollectiveTime:
    if seconds is None or regime == "none":
        return CollectiveTime(seconds, regime, None, seconds, None, shared, found)
    rate = size / seconds if seconds else None
    return CollectiveTime(seconds, regime, rate, known.t0_s + seconds / known.c, known, shared, found)
