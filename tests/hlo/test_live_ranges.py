"""Values followed through asynchronous pairs, loops and branches, on modules small enough to see the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpuprof.hlo import HloModule, parse_proto, parse_text, to_proto
from tpuprof.hlo.buffer_schema import messages
from tpuprof.hlo.buffers import parse_buffers
from tpuprof.hlo.live_ranges import live_ranges, schedule
from tpuprof.hlo.liveness import memory_use

V = "f32[8]{0}"
ASYNC = f"""HloModule pairs, is_scheduled=true

%wrapped (p: f32[8]) -> f32[4] {{
  %p = {V} parameter(0)
  ROOT %s = f32[4]{{0}} slice(%p), slice={{[0:4]}}
}}

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = {V} parameter(0)
  %x = {V} negate(%a)
  %START
  %n1 = {V} negate(%a)
  %DONE
  %n2 = {V} negate(%a)
  ROOT %r = {V} custom-call(%done, %n2), custom_call_target="f"
}}
"""
PAIRS = {
    "copy": (
        f"start = ({V}, {V}, u32[]) copy-start(%x)",
        f"done = {V} copy-done(%start)",
        (0,),
    ),
    "collective-permute": (
        f"start = ({V}, {V}) collective-permute-start(%x), source_target_pairs={{{{0,1}}}}",
        f"done = {V} collective-permute-done(%start)",
        (1,),
    ),
    "all-gather": (
        f"start = ({V}, {V}) all-gather-start(%x), dimensions={{0}}",
        f"done = {V} all-gather-done(%start)",
        (1,),
    ),
    "all-gather of two": (
        f"start = (({V}, {V}), ({V}, {V})) all-gather-start(%x, %x), dimensions={{0}}",
        f"done = ({V}, {V}) all-gather-done(%start)",
        (1, 0),
    ),
    "async": (
        f"start = (({V}), f32[4]{{0}}, u32[]) async-start(%x), calls=%wrapped",
        "done = f32[4]{0} async-done(%start)",
        (1,),
    ),
}


def ranges_of(text: str, places: list[tuple[str, tuple[int, ...]]]) -> list[tuple[int, int]]:
    """The ranges of buffers that these instructions define at these places of their shapes."""
    module, order = with_buffers(text, places)
    buffers = parse_buffers(module)
    assert buffers is not None
    found = live_ranges(module, buffers, schedule(module))
    return [found[number] for number in order]


def with_buffers(
    text: str, places: list[tuple[str, tuple[int, ...]]], offsets: list[int] | None = None
) -> tuple[HloModule, list[int]]:
    module = parse_proto(to_proto(parse_text(text)))
    message = messages().BufferAssignmentProto()
    allocation = message.buffer_allocations.add(size=4096)
    for number, (name, index) in enumerate(places):
        buffer = message.logical_buffers.add(id=number, size=32)
        buffer.defined_at.instruction_id = module.instruction(name).id
        buffer.defined_at.shape_index.extend(index)
        offset = 32 * number if offsets is None else offsets[number]
        allocation.assigned.add(logical_buffer_id=number, size=32, offset=offset)
    return replace(module, buffer_assignment=message.SerializeToString()), list(range(len(places)))


@pytest.mark.parametrize("pair", PAIRS)
def test_both_ends_of_a_transfer_are_in_use_while_it_runs(pair: str) -> None:
    start, done, index = PAIRS[pair]
    text = ASYNC.replace("START", start).replace("DONE", done)
    where = {i.name: at for at, i in enumerate(schedule(parse_text(text)).instructions)}
    (source, target) = ranges_of(text, [("x", ()), ("start", index)])
    assert source == (where["x"], where["done"])
    assert target == (where["start"], where["r"])


def test_the_result_of_a_wrapped_computation_is_that_of_the_pair() -> None:
    start, done, _ = PAIRS["async"]
    text = ASYNC.replace("START", start).replace("DONE", done)
    where = {i.name: at for at, i in enumerate(schedule(parse_text(text)).instructions)}
    assert where["s"] < where["start"]
    (inner,) = ranges_of(text, [("s", ())])
    assert inner == (where["s"], where["r"])


LOOP = f"""HloModule loop, is_scheduled=true

%body (p: (f32[8], f32[8])) -> (f32[8], f32[8]) {{
  %p = ({V}, {V}) parameter(0)
  %v = {V} get-tuple-element(%p), index=0
  %k = {V} get-tuple-element(%p), index=1
  %next = {V} add(%v, %k)
  ROOT %t = ({V}, {V}) tuple(%next, %k)
}}

%condition (q: (f32[8], f32[8])) -> pred[] {{
  %q = ({V}, {V}) parameter(0)
  ROOT %on = pred[] constant(true)
}}

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = {V} parameter(0)
  %first = {V} negate(%a)
  %kept = {V} negate(%a)
  %in = ({V}, {V}) tuple(%first, %kept)
  %w = ({V}, {V}) while(%in), condition=%condition, body=%body
  %g = {V} get-tuple-element(%w), index=0
  ROOT %r = {V} negate(%g)
}}
"""


def test_what_a_loop_passes_on_is_in_use_until_its_end() -> None:
    where = {i.name: at for at, i in enumerate(schedule(parse_text(LOOP)).instructions)}
    assert where["in"] < where["q"] < where["p"] < where["next"] < where["t"] < where["w"]
    first, kept, carried, made, out = ranges_of(
        LOOP, [("first", ()), ("kept", ()), ("p", (0,)), ("next", ()), ("w", (0,))]
    )
    assert first == (where["first"], where["w"])
    assert kept == (where["kept"], where["w"])
    assert carried == (where["p"], where["next"])
    assert made == (where["next"], where["t"])
    assert out == (where["w"], where["r"])


def test_the_memory_of_a_loop_has_the_name_of_a_value_that_was_computed() -> None:
    places: list[tuple[str, tuple[int, ...]]] = [("first", ()), ("p", (0,)), ("next", ()), ("w", (0,)), ("kept", ())]
    module, _ = with_buffers(LOOP, places, [0, 0, 0, 0, 64])
    buffers = parse_buffers(module)
    assert buffers is not None
    use = memory_use(module, buffers)
    assert use is not None
    (space,) = use.spaces
    assert space.peak == 64
    assert space.peak_instruction.name == "kept"
    # Where the loop runs, its parameter and its first value share the place.
    longer = LOOP.replace("%next = ", "%more = f32[8]{0} negate(%v)\n  %next = ").replace(
        "add(%v, %k)", "add(%v, %more)"
    )
    module, _ = with_buffers(longer, [*places, ("more", ())], [0, 0, 0, 0, 64, 128])
    buffers = parse_buffers(module)
    assert buffers is not None
    use = memory_use(module, buffers)
    assert use is not None
    (space,) = use.spaces
    assert (space.peak, space.peak_instruction.name) == (96, "more")
    names = [each.buffer.instruction.name for each in space.live if each.buffer and each.buffer.instruction]
    assert names == ["first", "kept", "more"]
