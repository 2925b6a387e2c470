"""What the planner says of published serving measurements, beside what was measured.

A row names chip, slice, model, type, sequences at a time and request lengths, as data collections of measurements do.
Nothing is fitted to any row: the prediction is the planner's, with its defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tpuprof.errors import UsageError
from tpuprof.hardware import chip, make_slice
from tpuprof.plan.published import model_of_row
from tpuprof.plan.serve.candidates import ServeCandidate, points
from tpuprof.plan.serve.layout import layouts
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serve.reasons import does_not_fit
from tpuprof.plan.serve.setup import EXPECTED, Assumptions, Types, Workload

_BUDGET = re.compile(r"max-num-batched-tokens (\d{1,7})\b")
_WEIGHTS = {"bf16": "bf16", "fp8": "f8e4m3fn", "int8": "int8"}
_NEEDED = ("chip", "topology", "global_batch_seqs", "dtype")
_USUAL_BUDGET = 2048
_LARGEST = 1e15
"""Larger figures are none of a server."""


@dataclass(frozen=True, slots=True)
class ServedRow:
    """One row with its prediction, or the reason why there is none.

    Args:
        measured: tokens generated per second.
        predicted: the same; null with a reason.
        measured_tpot_s, predicted_tpot_s: seconds per further token; null where not measured, or with a reason.
        split: what the prediction assumes.
        reason: why the row is not supported; empty if it is.
        assumptions: what the row does not say.
    """

    id: str
    measured: float | None
    predicted: float | None = None
    measured_tpot_s: float | None = None
    predicted_tpot_s: float | None = None
    split: str = ""
    reason: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def error(self) -> float | None:
        """Predicted over measured tokens per second, minus 1; positive if the planner is too fast."""
        return _error(self.predicted, self.measured)

    @property
    def tpot_error(self) -> float | None:
        """The same of the time per further token; negative if the planner is too fast."""
        return _error(self.predicted_tpot_s, self.measured_tpot_s)


def predict_row(row: Mapping[str, object], assumed: Assumptions = EXPECTED) -> ServedRow:
    """The prediction for a serving row of published measurements.

    Args:
        row: with ``chip``, ``topology``, ``model``, ``dtype``, ``global_batch_seqs``, ``workload``, ``measured``;
            whatever is in it, it is never an error.
    """
    measured = _table(row, "measured")
    output, tpot = _number(measured, "output_tokens_per_s"), _number(measured, "mean_tpot_s")
    name = str(row.get("id", ""))
    try:
        question, assumptions = question_of_row(row, assumed)
        tensor = _number(_table(row, "parallelism"), "tensor")
        able = [one for one in _candidates(question) if tensor is None or one.layout.y == tensor]
    except UsageError as error:
        return ServedRow(name, output, measured_tpot_s=tpot, reason=str(error))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:  # files of other people
        why = f"A field is of another kind than expected: {type(error).__name__}: {error}"
        return ServedRow(name, output, measured_tpot_s=tpot, reason=why)
    if not able:
        return ServedRow(name, output, measured_tpot_s=tpot, reason="The split of the row is none that fits.")
    one = max(able, key=lambda found: found.steady.tokens_per_s)
    notes = (*assumptions, f"the cache and experts are split as {one.layout.text()}, the best of those that fit")
    return ServedRow(
        name, output, one.steady.tokens_per_s, tpot, one.steady.tpot_s, one.layout.text(), "", notes
    )  # fmt: skip


def question_of_row(
    row: Mapping[str, object], assumed: Assumptions = EXPECTED
) -> tuple[ServeQuestion, tuple[str, ...]]:
    """The question that a row answers by measurement, and what had to be assumed for it.

    Raises:
        UsageError: the row does not say enough, or names what is not known.
    """
    missing = [name for name in _NEEDED if row.get(name) is None]
    work = _table(row, "workload")
    lengths = [_number(work, name) for name in ("input_tokens", "output_tokens")]
    if missing or None in lengths:
        lacks = [*missing, *(["request lengths"] if None in lengths else [])]
        raise UsageError(f"The row does not state {', '.join(lacks)}.")
    dtype = str(row["dtype"])
    if dtype not in _WEIGHTS:
        raise UsageError(f"Weights of type {dtype!r} are not planned.", hint=f"Types: {', '.join(_WEIGHTS)}.")
    where = make_slice(chip(str(row["chip"])), tuple(int(part) for part in str(row["topology"]).split("x")))
    noted = _BUDGET.search(str(row.get("notes", "")))
    stated = _number(row, "step_tokens") or (float(noted[1]) if noted else None)
    budget = int(stated or _USUAL_BUDGET)
    assumptions = ["activations and cache are bf16"] if dtype != "bf16" else []
    if stated is None:
        assumptions.append(f"a step has at most {budget} tokens")
    if work.get("random_range_ratio") is not None:
        assumptions.append("all requests have the mean length")
    prompt, generate = (int(length) for length in lengths if length is not None)
    batch = int(cast("int", row["global_batch_seqs"]))
    question = ServeQuestion(
        model_of_row(row), (where,), Workload(prompt, generate), Types(_WEIGHTS[dtype]), assumed, budget=budget,
        batches=(batch,),
    )  # fmt: skip
    return question, tuple(assumptions)


def _candidates(question: ServeQuestion) -> list[ServeCandidate]:
    """Every split that fits, without the simulation of arrivals: a measured server was kept full."""
    (where,) = question.slices
    tried = [points(question, layout) for layout in layouts(question.model, where)]
    found = [one for able, _ in tried for one in able]
    if not found:
        raise does_not_fit(
            question.model, question.types, question.slices, [one for _, refused in tried for one in refused]
        )
    return found


def _table(row: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = row.get(name)
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _number(table: Mapping[str, object], name: str) -> float | None:
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return float(value)


def _error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1
