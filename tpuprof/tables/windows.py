"""Windows of asynchronous work: from the begin of the start half (or of its update) to the end of the done half.

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
from tpuprof.tables.pairing import pair_groups
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.sweep import BOOL, Spans

FORMS = ("sync", "async", "async_line", "start_only", "done_only")
_Part = tuple[npt.NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Transfers of one core, one row each, in order of start.

    ``info`` is the registry row of the start half (of the op itself for synchronous collectives); ``done_info`` that
    of the done half or -1; ``form`` a row of ``FORMS``. ``row`` is the op row of the start half, of the synchronous op,
    or of a half that stands alone; ``done_row`` that of the done half; -1 where there is none.
    """

    info: I32
    done_info: I32
    row: I64
    done_row: I64
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


def find_windows(core: CoreRecord, duration: I64, infos: Sequence[OpInfo], run: I32 | None = None) -> Windows:
    """All transfers of a core: collectives of every form, and asynchronous copies.

    Args:
        core: the core.
        duration: durations of its op rows, overruns cut.
        infos: the registry.
        run: the execution of a program that each op row belongs to.
    """
    ops = core.ops
    end = ops.start + duration
    runs = np.zeros(len(ops), np.int32) if run is None else run
    used_rows = ints(np.unique(ops.info))
    parts: list[_Part] = []
    paired: set[tuple[str | None, str]] = set()
    taken = np.zeros(len(ops), np.bool_)
    rows_of: dict[int, npt.NDArray[np.intp]] = _rows_by_info(ops.info, ops.valid)
    for group in pair_groups(used_rows, infos):
        a, b = _pair(ops.start, runs, _in_order(rows_of, group.starts), _in_order(rows_of, group.dones))
        if not len(a):
            continue
        taken[a] = taken[b] = True
        halves = [infos[each] for each in (*group.starts, *group.dones)]
        collective = any(each.cls.async_class == "collective" for each in halves)
        collective = collective and not any(_host(infos[each]) for each in group.dones)
        begun = _begun(ops.start, runs, a, b, _in_order(rows_of, group.updates))
        parts.append(_part(ops.info[a], ops.info[b], "async", begun, end[b], collective, a, b))
        paired.update((each.module, each.name) for each in halves)
    leftover: dict[int, npt.NDArray[np.intp]] = {}
    for row in used_rows:
        cls = infos[row].cls
        rows = rows_of.get(row)
        if rows is None or cls.kind == "container":
            continue
        rows = rows[~taken[rows]]
        if cls.kind == "collective" and cls.phase == "sync":
            parts.append(_part(row, -1, "sync", ops.start[rows], end[rows], True, rows))
        elif cls.async_class == "collective" and cls.phase in ("start", "done") and len(rows):
            leftover[row] = rows
    from_line = _from_async_line(core, infos, paired)
    parts.extend(from_line)
    shown = {int(part[0][0]) for part in from_line if len(part[0])}
    shown_done = {name for name in core.async_done if name}
    for row, rows in leftover.items():
        if row in shown or infos[row].name in shown_done:
            continue
        start_half = infos[row].cls.phase == "start"
        form, done = ("start_only", -1) if start_half else ("done_only", row)
        parts.append(_part(row, done, form, ops.start[rows], end[rows], True, rows))
    return _collect(parts)


def _in_order(rows_of: dict[int, npt.NDArray[np.intp]], infos: Sequence[int]) -> npt.NDArray[np.intp]:
    """The op rows of some infos in order of time."""
    found = [rows_of[info] for info in infos if info in rows_of]
    # Rows of a core are sorted by start, so that their numbers are in order of time.
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.intp)


def _begun(
    start: I64, run: I32, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp], updates: npt.NDArray[np.intp]
) -> I64:
    """When the transfer of each pair begins: with its update, where there is one, else with its start half."""
    begun = start[a]
    if len(updates):
        first, then = _pair(start, run, np.sort(a), updates)
        of_start = dict(zip(ints(first), ints(start[then]), strict=True))
        times = [of_start.get(row, int(start[row])) for row in ints(a)]
        begun = np.minimum(np.array(times, np.int64), start[b])
    return begun


def _pair(
    start: I64, run: I32, starts: npt.NDArray[np.intp], dones: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows of start halves and of their done halves, both given in order of time."""
    if len(starts) == len(dones) and bool((start[starts] <= start[dones]).all()):
        return starts, dones
    # Something is missing: what is amiss in one execution must not move the pairs of the others. Executions that were
    # rebuilt from ops can themselves be wrong where the capture began inside one, and then tear pairs apart.
    whole = _pair_in_run(start, starts, dones)
    numbers = ints(np.unique(np.concatenate([run[starts], run[dones]])))
    pairs = [_pair_in_run(start, starts[run[starts] == number], dones[run[dones] == number]) for number in numbers]
    if sum(len(a) for a, _ in pairs) < len(whole[0]):
        return whole
    return (np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])) if pairs else whole


def _pair_in_run(
    start: I64, starts: npt.NDArray[np.intp], dones: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Halves of one run, both in order of time.

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


def _host(info: OpInfo) -> bool:
    return info.cls.kind == "host_transfer"


def _from_async_line(core: CoreRecord, infos: Sequence[OpInfo], paired: set[tuple[str | None, str]]) -> list[_Part]:
    """Rows of the asynchronous line whose halves are not both on the op line."""
    parts: list[_Part] = []
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


def _part(
    info: int | I32,
    done: int | I32,
    form: str,
    start: I64,
    end: I64,
    collective: bool,
    row: npt.NDArray[np.intp] | None = None,
    done_row: npt.NDArray[np.intp] | None = None,
) -> _Part:
    n = len(start)
    absent = np.full(n, -1, np.int64)
    return (
        np.full(n, info, np.int64),
        np.full(n, done, np.int64),
        np.full(n, FORMS.index(form), np.int64),
        start,
        end,
        np.full(n, collective, np.int64),
        absent if row is None else row.astype(np.int64),
        absent if done_row is None else done_row.astype(np.int64),
    )


def _collect(parts: Sequence[_Part]) -> Windows:
    columns = [np.concatenate([p[c] for p in parts]) if parts else np.zeros(0, np.int64) for c in range(8)]
    order = np.lexsort((columns[4], columns[3]))
    info, done, form, start, end, collective, row, done_row = (column[order] for column in columns)
    return Windows(
        info.astype(np.int32),
        done.astype(np.int32),
        row,
        done_row,
        form.astype(np.uint8),
        start,
        end,
        collective.astype(np.bool_),
    )
