"""What several analyzers share: plain rows for evidence, periods, and names of ops for people."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from tpuprof.analysis import Context
from tpuprof.hlo import HloModule
from tpuprof.report.plain import records
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

PAGES = "tpuprof_analyzers.rules"
ROWS = 5
"""Rows of evidence that a finding carries at most."""
STEPS_NAMED = 12
MOSTLY = 0.8
"""From this share of steps on, something happens in most steps."""

_NUMBER = re.compile(r"[.\d]+\Z")


def top_rows(frame: pd.DataFrame, columns: Sequence[str], count: int = ROWS) -> list[dict[str, Any]]:
    """The first rows as plain data."""
    return records(frame[list(columns)].head(count))


def of_step(context: Context, ps: float) -> str:
    """A time per step for people: ``12 ms of a step of 80 ms (15.00 %)``; of what was recorded without steps."""
    whole = f"the {format_ps(context.step_ps)} recorded"
    if context.trace.step_source != "none":
        whole = f"a step of {format_ps(context.step_ps)}"
    return f"{format_ps(ps)} of {whole} ({format_percent(context.fraction(ps))})"


def per_step_of(context: Context, groups: pd.DataFrame, part_ps: float) -> pd.Series:
    """What each group of ops has of a part of the mean step, in ps.

    Ops of several streams or threads run at once, then their self times add up to more than the part: they are scaled.
    """
    each = groups["self_ps"].astype("float64") / max(context.pairs, 1)
    total = float(each.sum())
    return each * (part_ps / total) if total > part_ps else each


def place(row: dict[str, Any]) -> str:
    """Where an op comes from: its source line, else its scope, in brackets; empty if neither is known."""
    where = row.get("source") or row.get("scope")
    return f" ({where})" if where else ""


def period_of(positions: Sequence[int]) -> int | None:
    """The period of events at these positions (ascending), null if they do not return regularly.

    It takes three events. Most distances must be the same, and the others multiples of it (an event was missed).
    """
    distances = [b - a for a, b in itertools.pairwise(positions)]
    if len(distances) < 2:
        return None
    period = max(sorted(set(distances)), key=distances.count)
    regular = distances.count(period) >= MOSTLY * len(distances)
    return period if period > 1 and regular and all(d % period == 0 for d in distances) else None


def ordinal(number: int) -> str:
    """``8th``."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def steps_text(steps: Sequence[int]) -> str:
    """Step numbers for people, a bounded number of them."""
    more = f" and {len(steps) - STEPS_NAMED} more" if len(steps) > STEPS_NAMED else ""
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps[:STEPS_NAMED]))}{more}"


def when(steps: Sequence[int], period: int | None, total: int) -> str:
    """In which steps something happened, for people: every 8th step, or 3 of 24 steps."""
    if period is not None:
        return f"every {ordinal(period)} step ({steps_text(steps)})"
    if len(steps) >= MOSTLY * total:
        return "every step" if len(steps) == total else f"{len(steps)} of {total} steps"
    return f"{len(steps)} of {total} steps ({steps_text(steps)})"


def base_name(op: str) -> str:
    """An op's name without its number: ``copy.12`` is ``copy``."""
    return _NUMBER.sub("", op) or op


def program_of(trace: Trace, module: str | None) -> HloModule | None:
    """The HLO of a module as tables name it, ``name(program id)``; null if the trace lacks it."""
    if module is None:
        return None
    name, _, number = module.rpartition("(")
    digits = number.removesuffix(")")
    known = name and digits.lstrip("-").isdecimal() and len(digits) <= 20
    return trace.programs.find(int(digits) if known else None, name or module)
