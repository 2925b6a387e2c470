"""The map of mesh shapes holds every layout of a search once."""

from __future__ import annotations

import pytest

from tpuprof.hardware import parse_slice
from tpuprof.plan import load_model, remat_policy
from tpuprof.plan.train_cells import Cell, mesh_cells
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_search import Plan, layouts, search

JOB = Job(load_model("llama3-8b"), 16, 8192, remat_policy("block-inputs"))
SLICE = parse_slice("v5e:8x8")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(JOB, SLICE, policies=[JOB.policy])


@pytest.fixture(scope="module")
def cells(plan: Plan) -> tuple[Cell, ...]:
    return mesh_cells(plan)


def place(layout: Layout) -> tuple[int, int]:
    return layout.tensor, layout.data * layout.fsdp


def test_every_layout_is_in_one_cell(cells: tuple[Cell, ...]) -> None:
    tried = list(layouts(JOB, SLICE))
    places = set(map(place, tried))
    assert [(cell.tensor, cell.batch_devices) for cell in cells] == sorted(places)
    assert sum(cell.layouts for cell in cells) == len(tried)


def test_the_best_of_a_cell_is_its_fastest(plan: Plan, cells: tuple[Cell, ...]) -> None:
    for cell in cells:
        own = [one for one in plan.candidates if place(one.step.layout) == (cell.tensor, cell.batch_devices)]
        assert (cell.best is None) == (not own)
        if cell.best is not None:
            assert cell.best.seconds == min(one.seconds for one in own)
            assert cell.nearest is None
    assert min(cell.best.seconds for cell in cells if cell.best) == min(one.seconds for one in plan.candidates)


def test_an_impossible_cell_has_the_reason_of_what_lacked_the_least(plan: Plan, cells: tuple[Cell, ...]) -> None:
    empty = [cell for cell in cells if cell.best is None]
    assert empty
    for cell in empty:
        own = [one for one in plan.refused if place(one.layout) == (cell.tensor, cell.batch_devices)]
        assert cell.nearest in own
        assert cell.nearest is not None
        assert len(cell.nearest.kinds) == min(len(one.kinds) for one in own)
    tight = search(JOB, parse_slice("v5e:1x1"))
    (cell,) = mesh_cells(tight)
    assert cell.nearest is not None
    assert cell.nearest.kinds == ("memory",)


def test_refused_layouts_are_those_that_the_reasons_stand_for(plan: Plan) -> None:
    assert len(plan.refused) == sum(1 + one.more for one in plan.rejected)
    assert len(plan.candidates) + len(plan.refused) == len(list(layouts(JOB, SLICE)))
    assert all(one.kinds and one.why for one in plan.refused)
