"""What else is worth knowing about a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuprof.compare.capture_facts import CaptureFacts
from tpuprof.compare.contrast import Contrast
from tpuprof.compare.decision import Sides
from tpuprof.text import clean, plural

_NOTABLE_RHO = 0.3
_MOST = 3


def notes_on(sides: Sides, seen: Contrast) -> tuple[str, ...]:
    """Sentences on drift, outliers, correlation, and single captures; empty if there is nothing to say."""
    notes: list[str] = []
    for name, side in (("base", sides.base), ("new", sides.new)):
        notes += _drifts(name, side)
        outliers = sum(capture.outliers for capture in side)
        if outliers:
            total = plural(sum(capture.n for capture in side), "step")
            verb, whose = ("stands", "its") if outliers == 1 else ("stand", "their")
            notes.append(f"{outliers} of {total} of the {name} side {verb} far out; the centre bounds {whose} weight.")
    if seen.rho is not None and seen.rho >= _NOTABLE_RHO:
        notes.append(f"Neighbouring steps are correlated (about {seen.rho:.1f}), so they count for fewer.")
    if seen.samples == "steps":
        notes.append(
            "One capture cannot show how captures of the same program differ; two or more on each side can."
            if not sides.paired
            else "One or two pairs cannot show how pairs differ; three or more can."
        )
    return tuple(notes)


def _drifts(name: str, side: Sequence[CaptureFacts]) -> list[str]:
    drifting = [capture for capture in side if capture.drift]
    shown = [
        f"The step time drifts by {100 * math.expm1(capture.drift):+.1f} % within a capture of the {name} side"
        f"{f' ({clean(capture.label)})' if capture.label else ''}."
        for capture in drifting[:_MOST]
    ]
    if len(drifting) > _MOST:
        shown.append(f"So do {len(drifting) - _MOST} more captures of the {name} side.")
    return shown
