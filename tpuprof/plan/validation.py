"""Predictions against published measurements: signed errors, uncalibrated and leave-one-out, with no row dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tpuprof.errors import UsageError
from tpuprof.plan.published import STRANGE, PublishedStep, Unsupported, published_memory, published_step
from tpuprof.plan.train_profile import Efficiency, efficiency
from tpuprof.plan.train_step import StepEstimate, estimate, memory_of

CALIBRATED = "one efficiency per chip, from the other rows of that chip"
FEWEST = 2
"""Other rows of a chip that a calibration needs; with fewer the uncalibrated prediction stands."""
_ROUNDING = 0.05
"""By what published operations may differ from the model's before something must be missing in one of them."""
_NOTICED = 0.03
_WIDE = 12_288


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
        kind: of the measurement, as the row states it.
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
    kind: str = "training"


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
    made = [_predict(row, profiles) for row in given]
    by_chip = _by_chip(made)
    return tuple(_validated(row, found, by_chip) for row, found in zip(given, made, strict=True))


def chip_factors(
    rows: Iterable[Mapping[str, Any]], profiles: Callable[[str], Efficiency] = efficiency
) -> dict[str, list[tuple[str, float]]]:
    """By chip the rows that count, each with :func:`efficiency_of`: what a calibration of the chip rests on."""
    return _by_chip(_predict(row, profiles) for row in rows)


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
    return tuple(
        score_of(name, [row.error for row in groups[name]], [row.calibrated_error for row in groups[name]])
        for name in order
    )


def score_of(name: str, errors: Sequence[float | None], calibrated: Sequence[float | None]) -> Score:
    """The score of rows with these signed errors, of which one at least is known."""
    known = [error for error in errors if error is not None]
    sizes = sorted(map(abs, known))
    again = [abs(error) for error in calibrated if error is not None]
    return Score(
        name, len(errors), median(known), median(sizes), sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        median(again) if again else None,
    )  # fmt: skip


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
    except STRANGE as error:
        return Unsupported(found.row, f"its sizes are out of range: {type(error).__name__} {error}")


def _by_chip(
    made: Iterable[tuple[PublishedStep, StepEstimate] | Unsupported],
) -> dict[str, list[tuple[str, float]]]:
    by_chip: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for found in made:
        if not isinstance(found, Unsupported) and found[0].counts:
            step, predicted = found
            by_chip[step.where.chip.name].append((step.row, efficiency_of(step, predicted)))
    return dict(by_chip)


def _validated(
    row: Mapping[str, Any], found: tuple[PublishedStep, StepEstimate] | Unsupported,
    by_chip: Mapping[str, Sequence[tuple[str, float]]],
) -> Validated:  # fmt: skip
    model: Any = row.get("model")
    name = model.get("name") if isinstance(model, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    named: dict[str, Any] = {
        "row": str(row.get("id", "without id")), "chip": row.get("chip"), "model": name, "scale": row.get("n_chips"),
        "kind": str(row.get("kind")), **_memory(row),
    }  # fmt: skip
    if isinstance(found, Unsupported):
        return Validated(**named, reason=found.reason)
    step, predicted = found
    others = [value for other, value in by_chip.get(step.where.chip.name, ()) if other != step.row]
    calibrated = predicted.seconds
    if len(others) >= FEWEST:
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
    try:
        total = memory_of(job, layout)["total"]
    except (UsageError, *STRANGE):
        return {}
    return {"measured_memory_bytes": peak, "predicted_memory_bytes": total, "memory_error": total / peak - 1}


def _explained(step: PublishedStep, predicted: StepEstimate) -> str:
    """What in the row is outside what the model knows, for the list of the worst."""
    said: list[str] = []
    error = predicted.seconds / step.measured_s - 1
    if step.stated_work is not None and abs(step.stated_work - 1) > _ROUNDING:
        said.append(
            f"the TFLOP/s that it states are {step.stated_work:.2f} times those of the dimensions that it states: the "
            "model has more than the row says" if step.stated_work > 1 else
            f"the TFLOP/s that it states are only {step.stated_work:.2f} times those of the dimensions that it states"
        )  # fmt: skip
    if any("experts" in layer.kind for layer in step.job.model.layer_counts):
        said.append("kernels of experts differ in their tiles, and in what gathers tokens")
    if any("mla" in layer.kind for layer in step.job.model.layer_counts):
        said.append("attention on latent vectors is taken as efficient as plain attention")
    if step.where.slices > 4:
        said.append(f"waiting among {step.where.slices} slices differs from run to run")
    if step.job.sequence >= 32_768 or any(layer.attention.window for layer in step.job.model.layer_counts):
        said.append("the size of the attention kernel's blocks is assumed, which decides the work inside windows")
    if step.job.model.width <= 2560:
        said.append("a small model: short ops, whose fixed times and element-wise work weigh most")
    hidden = sum(moved.seconds - moved.exposed for moved in predicted.collectives)
    if error < 0 and hidden > _NOTICED * predicted.seconds:
        bare = (predicted.seconds + hidden) / step.measured_s - 1
        said.append(
            f"more collectives may show than the assumed share: with none hidden the error would be {bare:+.1%}"
        )
    if error > 0 and step.job.model.width >= _WIDE:
        said.append("matmuls this large reach more of the peak than the one efficiency that stands for all")
    return "; ".join(said) or "one efficiency stands for all programs of the chip, whatever flags and kernels they used"
