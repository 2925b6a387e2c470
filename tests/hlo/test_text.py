# ruff: noqa: E501 (instructions of HLO text stand on one line each)

from __future__ import annotations

import textwrap

import pytest

from tpuprof.errors import HloError
from tpuprof.hlo import DotDims, Frame, Instruction, WindowDim, parse_instruction_text, parse_shape, parse_text

TRAIN_STEP = """
HloModule jit_train_step, is_scheduled=true, num_partitions=1

%region_0 (x: bf16[], y: bf16[]) -> bf16[] {
  %x = bf16[] parameter(0)
  %y = bf16[] parameter(1)
  ROOT %add.9 = bf16[] add(bf16[] %x, bf16[] %y)
}

%fused_computation.1 (p0: bf16[4096,1024]) -> bf16[4096,1024] {
  %p0 = bf16[4096,1024]{1,0} parameter(0)
  ROOT %multiply.1 = bf16[4096,1024]{1,0} multiply(bf16[4096,1024]{1,0} %p0, bf16[4096,1024]{1,0} %p0)
}

%fused_computation.2 (p0.1: bf16[4096,1024], p1.1: bf16[1024,3584]) -> bf16[4096,3584] {
  %p0.1 = bf16[4096,1024]{1,0} parameter(0)
  %p1.1 = bf16[1024,3584]{1,0} parameter(1)
  ROOT %dot.1 = bf16[4096,3584]{1,0} dot(bf16[4096,1024]{1,0} %p0.1, bf16[1024,3584]{1,0} %p1.1), \
lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main.1 (a: bf16[4096,1024], w: bf16[1024,3584]) -> bf16[4096,3584] {
  %a = bf16[4096,1024]{1,0} parameter(0)
  %w = bf16[1024,3584]{1,0} parameter(1)
  %fusion.1 = bf16[4096,1024]{1,0} fusion(bf16[4096,1024]{1,0} %a), kind=kLoop, \
calls=%fused_computation.1, metadata={op_name="jit(train_step)/jit(main)/mlp/mul"}
  %fusion.2 = bf16[4096,3584]{1,0} fusion(bf16[4096,1024]{1,0} %fusion.1, bf16[1024,3584]{1,0} %w), \
kind=kOutput, calls=%fused_computation.2, metadata={op_name="jit(train_step)/jit(main)/mlp/dot_general"}
  %all-reduce.3 = bf16[4096,3584]{1,0} all-reduce(bf16[4096,3584]{1,0} %fusion.2), replica_groups={}, \
to_apply=%region_0, metadata={op_name="jit(train_step)/jit(main)/psum"}
  ROOT %copy.4 = bf16[4096,3584]{0,1} copy(bf16[4096,3584]{1,0} %all-reduce.3)
}
"""


def module_with(body: str, head: str = "HloModule m") -> str:
    return f"{head}\n\nENTRY %main {{\n{textwrap.indent(textwrap.dedent(body).strip(), '  ')}\n}}\n"


def one(line: str) -> Instruction:
    module = parse_text(module_with(f"%p = f32[8,8]{{1,0}} parameter(0)\nROOT {line}"))
    return module.entry.root


def test_the_train_step():
    module = parse_text(TRAIN_STEP)
    assert module.name == "jit_train_step"
    assert module.is_scheduled
    assert (module.num_partitions, module.replica_count, module.id) == (1, 1, 0)
    assert [c.name for c in module.computations] == ["region_0", "fused_computation.1", "fused_computation.2", "main.1"]
    assert module.entry_name == "main.1"
    assert [i.name for i in module.entry.instructions] == ["a", "w", "fusion.1", "fusion.2", "all-reduce.3", "copy.4"]
    assert module.entry.root is module.instruction("%copy.4")
    assert [p.name for p in module.entry.parameters] == ["a", "w"]
    fusion = module.instruction("fusion.2")
    assert (fusion.opcode, fusion.fusion_kind) == ("fusion", "kOutput")
    assert fusion.called == (("calls", "fused_computation.2"),)
    assert [c.name for c in module.called(fusion)] == ["fused_computation.2"]
    assert module.operands(fusion) == (module.instruction("fusion.1"), module.instruction("w"))
    assert [i.name for i in module.callers["fused_computation.2"]] == ["fusion.2"]
    assert fusion.operand_shapes == (parse_shape("bf16[4096,1024]{1,0}"), parse_shape("bf16[1024,3584]{1,0}"))
    assert fusion.metadata.op_name == "jit(train_step)/jit(main)/mlp/dot_general"
    dot = module.computation("%fused_computation.2").root
    assert dot.dot_dims == DotDims((1,), (0,), (), ())
    reduce = module.instruction("all-reduce.3")
    assert reduce.replica_groups is not None
    assert reduce.replica_groups.groups(4) == ((0, 1, 2, 3),)
    assert reduce.called_by_role("to_apply") == ("region_0",)
    assert repr(module) == "<HloModule jit_train_step, 4 computations, 14 instructions>"


def test_lookups_say_what_is_missing():
    module = parse_text(TRAIN_STEP)
    assert module.find("nothing") is None
    with pytest.raises(KeyError, match="nothing"):
        module.instruction("nothing")
    with pytest.raises(KeyError, match="nothing"):
        module.computation("nothing")


def test_percent_signs_and_operand_shapes_change_nothing():
    plain = TRAIN_STEP.replace("%", "").replace("(bf16[4096,1024]{1,0} a)", "(a)")
    assert parse_text(plain) == parse_text(TRAIN_STEP)


def test_comments_blank_lines_and_windows_line_ends_change_nothing():
    noisy = "// a dump\n\n" + TRAIN_STEP.replace("\n", "\r\n").replace(", kind", ", /*x*/ kind").replace(
        "{1,0} %w)", "{1,0} /*index=1*/%w)"
    )
    assert parse_text(noisy.replace(", /*x*/ kind", ", kind")) == parse_text(TRAIN_STEP)


@pytest.mark.parametrize("shift", [0, 1])
def test_sources_come_from_the_stack_frames_in_either_numbering(shift: int):
    # Older text writes parent 0 for the outermost frame, recent text counts parents one higher.
    head = f"""HloModule m

FileNames
1 "/src/main.py"
2 "/src/model \\"v2\\".py"

FunctionNames
1 "<module>"
2 "layer"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=10 end_line=10 column=2 end_column=2}}
2 {{file_name_id=2 function_name_id=2 line=77 end_line=78 column=4 end_column=9}}

StackFrames
1 {{file_location_id=1 parent_frame_id={shift}}}
2 {{file_location_id=2 parent_frame_id={1 + shift}}}
"""
    module = parse_text(module_with('ROOT %p = f32[] parameter(0), metadata={op_name="x" stack_frame_id=2}', head))
    metadata = module.instruction("p").metadata
    assert (metadata.source_file, metadata.source_line, metadata.source_end_line) == ('/src/model "v2".py', 77, 78)
    assert module.instruction("p").stack == (
        Frame('/src/model "v2".py', "layer", 77, 4),
        Frame("/src/main.py", "<module>", 10, 2),
    )


def test_a_source_given_directly_wins_and_dangling_frames_are_unknown():
    found = one('%n = f32[8,8]{1,0} negate(%p), metadata={source_file="a b.py" source_line=3 stack_frame_id=9 odd={x}}')
    assert (found.metadata.source_file, found.metadata.source_line) == ("a b.py", 3)
    assert found.metadata.other == (("odd", "{x}"),)
    assert found.stack == ()


def test_a_circle_of_frames_ends():
    head = """HloModule m

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1}

StackFrames
1 {file_location_id=1 parent_frame_id=0}
2 {file_location_id=1 parent_frame_id=3}
3 {file_location_id=1 parent_frame_id=2}
"""
    module = parse_text(module_with("ROOT %p = f32[] parameter(0), metadata={stack_frame_id=2}", head))
    assert len(module.instruction("p").stack) == 2


def test_convolution_attributes():
    conv = one(
        "%c = f32[8,8]{1,0} convolution(%p, %p), window={size=3x1 stride=2x1 pad=0_1x1_0 lhs_dilate=1x2 rhs_dilate=4x1 "
        "rhs_reversal=1x0}, dim_labels=01bf_o1i0->bf01, feature_group_count=4"
    )
    assert conv.window == (WindowDim(3, 2, 0, 1, 1, 4, True), WindowDim(1, 1, 1, 0, 2, 1, False))
    assert conv.conv_dims is not None
    assert (conv.conv_dims.input_batch, conv.conv_dims.input_feature, conv.conv_dims.input_spatial) == (2, 3, (0, 1))
    assert (conv.conv_dims.kernel_output, conv.conv_dims.kernel_input, conv.conv_dims.kernel_spatial) == (0, 2, (3, 1))
    assert (conv.feature_group_count, conv.batch_group_count) == (4, 1)


def test_slices_pads_and_pairs():
    assert one("%s = f32[4,2]{1,0} slice(%p), slice={[0:8:2], [3:5:1]}").slices == ((0, 8, 2), (3, 5, 1))
    assert one("%s = f32[4,2]{1,0} dynamic-slice(%p, %p, %p), dynamic_slice_sizes={4,2}").dynamic_slice_sizes == (4, 2)
    assert one("%s = f32[9,9]{1,0} pad(%p, %p), padding=0_1x-1_2_3").padding == ((0, 1, 0), (-1, 2, 3))
    permute = one("%c = f32[8,8]{1,0} collective-permute(%p), channel_id=7, source_target_pairs={{0,1},{1,0}}")
    assert permute.source_target_pairs == ((0, 1), (1, 0))
    assert permute.channel_id == 7
    assert one("%i = s32[8,8]{1,0} iota(), iota_dimension=1").dimensions == (1,)
    assert one("%r = f32[8]{0} reduce(%p, %p), dimensions={1}").dimensions == (1,)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s32[] constant(-24)", -24),
        ("s64[] constant(-9223372036854775808)", -(1 << 63)),
        ("u8[]{:T(512)} constant(255)", 255),
        ("pred[] constant(true)", True),
        ("f32[]{:T(128)} constant(0.999)", 0.9990000128746033),
        ("bf16[] constant(0.1001)", 0.10009765625),
        ("f32[] constant(-inf)", float("-inf")),
        ("c64[] constant((1.5, -2))", 1.5 - 2j),
        ("s32[2]{0} constant({1, 2})", None),
        ("s32[] constant({...})", None),
        ("f8e4m3fn[] constant(1)", None),
    ],
)
def test_scalar_constants(text: str, value: object):
    assert one(f"%c = {text}").constant == value


def test_arrays_of_constants():
    assert one("%c = s32[2,3]{1,0} constant({ { 1, 2, 3 }, { 4, 5, 6 } })").values == (1, 2, 3, 4, 5, 6)
    assert one("%c = pred[3]{0} constant({1, 0, 1})").values == (True, False, True)
    assert one("%c = s32[2]{0} constant({1, 2, 3})").values is None
    assert one("%c = s32[4000]{0} constant({...})").values is None


def test_unknown_attributes_are_kept_as_written():
    found = one(
        '%n = f32[8,8]{1,0} negate(%p), new_thing={a={1,2},b="},x="}, other=7, flag=false, metadata={op_type="t"}'
    )
    assert found.attributes == {"new_thing": '{a={1,2},b="},x="}', "other": "7"}
    assert found.metadata.op_type == "t"


def test_escapes_and_configs():
    found = one(
        '%c = f32[8,8]{1,0} custom-call(%p), custom_call_target="a\\"b\\\\\\303\\251", backend_config={"x":{"y":[1,"}"]}}, '
        'frontend_attributes={k="v \\n w",j={"a": 1}}, sharding={devices=[2,4]<=[8]}, is_host_transfer=true'
    )
    assert found.custom_call_target == 'a"b\\é'
    assert found.backend_config == '{"x":{"y":[1,"}"]}}'
    assert found.backend_config_json == {"x": {"y": [1, "}"]}}
    assert found.frontend_attributes == {"k": "v \n w", "j": '{"a": 1}'}
    assert found.sharding == "{devices=[2,4]<=[8]}"
    assert found.is_host_transfer
    quoted = one('%c = f32[8,8]{1,0} custom-call(%p), custom_call_target="x", backend_config="not \\"json\\""')
    assert quoted.backend_config == 'not "json"'
    assert quoted.backend_config_json is None
    deep = one('%c = f32[8,8]{1,0} custom-call(%p), custom_call_target="x", backend_config="' + "[" * 50_000 + '"')
    assert deep.backend_config_json is None


def test_branches_of_both_kinds_of_conditional():
    text = """HloModule m

%t (x: f32[]) -> f32[] {
  ROOT %x = f32[] parameter(0)
}

%f (y: f32[]) -> f32[] {
  ROOT %y = f32[] parameter(0)
}

ENTRY %main (p: f32[], q: pred[], i: s32[]) -> f32[] {
  %p = f32[] parameter(0)
  %q = pred[] parameter(1)
  %i = s32[] parameter(2)
  %one = f32[] conditional(%q, %p, %p), true_computation=%t, false_computation=%f
  ROOT %two = f32[] conditional(%i, %p, %one), branch_computations={%f, %t}
}
"""
    module = parse_text(text)
    assert module.instruction("one").called == (("branch", "t"), ("branch", "f"))
    assert module.instruction("two").called == (("branch", "f"), ("branch", "t"))


def test_the_short_form_of_async_operations_is_spelled_out():
    module = parse_text(
        module_with("""
        %p = f32[8,16]{1,0} parameter(0)
        %s = ((f32[8,16]{1,0}), f32[4,16]{1,0:S(1)}, u32[]{:S(2)}) slice-start(%p), async_execution_thread="sparsecore", slice={[2:6], [0:16]}, metadata={op_name="cut"}
        %u = ((f32[8,16]{1,0}), f32[4,16]{1,0:S(1)}, u32[]{:S(2)}) slice-update(%s)
        ROOT %d = f32[4,16]{1,0:S(1)} slice-done(%u)
        """)
    )
    start, done = module.instruction("s"), module.instruction("d")
    assert [module.instruction(n).opcode for n in "sud"] == ["async-start", "async-update", "async-done"]
    assert start.async_execution_thread == "sparsecore"
    assert start.attributes == {"async_execution_thread": '"sparsecore"'}
    assert [module.async_opcode(module.instruction(n)) for n in "sud"] == ["slice", "slice", "slice"]
    assert module.async_opcode(module.instruction("p")) is None
    assert module.async_start(done) is start
    (wrapped,) = module.called(start)
    assert wrapped.execution_thread == "sparsecore"
    assert (wrapped.root.opcode, wrapped.root.slices) == ("slice", ((2, 6, 1), (0, 16, 1)))
    assert wrapped.root.metadata.op_name == "cut"
    assert wrapped.root.shape == done.shape
    assert [p.shape for p in wrapped.parameters] == [parse_shape("f32[8,16]{1,0}")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Line 1, column 1: expected 'HloModule NAME'"),
        ("HloModule m\n", "the module has no computations"),
        ("HloModule m\njunk", "Line 2, column 1: expected a computation, found 'junk'"),
        ("HloModule m, x\n", "Line 1, column 13: expected key=value"),
        (
            module_with("%p = f32[] parameter(0)\n%p = f32[] parameter(1)"),
            "Line 5, column 3: instruction 'p' is defined twice",
        ),
        (module_with("%n = f32[] negate(%p)"), "Line 4, column 3: 'n' uses 'p' before it is defined"),
        (module_with("ROOT %p = f32[] parameter(0)\nROOT %q = f32[] parameter(1)"), "computation 'main' has two roots"),
        (module_with("%p = f32[2 parameter(0)"), "Line 4, column 8: expected a shape"),
        (module_with("%p = f32[2]{1} parameter(0)"), "does not order the 1 dimensions"),
        (module_with("%p = f32[] parameter"), "Line 4, column 13: expected an opcode and '('"),
        ("HloModule m\n\n%a {\n  %p = f32[] parameter(0", "Line 4, column 23: '(' is never closed"),
        (module_with("%p = f32[] parameter(0}"), "'}' closes nothing that is open"),
        (module_with("%p = f32[] parameter(0) x"), "expected ',' or the end of the line, found 'x"),
        (module_with("%p = f32[] parameter(0), a=1, a=2"), "attribute 'a' is given twice"),
        (module_with('%p = f32[] parameter(0), a="x'), "a quoted string does not end"),
        (module_with("%p = f32[] parameter(0), a={/* }"), "a comment does not end"),
        (module_with("%p = f32[] parameter(0), calls=%gone"), "calls 'gone', which the module lacks"),
        (
            module_with("%p = f32[] parameter(0), control-predecessors={%gone}"),
            "control predecessor that does not exist",
        ),
        (module_with("%p = f32[] parameter(0), calls=%main"), "call each other in a circle"),
        (module_with("%p = f32[] parameter(0)").replace("ENTRY %main {", "ENTRY %main () {"), "expected '->'"),
        ("HloModule m\n\n%a {\n}\n", "has no instructions"),
        ('HloModule m\n\nFileNames\n2 "x"\n', "row 2 of FileNames stands at place 1"),
        (module_with("%p = f32[] parameter(0)") * 2, "expected a computation"),
        (module_with("%p = " + "(" * 10_000 + ")" * 10_000 + " parameter(0)"), "nested deeper than 100"),
    ],
)
def test_errors_say_where_and_what(text: str, message: str):
    with pytest.raises(HloError) as error:
        parse_text(text)
    assert message in str(error.value)
    assert "HLO text" in str(error.value) or "odule" in str(error.value) or "omputation" in str(error.value)


@pytest.mark.parametrize(
    "attribute",
    ["window={size=3 pad=0x1}", "dim_labels=b0_io->bf", "slice={[a:b]}", "padding=1", "replica_groups={{x}}",
     "source_target_pairs={{0}}", "channel_id=x", "dynamic_slice_sizes={x}"],
)  # fmt: skip
def test_a_damaged_attribute_is_an_error_when_it_is_read(attribute: str):
    found = one(f"%n = f32[8,8]{{1,0}} dot(%p, %p), {attribute}")
    names = ("window", "conv_dims", "slices", "padding", "replica_groups", "source_target_pairs", "channel_id",
             "dynamic_slice_sizes")  # fmt: skip
    failed = []
    for name in names:
        try:
            getattr(found, name)
        except HloError as error:
            failed.append((name, str(error)))
    assert len(failed) == 1
    assert failed[0][1]


# ---- a single instruction, as trace events carry it ----

COPY_DONE = (
    "%copy-done = bf16[512,512]{1,0:T(8,128)(2,1)S(1)} copy-done((bf16[512,512]{1,0:T(8,128)(2,1)S(1)}, "
    "bf16[512,512]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) %copy-start)"
)


def test_the_text_of_an_event():
    found = parse_instruction_text(COPY_DONE)
    assert (found.name, found.opcode, found.operands) == ("copy-done", "copy-done", ("copy-start",))
    assert found.shape == parse_shape("bf16[512,512]{1,0:T(8,128)(2,1)S(1)}")
    (operand,) = found.operand_shapes
    assert operand is not None
    assert [str(part) for part in operand.tuple_shapes][2] == "u32[]{:S(2)}"
    assert not found.truncated


def test_the_text_of_a_fusion_event():
    found = parse_instruction_text(
        '%fusion.2 = f32[8]{0} fusion(f32[8]{0} %a, s32[] %b), kind=kLoop, calls=%fused, metadata={op_name="x"}'
    )
    assert (found.fusion_kind, found.called, found.operands) == ("kLoop", (("calls", "fused"),), ("a", "b"))
    assert found.metadata.op_name == "x"


def test_every_cut_of_an_event_text_gives_what_is_there():
    text = COPY_DONE + ', metadata={op_name="jit(f)/x"}, backend_config={"a":1}'
    whole = parse_instruction_text(text)
    name_end, shape_end = text.index("=") + 1, text.index(" copy-done(") + 1
    for end in range(name_end, len(text)):
        found = parse_instruction_text(text[:end])
        assert found.name == "copy-done"
        if end >= shape_end:
            assert found.shape == whole.shape
        elif end < shape_end - 1 - len("{1,0:T(8,128)(2,1)S(1)}"):
            assert found.shape.dtype == "unknown"
            assert found.shape.byte_size is None
            assert found.shape.elements is None
        if end >= shape_end + len("copy-done("):
            assert found.opcode == "copy-done"
        if end < len(COPY_DONE):
            assert found.truncated
        if end >= len(COPY_DONE):
            assert found.operands == ("copy-start",)


def test_a_cut_within_the_operands_keeps_the_whole_ones():
    found = parse_instruction_text("%f.1 = f32[8]{0} fusion(f32[8]{0} %a, s32[] %b, f32[8]{0} %c")
    assert found.truncated
    assert (found.opcode, found.operands) == ("fusion", ("a", "b"))


def test_a_cut_within_the_attributes_keeps_the_whole_ones():
    found = parse_instruction_text('%f.1 = f32[8]{0} fusion(%a), kind=kOutput, calls=%fused, metadata={op_name="abc')
    assert found.truncated
    assert (found.fusion_kind, found.called, found.operands) == ("kOutput", (("calls", "fused"),), ("a",))


def test_a_text_that_is_no_instruction():
    with pytest.raises(HloError, match="expected 'NAME = SHAPE OPCODE"):
        parse_instruction_text("jit_f(123)")
