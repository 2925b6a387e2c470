"""Which hardware a run is set against: the chip that the trace names, unless the user says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.errors import UsageError
from tpuprof.hardware import Chip, Figure, Peaks, chip, find_chip, parse_peaks, unknown_device
from tpuprof.hardware.chip import Platform
from tpuprof.quality import Quality
from tpuprof.tables.rows import Device
from tpuprof.text import clean

_MOST = 1e20
TOLERANCE = 0.02
"""Peaks that differ by more are reported (metrics, "FLOPs, bytes and rooflines")."""

_FROM_TRACE = "stated in the trace"
_HINT = "Name the chip with --chip, or give its peaks with --peak (see `tpuprof hardware`)."
_CPU = "The run is on CPUs, for which no peaks are known. Give them with --peak."


@dataclass(frozen=True, slots=True)
class HardwareOptions:
    """What a user says of the hardware; all of it optional.

    Args:
        chip: the chip, instead of the one that the trace names.
        edition: whose constants, see ``tpuprof.hardware.EDITIONS``.
        files: TOML files with figures of the user's own.
        peaks: single figures of one runtime device, such as ``bf16=197T`` or ``hbm=819GB/s``.
        from_trace: take the peaks that the trace states instead of those of the table.
        topology: the slice, such as ``v6e:2x4``; null for the usual one of that many chips.
    """

    chip: str | None = None
    edition: str | None = None
    files: tuple[Path, ...] = ()
    peaks: tuple[str, ...] = ()
    from_trace: bool = False
    topology: str | None = None


NO_OPTIONS = HardwareOptions()


@dataclass(frozen=True, slots=True)
class RunHardware:
    """The chip that a run is set against, or why there is none.

    Args:
        chip: with the peaks to use; null if not known.
        source: where the peaks come from, as a few words.
        reason: why there is no chip, as a sentence; empty if there is one.
        stated: peaks of one runtime device as the trace states them: ``bf16`` (FLOP/s) and ``hbm`` (B/s).
        quality: what was noticed.
    """

    chip: Chip | None
    source: str = ""
    reason: str = ""
    stated: Mapping[str, float] = field(default_factory=dict[str, float])
    quality: tuple[Quality, ...] = ()

    @property
    def hbm_capacity(self) -> Figure | None:
        """Main memory of one runtime device: what the runtime leaves to programs, where that is known, else all."""
        return None if self.chip is None else self.chip.device_hbm_usable_bytes or self.chip.device_hbm_bytes


def run_hardware(devices: Sequence[Device], options: HardwareOptions = NO_OPTIONS) -> RunHardware:
    """The hardware of a run.

    Args:
        devices: its cores.
        options: what the user says.

    Raises:
        UsageError: the options name no chip, or a figure is wrong.
        InputError: a file of the user cannot be read.
    """
    stated = _stated(devices)
    kinds = sorted({device.kind for device in devices if device.kind})
    table, source, reason = _table_chip(devices, kinds, options)
    quality = _disagreements(table, stated)
    name = kinds[0] if kinds else "unknown"
    platform = _platform(devices)
    if options.from_trace:
        if not stated:
            raise UsageError("The trace states no peaks.", hint="Give them with --peak, or name the --chip.")
        table = _stated_peaks(stated).over(table, name=name, platform=platform)
        source, reason = _FROM_TRACE, ""
    if options.peaks:
        table = parse_peaks(options.peaks).over(table, name=name, platform=platform)
        source, reason = (f"{source}, --peak" if source else "--peak"), ""
    return RunHardware(table, source, reason, stated, quality)


def _table_chip(
    devices: Sequence[Device], kinds: Sequence[str], options: HardwareOptions
) -> tuple[Chip | None, str, str]:
    """(chip of the table, where it comes from, why there is none)."""
    if options.chip is not None:
        found = chip(options.chip, edition=options.edition, files=options.files)
        return found, f"{found.name}, {found.edition} (--chip)", ""
    find_chip(None, edition=options.edition, files=options.files)  # a wrong file is told for any device
    if not devices:
        return None, "", "No device op was recorded."
    platforms = {device.platform for device in devices}
    if platforms == {"cpu"}:
        return None, "", _CPU
    if not kinds:
        return None, "", unknown_device(None)
    if len(kinds) > 1:
        return None, "", f"The devices are of several kinds: {', '.join(map(clean, kinds))}. {_HINT}"
    known = find_chip(kinds[0], edition=options.edition, files=options.files)
    if known is None:
        return None, "", unknown_device(clean(kinds[0]))
    return known, f"{known.name}, {known.edition}", ""


def _platform(devices: Sequence[Device]) -> Platform:
    for platform in ("gpu", "cpu"):
        if devices and devices[0].platform == platform:
            return platform
    return "tpu"


def _stated(devices: Sequence[Device]) -> dict[str, float]:
    """Peaks of one device in the trace, where all devices agree."""
    found: dict[str, float] = {}
    for name, reader in (("bf16", _tpu_flops), ("hbm", _hbm)):
        values = {reader(device.stats) for device in devices}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            found[name] = value
    return found


def _tpu_flops(stats: Mapping[str, Any]) -> float | None:
    return _number(stats.get("peak_teraflops_per_second"), 1e12)


def _hbm(stats: Mapping[str, Any]) -> float | None:
    value = _number(stats.get("peak_hbm_bw_gigabytes_per_second"), 1e9)
    return _number(stats.get("memory_bandwidth"), 1.0) if value is None else value


def _number(value: object, scale: float) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value * scale if 0 < value * scale < _MOST else None


def _stated_peaks(stated: Mapping[str, float]) -> Peaks:
    keys = {"bf16": ("peak.bf16", "FLOP/s"), "hbm": ("hbm_bandwidth", "B/s")}
    return Peaks({keys[name][0]: Figure(value, keys[name][1], _FROM_TRACE) for name, value in stated.items()})


def _disagreements(table: Chip | None, stated: Mapping[str, float]) -> tuple[Quality, ...]:
    """Peaks of the trace that are not those of the table."""
    if table is None:
        return ()
    published = {"bf16": table.device_peak("bf16"), "hbm": table.device_hbm_bandwidth}
    apart: dict[str, dict[str, float]] = {}
    for name, value in stated.items():
        figure = published[name]
        if figure is not None and abs(value / figure.value - 1) > TOLERANCE:
            apart[name] = {"trace": value, "table": figure.value}
    if not apart:
        return ()
    texts = {"bf16": ("TFLOP/s", 1e12), "hbm": ("GB/s", 1e9)}
    said = "; ".join(
        f"{name} {pair['trace'] / texts[name][1]:.4g} {texts[name][0]} in the trace, "
        f"{pair['table'] / texts[name][1]:.4g} published"
        for name, pair in apart.items()
    )
    message = (
        f"The trace states other peaks of {table.name} than its published ones: {said}. Figures here use the "
        "published ones; --peaks-from-trace takes the others."
    )
    return (Quality("peaks_disagree", "info", message, len(apart), apart),)
