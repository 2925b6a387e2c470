"""Every worked number of the scaling book, through the Python API and through ``tpuprof calc``.

A mapper of :mod:`tests.cases` turns what a case gives into the call that a user would make. It does no arithmetic: the
library does, and knows no case. A case without a mapper fails.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import (
    collective,
    critical_batch,
    inference,
    models,
    parallelism,
    profile,
    roofline,
    sharded_matmul,
    topology,
    training,
)
from tests.cases.support import Given, Measured, load, mapper_of, mappers

MODULES = (
    collective, critical_batch, inference, models, parallelism, profile, roofline, sharded_matmul, topology, training,
)  # fmt: skip
"""Imported for the mappers that they register."""

KINDS = {
    "collective", "cost", "critical_batch", "flops", "host_offload", "inference_latency", "inference_throughput",
    "kv_cache", "parallelism_choice", "params", "profile", "roofline", "sharded_matmul", "topology", "train_memory",
    "train_time",
}  # fmt: skip
"""All kinds of the file, so that a new one is noticed."""

CASES = load()


@pytest.mark.cases
@pytest.mark.parametrize("about", CASES, ids=lambda about: about["id"])
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
    assert {about["kind"] for about in CASES} == KINDS
    used = {id(mapper_of(about["id"])) for about in CASES}
    assert used == {id(mapper) for mapper in mappers()}
    assert mapper_of("no-such-case") is None
