"""The largest causes of a difference: where it is, what happened there, what goes with it, and what to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tpuprof.compare.advice import advice
from tpuprof.compare.circumstances import Difference
from tpuprof.compare.explanation import Explanation
from tpuprof.compare.origins import ERRORS, Origin
from tpuprof.compare.rows import Row
from tpuprof.compare.scopes import Delta, by_scope
from tpuprof.tables.scopes import NO_SCOPE
from tpuprof.units import format_ps

MOST = 3
SPECIFIC = 0.5
"""A scope of which one part makes up this share of the changes is told as its parts."""
JOINED = ("repeats", "recomputation", "types", "collective")
"""Reasons whose rows are told as one part wherever they stand."""
_ROWS = 5
_RELATED = 5
_WORTH = 0.01
# What differs wherever something else does; worth reading, and no reason by itself.
_EFFECTS = ("cores", "steps", "host", "machine", "option", "command")


@dataclass(frozen=True, slots=True, eq=False)
class Cause:
    """One part of the difference.

    Args:
        title: what it is, in a few words.
        kind: the kind of most of it.
        change: what happened to most of it (see ``Row.change``).
        scope: its scope path; null if unknown.
        source: its source line; null if unknown.
        base_ps: its mean time per step in the base.
        new_ps: in the new run.
        delta_ps: the difference.
        share: of the whole difference; null where that is zero or goes the other way.
        happened: what became of it, in words; may be empty.
        message: one sentence with the numbers.
        rows: what it consists of, the largest first.
        related: what else differs there.
        suggestion: what to try.
    """

    title: str
    kind: str
    change: str
    scope: str | None
    source: str | None
    base_ps: float
    new_ps: float
    delta_ps: float
    share: float | None
    happened: str
    message: str
    rows: tuple[Row, ...]
    related: tuple[Difference, ...]
    suggestion: str

    def to_json(self) -> dict[str, Any]:
        """The cause as JSON data."""
        return {
            "title": self.title,
            "kind": self.kind,
            "change": self.change,
            "scope": self.scope,
            "source": self.source,
            "base_ps": self.base_ps,
            "new_ps": self.new_ps,
            "delta_ps": self.delta_ps,
            "share": self.share,
            "happened": self.happened or None,
            "message": self.message,
            "evidence": [row.to_json() for row in self.rows],
            "related": [difference.to_json() for difference in self.related],
            "suggestion": self.suggestion,
        }


def leading_causes(
    explanation: Explanation, differences: Sequence[Difference] = (), most: int = MOST
) -> tuple[Cause, ...]:
    """The largest parts of the difference that go in its direction; of a difference of 0 the largest either way.

    Rows that changed for one reason that the programs show (see ``origins``) are one part; others are told by their
    scope. What counts is how much of a part is no chance (see ``Origin.sure_ps``). Parts that may be all chance, or are
    below a hundredth of the difference (or of all changes, where they cancel), are left out.
    """
    total = explanation.step_delta_ps
    if total is None:
        return ()
    joined = {_part_of(origin): origin for origin in explanation.causes if origin.what in JOINED}
    inside = {id(row) for origin in joined.values() for row in origin.rows}
    rest = [row for row in explanation.rows if id(row) not in inside]
    parts = [*joined, *(part for region in by_scope(rest) for part in _specific(region))]
    floor = _WORTH * max(abs(total), sum(abs(part.delta_ps) for part in parts) * _WORTH)
    wanted = [part for part in parts if abs(part.delta_ps) > floor and (not total or part.delta_ps * total > 0)]
    sure = {id(part): joined[part].sure_ps if part in joined else _sure_ps(part) for part in wanted}
    wanted = [part for part in wanted if sure[id(part)] > 0]
    wanted.sort(key=lambda part: (-sure[id(part)], -abs(part.delta_ps), part.name))
    return tuple(_cause(part, total, differences, joined.get(part)) for part in wanted[:most])


def _part_of(origin: Origin) -> Delta:
    """What is told of rows that changed for one reason."""
    times = [math.fsum(getattr(row, name) for row in origin.rows) for name in ("base_ps", "new_ps")]
    gross = math.fsum(abs(row.delta_ps) for row in origin.rows)
    main = origin.rows[0]
    name = (main.scope if len(origin.rows) == 1 else origin.where) or main.group
    return Delta(name, times[0], times[1], origin.delta_ps, gross, origin.rows)


def _sure_ps(part: Delta) -> float:
    """How much of a part is no chance, without its sign; errors of its rows add up as if they were independent."""
    error = math.sqrt(math.fsum((row.capture_error_ps or 0.0) ** 2 for row in part.rows))
    by_count = abs(math.fsum(row.count_effect_ps for row in part.rows if row.recounted))
    return max(abs(part.delta_ps) - ERRORS * error, min(by_count, abs(part.delta_ps)), 0.0)


def _specific(region: Delta) -> Iterable[Delta]:
    """A region, or its parts where one of them stands out or where all they share is having no scope."""
    if region.name == NO_SCOPE:
        for row in region.rows:
            yield Delta(row.group, row.base_ps, row.new_ps, row.delta_ps, abs(row.delta_ps), (row,))
        return
    if region.children and max(child.gross_ps for child in region.children) >= SPECIFIC * region.gross_ps:
        for child in region.children:
            yield from _specific(child)
        return
    yield region


def _cause(part: Delta, total: float, differences: Sequence[Difference], origin: Origin | None) -> Cause:
    forward = [row for row in part.rows if row.delta_ps * part.delta_ps > 0] or list(part.rows)
    main = forward[0]
    waiting = main.count_base is None
    scope = None if waiting or part.name in (NO_SCOPE, main.group) else part.name
    several = len(forward) > 1 and abs(main.delta_ps) < SPECIFIC * part.gross_ps
    name = main.group.replace("_", " ") if waiting else main.group
    title = f"{scope or name}: {len(forward)} ops" if several else f"{name} in {scope}" if scope else name
    if origin is not None and len(part.rows) > 1:
        # More of a layer is told as that, not as the largest of its ops.
        title, several = _title(origin), True
        scope = origin.where if origin.what in ("repeats", "types") and origin.where != main.module else None
    groups = {row.group for row in part.rows}
    related = [d for d in differences if d.kind not in _EFFECTS and groups.intersection(d.related)]
    change = main.change
    return Cause(
        title=title,
        kind=main.kind,
        change=change,
        scope=scope,
        source=main.source,
        base_ps=part.base_ps,
        new_ps=part.new_ps,
        delta_ps=part.delta_ps,
        share=part.delta_ps / total if total and part.delta_ps * total > 0 else None,
        happened=happened(main),
        message=_message(title, main, part, several=several),
        rows=tuple(part.rows[:_ROWS]),
        related=tuple(related[:_RELATED]),
        suggestion=advice(main.kind, main.group, change, slower=part.delta_ps > 0),
    )


def _title(origin: Origin) -> str:
    name = {
        "repeats": f"another number of {origin.where or 'loop trips'}",
        "recomputation": f"recomputation in {origin.where or 'the program'}",
        "types": f"another element type in {origin.where or 'the program'}",
    }.get(origin.what, f"another number of {origin.where}")
    if origin.base is None and origin.new is None:
        return name
    return f"{name} ({origin.base or 'none'} to {origin.new or 'none'})"


def _message(title: str, main: Row, part: Delta, *, several: bool) -> str:
    sign = "+" if part.delta_ps > 0 else "-"
    times = f"{format_ps(part.base_ps)} to {format_ps(part.new_ps)} per step ({sign}{format_ps(abs(part.delta_ps))})"
    most = f"; most of it {main.group}" if several else ""
    fate = happened(main)
    return f"{title}: {times}{most}{f'; {fate}' if fate else ''}."


def happened(row: Row) -> str:
    """What became of a row, in words; empty for time without ops that grew or shrank."""
    slower = row.delta_ps > 0
    if row.change == "count" and row.count_base is not None and row.count_new is not None:
        return f"it runs {row.count_new:g} instead of {row.count_base:g} times"
    return {
        "new": "the base does not have it",
        "gone": "the new run does not have it",
        "moved": "it moved to another place",
        "split": "the compiler split it",
        "merged": "the compiler merged it",
        "exposure": f"{'less' if slower else 'more'} of it is hidden",
        "duration": f"each takes {'longer' if slower else 'less'}" if row.count_base is not None else "",
    }.get(row.change, "")
