"""What each collective should have taken on the links of the hardware, set against its measured transfer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuprof.errors import UsageError
from tpuprof.hardware import Chip
from tpuprof.hardware.slices import default_shape, make_slice, parse_slice
from tpuprof.hardware.topology import Slice
from tpuprof.perfmodel.collective_time import CollectiveTime, collective_time
from tpuprof.roofline.hardware import HardwareOptions
from tpuprof.tables.collective_facts import CollectiveFacts, collective_facts
from tpuprof.tables.recorded_quality import expected_cores
from tpuprof.tables.rows import OpInfo
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

MAX_DEVICES = 1 << 15  # of groups that are routed; a larger job is not of this world
_USER = "user"  # the edition of a device that is known by the user's figures alone
_PAIRWISE = ("collective_permute", "send_recv")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run's collectives go: a slice of TPUs, or GPUs of one kind.

    Args:
        where: null if not known.
        source: how it is known, as a few words.
        reason: why it is not known, as a sentence; empty if it is.
    """

    where: Slice | Chip | None
    source: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one collective should have taken; ``time`` is null with a ``reason``."""

    time: CollectiveTime | None
    reason: str = ""


Key = tuple[str, str, str | None]
"""A row of collectives in the report: (op, kind, module)."""


def place_of(trace: Trace, chip: Chip | None, options: HardwareOptions, reason: str) -> Place:
    """The slice of a run.

    Args:
        chip: the run's chip; null if not known, for which ``reason`` is given.
        options: what the user says of the slice; else it is the usual one of as many devices as the programs are for.

    Raises:
        UsageError: the topology is none, or one of another chip.
    """
    topology = options.topology
    if topology is not None:
        named = parse_slice(topology, options.edition, options.files)
        if chip is not None and chip.name != named.chip.name and chip.edition != _USER:
            raise UsageError(
                f"{topology} is a slice of {named.chip.name}, but the run is set against {chip.name}.",
                where="--topology",
                hint=f"Name a slice of {chip.name}, or give --chip {named.chip.name} too.",
            )
        # Figures that the user gave for the chip count for its slice, too.
        return Place(replace(named, chip=chip) if chip is not None and chip.name == named.chip.name else named,
                     "--topology")  # fmt: skip
    if chip is None:
        return Place(None, reason=reason)
    if chip.platform == "gpu":
        return Place(chip, chip.name)
    count = max(expected_cores(trace.built.cores, trace.built.infos), len(trace.devices))
    chips = -(-count // chip.devices_per_chip)
    try:
        found = make_slice(chip, default_shape(chip, chips))
    except UsageError as error:
        return Place(None, reason=f"{error} Give the slice with --topology.")
    return Place(found, f"the usual slice of {chips} chips; --topology names another")


def predictions(infos: Iterable[OpInfo], place: Place) -> dict[Key, Prediction]:
    """What each collective should take, by op, kind and module."""
    found: dict[Key, Prediction] = {}
    for info in infos:
        if info.cls.kind != "collective":
            continue
        facts = collective_facts(info)
        if facts.kind is not None:
            found.setdefault((info.name, facts.kind, info.module), _prediction(facts, place))
    return found


def too_fast(
    frame: pd.DataFrame, found: Mapping[Key, Prediction], place: Place, tolerance: float
) -> list[tuple[str, float]]:
    """Collectives that took less than the links of their slice allow: (op, bound over mean time), the worst first.

    GPUs are left out: their switches can form sums on the way, which no bound here counts on.

    Args:
        frame: table ``collectives``.
        tolerance: share of the bound that may be missing by rounding.
    """
    if not isinstance(place.where, Slice) or frame.empty:
        return []
    took = frame["transfer_ps"].astype("float64").fillna(frame["window_ps"].astype("float64"))
    measured = frame[["op", "kind", "module"]].assign(ps=took)
    means = measured.groupby(["op", "kind", "module"], observed=True, dropna=False)["ps"].mean().reset_index()
    times: list[tuple[str, float]] = []
    for op, kind, module, mean in zip(*(means[name].tolist() for name in means.columns), strict=True):
        made = found.get((op, kind, module if isinstance(module, str) else None))
        seconds = None if made is None or made.time is None else made.time.seconds
        if seconds is not None and mean < seconds * PS_PER_S * (1 - tolerance):
            times.append((op, seconds * PS_PER_S / mean if mean else math.inf))
    return sorted(times, key=lambda pair: (-pair[1], pair[0]))


def _prediction(facts: CollectiveFacts, place: Place) -> Prediction:
    if place.where is None:
        return Prediction(None, place.reason)
    kind = facts.kind or ""
    pairwise = kind in _PAIRWISE
    groups = facts.pairs if pairwise else facts.groups
    size = facts.shard_bytes if kind == "all_to_all" else facts.bytes
    if size is None or groups is None:
        return Prediction(None, "Its size or its groups are not known.")
    if sum(map(len, groups)) > MAX_DEVICES:
        return Prediction(None, f"It has more than {MAX_DEVICES:,} members.")
    try:
        time = collective_time(kind, size, place.where, groups=groups)
    except UsageError as error:
        return Prediction(None, str(error))
    return Prediction(time, "" if time.seconds is not None else "A bandwidth that decides it is not known.")
