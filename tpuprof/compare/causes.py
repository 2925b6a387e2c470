"""Changes of what no op is there for: waits for peers, and idle time by cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tpuprof.compare.rows import Row, plain_row
from tpuprof.compare.side import Side
from tpuprof.compare.variation import PerStep, errors_of
from tpuprof.formats.xspace import I64
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS

_BARRIER, _IDLE = PARTS.index("barrier_wait"), PARTS.index("idle")
UNKNOWN = "cause unknown"


def cause_rows(base: Side, new: Side) -> list[Row]:
    """One row for waits for peers and one per cause of idle time; those that neither side has are left out.

    Causes that the host's clock decides come before the device's own. Where one side does not know them, the device's
    own are something else on both sides, and idle time is told as a whole; where neither does, what is not the
    device's own is ``idle, cause unknown``.
    """
    wait = base.parts["barrier_wait"], new.parts["barrier_wait"]
    rows = [_row("barrier wait", "barrier_wait", wait, (base, new), lambda times: times.parts[:, _BARRIER])]
    ours, theirs = idle_by_cause(base, new)
    for cause in ours:
        times = _of_cause(cause, [name for name in ours if name != UNKNOWN])
        rows.append(_row(f"idle, {cause}", "idle", (ours[cause], theirs[cause]), (base, new), times))
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


def _of_cause(cause: str, known: Sequence[str]) -> Callable[[PerStep], I64]:
    """The time of a cause by step; what is not known is what the others leave."""
    at = [IDLE_CAUSES.index(name.replace(" ", "_")) for name in known]
    if cause == UNKNOWN:
        return lambda times: times.parts[:, _IDLE] - times.causes[:, at].sum(axis=1)
    return lambda times: times.causes[:, IDLE_CAUSES.index(cause.replace(" ", "_"))]


def _row(
    group: str, kind: str, ps: tuple[int, int], sides: tuple[Side, Side], by_step: Callable[[PerStep], I64]
) -> Row:
    old, fresh = (Fraction(one, side.pairs) for one, side in zip(ps, sides, strict=True))
    variances = [side.per_step.variance(by_step(side.per_step)) if side.per_step else None for side in sides]
    errors = errors_of(sides[0].per_step, sides[1].per_step, variances[0], variances[1])
    return plain_row(group, kind, old, fresh, errors)
