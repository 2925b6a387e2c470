"""Every worked number of the scaling book that a calculator covers, through the Python API and ``tpuprof calc``.

A mapper of :mod:`tests.cases` turns what a case gives into the call that a user would make. It does no arithmetic: the
library does, and knows no case. A case without a mapper fails.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import collective, profile, roofline, sharded_matmul, topology
from tests.cases.support import Given, Measured, load, mapper_of, mappers

MODULES = (collective, profile, roofline, sharded_matmul, topology)
"""Imported for the mappers that they register."""

KINDS = ("roofline", "topology", "collective", "sharded_matmul", "profile")
"""Kinds that the calculators of the hardware answer."""

PLANNER_KINDS = (
    "critical_batch", "parallelism_choice", "inference_latency", "inference_throughput", "train_memory", "flops",
    "kv_cache", "params", "train_time", "cost", "host_offload",
)  # fmt: skip
"""Kinds that need models and plans: to be moved to KINDS, with a module of mappers each, when the planner is there."""

CASES = load()
ASKED = [about for about in CASES if about["kind"] in KINDS]


@pytest.mark.cases
@pytest.mark.parametrize("about", ASKED, ids=lambda about: about["id"])
def test_case(about: dict[str, Any]) -> None:
    mapper = mapper_of(about["id"])
    assert mapper is not None, f"no call answers {about['id']}: {about['asked']}"
    found = mapper(Given(about["given"]), about)
    if isinstance(found, Measured):
        _check_measured(found, about)
    else:
        assert about["answer"]["type"] != "measured", "a measurement is compared with, not computed"
        _check(found, about["answer"])


def _check(found: Any, answer: dict[str, Any]) -> None:
    if answer["tolerance"] is None:
        assert found in [answer["value"], *(answer.get("alternatives") or [])]
    else:
        assert not isinstance(found, bool)
        assert found == pytest.approx(answer["value"], rel=answer["tolerance"], abs=0)


def _check_measured(found: Measured, about: dict[str, Any]) -> None:
    assert about["answer"]["type"] == "measured"
    assert found.compared == pytest.approx(found.stated, rel=found.tolerance)
    stated = about["given"].get("predicted")
    assert (found.predicted is None) == (stated is None), "the prediction of the case is not tested"
    if stated is not None:
        assert found.predicted == pytest.approx(stated["value"], rel=0.01)


@pytest.mark.cases
def test_every_kind_is_known_and_every_mapper_answers_a_case() -> None:
    assert len(CASES) == 378
    assert len(ASKED) == 180
    assert {about["kind"] for about in CASES} == {*KINDS, *PLANNER_KINDS}
    used = {id(mapper_of(about["id"])) for about in ASKED}
    assert used == {id(mapper) for mapper in mappers()}
    assert mapper_of("no-such-case") is None
