"""Predictions against published measurements: signed errors, uncalibrated and leave-one-out, with no row dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Any

from tpuprof.errors import UsageError
from tpuprof.plan.published import PublishedStep, Unsupported, published_memory, published_step
from tpuprof.plan.train_profile import Efficiency, efficiency
from tpuprof.plan.train_step import StepEstimate, estimate, memory_of

CALIBRATED = "one efficiency per chip, from the other rows of that chip"
_FEWEST = 2
"""Other rows of a chip that a calibration needs; with fewer the uncalibrated prediction stands."""


@dataclass(frozen=True, slots=True)
class Validated:
    """One row with what was predicted.

    Args:
        row: its id.
        chip, model, scale: what it ran on; null where the row does not say.
        measured_s, predicted_s: of the step; null if it is not supported.
        error: signed, predicted over measured less 1.
        calibrated_s, calibrated_error: with the efficiency of the chip's other rows.
        low_s, high_s: interval of the prediction.
        fits: whether the predicted memory is within what a device has; each of these rows did run.
        counts: it is part of the statistics.
        reason: why there is no prediction, or why it does not count.
        layout: the degrees of parallelism.
        why: what in the row the model does not know of.
        measured_memory_bytes, predicted_memory_bytes, memory_error: peak per device where the row states one, also of
            rows whose step is not predicted.
    """

    row: str
    chip: str | None
    model: str | None
    scale: int | None
    measured_s: float | None = None
    predicted_s: float | None = None
    error: float | None = None
    calibrated_s: float | None = None
    calibrated_error: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    fits: bool | None = None
    counts: bool = False
    reason: str = ""
    layout: str = ""
    why: str = ""
    measured_memory_bytes: float | None = None
    predicted_memory_bytes: float | None = None
    memory_error: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of a group of rows: signed median, median and 90th percentile of the absolute ones."""

    group: str
    rows: int
    signed_median: float
    absolute_median: float
    absolute_p90: float
    calibrated_absolute_median: float | None


def validate(
    rows: Iterable[Mapping[str, Any]], profiles: Callable[[str], Efficiency] = efficiency
) -> tuple[Validated, ...]:
    """Every row with its prediction or the reason why there is none, in the order of the rows.

    Args:
        profiles: gives the profile of a chip by its name.
    """
    given = list(rows)
    made: list[tuple[PublishedStep, StepEstimate] | Unsupported] = [_predict(row, profiles) for row in given]
    by_chip: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for found in made:
        if not isinstance(found, Unsupported) and found[0].counts:
            step, predicted = found
            by_chip[step.where.chip.name].append((step.row, efficiency_of(step, predicted)))
    return tuple(_validated(row, found, by_chip) for row, found in zip(given, made, strict=True))


def efficiency_of(step: PublishedStep, predicted: StepEstimate) -> float:
    """By what all computation would have to be faster for the prediction to be exact."""
    rest = predicted.seconds - predicted.compute
    return predicted.compute / max(step.measured_s - rest, 0.05 * step.measured_s)


def scores(rows: Sequence[Validated]) -> tuple[Score, ...]:
    """Of each chip, and of all rows that count (``all``)."""
    groups: dict[str, list[Validated]] = defaultdict(list)
    for row in rows:
        if row.counts and row.error is not None:
            groups[str(row.chip)].append(row)
            groups["all"].append(row)
    order = [*sorted(name for name in groups if name != "all"), *(["all"] if groups else [])]
    return tuple(_score(name, groups[name]) for name in order)


def worst(rows: Sequence[Validated], count: int = 10) -> tuple[Validated, ...]:
    """The rows that count with the largest errors."""
    counted = [row for row in rows if row.counts and row.error is not None]
    return tuple(sorted(counted, key=lambda row: -abs(row.error or 0.0))[:count])


def support(rows: Sequence[Validated]) -> dict[str, dict[str, int]]:
    """How many rows of each chip are predicted, and how many are not, by reason."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        entry = found.setdefault(str(row.chip or "not stated"), {})
        key = "predicted" if row.predicted_s is not None else row.reason
        entry[key] = entry.get(key, 0) + 1
    return found


def _predict(
    row: Mapping[str, Any], profiles: Callable[[str], Efficiency]
) -> tuple[PublishedStep, StepEstimate] | Unsupported:
    found = published_step(row)
    if isinstance(found, Unsupported):
        return found
    try:
        return found, estimate(found.job, found.layout, found.where, profiles(found.where.chip.name))
    except UsageError as error:
        return Unsupported(found.row, error.what)


def _validated(
    row: Mapping[str, Any], found: tuple[PublishedStep, StepEstimate] | Unsupported,
    by_chip: Mapping[str, Sequence[tuple[str, float]]],
) -> Validated:  # fmt: skip
    model: Any = row.get("model")
    name = model.get("name") if isinstance(model, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    named: dict[str, Any] = {
        "row": str(row.get("id", "without id")), "chip": row.get("chip"), "model": name, "scale": row.get("n_chips"),
        **_memory(row),
    }  # fmt: skip
    if isinstance(found, Unsupported):
        return Validated(**named, reason=found.reason)
    step, predicted = found
    others = [value for other, value in by_chip.get(step.where.chip.name, ()) if other != step.row]
    calibrated = predicted.seconds
    if len(others) >= _FEWEST:
        calibrated += predicted.compute * (1 / median(others) - 1)
    return Validated(
        **named, measured_s=step.measured_s, predicted_s=predicted.seconds,
        error=predicted.seconds / step.measured_s - 1, calibrated_s=calibrated,
        calibrated_error=calibrated / step.measured_s - 1, low_s=predicted.low, high_s=predicted.high,
        fits=predicted.fits, counts=step.counts, reason=step.why_not, layout=step.layout.text(),
        why=_explained(step, predicted),
    )  # fmt: skip


def _memory(row: Mapping[str, Any]) -> dict[str, float]:
    found = published_memory(row)
    if found is None:
        return {}
    job, layout, peak = found
    total = memory_of(job, layout)["total"]
    return {"measured_memory_bytes": peak, "predicted_memory_bytes": total, "memory_error": total / peak - 1}


def _explained(step: PublishedStep, predicted: StepEstimate) -> str:
    """What in the row is outside what the model knows, for the list of the worst."""
    said: list[str] = []
    if any("experts" in layer.kind for layer in step.job.model.layer_counts):
        said.append("kernels and dispatch of experts are taken as efficient as dense matmuls")
    if any("mla" in layer.kind for layer in step.job.model.layer_counts):
        said.append("attention on latent vectors is taken as efficient as plain attention")
    if step.where.slices > 4:
        said.append(f"nothing is added for waiting among {step.where.slices} slices (2^{log2(step.where.slices):.0f})")
    if step.job.sequence >= 32_768 or any(layer.attention.window for layer in step.job.model.layer_counts):
        said.append("the size of the attention kernel's blocks is assumed, which decides the work inside windows")
    if step.job.model.width <= 2560:
        said.append("a small model: short ops, whose fixed times and element-wise work weigh most")
    if step.job.dtype != "bf16":
        said.append("conversion to the narrow type is not counted")
    if step.layout.tensor == 1 and predicted.parts["communication"] > 0.03 * predicted.seconds:
        said.append("more of the gathers of weights may be exposed than assumed")
    return "; ".join(said) or "one efficiency stands for all programs of the chip, whatever flags and kernels they used"


def _score(name: str, rows: Sequence[Validated]) -> Score:
    errors = [row.error for row in rows if row.error is not None]
    sizes = sorted(map(abs, errors))
    again = [abs(row.calibrated_error) for row in rows if row.calibrated_error is not None]
    return Score(
        name, len(rows), median(errors), median(sizes), sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        median(again) if again else None,
    )  # fmt: skip
