"""Copies between the memories of device and host: how fast they are, and how much of them is waited for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tpuprof.calibration.idle import spent
from tpuprof.calibration.result import Ledger
from tpuprof.formats.xspace import I64
from tpuprof.hardware import Chip
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.sweep import Spans
from tpuprof.tables.sweep import length as length_of
from tpuprof.tables.windows import FORMS
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_HOST = 5  # the memory space of the host, as in `tpuprof.hlo.shapes`
_ROUNDING = 0.02
_TOO_FAST = "copies faster than the link between chip and host: chip or times are wrong"
_CROWDED = "they take longer than computation, behind which they could hide"
_Unused: TypeAlias = "tuple[str, str, str]"
CONSTANTS = ("offload.bandwidth_share", "offload.hidden")


@dataclass(slots=True)
class OffloadSamples:
    """What steps of cores show of their copies from and to the host.

    Args:
        rates: B/s of a chip in one direction, while copies of that direction were under way.
        shares: the same over the bandwidth of the link; empty where plans take a measured bandwidth of the chip.
        hidden: share of the time of the busier direction that was not waited for.
        seconds: of copies, over all cores.
    """

    rates: list[float] = field(default_factory=list[float])
    shares: list[float] = field(default_factory=list[float])
    hidden: list[float] = field(default_factory=list[float])
    seconds: float = 0.0


def offload_samples(trace: Trace, chip: Chip, ledger: Ledger) -> OffloadSamples:
    """The samples of one run; what is not used goes to the ledger.

    Copies of one direction queue, so that their windows overlap: the bytes of a step go over the time in which any of
    them was under way.
    """
    drawn = OffloadSamples()
    infos = trace.built.infos
    copies = {row: found for row, info in enumerate(infos) if (found := _copy(info)) is not None}
    if not copies or trace.step_source == "none":
        return drawn
    unused: defaultdict[_Unused, float] = defaultdict(float)
    waits, work = _waits(trace), spent(trace)
    counted: Any = trace.steps[trace.steps["counted"].to_numpy()]  # pyright: ignore[reportUnknownVariableType]
    for core in trace.built.cores:
        device, windows = core.record.device.id, core.windows
        mine = (windows.form == FORMS.index("async")) & np.isin(windows.info, np.array(list(copies), np.int64))
        begun, ends, which = windows.start[mine], windows.end[mine], windows.info[mine]
        steps: Any = counted[counted["device"] == device]  # pyright: ignore[reportUnknownVariableType]
        numbers, first, length = (np.asarray(steps[name], np.int64) for name in ("step", "start_ps", "duration_ps"))
        # Windows are in order of start, so that those of a step stand together.
        low, high = np.searchsorted(begun, first), np.searchsorted(begun, first + length)
        for number, a, b in zip(numbers.tolist(), low.tolist(), high.tolist(), strict=True):
            found = _Direction.each(begun[a:b], ends[a:b], [copies[row] for row in which[a:b].tolist()])
            busy = [one.seconds for one in found if _add(drawn, one, chip, unused)]
            if busy and work.get((device, number), 0.0) < max(busy):
                unused[CONSTANTS[1], _CROWDED, found[0].name] += max(busy)
            elif busy:
                drawn.hidden.append(min(max(1 - waits.get((device, number), 0.0) / max(busy), 0.0), 1.0))
    for (constant, why, name), seconds in unused.items():
        ledger.add(constant, why, name, seconds)
    return drawn


@dataclass(frozen=True, slots=True)
class _Direction:
    """Copies of one core, step and direction: their bytes, and the time in which any of them was under way."""

    size: int
    seconds: float
    name: str

    @staticmethod
    def each(begun: I64, ends: I64, copies: list[_Copy]) -> list[_Direction]:
        found: list[_Direction] = []
        for outward in (True, False):
            which = np.array([copy.outward == outward for copy in copies], np.bool_)
            own = [copy for copy in copies if copy.outward == outward]
            seconds = length_of(Spans(begun[which], ends[which])) / PS_PER_S if own else 0.0
            if seconds:
                found.append(_Direction(sum(copy.size for copy in own), seconds, own[0].name))
        return found


@dataclass(frozen=True, slots=True)
class _Copy:
    outward: bool
    size: int
    name: str


def _add(drawn: OffloadSamples, found: _Direction, chip: Chip, unused: defaultdict[_Unused, float]) -> bool:
    """Adds a direction of a step; not if it is impossible."""
    link = chip.pcie_bandwidth
    rate = found.size / found.seconds * chip.devices_per_chip
    if link is not None and rate > link.value * (1 + _ROUNDING):
        unused[CONSTANTS[0], _TOO_FAST, found.name] += found.seconds
        return False
    drawn.rates.append(rate)
    if link is not None and chip.host_dma_bandwidth is None:
        drawn.shares.append(min(rate / link.value, 1.0))
    drawn.seconds += found.seconds
    return True


def _copy(info: OpInfo) -> _Copy | None:
    """The start of a copy from or to the host; null for everything else."""
    if info.cls.detail != "host_memory" or info.cls.phase != "start" or info.instruction is None:
        return None
    arrays = [shape for shape in info.instruction.shape.leaves() if shape.is_array and shape.dims]
    spaces = {shape.memory_space for shape in arrays[:2]}
    if len(arrays) < 2 or _HOST not in spaces or len(spaces) != 2 or not arrays[0].byte_size:
        return None
    return _Copy(arrays[0].memory_space == _HOST, arrays[0].byte_size, info.name)


def _waits(trace: Trace) -> dict[tuple[str, int], float]:
    """Seconds per core and step in which a core waited for copies from or to its host."""
    ops = trace.ops
    mask = ((ops["kind"] == "dma_wait") & (ops["detail"] == "host_memory") & ops["step"].notna()).to_numpy(np.bool_)
    rows = ops[mask]
    own_ps = rows["self_ps"].to_numpy(np.float64, na_value=0.0)
    found: dict[tuple[str, int], float] = {}
    for device, step, own in zip(rows["device"].tolist(), rows["step"].tolist(), own_ps.tolist(), strict=True):
        key = (str(device), int(step))
        found[key] = found.get(key, 0.0) + float(own) / PS_PER_S
    return found
