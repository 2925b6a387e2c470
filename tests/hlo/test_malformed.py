"""Damaged input gives `HloError` or a module that can be used, never another exception, and in time."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction, parse_instruction_text, parse_proto, parse_shape, parse_text, to_proto
from tpuprof.hlo.load import parse_hlo
from tpuprof.hlo.proto_schema import messages

SMALL = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=8

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%cut (a: bf16[8,4]) -> bf16[2,4] {
  %a = bf16[8,4]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %sl = bf16[2,4]{1,0} slice(%a), slice={[1:3], [0:4]}
}, execution_thread="t"

ENTRY %main (p: bf16[8,4], q: f32[8]) -> (bf16[2,4], f32[]) {
  %p = bf16[8,4]{1,0:T(8,128)(2,1)} parameter(0), sharding={devices=[2,4]<=[8]}
  %q = f32[8]{0} parameter(1)
  %as = ((bf16[8,4]{1,0}), bf16[2,4]{1,0}, u32[]{:S(2)}) async-start(%p), calls=%cut
  %ad = bf16[2,4]{1,0} async-done(%as), metadata={op_name="a\\"b" stack_frame_id=1}
  %c = f32[] constant(0.5)
  %r = f32[] reduce(%q, %c), dimensions={0}, to_apply=%add
  %conv = bf16[8,4]{1,0} convolution(%p, %p), window={size=1 pad=0_0}, dim_labels=b0f_0io->b0f
  %ar = f32[] all-reduce(%r), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%add, backend_config={"a":[1]}
  ROOT %t = (bf16[2,4]{1,0}, f32[]) tuple(%ad, %ar)
}
"""
PROPERTIES = [
    name
    for name, value in vars(Instruction).items()
    if hasattr(value, "__get__") and not callable(value) and name[0] != "_"
]


def touch(module: HloModule) -> None:
    """Uses everything that a module offers; attributes are read late and may raise `HloError` then."""
    assert any(each is module.entry.root for each in module.entry.instructions)
    assert module.reachable[-1] is module.entry
    for computation in module.computations:
        for instruction in computation.instructions:
            module.operands(instruction)
            module.called(instruction)
            module.async_opcode(instruction)
            str(instruction.shape)
            for name in PROPERTIES:
                quietly(lambda: getattr(instruction, name))  # noqa: B023
            quietly(lambda: instruction.replica_groups and instruction.replica_groups.groups(8))  # noqa: B023
    quietly(lambda: parse_proto(to_proto(module)))


def quietly(action) -> None:
    with contextlib.suppress(HloError):
        action()


def read(reader, data) -> bool:
    try:
        module = reader(data)
    except HloError:
        return False
    touch(module)
    return True


def test_the_properties_are_all_there():
    assert {"replica_groups", "window", "dot_dims", "metadata", "details", "backend_config_json"} <= set(PROPERTIES)
    assert read(parse_text, SMALL)


def test_every_prefix_of_a_text():
    good = sum(read(parse_text, SMALL[:end]) for end in range(len(SMALL)))
    assert 1 <= good < 500


def test_every_prefix_of_a_message():
    data = to_proto(parse_text(SMALL))
    assert sum(read(parse_proto, data[:end]) for end in range(len(data))) < 50


@pytest.mark.parametrize("seed", range(4))
def test_mutations_of_a_text(seed: int):
    source = random.Random(seed)
    good = 0
    for _ in range(300):
        text = list(SMALL)
        for _ in range(source.choice([1, 1, 2, 5])):
            at = source.randrange(len(text))
            kind = source.random()
            if kind < 0.5:
                text[at] = source.choice("{}()[],=\"%/*<>:\\\n #ST0123456789ab-.'\x00\udcff")
            elif kind < 0.7:
                del text[at : at + source.choice([1, 3, 20])]
            else:
                other = source.randrange(len(text))
                text[at:at] = text[other : other + source.randrange(40)]
        good += read(parse_text, "".join(text))
    assert good > 5


@pytest.mark.parametrize("seed", range(4))
def test_mutations_of_a_message(seed: int):
    source = random.Random(seed)
    original = to_proto(parse_text(SMALL))
    good = 0
    for _ in range(500):
        data = bytearray(original)
        for _ in range(source.choice([1, 1, 2, 5])):
            at = source.randrange(len(data))
            if source.random() < 0.7:
                data[at] = source.randrange(256)
            else:
                data[at : at + source.choice([0, 1, 4])] = source.randbytes(source.randrange(4))
        good += read(parse_proto, bytes(data))
        read(parse_hlo, bytes(data))
    assert good > 20


def test_mutations_of_an_event_text():
    source = random.Random(7)
    line = next(line for line in SMALL.splitlines() if "%ar" in line).strip()
    for _ in range(1000):
        text = list(line)
        for _ in range(3):
            text[source.randrange(len(text))] = source.choice('{}()[],="%<:\\ 0a')
        quietly(lambda: parse_instruction_text("".join(text[: source.randrange(len(line))])))  # noqa: B023


def test_tuples_nested_ten_thousand_deep():
    for depth in (99, 101, 10_000):
        text = "(" * depth + "f32[2]{0}" + ")" * depth
        quietly(lambda: parse_shape(text))  # noqa: B023
        read(parse_text, f"HloModule m\n\nENTRY %main {{\n  ROOT %p = {text} parameter(0)\n}}\n")
    with pytest.raises(HloError, match="nested deeper than 100"):
        parse_shape("(" * 10_000 + ")" * 10_000)
    message = messages().ShapeProto(element_type=13)
    data = message.SerializeToString()
    for _ in range(2000):
        data = b"\x10\x0d\x22" + _varint(len(data)) + data
    light = messages().LightInstruction(name=b"p", opcode=b"parameter", id=1, shape=data).SerializeToString()
    module = messages().HloModuleProto(name=b"m", entry_computation_name=b"main")
    module.computations.add(name=b"main", id=1, root_id=1).instructions.append(light)
    with pytest.raises(HloError, match="no valid protobuf"):
        parse_proto(module.SerializeToString())


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m" + " " * 400_000,
        "HloModule m\n" + "\n" * 400_000,
        "HloModule m, a=" + "/*" * 200_000,
        "HloModule m, a=" + '"' * 400_001,
        "HloModule m, a=" + "\\" * 400_000,
        "HloModule m, a=" + "{}" * 200_000,
        "HloModule m, " + ", ".join(f"a{i}={{}}" for i in range(40_000)) + "\nx",
        "HloModule m\n\nENTRY %main {\n  %p = (" + "f32[2]{0}, /*index=5*/" * 20_000 + "f32[]) parameter(0)\n}\n",
        "HloModule m\n\nENTRY %main {\n  %p = f32[] parameter(0)\n  %t = f32[] tuple("
        + ", ".join(["%p"] * 60_000)
        + ")\n}\n",
        "HloModule m\n\nENTRY %main {\n  %p = f32[] constant(" + "{" * 90 + "1, " * 100_000 + "\n}\n",
        'HloModule m\n\nENTRY %main {\n  %p = f32[] parameter(0), metadata={op_name="' + "a " * 200_000 + '"}\n}\n',
        "HloModule m\n\nENTRY %main {\n  %p = f32[] parameter(0), metadata={" + "a=b " * 100_000 + "}\n}\n",
        "HloModule m\n\nENTRY %main {\n" + "  %p = f32[" * 40_000,
    ],
    ids=range(13),
)
def test_long_hostile_texts_take_linear_time(text: str):
    start = time.process_time()
    read(parse_text, text)
    quietly(lambda: parse_instruction_text("%p = " + text))
    assert time.process_time() - start < 5


def test_huge_numbers_are_no_crash():
    digits = "9" * 10_000
    for text in (
        SMALL.replace("num_partitions=8", f"num_partitions={digits}"),
        SMALL.replace("parameter(1)", f"parameter({digits})"),
        SMALL.replace("channel_id=1", f"channel_id={digits}"),
        SMALL.replace("[2,4]<=[4,2]", "[4000000000,4]<=[8000000000,2]"),
        SMALL.replace("stack_frame_id=1", f"stack_frame_id={digits}"),
        SMALL.replace("constant(0.5)", f"constant({digits})"),
        SMALL.replace("channel_id=1", "channel_id=9999999999999999999"),
    ):
        assert text != SMALL
        read(parse_text, text)
