"""Table ``collectives``: every collective of every core, whatever form the trace shows it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.tables import schemas
from tpuprof.tables.build import Built
from tpuprof.tables.collective_facts import CollectiveFacts
from tpuprof.tables.columns import by_info, cat, categorical, devices, masked
from tpuprof.tables.occurrences import facts_of
from tpuprof.tables.rows import NO_TIME
from tpuprof.tables.sweep import overlap, union
from tpuprof.tables.waits import REASONS
from tpuprof.tables.windows import FORMS

_MOST = int(np.iinfo(np.int64).max)


def collectives_frame(built: Built) -> pd.DataFrame:
    """Table ``collectives``: one row per occurrence of a collective on a core."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("info", "form", "start", "window", "hidden", "step", "no_step")
    }
    for core in built.cores:
        w = core.windows
        mask = w.is_collective
        spans = w.spans(mask)
        at = np.searchsorted(core.steps.start, spans.start, side="right") - 1
        inside = np.zeros(len(at), np.bool_)
        if len(core.steps):
            inside = (at >= 0) & (spans.start < core.steps.end[np.maximum(at, 0)])
        columns["info"].append(w.info[mask])
        columns["form"].append(w.form[mask])
        columns["start"].append(spans.start)
        columns["window"].append(spans.end - spans.start)
        columns["hidden"].append(overlap(spans, union(core.partition.compute)))
        columns["step"].append(core.steps.number[np.maximum(at, 0)] if len(core.steps) else np.zeros(len(at), np.int64))
        columns["no_step"].append(~inside)
    info = cat(columns["info"])
    form, window, hidden = cat(columns["form"]), cat(columns["window"]), cat(columns["hidden"])
    half = (form == FORMS.index("start_only")) | (form == FORMS.index("done_only"))
    infos = built.infos
    facts = facts_of(info, infos)
    participants = _of_facts(info, facts, lambda f: f.participants)
    volume, shard = _of_facts(info, facts, lambda f: f.bytes), _of_facts(info, facts, lambda f: f.shard_bytes)
    wait, transfer = (cat([getattr(core.waits, name) for core in built.cores]) for name in ("wait", "transfer"))
    reason = cat([core.waits.reason for core in built.cores], np.int8)
    bound = cat([core.waits.lower_bound for core in built.cores], np.bool_)
    kinds = {row: fact.kind or infos[row].cls.collective or "unknown" for row, fact in facts.items()}
    frame = pd.DataFrame(
        {
            "device": devices(built, [len(x) for x in columns["info"]]),
            "op": by_info(info, infos, lambda i: i.name),
            "kind": _texts(info, kinds),
            "form": categorical(form.astype(np.int8), list(FORMS)),
            "module": by_info(info, infos, lambda i: i.module),
            "scope": by_info(info, infos, lambda i: i.scope),
            "source": by_info(info, infos, lambda i: i.source),
            "step": masked(cat(columns["step"]), cat(columns["no_step"], np.bool_)),
            "start_ps": cat(columns["start"]),
            "window_ps": masked(window, half),
            "exposed_ps": masked(window - hidden, half),
            "hidden_ps": masked(hidden, half),
            "wait_ps": masked(wait, wait == NO_TIME),
            "transfer_ps": masked(transfer, transfer == NO_TIME),
            "wait_is_lower_bound": pd.arrays.BooleanArray(bound, wait == NO_TIME),
            "wait_reason": categorical(reason, list(REASONS)),
            "participants": masked(participants.astype(np.int32), participants < 0),
            "bytes": masked(volume, volume < 0),
            "shard_bytes": masked(shard, shard < 0),
            "mesh_axes": _texts(info, {row: ",".join(f.mesh_axes) for row, f in facts.items() if f.mesh_axes}),
        }
    )
    return schemas.COLLECTIVES.check(frame)


def _of_facts(
    info: npt.NDArray[Any], facts: dict[int, CollectiveFacts], of: Callable[[CollectiveFacts], int | None]
) -> npt.NDArray[np.int64]:
    """A figure of each row's op, -1 where unknown or beyond what a column holds (shapes can say anything)."""
    if not len(info):
        return np.zeros(0, np.int64)
    table = np.full(int(info.max()) + 1, -1, np.int64)
    for row, fact in facts.items():
        value = of(fact)
        table[row] = -1 if value is None or value > _MOST else value
    return table[info]


def _texts(info: npt.NDArray[Any], texts: dict[int, str]) -> Any:
    """A text of each row's op, null where there is none."""
    names: Sequence[str] = sorted(set(texts.values()))
    table = np.full(int(info.max()) + 1 if len(info) else 1, -1, np.int32)
    for row, text in texts.items():
        table[row] = names.index(text)
    return categorical(table[info], names)
