"""Servers that others measured, predicted: a pool of its own beside training steps, with signed errors.

What is compared is generated tokens per second, and the time per further token where a row states it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tpuprof.plan.serve.published import ServedRow, predict_row
from tpuprof.plan.validation import FEWEST, Score, score_of

CALIBRATED = "one factor for all servers, the median of measured over predicted of the other rows"


@dataclass(frozen=True, slots=True)
class Served:
    """A serving row with its prediction.

    Args:
        found: measured, predicted, split and assumptions.
        chip, model, scale: what it ran on; null where the row does not say.
        counts: it is part of the statistics.
        reason: why there is no prediction, or why it does not count.
        calibrated: tokens per second with the factor of the other rows.
    """

    found: ServedRow
    chip: str | None
    model: str | None
    scale: int | None
    counts: bool
    reason: str
    calibrated: float | None = None

    @property
    def calibrated_error(self) -> float | None:
        """Calibrated over measured tokens per second, less 1."""
        if self.calibrated is None or not self.found.measured:
            return None
        return self.calibrated / self.found.measured - 1


def served_rows(rows: Sequence[Mapping[str, Any]]) -> dict[int, Served]:
    """The serving rows among all, each by its place."""
    found = {place: predict_row(row) for place, row in enumerate(rows) if row.get("kind") == "serving"}
    why = {place: _why_not(rows[place], one) for place, one in found.items()}
    factors = {
        place: one.measured / one.predicted
        for place, one in found.items()
        if one.measured and one.predicted and not why[place]
    }
    return {place: _served(rows[place], one, why[place], place, factors) for place, one in found.items()}


def served_scores(served: Mapping[int, Served]) -> tuple[Score, ...]:
    """Of each chip, and of all rows that count (``all``)."""
    groups: dict[str, list[Served]] = defaultdict(list)
    for one in served.values():
        if one.counts:
            groups[str(one.chip)].append(one)
            groups["all"].append(one)
    order = [*sorted(name for name in groups if name != "all"), *(["all"] if groups else [])]
    return tuple(
        score_of(name, [one.found.error for one in groups[name]], [one.calibrated_error for one in groups[name]])
        for name in order
    )


def _why_not(row: Mapping[str, Any], found: ServedRow) -> str:
    if found.reason:
        return found.reason
    if found.measured is None or found.measured <= 0:
        return "No generated tokens per second are stated."
    if row.get("upper_bound"):
        return "a bound: it includes other work"
    return "not checked against its source" if row.get("unverified") else ""


def _served(
    row: Mapping[str, Any], found: ServedRow, why: str, place: int, factors: Mapping[int, float]
) -> Served:  # fmt: skip
    others = [factor for other, factor in factors.items() if other != place]
    calibrated = None
    if found.predicted is not None:
        calibrated = found.predicted * (median(others) if len(others) >= FEWEST else 1.0)
    model: Any = row.get("model")
    name = model.get("name") if isinstance(model, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Served(found, row.get("chip"), name, row.get("n_chips"), not why, why, calibrated)  # pyright: ignore[reportUnknownArgumentType]
