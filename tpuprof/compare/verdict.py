"""The verdict on two sides of step times: regressed, improved, unchanged, or that it cannot be told, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuprof.compare.bootstrap import SEED
from tpuprof.compare.capture_facts import MIN_STEPS_FOR_NOISE, capture_facts
from tpuprof.compare.contrast import MIN_CAPTURES, MIN_PAIRS, contrast
from tpuprof.compare.decision import Sides, decide
from tpuprof.compare.notes import notes_on
from tpuprof.compare.outcome import Effect, Thresholds, Verdict
from tpuprof.compare.samples import Samples, samples_of
from tpuprof.compare.step_files import read_samples
from tpuprof.errors import UsageError
from tpuprof.text import clean, plural

__all__ = ["Effect", "Samples", "Thresholds", "Verdict", "judge", "read_samples", "samples_of"]

_ENOUGH_TO_KNOW = 8


def judge(
    base: Sequence[Samples],
    new: Sequence[Samples],
    thresholds: Thresholds | None = None,
    *,
    paired: bool = False,
    seed: int = SEED,
) -> Verdict:
    """Whether the new side is slower or faster than the base. The same input gives the same verdict.

    Args:
        base: captures of the base.
        new: captures of the new side.
        thresholds: what counts as a change; the defaults if null.
        paired: the captures of equal place belong together (one job each, say), and only their differences count.
        seed: of the block bootstrap.

    Raises:
        UsageError: ``paired`` with unequal numbers of captures.
    """
    limits = thresholds or Thresholds()
    if paired and len(base) != len(new):
        raise UsageError(
            f"Pairs need as many captures on both sides; there are {len(base)} and {len(new)}.",
            hint="Give the captures of both sides in the same order, or compare without pairs.",
        )
    sides = _with_steps(base, new, paired)
    counts = Verdict(
        verdict="cannot_tell",
        reason="",
        n_base=_steps(sides[0]),
        n_new=_steps(sides[1]),
        captures_base=len(sides[0]),
        captures_new=len(sides[1]),
    )
    broken = _no_samples(base, new, counts) or _no_time(sides) or _unlike(base, new) or _repeated(sides)
    if broken is not None:
        return replace(counts, reason=broken)
    facts = Sides(*([capture_facts(capture, seed) for capture in side] for side in sides), paired=paired)
    few = _too_few(facts, limits.min_steps)
    if few is not None:
        return replace(counts, reason=few, effect=facts.effect(None), steps_needed=limits.min_steps)
    seen = contrast(facts.base, facts.new, paired=paired, capture_spread=limits.capture_spread)
    return replace(decide(facts, seen, limits, counts), notes=notes_on(facts, seen))


def _with_steps(
    base: Sequence[Samples], new: Sequence[Samples], paired: bool
) -> tuple[Sequence[Samples], Sequence[Samples]]:
    """Both sides without empty captures; of a pair both or none."""
    if paired:
        whole = [(b, n) for b, n in zip(base, new, strict=True) if b.step_ps and n.step_ps]
        return [b for b, _ in whole], [n for _, n in whole]
    return [b for b in base if b.step_ps], [n for n in new if n.step_ps]


def _steps(side: Sequence[Samples]) -> int:
    return sum(len(capture.step_ps) for capture in side)


def _no_samples(base: Sequence[Samples], new: Sequence[Samples], counts: Verdict) -> str | None:
    if counts.n_base and counts.n_new:
        return None
    if _steps(base) and _steps(new):
        return "no samples: no pair has steps on both sides"
    empty = [name for name, side in (("base", base), ("new", new)) if not _steps(side)]
    return f"no samples: the {' and the '.join(empty)} side {'has' if len(empty) == 1 else 'have'} no steps"


def _no_time(sides: tuple[Sequence[Samples], Sequence[Samples]]) -> str | None:
    for name, side in zip(("base", "new"), sides, strict=True):
        zeros = sum(capture.step_ps.count(0) for capture in side)
        if zeros:
            return (
                f"steps without time: {plural(zeros, 'step')} of the {name} side took 0 ps, so its recording is broken"
            )
    return None


def _unlike(base: Sequence[Samples], new: Sequence[Samples]) -> str | None:
    kinds = sorted({clean(capture.hardware) for capture in (*base, *new) if capture.hardware is not None})
    if len(kinds) < 2:
        return None
    return f"unlike hardware: {' and '.join(kinds)}"


def _repeated(sides: tuple[Sequence[Samples], Sequence[Samples]]) -> str | None:
    """Captures are taken as independent, so that one given twice would make its noise look like agreement.

    Equal times of several steps are the same capture; steps that are all equal, as made ones are, do not tell.
    """
    for name, side in zip(("base", "new"), sides, strict=True):
        seen: dict[tuple[float, ...], Samples] = {}
        for capture in side:
            times = capture.step_ps
            if len(times) < _ENOUGH_TO_KNOW or min(times) == max(times):
                continue
            first = seen.get(times)
            if first is not None:
                names = " and ".join(dict.fromkeys(clean(one.label) or "(unnamed)" for one in (first, capture)))
                return f"the same capture twice: on the {name} side {names} counts more than once; give each once"
            seen[times] = capture
    return None


def _too_few(facts: Sides, least: int) -> str | None:
    sizes = [sum(capture.n for capture in side) for side in (facts.base, facts.new)]
    if sizes == [1, 1]:
        return "one step per side: noise cannot be told from change"
    if min(sizes) < least:
        return f"not enough samples: {sizes[0]} and {sizes[1]} steps; each side needs {least}"
    counted = len(facts.base) >= MIN_PAIRS if facts.paired else len(facts.base) + len(facts.new) >= MIN_CAPTURES
    thin = [capture for capture in (*facts.base, *facts.new) if capture.noise is None]
    if thin and not counted:
        return f"not enough samples: a capture has {plural(thin[0].n, 'step')}; each needs {MIN_STEPS_FOR_NOISE}"
    return None
