"""The order of layouts: time first, room and simplicity where estimates do not tell layouts apart."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tpuprof.hardware import parse_slice
from tpuprof.plan import load_model, remat_policy
from tpuprof.plan.train_explain import why
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_profile import efficiency
from tpuprof.plan.train_ranking import ALIKE, axes, crowding, ranked
from tpuprof.plan.train_search import Candidate, Plan
from tpuprof.plan.train_step import PARTS, StepEstimate

JOB = Job(load_model("llama3.2-1b"), 64, 4096, remat_policy("block-inputs"))
SLICE = parse_slice("v5e:2x2")


FSDP = Layout(fsdp=4)


def step(seconds: float, full: float = 0.2, layout: Layout = FSDP) -> StepEstimate:
    held = {"total": 100e9 * full}
    parts = dict.fromkeys(PARTS, 0.0) | {"matmul": seconds}
    return StepEstimate(layout, {}, parts, (), held, 100e9, seconds, seconds, 0.5, 0.5, 0.5, 1.0)


def plan_of(steps: Sequence[StepEstimate]) -> Plan:
    candidates = tuple(Candidate(JOB, steps[place]) for place in ranked(steps))
    return Plan(SLICE, JOB, efficiency("v5e"), candidates, (), len(steps))


def test_time_decides_where_estimates_tell_layouts_apart() -> None:
    assert ranked([step(1.006, 0.1), step(1.0, 0.99)]) == [1, 0]


def test_as_fast_the_one_with_more_room_is_first() -> None:
    full, roomy = step(1.0, 0.82), step(1.0002, 0.15)
    assert ranked([full, roomy]) == [1, 0]
    plan = plan_of([full, roomy])
    assert why(plan.candidates[0], plan) == (
        "0.02 % behind the fastest, fsdp=4 zero=3, with 67.0 GB less memory; bound by compute, 0.0 % of the step is "
        "exposed communication (0.0 % hidden)"
    )
    assert why(plan.candidates[1], plan).startswith("as fast as the first, with ")


def test_a_faster_one_behind_the_first_says_why() -> None:
    plan = plan_of([step(1.0, 0.82), step(1.003, 0.15)])
    assert why(plan.candidates[1], plan) == "0.3 % faster, less than estimates tell, with 67.0 GB more memory"


def test_below_half_of_the_memory_fewer_axes_and_then_time_decide() -> None:
    mixed, plain = step(1.0, 0.1, Layout(fsdp=2, tensor=2)), step(1.001, 0.49)
    assert ranked([mixed, plain]) == [1, 0]
    assert ranked([step(1.001, 0.1), step(1.0, 0.49)]) == [1, 0]
    plan = plan_of([mixed, plain])
    assert "fastest, fsdp=2 tensor=2 zero=3, which mixes fewer axes; bound by" in why(plan.candidates[0], plan)
    assert why(plan.candidates[1], plan) == "0.1 % faster, less than estimates tell, which mixes more axes"


def test_the_fastest_that_is_first_says_so() -> None:
    plan = plan_of([step(1.0), step(1.1)])
    assert why(plan.candidates[0], plan).startswith("fastest that fits; ")


def test_fullness_and_axes() -> None:
    assert [crowding(step(1.0, full)) for full in (0.2, 0.5, 0.55, 0.82, 1.0)] == [0, 0, 1, 4, 5]
    assert axes(step(1.0, layout=Layout(data=2, fsdp=2, expert=2, accumulation=4))) == 4
    assert axes(step(1.0, layout=Layout())) == 0


@given(st.lists(st.tuples(st.floats(1.0, 1.05), st.floats(0.0, 1.0)), max_size=30))
def test_the_order_holds_all_once_and_never_puts_a_slower_one_far_ahead(drawn: list[tuple[float, float]]) -> None:
    steps = [step(*one) for one in drawn]
    order = ranked(steps)
    assert sorted(order) == list(range(len(steps)))
    times = [steps[place].seconds for place in order]
    assert all(one <= (1 + ALIKE) * later * (1 + 1e-12) for at, one in enumerate(times) for later in times[at:])
