"""What a run tells of its collectives: how long they take against what is expected, and how much of them shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpuprof.calibration.axes import Traffic, traffic_of
from tpuprof.calibration.estimates import Estimate, Sample, reached_share
from tpuprof.calibration.idle import by_step, spent
from tpuprof.calibration.result import Ledger
from tpuprof.plan.profiles import COLLECTIVE_KINDS
from tpuprof.roofline import Roofline
from tpuprof.roofline.table import ROUNDING
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

_FULL = 0.9
_ROUNDED = 1e-9
_F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moved:
    """Communication of one kind of traffic in one step, over all cores: seconds that it takes, and that show."""

    seconds: float
    exposed: float


@dataclass(slots=True)
class CommunicationSamples:
    """What is drawn from the collectives of runs.

    Args:
        kinds: synchronous collectives by kind.
        paths: the same by kind and axes, for people.
        steps: of each traffic its steps.
        waits: seconds per step and core in which others were waited for and nothing else ran.
    """

    kinds: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]])
    paths: dict[tuple[str, str | None], list[Sample]] = field(
        default_factory=dict[tuple[str, str | None], list[Sample]]
    )
    steps: dict[Traffic, list[Moved]] = field(default_factory=dict[Traffic, list[Moved]])
    waits: dict[int, float] = field(default_factory=dict[int, float])


def communication_samples(
    trace: Trace, found: Roofline, axes: Mapping[str, str], ledger: Ledger
) -> CommunicationSamples:
    """The samples of one run; what is not used goes to the ledger.

    A wait for other cores is no communication. An asynchronous collective takes what is expected of it at the share
    that synchronous ones of its kind reach, or its window without the wait if that is shorter: its window may be
    longer than its transfer.

    Args:
        axes: roles of axes by name, where the user gave them.
    """
    drawn = CommunicationSamples()
    frame = trace.counted(trace.collectives)
    carried: list[tuple[Traffic, str, _Times, float | None]] = []
    every: list[_Times] = []
    groups: Any = frame.groupby(["op", "kind", "module"], observed=True, dropna=False, sort=False)
    for (op, kind, module), rows in groups:
        times = _Times.of(rows)
        every.append(times)
        name, spent = str(op), float(np.nansum(times.window))
        made = found.prediction(str(op), str(kind), module if isinstance(module, str) else None)
        expected = bound = None
        if made is not None and made.time is not None:
            expected, bound = made.time.expected_s, made.time.seconds
        took = float(np.median(times.took)) if len(times.took) else 0.0
        if not took:
            ledger.add(f"collectives.{kind}", "its time is zero or not known", name, spent)
            continue
        if bound is not None and took < bound * (1 - ROUNDING):
            ledger.add(f"collectives.{kind}", "faster than its links: slice, chip or times are wrong", name, spent)
            continue
        named: Any = rows["mesh_axes"].iloc[0]
        path = named if isinstance(named, str) else None
        if bool(times.sync.all()) and expected and kind in COLLECTIVE_KINDS:
            sample = Sample(name, expected, took, len(times.took))
            drawn.kinds.setdefault(str(kind), []).append(sample)
            drawn.paths.setdefault((str(kind), path), []).append(sample)
        else:
            why = (
                "asynchronous: its transfer is not told from its window" if expected else "what to expect is not known"
            )
            ledger.add(f"collectives.{kind}", why, name, spent)
        traffic = traffic_of(str(kind), path, axes)
        if traffic is None:
            ledger.add("overlap", "what it carries is not known: name its axes", name, spent)
            continue
        carried.append((traffic, str(kind), times, expected))
    once = _counted_once(trace, every)
    for times in every:
        _add_waits(drawn, times, once, max(len(trace.devices), 1))
    sums = _sums(carried, {kind: reached_share(samples) for kind, samples in drawn.kinds.items()}, once)
    full = _saturated(trace, sums)
    for traffic, steps in sums.items():
        drawn.steps[traffic] = [moved for step, moved in steps.items() if step not in full]
        if full:
            ledger.add("overlap", "nearly all computation hides some, which bounds what can", traffic, 0.0)
    return drawn


def _counted_once(trace: Trace, every: Sequence[_Times]) -> dict[int, float]:
    """By step: exposed time in the partition over that of all collectives, whose windows may lie over each other."""
    listed: dict[int, float] = {}
    for times in every:
        for step, seconds in zip(times.step.tolist(), (times.exposed + times.waited).tolist(), strict=True):
            listed[step] = listed.get(step, 0.0) + seconds
    shown = by_step(spent(trace, ("collective_exposed",)))
    shares = {step: shown[step] / seconds for step, seconds in listed.items() if seconds > 0 and step in shown}
    return {step: share for step, share in shares.items() if share < 1 - _ROUNDED}


def _sums(
    carried: Sequence[tuple[Traffic, str, _Times, float | None]],
    reached: Mapping[str, Estimate | None],
    once: Mapping[int, float],
) -> dict[Traffic, dict[int, Moved]]:
    found: dict[Traffic, dict[int, list[float]]] = {}
    for traffic, kind, times, expected in carried:
        taken = times.took
        if expected is not None:
            share = reached.get(kind)
            taken = np.where(times.sync, taken, np.minimum(taken, expected / (1.0 if share is None else share.value)))
        for step, seconds, exposed in zip(times.step.tolist(), taken.tolist(), times.exposed.tolist(), strict=True):
            pair = found.setdefault(traffic, {}).setdefault(step, [0.0, 0.0])
            pair[0] += seconds
            pair[1] += exposed * once.get(step, 1.0)
    return {name: {step: Moved(*pair) for step, pair in steps.items()} for name, steps in found.items()}


def _saturated(trace: Trace, sums: Mapping[Traffic, Mapping[int, Moved]]) -> set[int]:
    """Steps in which about as much communication is hidden as is computed: with more computation more would be."""
    work = by_step(spent(trace))
    hidden: dict[int, float] = {}
    for steps in sums.values():
        for step, moved in steps.items():
            hidden[step] = hidden.get(step, 0.0) + max(moved.seconds - moved.exposed, 0.0)
    return {step for step, seconds in hidden.items() if step in work and seconds > _FULL * work[step]}


@dataclass(frozen=True, slots=True)
class _Times:
    """Occurrences of one collective on all cores, seconds; what has no window is left out."""

    step: npt.NDArray[np.int64]
    window: _F64
    took: _F64
    exposed: _F64
    waited: _F64
    sync: npt.NDArray[np.bool_]

    @staticmethod
    def of(rows: pd.DataFrame) -> _Times:
        def seconds(name: str) -> _F64:
            return rows[name].to_numpy(np.float64, na_value=np.nan) / PS_PER_S

        window, exposed, wait, transfer = map(seconds, ("window_ps", "exposed_ps", "wait_ps", "transfer_ps"))
        whole = np.isfinite(window) & np.isfinite(exposed)
        waited = np.minimum(np.nan_to_num(wait), np.nan_to_num(exposed))
        step = rows["step"].to_numpy(np.int64, na_value=-1)
        took = np.where(np.isfinite(transfer), transfer, window)
        sync = (rows["form"].astype("str") == "sync").to_numpy(np.bool_)
        return _Times(step[whole], window[whole], took[whole], (exposed - waited)[whole], waited[whole], sync[whole])


def _add_waits(drawn: CommunicationSamples, times: _Times, once: Mapping[int, float], cores: int) -> None:
    for step, waited in zip(times.step.tolist(), times.waited.tolist(), strict=True):
        drawn.waits[step] = drawn.waits.get(step, 0.0) + waited * once.get(step, 1.0) / cores
