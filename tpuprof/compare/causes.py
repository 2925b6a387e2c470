"""Changes of what no op is there for: waits for peers, and idle time by cause."""

from __future__ import annotations

from fractions import Fraction

from tpuprof.compare.rows import Row, plain_row
from tpuprof.compare.side import Side
from tpuprof.tables.schemas import IDLE_CAUSES

UNKNOWN = "cause unknown"


def cause_rows(base: Side, new: Side) -> list[Row]:
    """One row for waits for peers and one per cause of idle time; those that neither side has are left out.

    Causes that the host's clock decides come before the device's own. Where one side does not know them, the device's
    own are something else on both sides, and idle time is told as a whole; where neither does, what is not the
    device's own is ``idle, cause unknown``.
    """
    rows = [_row("barrier wait", "barrier_wait", base.parts["barrier_wait"], new.parts["barrier_wait"], base, new)]
    ours, theirs = idle_by_cause(base, new)
    rows += [_row(f"idle, {cause}", "idle", ours[cause], theirs[cause], base, new) for cause in ours]
    return [row for row in rows if row.base_ps or row.new_ps]


def idle_by_cause(base: Side, new: Side) -> tuple[dict[str, int], dict[str, int]]:
    """The idle time of both sides by the causes that both know, in ps over all counted pairs."""
    known = [None not in side.idle_causes.values() for side in (base, new)]
    if all(known):
        names = IDLE_CAUSES
    elif any(known):
        names = ()
    else:
        names = tuple(cause for cause in IDLE_CAUSES if base.idle_causes[cause] is not None)
    return _divided(base, names), _divided(new, names)


def _divided(side: Side, names: tuple[str, ...]) -> dict[str, int]:
    found = {name.replace("_", " "): side.idle_causes[name] or 0 for name in names}
    found[UNKNOWN] = side.parts["idle"] - sum(found.values())
    return found


def _row(group: str, kind: str, old: int, fresh: int, base: Side, new: Side) -> Row:
    return plain_row(group, kind, Fraction(old, base.pairs), Fraction(fresh, new.pairs))
