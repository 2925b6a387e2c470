"""The planner's memory against what the TPU compiler said of the same steps, as it was recorded."""

from __future__ import annotations

import json
from statistics import median

import pytest

from tests.predict.cases import CASES, MODELS, OPTIONS, RECORDED, Case, compiled_bytes, recorded
from tpuprof.hardware import parse_slice
from tpuprof.plan import param_counts
from tpuprof.plan.train_layout import problems
from tpuprof.plan.train_step import memory_of

ANSWERS = recorded()


def _error(case: Case) -> float:
    predicted = memory_of(case.job(), case.layout(), parse_slice(case.topology))["total"]
    return predicted / compiled_bytes(case, ANSWERS) - 1


def test_every_step_was_compiled_and_no_other() -> None:
    assert [case.key for case in CASES] == list(ANSWERS)
    assert json.loads(RECORDED.read_text("utf-8"))["options"] == OPTIONS
    assert {case.model for case in CASES} == set(MODELS)
    assert {case.topology.split(":")[0] for case in CASES} >= {"v5e", "v5p", "v6e"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_the_planner_is_near_the_compiler(case: Case) -> None:
    assert problems(case.job(), case.layout(), parse_slice(case.topology)) == []
    assert abs(_error(case)) < 0.06


def test_the_planner_leans_to_no_side() -> None:
    errors = [_error(case) for case in CASES]
    assert abs(median(errors)) < 0.025
    assert median(map(abs, errors)) < 0.03


def test_what_is_offloaded_is_known_to_the_byte() -> None:
    (case,) = [case for case in CASES if case.policy == "offload"]
    assert memory_of(case.job(), case.layout())["host"] == ANSWERS[case.key]["memory"]["host"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_both_mean_the_same_model(case: Case) -> None:
    # Weights and two moments of 4 bytes each, and the batch; norms are not split.
    found = ANSWERS[case.key]["memory"]["arguments"]
    job, layout = case.job(), case.layout()
    share = 12 * param_counts(job.model).all / (layout.fsdp * layout.tensor)
    norms = 12 * param_counts(job.model).total["norms"]
    assert share <= found <= share + norms + 2**20
