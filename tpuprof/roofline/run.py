"""The roofline of a run: its trace joined to the costs of its ops and to the rates of the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.perfmodel.rates import Rates, rates_of
from tpuprof.quality import Quality
from tpuprof.roofline.collectives import Key, Place, Prediction, place_of, predictions, too_fast
from tpuprof.roofline.hardware import NO_OPTIONS, HardwareOptions, RunHardware, run_hardware
from tpuprof.roofline.ladder import Rung, ladder
from tpuprof.roofline.matmuls import matmuls_frame
from tpuprof.roofline.schemas import ROOFLINE
from tpuprof.roofline.step import Utilisation, utilisation
from tpuprof.roofline.table import ROUNDING, OpWork, op_work, plausible, roofline_frame
from tpuprof.text import plural
from tpuprof.units import format_percent, format_si

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

_SHOWN = 5
_ABOVE = "It would be more than the hardware has: the peaks, the counted work or the recorded times are wrong."


@dataclass(frozen=True, eq=False)
class Roofline:
    """A run against its hardware.

    Args:
        hardware: which hardware, or why none is known.
        rates: of one runtime device; null without hardware.
        works: the compute ops of counted steps with their costs.
        table: table ``roofline``; empty without hardware.
        matmuls: table ``matmuls``.
        utilisation: MFU and its relatives.
        ladder: the ideal ladder; empty without a counted step.
        place: where collectives go.
        collectives: what each should take, by (op, kind, module).
        quality: what is doubtful: peaks that disagree, rates above the peak.
    """

    hardware: RunHardware
    rates: Rates | None
    works: tuple[OpWork, ...]
    table: pd.DataFrame
    matmuls: pd.DataFrame
    utilisation: Utilisation
    ladder: tuple[Rung, ...]
    place: Place
    collectives: Mapping[Key, Prediction]
    quality: tuple[Quality, ...]

    def work(self, op: str, module: str | None) -> OpWork | None:
        """The work of a compute op of the counted steps, by its name and program; null if there is no such op."""
        return self._works.get((op, module))

    @cached_property
    def _works(self) -> dict[tuple[str, str | None], OpWork]:
        return {(work.info.name, work.info.module): work for work in reversed(self.works)}

    def prediction(self, op: str, kind: str, module: str | None) -> Prediction | None:
        """What the collective of a row of the report should take; null if its HLO is not known."""
        return self.collectives.get((op, kind, module)) or self.collectives.get((op, kind, None))


def roofline(trace: Trace, options: HardwareOptions = NO_OPTIONS) -> Roofline:
    """The roofline of a trace.

    Raises:
        UsageError: the options name no chip or slice, or a figure in them is wrong.
        InputError: a file of the user cannot be read.
    """
    hardware = run_hardware(trace.devices, options)
    rates = None if hardware.chip is None else rates_of(hardware.chip)
    counted = trace.counted_ops
    self_ps = trace.ops["self_ps"].to_numpy(np.int64, na_value=0)
    works = op_work(trace.built.infos, trace.op_rows[counted], self_ps[counted])
    works = works if rates is None else plausible(works, rates)
    pairs = int(trace.steps["counted"].sum())
    mean = trace.breakdown()
    step_ps = trace.step_statistics()["mean_ps"] or (None if mean is None else mean["step_ps"])
    used = utilisation(works, rates, step_ps, pairs, hardware.reason)
    table = ROOFLINE.empty() if rates is None else roofline_frame(works, rates)
    place = place_of(trace, hardware.chip, options, hardware.reason)
    predicted = predictions(trace.built.infos, place)
    return Roofline(
        hardware=hardware,
        rates=rates,
        works=tuple(works),
        table=table,
        matmuls=matmuls_frame(works, rates),
        utilisation=_possible(used),
        ladder=_ladder(trace, mean, None if rates is None else table, pairs, hardware.reason),
        place=place,
        collectives=predicted,
        quality=(
            *hardware.quality,
            *_impossible(table, used),
            *_above_links(too_fast(trace.collectives, predicted, place, ROUNDING), place),
        ),
    )


def _possible(used: Utilisation) -> Utilisation:
    """The utilisation without shares above 1: these are no results (see ``_impossible``)."""
    names = ("mfu", "hfu", "hbm_utilisation")
    above: dict[str, Any] = {name: None for name in names if (getattr(used, name) or 0.0) > 1}
    return replace(used, **above, reason=_ABOVE) if above else used


def _ladder(
    trace: Trace, mean: Mapping[str, Any] | None, table: pd.DataFrame | None, pairs: int, reason: str
) -> tuple[Rung, ...]:
    if mean is None:
        return ()
    sequential = all(device.platform == "tpu" for device in trace.devices)
    collectives = trace.counted(trace.collectives)
    return ladder(mean, collectives, table, pairs, sequential=sequential, reason=reason or None)


def _impossible(table: pd.DataFrame, used: Utilisation) -> list[Quality]:
    """Rates above what the hardware can do: a peak, a cost or a clock must be wrong."""
    found: list[Quality] = []
    fast = table[table["above_peak"]]
    if len(fast):
        worst = fast.assign(times=fast["bound_ps"] / fast["mean_ps"]).nlargest(_SHOWN, "times")
        named = ", ".join(f"{row.op} ({row.times:.2f} times the {row.bound_by} rate)" for row in worst.itertuples())
        message = (
            f"{plural(len(fast), 'op')} ran faster than the hardware allows: {named}. The peaks, the counted work or "
            "the recorded times are wrong; no efficiency is given for them. Check the chip (`--chip`, `--peak`)."
        )
        found.append(Quality("rate_above_peak", "error", message, len(fast), {"ops": worst["op"].tolist()}))
    shares = {"MFU": used.mfu, "hardware FLOP utilisation": used.hfu, "HBM utilisation": used.hbm_utilisation}
    above = {name: share for name, share in shares.items() if share is not None and share > 1}
    if above:
        named = ", ".join(f"{name} {format_percent(share)}" for name, share in above.items())
        peak = format_si(used.peak_flops, "FLOP/s")
        message = (
            f"The step uses more than the hardware has: {named}, against {peak} and "
            f"{format_si(used.hbm_bandwidth, 'B/s')} per device. Check the chip (`--chip`, `--peak`)."
        )
        found.append(Quality("utilisation_above_peak", "error", message, len(above), above))
    return found


def _above_links(fast: list[tuple[str, float]], place: Place) -> list[Quality]:
    """Collectives faster than their links: most often the slice is another one than was assumed."""
    if not fast:
        return []
    named = ", ".join(f"{op} ({times:.2f} times the rate of its links)" for op, times in fast[:_SHOWN])
    message = (
        f"{plural(len(fast), 'collective')} ran faster than the links allow: {named}. The slice ({place.source}), the "
        "chip or the recorded times are not what was assumed. Name them with --topology and --chip."
    )
    return [Quality("collective_above_links", "warning", message, len(fast), {"ops": [op for op, _ in fast[:_SHOWN]]})]
