"""Windows of asynchronous work: from the begin of the start half to the end of the done half.

Halves are joined through the operands of the HLO (the numbers in their names need not agree). The line that shows
asynchronous work serves only where the halves are not both there: it may be empty although copies ran, and its rows
are on the host's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I32, I64
from tpuprof.tables.arrays import ints
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.sweep import BOOL, Spans

FORMS = ("sync", "async", "async_line", "start_only", "done_only")
MAX_CHAIN = 16  # start, updates, done: longer chains do not occur


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Transfers of one core, one row each, in order of start.

    ``info`` is the registry row of the start half (of the op itself for synchronous collectives); ``done_info`` that
    of the done half or -1; ``form`` a row of ``FORMS``.
    """

    info: I32
    done_info: I32
    form: npt.NDArray[np.uint8]
    start: I64
    end: I64
    is_collective: BOOL

    def __len__(self) -> int:
        return len(self.info)

    def spans(self, mask: BOOL) -> Spans:
        """The windows under a mask."""
        return Spans(self.start[mask], self.end[mask])

    @property
    def asynchronous(self) -> BOOL:
        """Windows that are more than the time of one op on the op line."""
        return (self.form == FORMS.index("async")) | (self.form == FORMS.index("async_line"))


def find_windows(core: CoreRecord, duration: I64, infos: Sequence[OpInfo]) -> Windows:
    """All transfers of a core: collectives of every form, and asynchronous copies.

    Args:
        core: the core.
        duration: durations of its op rows, overruns cut.
        infos: the registry.
    """
    ops = core.ops
    end = ops.start + duration
    used_rows = ints(np.unique(ops.info))
    by_name = {(infos[r].module, infos[r].name): r for r in used_rows}
    parts: list[tuple[npt.NDArray[np.int64], ...]] = []
    paired: set[tuple[str | None, str]] = set()
    leftover: dict[int, list[int]] = {}
    taken = np.zeros(len(ops), np.bool_)
    rows_of: dict[int, npt.NDArray[np.intp]] = _rows_by_info(ops.info, ops.valid)
    for done in used_rows:
        if infos[done].cls.phase != "done":
            continue
        start_row = _start_of(infos[done], by_name, infos)
        if start_row is None or start_row not in rows_of or done not in rows_of:
            continue
        starts, dones = rows_of[start_row], rows_of[done]
        a, b = _pair(ops.start, starts, dones)
        taken[a] = taken[b] = True
        collective = infos[start_row].cls.async_class == "collective" or infos[done].cls.async_class == "collective"
        parts.append(_part(start_row, done, "async", ops.start[a], end[b], collective and not _host(infos[done])))
        paired.add((infos[done].module, infos[done].name))
        paired.add((infos[start_row].module, infos[start_row].name))
    for row in used_rows:
        cls = infos[row].cls
        rows = rows_of.get(row)
        if rows is None or cls.kind == "container":
            continue
        rows = rows[~taken[rows]]
        if cls.kind == "collective" and cls.phase == "sync":
            parts.append(_part(row, -1, "sync", ops.start[rows], end[rows], True))
        elif cls.async_class is not None and cls.phase in ("start", "done") and len(rows):
            leftover[row] = ints(rows)
    from_line = _from_async_line(core, infos, paired)
    parts.extend(from_line)
    shown = {int(part[0][0]) for part in from_line if len(part[0])}
    shown_done = {name for name in core.async_done if name}
    for row, rows in leftover.items():
        cls = infos[row].cls
        if row in shown or infos[row].name in shown_done or cls.async_class != "collective":
            continue
        form = "start_only" if cls.phase == "start" else "done_only"
        index = np.array(rows, np.intp)
        parts.append(_part(row if cls.phase == "start" else -1, row, form, ops.start[index], end[index], True))
    return _collect(parts)


def _pair(
    start: I64, starts: npt.NDArray[np.intp], dones: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows of start halves and of their done halves, both given in order of time.

    Transfers of one instruction end in the order of their issue, also where the next one is issued before the last
    one has ended. Only if rows are missing inside the capture (a done before its start in that order) does each done
    take the last start before it.
    """
    if not len(starts) or not len(dones):
        return starts[:0], dones[:0]
    dones = dones[np.searchsorted(start[dones], start[starts[0]], side="left") :]
    count = min(len(starts), len(dones))
    if bool((start[starts[:count]] <= start[dones[:count]]).all()) and len(dones) <= len(starts):
        return starts[:count], dones[:count]
    at = np.searchsorted(start[starts], start[dones], side="right") - 1
    last_use = np.concatenate([at[1:] != at[:-1], [True]]) if len(at) else np.zeros(0, np.bool_)
    return starts[at[last_use]], dones[last_use]


def _rows_by_info(info: I32, valid: BOOL) -> dict[int, npt.NDArray[np.intp]]:
    """Op rows of each info, in order of start."""
    rows = np.flatnonzero(valid)
    order = rows[np.argsort(info[rows], kind="stable")]
    values, first = np.unique(info[order], return_index=True)
    return {int(v): part for v, part in zip(values, np.split(order, first[1:]), strict=True)} if len(order) else {}


def _start_of(done: OpInfo, by_name: dict[tuple[str | None, str], int], infos: Sequence[OpInfo]) -> int | None:
    """The registry row of a done half's start half, through its operands (and those of updates in between)."""
    instruction = done.instruction
    for _ in range(MAX_CHAIN):
        if instruction is None or not instruction.operands:
            return None
        name = instruction.operands[0]
        row = by_name.get((done.module, name))
        if row is not None:
            if infos[row].cls.phase == "start":
                return row
            instruction = infos[row].instruction
        elif done.program is not None:
            instruction = done.program.find(name)
        else:
            return None
    return None


def _host(info: OpInfo) -> bool:
    return info.cls.kind == "host_transfer"


def _from_async_line(
    core: CoreRecord, infos: Sequence[OpInfo], paired: set[tuple[str | None, str]]
) -> list[tuple[npt.NDArray[np.int64], ...]]:
    """Rows of the asynchronous line whose halves are not both on the op line."""
    parts: list[tuple[npt.NDArray[np.int64], ...]] = []
    rows = core.asyncs
    keep: dict[int, list[int]] = {}
    for at in range(len(rows)):
        info = infos[int(rows.info[at])]
        instruction = info.instruction.name if info.instruction is not None else info.name
        done = core.async_done[at]
        known = (info.module, instruction) in paired or (done is not None and (info.module, done) in paired)
        if not known and rows.valid[at]:
            keep.setdefault(int(rows.info[at]), []).append(at)
    for row, index in keep.items():
        cls = infos[row].cls
        collective = cls.kind == "collective" or cls.async_class == "collective"
        parts.append(_part(row, -1, "async_line", rows.start[index], rows.end[index], collective))
    return parts


def _part(info: int, done: int, form: str, start: I64, end: I64, collective: bool) -> tuple[npt.NDArray[np.int64], ...]:
    n = len(start)
    return (
        np.full(n, info if info >= 0 else done, np.int64),
        np.full(n, done, np.int64),
        np.full(n, FORMS.index(form), np.int64),
        start,
        end,
        np.full(n, collective, np.int64),
    )


def _collect(parts: Sequence[tuple[npt.NDArray[np.int64], ...]]) -> Windows:
    columns = [np.concatenate([p[c] for p in parts]) if parts else np.zeros(0, np.int64) for c in range(6)]
    order = np.lexsort((columns[4], columns[3]))
    info, done, form, start, end, collective = (column[order] for column in columns)
    return Windows(
        info.astype(np.int32),
        done.astype(np.int32),
        form.astype(np.uint8),
        start,
        end,
        collective.astype(np.bool_),
    )
