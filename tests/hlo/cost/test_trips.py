"""How often loops run: known, derived from condition, start and step, or not to be found out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hlo.cost import ProgramCost, TripCount, program_cost
from tpuprof.hlo.text import parse_text

STATE = "(s32[], f32[4,4], s32[])"


def loop(
    *,
    start: str = "constant(0)",
    limit: str = "constant(24)",
    step: str = "constant(1)",
    direction: str = "LT",
    sides: str = "%c.i, %c.limit",
    update: str = "add(%i, %step)",
    kept: str = "%s.2",
    config: str = "",
    test: str = "",
    extra: str = "",
) -> str:
    """A loop over a dot of 4 x 4 x 4 (128 FLOPs); its state is (counter, matrix, spare number)."""
    compare = test or f"  ROOT %less = pred[] compare({sides}), direction={direction}"
    return f"""HloModule m

{extra}
%body (s: {STATE}) -> {STATE} {{
  %s = {STATE} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[4,4] get-tuple-element(%s), index=1
  %s.2 = s32[] get-tuple-element(%s), index=2
  %step = s32[] {step}
  %next = s32[] {update}
  %dot = f32[4,4] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %state = {STATE} tuple(%next, %dot, {kept})
}}

%condition (c: {STATE}) -> pred[] {{
  %c = {STATE} parameter(0)
  %c.i = s32[] get-tuple-element(%c), index=0
  %c.limit = s32[] {limit}
{compare}
}}

ENTRY %main (a: f32[4,4], n: s32[]) -> f32[4,4] {{
  %a = f32[4,4] parameter(0)
  %n = s32[] parameter(1)
  %start = s32[] {start}
  %spare = s32[] constant(7)
  %init = {STATE} tuple(%start, %a, %spare)
  %loop = {STATE} while(%init), condition=%condition, body=%body{config}
  ROOT %result = f32[4,4] get-tuple-element(%loop), index=1
}}
"""


def cost(text: str, **arguments: dict[str, int]) -> ProgramCost:
    return program_cost(parse_text(text), **arguments)


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        (loop(), 24),
        (loop(direction="LE"), 25),
        (loop(direction="NE"), 24),
        (loop(start="constant(1)"), 23),
        (loop(step="constant(2)"), 12),
        (loop(step="constant(5)"), 5),
        (loop(start="constant(24)"), 0),
        (loop(start="constant(100)", limit="constant(3)", direction="GT", step="constant(-1)"), 97),
        (loop(start="constant(100)", limit="constant(3)", direction="GE", update="subtract(%i, %step)"), 98),
        (loop(sides="%c.limit, %c.i", direction="GT"), 24),
        (loop(sides="%c.limit, %c.i", direction="GE"), 25),
        (loop(limit="get-tuple-element(%c), index=2"), 7),  # the limit is kept in the state
        (loop(step="get-tuple-element(%s), index=2"), 4),  # so is the step: 0, 7, 14, 21
        (loop(update="add(%step, %i)"), 24),
        (loop(limit="constant(-3)"), 0),
    ],
)
def test_derived_from_the_condition(text: str, trips: int):
    found = cost(text)
    assert found.trip_counts == {"loop": TripCount(trips, "derived")}
    assert found.totals.matmul_flops == trips * 128
    assert found.executions["dot"] == trips
    assert found.executions["c.i"] == trips + 1  # the condition is asked once more
    assert not found.is_lower_bound


def test_the_condition_and_the_step_may_be_fused():
    extra = """
%fused_less (p0: s32[], p1: s32[]) -> pred[] {
  %p0 = s32[] parameter(0)
  %p1 = s32[] parameter(1)
  ROOT %compare = pred[] compare(%p1, %p0), direction=LT
}

%fused_add (q0: s32[]) -> s32[] {
  %q0 = s32[] parameter(0)
  %three = s32[] constant(3)
  ROOT %sum = s32[] add(%q0, %three)
}
"""
    text = loop(
        extra=extra,
        test="  ROOT %less = pred[] fusion(%c.limit, %c.i), kind=kLoop, calls=%fused_less",
        update="fusion(%i), kind=kLoop, calls=%fused_add",
    )
    assert cost(text).trip_counts["loop"].trips == 8


def test_copies_and_conversions_are_looked_through():
    text = loop(limit="constant(24)\n  %c.copy = s32[] copy(%c.limit)\n  %c.bitcast = s32[] bitcast(%c.copy)",
                sides="%c.i, %c.bitcast", start="constant(3)\n  %zero.copy = s32[] copy(%start)")  # fmt: skip
    assert cost(text).trip_counts["loop"].trips == 21


def test_the_number_that_the_compiler_noted_counts_first():
    config = ', backend_config={"known_trip_count":{"n":"5"}}'
    found = cost(loop(config=config))
    assert found.trip_counts["loop"] == TripCount(5, "known_trip_count")


@pytest.mark.parametrize("noted", ['{"known_trip_count":{"n":"-5"}}', '{"known_trip_count":7}', '{"known_trip_count":'])
def test_a_note_that_makes_no_sense_is_passed_over(noted: str):
    quoted = '"' + noted.replace('"', '\\"') + '"'
    assert cost(loop(config=f", backend_config={quoted}")).trip_counts["loop"] == TripCount(24, "derived")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (loop(start="copy(%n)"), "its counter does not begin with a constant"),
        (loop(limit="get-tuple-element(%c), index=2", kept="%next"), "its limit is no constant"),
        (loop(update="multiply(%i, %step)"), "the step of its counter is no constant"),
        (loop(update="copy(%s.2)"), "its counter is not counted on from its own value"),
        (loop(step="constant(-1)"), "its counter moves away from its limit"),
        (loop(step="constant(0)"), "its counter moves away from its limit"),
        (loop(direction="NE", step="constant(5)"), "its counter never meets its limit"),
        (loop(direction="EQ", limit="constant(0)"), "its condition compares with EQ"),
        (loop(test="  ROOT %less = pred[] constant(true)"), "its condition is no comparison of a counter with a limit"),
        (loop(limit="constant(4)", sides="%c.limit, %c.limit"), "its condition does not depend on its state"),
    ],
)
def test_what_cannot_be_found_out_counts_once_and_says_why(text: str, why: str):
    found = cost(text)
    assert found.trip_counts["loop"] == TripCount(1, None, f"trip count unknown: {why}")
    assert found.totals.matmul_flops == 128
    assert found.is_lower_bound
    assert found.lower_bound_reasons == (f"loop: trip count unknown: {why}",)


def test_the_user_may_say_it():
    found = cost(loop(start="copy(%n)"), trips={"loop": 11})
    assert found.trip_counts["loop"] == TripCount(11, "user")
    assert found.totals.matmul_flops == 11 * 128
    assert not found.is_lower_bound


def test_a_negative_number_of_iterations_is_refused():
    with pytest.raises(UsageError) as error:
        cost(loop(), trips={"loop": -1})
    assert str(error.value) == "The loop 'loop' cannot run -1 times. Give 0 or more iterations."


@given(
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(-7, 7),
    st.sampled_from(["LT", "LE", "GT", "GE", "NE"]),
)
def test_as_often_as_counting_it_out(start: int, limit: int, step: int, direction: str):
    holds = {
        "LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "NE": int.__ne__,
    }[direction]  # fmt: skip
    value, trips = start, 0
    while holds(value, limit) and trips < 200:
        value, trips = value + step, trips + 1
    text = loop(start=f"constant({start})", limit=f"constant({limit})", step=f"constant({step})", direction=direction)
    found = cost(text).trip_counts["loop"]
    expected = TripCount(trips, "derived")
    assert (found.source is None) if trips == 200 else (found == expected)


def test_a_chain_of_two_thousand_copies_is_given_up_without_an_error():
    chain = "constant(0)\n" + "\n".join(
        f"  %copy.{n} = s32[] copy(%{'start' if n == 0 else f'copy.{n - 1}'})" for n in range(2_000)
    )
    text = loop(start=chain).replace("tuple(%start,", "tuple(%copy.1999,")
    assert cost(text).trip_counts["loop"].source is None
