"""Running the gate: everything read, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuprof.compare.capture import as_captures
from tpuprof.compare.comparison import NOT_COMPARABLE, Diff, diff, not_compared
from tpuprof.gate.budgets import Rules
from tpuprof.gate.check import Check
from tpuprof.gate.judging import judge_budgets

if TYPE_CHECKING:
    from tpuprof.compare.outcome import Thresholds
    from tpuprof.compare.samples import Samples
    from tpuprof.roofline import HardwareOptions
    from tpuprof.trace import Trace


def run_check(
    new: Sequence[Trace | Samples],
    against: Sequence[Trace | Samples],
    rules: Rules,
    thresholds: Thresholds | None = None,
    *,
    paired: bool = False,
    against_name: str = "",
    unlike: str = "",
    notes: Sequence[str] = (),
    hardware: HardwareOptions | None = None,
) -> Check:
    """Holds a run against others and its budgets.

    Args:
        new: the run, one capture or several.
        against: the other side; may be empty if there are only budgets.
        rules: the budgets; also the thresholds, unless others are given.
        thresholds: what counts as a change.
        paired: captures of equal place belong together.
        against_name: what to call the other side.
        unlike: why nothing is like the run, where that is so: the verdict then is ``cannot_tell``.
        notes: what else to tell.
        hardware: what the run is set against; null for what the trace names.

    Raises:
        UsageError: there is no run, or ``hardware`` is wrong.
        InputError: a file cannot be read.
    """
    captures = as_captures(new)
    limits = thresholds or rules.thresholds
    made: Diff | None = None
    if unlike:
        made = not_compared(new, f"{NOT_COMPARABLE}: {unlike}")
    elif against:
        made = diff(against, new, limits, paired=paired)
    return Check(captures, made, judge_budgets(captures, rules.budgets, hardware), against_name, tuple(notes))
