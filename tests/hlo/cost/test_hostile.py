"""Programs that are damaged, absurd, or nested without end: no wrong answer, no other error than ours."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hlo.cost.programs import ASYNC, recomputed
from tpuprof.errors import HloError, TpuprofError
from tpuprof.hlo import parse_proto, to_proto
from tpuprof.hlo.cost import program_cost
from tpuprof.hlo.text import parse_text

MODULES = [to_proto(parse_text(text)) for text in (ASYNC, recomputed("fusion", "jit(f)"))]


@settings(max_examples=300)
@given(
    st.sampled_from(MODULES), st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damaged_bytes_raise_our_errors_or_none(data: bytes, changes: list[tuple[int, int]]):
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    try:
        module = parse_proto(bytes(damaged))
    except HloError:
        return
    try:
        cost = program_cost(module)
    except TpuprofError:
        return
    assert cost.totals.flops >= 0
    for op in cost.ops.values():
        assert (op.flops is None) == (op.source is None)
        assert op.flops is not None or op.reason


def loops(depth: int, trips: str) -> str:
    """Loops in loops, each with a noted number of iterations."""
    state = "(s32[], f32[64])"
    parts = ["HloModule m\n"]
    for n in range(depth):
        note = f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
        work = (
            f"  %loop.{n} = {state} while(%s.{n}), condition=%condition.{n - 1}, body=%body.{n - 1}{note}"
            if n
            else f"  %x = f32[64] get-tuple-element(%s.{n}), index=1\n  %sort = f32[64] sort(%x), dimensions={{0}}, "
            "to_apply=%less"
        )
        parts.append(
            f"%condition.{n} (c.{n}: {state}) -> pred[] {{\n  %c.{n} = {state} parameter(0)\n"
            f"  ROOT %yes.{n} = pred[] constant(true)\n}}\n\n"
            f"%body.{n} (s.{n}: {state}) -> {state} {{\n  %s.{n} = {state} parameter(0)\n{work}\n"
            f"  ROOT %out.{n} = {state} copy(%s.{n})\n}}\n"
        )
    less = (
        "%less (l: f32[], r: f32[]) -> pred[] {\n  %l = f32[] parameter(0)\n  %r = f32[] parameter(1)\n"
        "  ROOT %lt = pred[] compare(%l, %r), direction=LT\n}\n"
    )
    parts.insert(1, less)
    last = depth - 1
    return "\n".join(parts) + (
        f"\nENTRY %main (a: {state}) -> {state} {{\n  %a = {state} parameter(0)\n"
        f"  ROOT %outer = {state} while(%a), condition=%condition.{last}, body=%body.{last}\n}}\n"
    )


def test_loops_that_would_run_longer_than_can_be_counted():
    with pytest.raises(HloError) as error:
        program_cost(parse_text(loops(80, "9000000000000000000")))
    assert "would run more often than can be counted" in str(error.value)
    assert "the module is damaged" in str(error.value).lower()


def test_nested_without_end_is_costed_in_time():
    start = time.process_time()
    cost = program_cost(parse_text(loops(300, "1")))
    assert time.process_time() - start < 5
    assert cost.totals.vector_flops == 64 * 6
    assert cost.is_lower_bound  # the outermost loop says nothing of its iterations


def test_a_long_chain_of_fusions_in_fusions():
    parts = ["HloModule m\n"]
    for n in range(250):
        inner = f"fusion(%p.{n}), kind=kLoop, calls=%fused.{n - 1}" if n else f"negate(%p.{n})"
        parts.append(
            f"%fused.{n} (p.{n}: f32[8]) -> f32[8] {{\n  %p.{n} = f32[8] parameter(0)\n"
            f"  ROOT %r.{n} = f32[8] {inner}\n}}\n"
        )
    parts.append(
        "ENTRY %main (a: f32[8]) -> f32[8] {\n  %a = f32[8] parameter(0)\n"
        "  ROOT %top = f32[8] fusion(%a), kind=kLoop, calls=%fused.249\n}\n"
    )
    found = program_cost(parse_text("\n".join(parts))).ops["top"]
    assert (found.flops, found.bytes) == (8, {"hbm": 64})


@pytest.mark.parametrize(
    "shape", ["f32[9000000000000000000,9000000000000000000]", "f32[0]", "f32[]", "f32[<=8]", "f32[?]", "f32[0,8,0]"]
)
def test_odd_shapes(shape: str):
    text = f"""HloModule m

ENTRY %main (a: {shape}) -> {shape} {{
  %a = {shape} parameter(0)
  ROOT %sum = {shape} add(%a, %a)
}}
"""
    op = program_cost(parse_text(text)).ops["sum"]
    if shape == "f32[?]":
        assert (op.flops, op.bytes) == (None, None)
        assert op.reason is not None
        assert "unbounded" in op.reason
    else:
        assert op.flops is not None
        assert op.flops >= 0
        assert op.bytes is not None
