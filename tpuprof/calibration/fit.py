"""Constants of training plans from runs: what their traces tell of each, and why they do not tell of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from tpuprof._version import __version__
from tpuprof.calibration.axes import Traffic
from tpuprof.calibration.communication import CommunicationSamples, communication_samples
from tpuprof.calibration.compute import ComputeSamples, compute_samples
from tpuprof.calibration.estimates import Estimate, Sample, reached_share, typical
from tpuprof.calibration.idle import idle_time
from tpuprof.calibration.offload import CONSTANTS as OFFLOAD
from tpuprof.calibration.offload import OffloadSamples, offload_samples
from tpuprof.calibration.result import (
    Calibration,
    Fitted,
    Kept,
    Ledger,
    PathReach,
    RunOrigin,
    fitted_from,
    make_profile,
    unfitted,
)
from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice
from tpuprof.history.facts import content_key
from tpuprof.plan.profiles import CHIP, COLLECTIVE_KINDS, default_of, limits_of
from tpuprof.plan.train_profile import efficiency
from tpuprof.roofline import HardwareOptions, Roofline, roofline
from tpuprof.roofline.hardware import NO_OPTIONS
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, format_si

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_SOURCES = {
    "matmul": "matmuls bound by the matrix unit: padded FLOPs at the peak over measured time less launches",
    "attention": "attention kernels: FLOPs of active blocks with padded heads at the peak over measured time",
    "memory": "loops bound by HBM: bytes at its bandwidth over measured time less launches",
}
_NOT_IN_TRACES = {
    "launch_s": "it is inside every op's time, and only what is left after it is fitted",
    "spread": "one program does not tell how far off another is",
    "per_doubling_of_slices": "it takes runs on several numbers of slices",
    "gather": "how many bytes of a gather are rows in any order is not in the trace",
    "tile_rows": "the rule by which a grouped kernel cuts its tiles is not in the trace",
    "attention": "plans need it for other sequences than this one's",
    "elementwise": "which tensor a loop belongs to is not in the trace",
}
"""Why constants, or all of a table, are never fitted."""
_ROUNDING = 1e-9


@dataclass(slots=True)
class _Drawn:
    """Samples of all runs together."""

    ledger: Ledger = field(default_factory=Ledger)
    chips: dict[str, list[ComputeSamples]] = field(default_factory=dict[str, list[ComputeSamples]])
    moved: list[CommunicationSamples] = field(default_factory=list[CommunicationSamples])
    offloads: list[tuple[str, OffloadSamples]] = field(default_factory=list[tuple[str, OffloadSamples]])
    idle: list[float] = field(default_factory=list[float])
    idle_s: float = 0.0
    idle_reasons: list[str] = field(default_factory=list[str])
    runs: list[RunOrigin] = field(default_factory=list[RunOrigin])
    reasons: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def unknown(self) -> str:
        """Why nothing was drawn from any run; empty if something was."""
        return "" if self.chips else "; ".join(dict.fromkeys(reason.rstrip(".") for reason in self.reasons))


def calibrate(
    traces: Sequence[Trace], name: str = "run", *, options: HardwareOptions = NO_OPTIONS,
    axes: Mapping[str, str] | None = None, now: datetime | None = None,
) -> Calibration:  # fmt: skip
    """What the runs tell of the constants of training plans.

    Constants of a chip are fitted from the runs on that chip, the others from all runs together. A constant that they
    do not tell stays as it is, with a reason.

    Args:
        name: of the profile.
        options: what the user says of the hardware of all runs.
        axes: what axes of the mesh are for, by name (``tpuprof.calibration.axes.ROLES``), where names do not tell.
        now: the date of the profile.

    Raises:
        UsageError: there is no run, or one is given twice, or the options are wrong.
        InputError: a file cannot be read again.
    """
    if not traces:
        raise UsageError("There is no run to calibrate from.", hint="Name one or more.")
    drawn = _Drawn()
    for trace in traces:
        _draw(trace, options, axes or {}, drawn)
    fitted: list[Fitted] = []
    kept: list[Kept] = []
    _fit_chips(drawn, fitted, kept)
    _fit_collectives(drawn, fitted, kept)
    _fit_overlap(drawn, fitted, kept)
    _fit_idle(drawn, fitted, kept)
    _fit_offload(drawn, fitted, kept)
    kept += unfitted(drawn.chips, [*fitted, *kept], _NOT_IN_TRACES, "it is not drawn from traces yet")
    left_out, runs = drawn.ledger.entries(), tuple(drawn.runs)
    profile = make_profile(
        name, (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"fitted by tpuprof {__version__} from {', '.join(run.name for run in runs)}"[:500],
        fitted, runs=runs, kept=kept, left_out=left_out,
    )  # fmt: skip
    return Calibration(
        profile, runs, (), tuple(fitted), tuple(kept), left_out, tuple(dict.fromkeys(drawn.notes)), _paths(drawn)
    )


def _draw(trace: Trace, options: HardwareOptions, axes: Mapping[str, str], drawn: _Drawn) -> None:
    found = roofline(trace, options)
    origin = run_origin(trace, found)
    if any(run.digest == origin.digest for run in drawn.runs):
        raise UsageError("A run is given twice.", where=trace.path, hint="Each run counts once; name it once.")
    drawn.runs.append(origin)
    chip = found.hardware.chip
    drawn.notes += [f"{origin.name}: {entry.message}" for entry in found.quality if entry.severity != "info"]
    if options.peaks or options.from_trace:
        drawn.notes.append(
            f"{origin.name}: shares are of the peaks that were given ({found.hardware.source}), and plans use those of "
            "the chip: give them as --hardware FILE to both"
        )
    if chip is None:
        drawn.reasons.append(found.hardware.reason)
    elif chip.platform != "tpu":
        drawn.reasons.append(f"{origin.name} ran on {chip.name}: training plans are for TPUs")
    else:
        samples = compute_samples(trace, found, efficiency(chip.name).launch_s, drawn.ledger)
        drawn.chips.setdefault(chip.name, []).append(samples)
        moved = communication_samples(trace, found, axes, drawn.ledger)
        drawn.moved.append(moved)
        drawn.offloads.append((chip.name, offload_samples(trace, chip, drawn.ledger)))
        idle = idle_time(trace, moved.waits)
        drawn.idle += idle.seconds
        drawn.idle_s += idle.steps_s if idle.seconds else 0.0
        drawn.idle_reasons += [f"{origin.name}: {idle.reason}"] if idle.reason else []
        if not origin.steps:
            drawn.notes.append(f"{origin.name}: without steps all of the run counts, start and end included")


def run_origin(trace: Trace, found: Roofline) -> RunOrigin:
    """What a profile says of a run that it rests on.

    Raises:
        InputError: a file cannot be read again.
    """
    kinds = sorted({device.kind for device in trace.devices if device.kind})
    versions = trace.metadata.get("versions")
    statistics = trace.step_statistics()
    mean = statistics["mean_ps"]
    where = found.place.where
    begun = trace.origin_ns
    return RunOrigin(
        clean(trace.name)[:200], content_key(trace), found.hardware.chip.name if found.hardware.chip else None,
        clean(", ".join(kinds))[:200] or None, len(trace.devices), int(statistics["count"] or 0),
        None if mean is None else mean / PS_PER_S,
        f"{where.name} ({found.place.source})" if isinstance(where, Slice) else None,
        _version(versions, "jax"), _version(versions, "libtpu"),
        datetime.fromtimestamp(begun / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if 0 < begun < 1 << 62 else None,
    )  # fmt: skip


def _version(versions: Any, name: str) -> str | None:
    found = versions.get(name) if isinstance(versions, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return clean(found)[:80] if isinstance(found, str) else None


def _fit_chips(drawn: _Drawn, fitted: list[Fitted], kept: list[Kept]) -> None:
    if not drawn.chips:
        kept += [Kept(f"chips.*.{key}", None, drawn.unknown()) for key in CHIP]
    for chip, runs in drawn.chips.items():
        by_type: dict[str, list[Sample]] = defaultdict(list)
        for run in runs:
            for dtype, samples in run.matmul.items():
                by_type[dtype] += samples
        most = max(by_type, key=lambda dtype: sum(one.seconds * one.count for one in by_type[dtype]), default="")
        drawn.notes += [
            f"matmuls of {dtype} on {chip} are left out: {most} takes more time" for dtype in by_type if dtype != most
        ]
        named = {
            "matmul": by_type.get(most, []),
            "attention": [sample for run in runs for sample in run.attention],
            "memory": [sample for run in runs for sample in run.memory],
        }
        for key, samples in named.items():
            source = _SOURCES[key] + (f" ({most})" if key == "matmul" else "")
            constant = f"chips.{chip}.{key}"
            _add(constant, reached_share(samples), source, drawn.ledger.why(key) or "no such op ran", fitted, kept)


def _fit_collectives(drawn: _Drawn, fitted: list[Fitted], kept: list[Kept]) -> None:
    for kind in COLLECTIVE_KINDS:
        constant = f"collectives.{kind}"
        samples = [sample for run in drawn.moved for sample in run.kinds.get(kind, ())]
        paths = {path or "axes not named" for run in drawn.moved for found, path in run.paths if found == kind}
        source = f"expected over measured time of synchronous ones along {', '.join(sorted(paths))}"
        reason = drawn.ledger.why(constant) or drawn.unknown() or "none ran"
        _add(constant, reached_share(samples), source, reason, fitted, kept)


def _paths(drawn: _Drawn) -> tuple[PathReach, ...]:
    samples: dict[tuple[str, str | None], list[Sample]] = defaultdict(list)
    for run in drawn.moved:
        for path, found in run.paths.items():
            samples[path] += found
    reached = [(path, reached_share(found)) for path, found in samples.items()]
    rows = [
        PathReach(*path, one.value, one.low, one.high, one.samples, one.executions, one.seconds)
        for path, one in reached if one is not None
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.seconds, row.kind, row.axes or "")))


def _fit_overlap(drawn: _Drawn, fitted: list[Fitted], kept: list[Kept]) -> None:
    names: tuple[Traffic, ...] = ("weights", "activations", "network")
    for name in names:
        steps = [step for run in drawn.moved for step in run.steps.get(name, ()) if step.seconds > 0]
        shares = [min(max(1 - step.exposed / step.seconds, 0.0), 1.0) for step in steps]
        found = typical(shares, sum(step.seconds for step in steps))
        why = drawn.ledger.why("overlap")
        reason = drawn.unknown() or f"no collective is known to carry them{f' ({why})' if why else ''}"
        source = "share of the time of these collectives that does not show, median of the steps; waits left out"
        _add(f"overlap.{name}", found, source, reason, fitted, kept)


def _fit_idle(drawn: _Drawn, fitted: list[Fitted], kept: list[Kept]) -> None:
    reason = "; ".join(dict.fromkeys(drawn.idle_reasons)) or drawn.unknown()
    source = "idle time and waits for other cores per step, median of the steps"
    _add("steps.idle_s", typical(drawn.idle, drawn.idle_s), source, reason, fitted, kept)


def _fit_offload(drawn: _Drawn, fitted: list[Fitted], kept: list[Kept]) -> None:
    bandwidth, hidden = OFFLOAD
    each = [samples for _, samples in drawn.offloads]
    seconds = sum(samples.seconds for samples in each)
    rates = [rate for samples in each for rate in samples.rates]
    reason = drawn.ledger.why(bandwidth) or drawn.unknown() or "nothing was copied from or to the host in its steps"
    why = reason
    if rates:
        chips = ", ".join(sorted({chip for chip, samples in drawn.offloads if samples.rates}))
        moved = f"copies move {format_si(median(rates), 'B/s')} in one direction"
        why = f"{moved}; plans take a bandwidth that was measured on {chips}, or its link is not known"
    shares = typical([share for samples in each for share in samples.shares], seconds)
    source = (
        "bytes of a direction over the time in which its copies were under way and over the link, median of the steps"
    )
    _add(bandwidth, shares, source, why, fitted, kept)
    found = typical([share for samples in each for share in samples.hidden], seconds)
    source = "share of the time of copies from and to the host that was not waited for, median of cores and steps"
    _add(hidden, found, source, drawn.ledger.why(hidden) or reason, fitted, kept)


def _add(
    constant: str, found: Estimate | None, source: str, reason: str, fitted: list[Fitted], kept: list[Kept]
) -> None:
    if found is None:
        kept.append(Kept(constant, default_of(constant), reason))
        return
    limits = limits_of(constant)
    value = limits.high if limits.high < found.value < limits.high * (1 + _ROUNDING) else found.value
    if not limits.allow(value):
        said = f"{found.value:.3g} was fitted, which cannot be: it must be {limits.text()}"
        kept.append(Kept(constant, default_of(constant), said))
    else:
        fitted.append(fitted_from(constant, found, source, value))
