# ruff: noqa: E501 (instructions of HLO text stand on one line each)

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tpuprof.formats.xplane_schema import full_messages
from tpuprof.hlo import HloModule, WindowDim, load_hlo, parse_proto, parse_text
from tpuprof.tables.classify import KIND_TABLE_VERSION, KINDS, OpClass, classify_event, classify_instruction
from tpuprof.tables.conv_kind import slides
from tpuprof.tables.schemas import OP_KINDS

HEAD = """HloModule m, is_scheduled=true

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
"""


def program(entry: str, *bodies: str) -> HloModule:
    return parse_text(HEAD + "\n".join(f"\n{body}\n" for body in bodies) + f"\nENTRY %main {{\n{entry}\n}}\n")


def classify(line: str, *bodies: str, before: str = "") -> OpClass:
    """The class of an instruction that may use %p (f32[64,64]), %w (f32[64,64]), %v (f32[64]), %c (f32[])."""
    module = program(
        "%p = f32[64,64]{1,0} parameter(0)\n%w = f32[64,64]{1,0} parameter(1)\n%v = f32[64]{0} parameter(2)\n"
        f"%c = f32[] constant(0)\n%tok = token[] after-all()\n{before}\nROOT {line}",
        *bodies,
    )
    return classify_instruction(module.entry.root, module)


def fusion(*body: str, out: str = "f32[64,64]{1,0}", kind: str = "kLoop", name: str = "fusion.1") -> OpClass:
    """The class of a fusion of %p and %w; the last line of its body is the root."""
    lines = "\n".join(body[:-1])
    computation = (
        "%body (a: f32[64,64], b: f32[64,64]) -> f32[64,64] {\n%a = f32[64,64]{1,0} parameter(0)\n"
        f"%b = f32[64,64]{{1,0}} parameter(1)\n%k = f32[] constant(0)\n{lines}\nROOT {body[-1]}\n}}"
    )
    return classify(f"%{name} = {out} fusion(%p, %w), kind={kind}, calls=%body", computation)


def event(name: str, text: str | None = None, category: str | None = None) -> OpClass:
    return classify_event(name=name, text=text, category=category, instr=None, module=None)


def test_the_kinds_are_those_of_the_tables():
    assert KINDS == OP_KINDS
    assert KIND_TABLE_VERSION >= 1


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("%r = f32[64,64]{1,0} dot(%p, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "matmul"),
        ("%r = f32[64]{0} reduce(%p, %c), dimensions={1}, to_apply=%add", "reduction"),
        ("%r = f32[64,64]{1,0} add(%p, %w)", "elementwise"),
        ("%r = bf16[64,64]{1,0} convert(%p)", "elementwise"),
        ("%r = f32[64,64]{1,0} broadcast(%c), dimensions={}", "elementwise"),
        ("%r = s32[64]{0} iota(), iota_dimension=0", "elementwise"),
        ("%r = f32[64]{0} rng(%c, %c), distribution=rng_uniform", "elementwise"),
        ("%r = pred[64]{0} compare(%v, %v), direction=LT", "elementwise"),
        ("%r = f32[64,64]{1,0} gather(%p, %v), offset_dims={1}, slice_sizes={1,64}", "gather_scatter"),
        ("%r = f32[64,64]{1,0} scatter(%p, %v, %w), to_apply=%add", "gather_scatter"),
        ("%r = f32[64,64]{0,1} copy(%p)", "data_movement"),
        ("%r = f32[64,64]{1,0} transpose(%p), dimensions={1,0}", "data_movement"),
        ("%r = f32[4096]{0} reshape(%p)", "data_movement"),
        ("%r = f32[2,64]{1,0} slice(%p), slice={[0:2], [0:64]}", "data_movement"),
        ("%r = f32[66,64]{1,0} pad(%p, %c), padding=1_1x0_0", "data_movement"),
        ("%r = f32[128,64]{1,0} concatenate(%p, %w), dimensions={0}", "data_movement"),
        ("%r = f32[1,64]{1,0} dynamic-slice(%p, %c, %c), dynamic_slice_sizes={1,64}", "data_movement"),
        ("%r = f32[64,64]{1,0} dynamic-update-slice(%p, %w, %c, %c)", "data_movement"),
        ("%r = f32[64]{0} sort(%v), dimensions={0}, to_apply=%add", "other_compute"),
        ("%r = c64[64]{0} fft(%v), fft_type=FFT, fft_length={64}", "other_compute"),
        ("%r = f32[64,64]{1,0} cholesky(%p), lower=true", "other_compute"),
        ("%r = f32[64]{0} while(%v), condition=%add, body=%add", "container"),
        ("%r = f32[64]{0} conditional(%c, %v, %v), branch_computations={%add, %add}", "container"),
        ("%r = f32[64]{0} call(%v), to_apply=%add", "container"),
        ("%r = (f32[64]{0}, token[]) infeed(%tok)", "host_transfer"),
        ("%r = token[] outfeed(%v, %tok)", "host_transfer"),
    ],
)
def test_plain_opcodes(line: str, kind: str):
    found = classify(line)
    assert (found.kind, found.source, found.phase, found.async_class) == (kind, "hlo", "sync", None)


# ---- fusions ----

MUL = "%m = f32[64,64]{1,0} multiply(%a, %b)"
DOT = "%d = f32[64,64]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
COPY = "%cp = f32[64,64]{0,1} copy(%a)"
REDUCE = "%rd = f32[64]{0} reduce(%a, %k), dimensions={1}, to_apply=%add"
SPREAD = "%sp = f32[64,64]{1,0} broadcast(%rd), dimensions={0}"
GATHER = "%g = f32[64,64]{1,0} gather(%a, %b), offset_dims={1}, slice_sizes={1,64}"
SORT = "%so = f32[64,64]{1,0} sort(%a), dimensions={0}, to_apply=%add"


@pytest.mark.parametrize(
    ("body", "out", "kind"),
    [
        ((MUL, DOT), "f32[64,64]{1,0}", "matmul"),
        ((DOT, REDUCE), "f32[64]{0}", "matmul"),
        ((MUL,), "f32[64,64]{1,0}", "elementwise"),
        ((COPY,), "f32[64,64]{0,1}", "data_movement"),
        ((COPY, MUL), "f32[64,64]{1,0}", "elementwise"),
        ((COPY, GATHER), "f32[64,64]{1,0}", "gather_scatter"),
        ((SORT, COPY), "f32[64,64]{1,0}", "data_movement"),
        ((SORT,), "f32[64,64]{1,0}", "other_compute"),
        ((MUL, REDUCE), "f32[64]{0}", "reduction"),
        ((REDUCE,), "f32[64]{0}", "reduction"),
        # A reduction on the way to a result as large as the input, as in a softmax, is no reduction.
        ((REDUCE, SPREAD), "f32[64,64]{1,0}", "elementwise"),
        (
            (MUL, REDUCE, "%t = (f32[64,64]{1,0}, f32[64]{0}) tuple(%m, %rd)"),
            "(f32[64,64]{1,0}, f32[64]{0})",
            "elementwise",
        ),
        (("%bc = f32[4096]{0} bitcast(%a)",), "f32[4096]{0}", "data_movement"),
        (("%bc = f32[4096]{0} bitcast(%a)", SORT), "f32[64,64]{1,0}", "other_compute"),
    ],
)
def test_a_fusion_has_the_earliest_kind_of_its_body(body: tuple[str, ...], out: str, kind: str):
    found = fusion(*body, out=out)
    assert (found.kind, found.source) == (kind, "hlo")


def test_what_a_reduction_applies_is_no_op_of_its_own():
    # The scalar add inside %add would be elementwise, which comes before gather and scatter.
    line = "%sc = f32[64,64]{1,0} scatter(%a, %b, %a), to_apply=%add"
    assert fusion(line).kind == "gather_scatter"


def test_a_matmul_hidden_in_a_nested_custom_fusion():
    inner = (
        "%inner (a1: f32[64,64]) -> f32[64,64] {\n%a1 = f32[64,64]{1,0} parameter(0)\n"
        "ROOT %d1 = f32[64,64]{1,0} dot(%a1, %a1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    outer = (
        "%outer (a2: f32[64,64]) -> f32[64,64] {\n%a2 = f32[64,64]{1,0} parameter(0)\n"
        "ROOT %f2 = f32[64,64]{1,0} fusion(%a2), kind=kLoop, calls=%inner\n}"
    )
    found = classify("%ynn_fusion = f32[64,64]{1,0} fusion(%p), kind=kCustom, calls=%outer", inner, outer)
    assert (found.kind, found.source) == ("matmul", "hlo")


def test_the_compilers_own_calls_do_not_decide_a_fusion():
    helper = '%h = f32[64,64]{1,0} custom-call(%b), custom_call_target="AssumeGatherIndicesInBound"'
    assert fusion(helper, GATHER).kind == "gather_scatter"
    kernel = '%h = f32[64,64]{1,0} custom-call(%b), custom_call_target="my_kernel"'
    assert fusion(kernel, GATHER).kind == "custom_kernel"


def test_a_fusion_without_its_module_is_not_decided_by_hlo():
    module = program("%p = f32[8]{0} parameter(0)\nROOT %fusion.7 = f32[8]{0} fusion(%p), kind=kLoop, calls=%add")
    assert classify_instruction(module.entry.root, None) == OpClass("other_compute", "none")


# ---- convolutions ----


@pytest.mark.parametrize(
    ("window", "labels", "lhs", "rhs", "out", "kind"),
    [
        ("", "bf_io->bf", "f32[64,32]", "f32[32,16]", "f32[64,16]", "matmul"),
        ("window={size=1}, ", "b0f_0io->b0f", "f32[8,9,4]", "f32[1,4,5]", "f32[8,9,5]", "matmul"),
        # A batch dimension of 8, as TPU writes it: each output meets one input through one kernel position.
        ("window={size=8 stride=7 lhs_dilate=8}, ", "0bf_0io->0bf", "f32[8,64,32]", "f32[8,32,16]", "f32[8,64,16]", "matmul"),
        # A dimension that only the kernel has.
        ("window={size=6 pad=5_5 rhs_reversal=1}, ", "0bf_0io->0bf", "f32[1,64,32]", "f32[6,32,16]", "f32[6,64,16]", "matmul"),
        # A second contracting dimension: the window is as large as the input, there is one output position.
        ("window={size=9}, ", "0bf_0io->0bf", "f32[9,64,32]", "f32[9,32,16]", "f32[1,64,16]", "matmul"),
        ("window={size=3 pad=1_1}, ", "b0f_0io->b0f", "f32[8,9,4]", "f32[3,4,5]", "f32[8,9,5]", "convolution"),
        ("window={size=2 stride=2}, ", "b0f_0io->b0f", "f32[8,10,4]", "f32[2,4,5]", "f32[8,5,5]", "convolution"),
        ("window={size=1x3 pad=0_0x1_1}, ", "b01f_01io->b01f", "f32[2,5,9,4]", "f32[1,3,4,5]", "f32[2,5,9,5]", "convolution"),
        # The gradient of the kernel: few outputs, a window over all positions.
        ("window={size=9 pad=1_1}, ", "f0b_i0o->0bf", "f32[4,9,8]", "f32[8,9,5]", "f32[3,4,5]", "convolution"),
        # The gradient of a strided convolution: outputs meet one or two inputs.
        ("window={size=3 pad=2_2 lhs_dilate=2}, ", "b0f_0io->b0f", "f32[8,5,4]", "f32[3,4,5]", "f32[8,11,5]", "convolution"),
    ],
)  # fmt: skip
def test_a_convolution_is_a_matmul_unless_its_window_slides(
    window: str, labels: str, lhs: str, rhs: str, out: str, kind: str
):
    module = program(
        f"%l = {lhs} parameter(0)\n%r = {rhs} parameter(1)\nROOT %conv = {out} convolution(%l, %r), {window}dim_labels={labels}"
    )
    assert classify_instruction(module.entry.root, module).kind == kind
    # The text of an event carries the shapes of the operands and decides the same.
    text = f"%conv = {out} convolution({lhs} %l, {rhs} %r), {window}dim_labels={labels}"
    assert event("conv", text) == OpClass(kind, "hlo")


def test_whether_a_window_slides_against_counting():
    for size in (1, 2, 3, 5):
        for stride in (1, 2, 4):
            for base in (1, 2, 5):
                for step in (1, 2, 3):
                    for pad in (-1, 0, 1, 4):
                        for inputs in (1, 2, 5):
                            for outputs in (1, 2, 5):
                                dim = WindowDim(size, stride, pad, pad, base, step)
                                counts = [
                                    sum(
                                        o * stride + k * step - pad == i * base
                                        for k in range(size)
                                        for i in range(inputs)
                                    )
                                    for o in range(outputs)
                                ]
                                expected = outputs > 1 and max(counts) > 1
                                assert slides(dim, inputs, outputs) == expected, (dim, inputs, outputs)


# ---- custom calls ----


@pytest.mark.parametrize(
    ("target", "name", "rest", "kind"),
    [
        ("__cublas$gemm", "custom-call.1", "", "matmul"),
        ("__cublas$lt$matmul", "custom-call.1", "", "matmul"),
        ("__cublas$lt$matmul$f8", "custom-call.1", "", "matmul"),
        ("__onednn$matmul", "custom-call.1", "", "matmul"),
        ("__cudnn$convForward", "custom-call.1", "", "convolution"),
        ("__cudnn$convBackwardFilter", "custom-call.1", "", "convolution"),
        ("__cudnn$fmhaSoftmax", "custom-call.1", "", "attention"),
        ("tpu_custom_call", "splash_mha_fwd_residuals.2", "", "attention"),
        ("tpu_custom_call", "RPA-bq_32-bkvp_64-p_64-.1", "", "attention"),
        ("tpu_custom_call", "kernel.1", ', metadata={op_name="jit(f)/jit(flash_attention)/pallas_call"}', "attention"),
        (
            "tpu_custom_call",
            "kernel.1",
            ', metadata={op_name="jit(f)/paged_attention_kernel/pallas_call"}',
            "attention",
        ),
        ("tpu_custom_call", "kernel.1", ', metadata={op_name="jit(f)/attention/rope/pallas_call"}', "custom_kernel"),
        ("tpu_custom_call", "gmm.1", "", "custom_kernel"),
        ("tpu_custom_call", "interpartition.1", "", "custom_kernel"),
        ("__gpu$xla.gpu.triton", "c.1", ', backend_config="{name = \\"flash_fwd\\", x = 1}"', "attention"),
        ("mosaic_gpu_v2", "c.1", ', frontend_attributes={kernel_metadata="splash_kernel"}', "attention"),
        ("AllocateBuffer", "c.1", "", "custom_kernel"),
        # A helper in the scope of a kernel is no kernel.
        ("ConcatBitcast", "c.1", ', metadata={op_name="jit(flash_attention)/x"}', "custom_kernel"),
        ("TopK", "c.1", "", "custom_kernel"),
    ],
)
def test_custom_calls(target: str, name: str, rest: str, kind: str):
    line = f'%{name} = f32[64,64]{{1,0}} custom-call(%p, %w), custom_call_target="{target}"{rest}'
    found = classify(line)
    assert (found.kind, found.source, found.detail) == (kind, "hlo", target)
    assert event(name, line) == found


# ---- collectives ----


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("all-gather", "all_gather"),
        ("all-reduce", "all_reduce"),
        ("reduce-scatter", "reduce_scatter"),
        ("all-to-all", "all_to_all"),
        ("ragged-all-to-all", "ragged_all_to_all"),
        ("collective-permute", "collective_permute"),
        ("collective-broadcast", "collective_broadcast"),
    ],
)
def test_collectives_in_all_forms(opcode: str, kind: str):
    extra = ", to_apply=%add" if "reduce" in opcode else ""
    assert classify(f"%r = f32[64]{{0}} {opcode}(%v), replica_groups={{}}{extra}") == OpClass(
        "collective", "hlo", "", kind
    )
    start = f"%st = ((f32[64]{{0}}), f32[64]{{0}}) {opcode}-start(%v), replica_groups={{}}{extra}"
    assert classify("%r = f32[64]{0} add(%v, %v)", before=start).kind == "elementwise"
    module = program(f"%v = f32[64]{{0}} parameter(0)\n{start}\nROOT %dn = f32[64]{{0}} {opcode}-done(%st)")
    for name, phase in (("st", "start"), ("dn", "done")):
        assert classify_instruction(module.instruction(name), module) == OpClass(
            "collective", "hlo", "", kind, phase, "collective"
        )


def test_send_and_receive_go_to_a_peer_or_to_the_host():
    lines = (
        "%v = f32[64]{0} parameter(0)\n%tok = token[] after-all()\n"
        "%s1 = (f32[64]{0}, u32[], token[]) send(%v, %tok), channel_id=1\n%d1 = token[] send-done(%s1), channel_id=1\n"
        "%s2 = (f32[64]{0}, u32[], token[]) recv(%tok), channel_id=2, is_host_transfer=true\n"
        "ROOT %d2 = (f32[64]{0}, token[]) recv-done(%s2), channel_id=2"
    )
    module = program(lines)
    found = {name: classify_instruction(module.instruction(name), module) for name in ("s1", "d1", "s2", "d2")}
    assert found["s1"] == OpClass("collective", "hlo", "", "send_recv", "start", "collective")
    assert found["d1"] == OpClass("collective", "hlo", "", "send_recv", "done", "collective")
    assert found["s2"] == OpClass("host_transfer", "hlo", "", None, "start", "host_transfer")
    assert found["d2"] == OpClass("host_transfer", "hlo", "", None, "done", "host_transfer")


def test_a_collective_inside_a_fusion():
    gather = "%ag = f32[64,64]{1,0} all-gather(%a), replica_groups={}, dimensions={0}"
    assert fusion(MUL, gather, kind="kCustom") == OpClass("collective", "hlo", "", "all_gather")
    reduce = "%ar = f32[64,64]{1,0} all-reduce(%a), replica_groups={}, to_apply=%add"
    cut = "%ds = f32[8,64]{1,0} dynamic-slice(%ar, %k, %k), dynamic_slice_sizes={8,64}"
    assert fusion(reduce, cut, out="f32[8,64]{1,0}", kind="kCustom").collective == "reduce_scatter"
    # A matmul that carries a part of an all-gather computes.
    assert fusion(gather, DOT, kind="kOutput") == OpClass("matmul", "hlo", "async_collective_fusion")


def test_async_collective_fusions_find_what_they_end():
    def half(name: str, inner: str) -> str:
        return (
            f"%{name} (i.{name}: f32[64]) -> f32[64] {{\n%i.{name} = f32[64]{{0}} parameter(0)\n{inner}\n"
            f"ROOT %o.{name} = f32[64]{{0}} copy(%i.{name})\n}}"
        )

    call = '%{0} = f32[64]{{0}} custom-call(%i.{1}), custom_call_target="{2}"'
    begin = half(
        "begin",
        "%g = f32[64]{0} all-gather(%i.begin), replica_groups={}, dimensions={0}\n"
        + call.format("x1", "begin", "AsyncCollectiveStart"),
    )
    end = half("end", call.format("x2", "end", "AsyncCollectiveDone"))
    between = half("between", "%n = f32[64]{0} negate(%i.between)")
    module = program(
        "%v = f32[64]{0} parameter(0)\n%async-collective-start.1 = f32[64]{0} fusion(%v), kind=kCustom, calls=%begin\n"
        "%fusion.2 = f32[64]{0} fusion(%async-collective-start.1), kind=kLoop, calls=%between\n"
        "ROOT %async-collective-done.1 = f32[64]{0} fusion(%fusion.2), kind=kCustom, calls=%end",
        begin, end, between,
    )  # fmt: skip
    start = classify_instruction(module.instruction("async-collective-start.1"), module)
    done = classify_instruction(module.instruction("async-collective-done.1"), module)
    assert start == OpClass("collective", "hlo", "", "all_gather", "start", "collective")
    assert done == OpClass("collective", "hlo", "", "all_gather", "done", "collective")
    assert classify_instruction(module.instruction("fusion.2"), module).kind == "elementwise"


# ---- asynchronous pairs ----


def pair(inner: str, thread: str = "") -> tuple[OpClass, OpClass, OpClass]:
    """The classes of start, update and done of a generic pair whose computation is one instruction of %i."""
    said = f', async_execution_thread="{thread}"' if thread else ""
    module = program(
        "%v = f32[64]{0} parameter(0)\n"
        f"%st = ((f32[64]{{0}}), f32[64]{{0:S(1)}}, u32[]{{:S(2)}}) async-start(%v){said}, calls=%wrapped\n"
        "%up = ((f32[64]{0}), f32[64]{0:S(1)}, u32[]{:S(2)}) async-update(%st)\n"
        "ROOT %dn = f32[64]{0:S(1)} async-done(%up)",
        f"%wrapped (i: f32[64]) -> f32[64] {{\n%i = f32[64]{{0}} parameter(0)\nROOT %{inner}\n}}",
    )
    one, two, three = (classify_instruction(module.instruction(name), module) for name in ("st", "up", "dn"))
    return one, two, three


def test_a_generic_pair_has_the_class_of_what_it_calls():
    moved = pair("cut = f32[64]{0} slice(%i), slice={[0:64]}")
    assert [each.kind for each in moved] == ["data_movement", "dma_wait", "dma_wait"]
    assert [each.phase for each in moved] == ["start", "update", "done"]
    assert {(each.async_class, each.source, each.detail) for each in moved} == {("dma", "hlo", "vmem")}
    gathered = pair("g = f32[64]{0} all-gather(%i), replica_groups={}, dimensions={0}", "sparsecore")
    assert {(each.kind, each.collective, each.async_class) for each in gathered} == {
        ("collective", "all_gather", "collective")
    }
    offloaded = pair("g = f32[64]{0} gather(%i, %i), slice_sizes={1}", "sparsecore")
    assert [each.kind for each in offloaded] == ["data_movement", "dma_wait", "dma_wait"]
    assert {(each.detail, each.async_class) for each in offloaded} == {("sparsecore", "dma")}
    fed = pair("f = f32[64]{0} infeed(%i)")
    assert {(each.kind, each.async_class) for each in fed} == {("host_transfer", "host_transfer")}


def test_a_collective_behind_a_call_in_a_generic_pair():
    nested = (
        "%deep (j: f32[64]) -> f32[64] {\n%j = f32[64]{0} parameter(0)\n"
        "ROOT %rs = f32[64]{0} reduce-scatter(%j), replica_groups={}, to_apply=%add\n}"
    )
    module = program(
        "%v = f32[64]{0} parameter(0)\n%x.call-start = ((f32[64]{0}), f32[64]{0}) async-start(%v), "
        'async_execution_thread="sparsecore", calls=%wrapped\nROOT %x.call-done = f32[64]{0} async-done(%x.call-start)',
        nested,
        "%wrapped (i: f32[64]) -> f32[64] {\n%i = f32[64]{0} parameter(0)\nROOT %cl = f32[64]{0} call(%i), to_apply=%deep\n}",
    )
    done = classify_instruction(module.instruction("x.call-done"), module)
    assert done == OpClass("collective", "hlo", "", "reduce_scatter", "done", "collective")


def test_a_pair_in_the_short_form():
    module = program(
        "%v = f32[64]{0} parameter(0)\n%sl = ((f32[64]{0:S(5)}), f32[8]{0}, u32[]) slice-start(%v), slice={[0:8]}\n"
        "ROOT %dn = f32[8]{0} slice-done(%sl)"
    )
    assert classify_instruction(module.instruction("sl"), module).kind == "data_movement"
    assert classify_instruction(module.instruction("dn"), module) == OpClass(
        "dma_wait", "hlo", "host_memory", None, "done", "dma"
    )


def test_without_the_module_the_base_name_tells_and_else_it_is_said():
    text = "%{} = ((f32[64]{{0}}), f32[8]{{0}}, u32[]) async-{}(f32[64]{{0}} %v), calls=%wrapped"
    assert event("slice-start.3", text.format("slice-start.3", "start"), "async-start") == OpClass(
        "data_movement", "name", "", None, "start", "dma"
    )
    assert event("slice-done.3", None, "async-done") == OpClass("dma_wait", "name", "", None, "done", "dma")
    assert event("all-gather.5.cloned.1.call-done", None, "async-done") == OpClass(
        "collective", "name", "", "all_gather", "done", "collective"
    )
    assert event("mystery-done", None, "async-done") == OpClass(
        "dma_wait", "name", "async_unknown", None, "done", "dma"
    )
    assert event("async-start.1", None, "async-start").detail == "async_unknown"


def test_copies_name_the_other_memory_space():
    module = program(
        "%p = f32[64]{0} parameter(0)\n%cs = (f32[64]{0:S(5)}, f32[64]{0}, u32[]{:S(2)}) copy-start(%p)\n"
        "%cd = f32[64]{0:S(5)} copy-done(%cs)\n%vs = (f32[64]{0}, f32[64]{0:S(1)}, u32[]{:S(2)}) copy-start(%p)\n"
        "%vd = f32[64]{0} copy-done(%vs)\n%h = f32[64]{0} copy(%cd)\nROOT %n = f32[64]{0} copy(%h)"
    )
    found = {i.name: classify_instruction(i, module) for i in module.entry.instructions}
    assert found["cs"] == OpClass("data_movement", "hlo", "host_memory", None, "start", "dma")
    assert found["cd"] == OpClass("dma_wait", "hlo", "host_memory", None, "done", "dma")
    assert (found["vs"].detail, found["vd"].detail) == ("vmem", "vmem")
    assert (found["h"].detail, found["n"].detail) == ("host_memory", "")
    # The text of a done event holds the shapes of both sides.
    text = "%cd = f32[64]{0} copy-done((f32[64]{0}, f32[64]{0:S(5)}, u32[]{:S(2)}) %cs)"
    assert event("cd", text) == OpClass("dma_wait", "hlo", "host_memory", None, "done", "dma")


# ---- category and name ----


@pytest.mark.parametrize(
    ("category", "name", "kind", "source"),
    [
        ("convolution fusion", "fusion.1", "matmul", "category"),
        ("loop fusion", "fusion.1", "elementwise", "category"),
        ("loop fusion", "multiply_reduce_fusion", "elementwise", "category"),
        ("input fusion", "fusion.1", "reduction", "category"),
        ("data formatting", "copy.1", "data_movement", "category"),
        ("non-fusion elementwise", "x", "elementwise", "category"),
        ("reduce", "x", "reduction", "category"),
        ("dynamic-update-slice", "x", "data_movement", "category"),
        ("sort", "x", "other_compute", "category"),
        ("while", "x", "container", "category"),
        ("conditional", "x", "container", "category"),
        ("call", "x", "container", "category"),
        ("infeed", "x", "host_transfer", "category"),
        ("host send-done", "x", "host_transfer", "category"),
        ("copy-start", "copy-start.1", "data_movement", "category"),
        ("copy-done", "copy-done.1", "dma_wait", "category"),
        ("all-reduce", "x", "collective", "category"),
        ("all-gather-start", "x", "collective", "category"),
        ("all-reduce-scatter fusion", "x", "collective", "category"),
        ("custom fusion", "fusion.1", "other_compute", "category"),
        ("custom fusion", "copy_bitcast_fusion.2", "data_movement", "name"),
        ("custom fusion", "async-collective-start.3", "collective", "name"),
        ("custom-call", "custom-call.3", "custom_kernel", "category"),
        ("custom-call", "RPA-bq_32-bkvp_64-p_64-.1", "attention", "name"),
        ("something new", "fusion.1", "other_compute", "none"),
        ("something new", "all-reduce.1", "collective", "name"),
    ],
)
def test_categories(category: str, name: str, kind: str, source: str):
    found = event(name, None, category)
    assert (found.kind, found.source) == (kind, source)


def test_categories_of_collectives_tell_kind_and_half():
    assert event("x", None, "reduce-scatter") == OpClass("collective", "category", "", "reduce_scatter")
    assert event("x", None, "collective-permute-done") == OpClass(
        "collective", "category", "", "collective_permute", "done", "collective"
    )
    assert event("fusion", None, "all-gather fusion") == OpClass("collective", "category", "", "all_gather")
    assert event("async-collective-done.2", None, "all-gather fusion") == OpClass(
        "collective", "category", "", "all_gather", "done", "collective"
    )


@pytest.mark.parametrize(
    ("name", "kind", "collective"),
    [
        ("all-reduce.1", "collective", "all_reduce"),
        ("%reduce-scatter.3", "collective", "reduce_scatter"),
        ("psum.7", "collective", "all_reduce"),
        ("all_gather.12", "collective", "all_gather"),
        ("ppermute.1", "collective", "collective_permute"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective", "all_gather"),
        ("ncclKernel_ReduceScatter_RING_SIMPLE_Sum_half", "collective", "reduce_scatter"),
        ("ncclDevKernel_SendRecv", "collective", "send_recv"),
        ("ncclDevKernel_Generic_1", "collective", None),
        ("MemcpyP2P", "collective", "send_recv"),
        ("MemcpyH2D", "host_transfer", None),
        ("MemcpyD2H", "host_transfer", None),
        ("MemcpyD2D", "data_movement", None),
        ("Memset", "data_movement", None),
        ("__amd_rocclr_copyBuffer.kd", "data_movement", None),
        ("dot.2", "matmul", None),
        ("dot_general.4", "matmul", None),
        ("ynn_fusion", "matmul", None),
        ("gemm_fusion_dot_general_1.kd", "matmul", None),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x32x64_MI16x16x16x1_SN_1LDSB0", "matmul", None),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul", None),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", "matmul", None),
        ("nvjet_tst_192x192_64x4_1x2_h_bz_coopB_NNN", "matmul", None),
        ("convolution_bitcast_fusion.3", "matmul", None),
        ("cudnn::cnn::implicit_convolve_sgemm", "convolution", None),
        ("sm80_xmma_fprop_implicit_gemm_f16f16", "convolution", None),
        ("conv_general_dilated.1", "convolution", None),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits>", "attention", None),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma", "attention", None),
        ("_splash_attention_kernel", "attention", None),
        ("input_reduce_fusion.2", "reduction", None),
        ("loop_add_fusion", "elementwise", None),
        ("loop_thing_fusion", "elementwise", None),
        ("loop_dynamic_update_slice_fusion", "data_movement", None),
        ("wrapped_broadcast.kd", "elementwise", None),
        ("wrapped_transpose", "data_movement", None),
        ("broadcast_add_fusion.2", "elementwise", None),
        ("gather_fusion", "gather_scatter", None),
        ("while.3", "container", None),
        ("copy-done.4", "dma_wait", None),
        ("custom-call.5", "custom_kernel", None),
    ],
)
def test_names(name: str, kind: str, collective: str | None):
    found = event(name)
    assert (found.kind, found.source, found.collective) == (kind, "name", collective)


@pytest.mark.parametrize("name", ["fusion.3", "", "kernel_17", "%", "....", "thing"])
def test_names_that_say_nothing(name: str):
    assert event(name) == OpClass("other_compute", "none")


def test_hlo_goes_before_the_category_and_the_category_before_the_name():
    module = program("%p = f32[64,64]{1,0} parameter(0)\nROOT %copy.1 = f32[64,64]{1,0} add(%p, %p)")
    root = module.entry.root
    both = {"name": "copy.1", "category": "convolution fusion", "text": None}
    assert classify_event(**both, instr=root, module=module) == OpClass("elementwise", "hlo")
    assert classify_event(**both, instr=None, module=None) == OpClass("matmul", "category")
    text = "%copy.1 = f32[8]{0} reduce(f32[8,8]{1,0} %p, f32[] %c), dimensions={1}, to_apply=%add"
    assert event("copy.1", text, "convolution fusion") == OpClass("reduction", "hlo")
    assert event(
        "copy.1", "%copy.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop, calls=%x", "data formatting"
    ) == OpClass("data_movement", "category")
    assert event("copy.1", "%copy.1 = f32[8]{0} redu", "data formatting").source == "category"


def test_kernels_of_an_instruction():
    module = program(
        "%p = f32[64]{0} parameter(0)\n%cs = (f32[64]{0:S(5)}, f32[64]{0}, u32[]) copy-start(%p)\n"
        "ROOT %ar = f32[64]{0} all-reduce(%p), replica_groups={}, to_apply=%add"
    )
    copy = classify_event(name="cs", text="MemcpyD2H", category=None, instr=module.instruction("cs"), module=module)
    assert copy == OpClass("host_transfer", "name")
    reduce = classify_event(
        name="ar", text="ncclDevKernel_Generic", category=None, instr=module.instruction("ar"), module=module
    )
    assert reduce == OpClass("collective", "hlo", "", "all_reduce")
    assert event("fusion.3", "Cijk_Ailk_Bljk").kind == "matmul"
    assert event("MemcpyH2D", "__amd_rocclr_copyBuffer.kd").kind == "host_transfer"
    assert event("MemcpyP2P", "__amd_rocclr_copyBuffer.kd").collective == "send_recv"


# ---- real traces ----


@pytest.mark.real
def test_host_offload_on_v6e(real_traces: Path):
    path = real_traces / "v6e-4-host-offload" / "host.xplane.pb"
    space = full_messages().XSpace.FromString(path.read_bytes())
    modules: dict[int, HloModule] = {}
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for entry in plane.event_metadata:
            for stat in entry.value.stats:
                if plane.name == b"/host:metadata" and names[stat.metadata_id] == b"Hlo Proto":
                    modules[entry.key] = parse_proto(stat.bytes_value, entry.key)
    plane = next(plane for plane in space.planes if plane.name == b"/device:TPU:0")
    names = {entry.key: entry.value.name for entry in plane.stat_metadata}
    found: dict[bool, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    used = {event.metadata_id for line in plane.lines if line.name == b"XLA Ops" for event in line.events}
    for entry in plane.event_metadata:
        if entry.key not in used:
            continue
        stats = {names[s.metadata_id]: s for s in entry.value.stats}
        if b"hlo_category" not in stats or b"program_id" not in stats:
            continue
        program_id = stats[b"program_id"].uint64_value or stats[b"program_id"].int64_value
        module = modules.get(program_id) or modules.get(program_id - (1 << 64))
        if module is None or module.name != "jit_f":
            continue
        category = stats[b"hlo_category"]
        said = (category.str_value or names[category.ref_value]).decode()
        name = entry.value.display_name.decode()
        for known in (True, False):
            cls = classify_event(
                name=name,
                text=entry.value.name.decode(),
                category=said,
                instr=module.find(name) if known else None,
                module=module if known else None,
            )
            found[known][cls.kind, cls.detail, cls.source] += 1
    assert found[True] == {
        ("data_movement", "host_memory", "hlo"): 6,
        ("dma_wait", "host_memory", "hlo"): 6,
        ("elementwise", "", "hlo"): 3,
    }
    assert found[False] == {
        ("data_movement", "host_memory", "hlo"): 6,
        ("dma_wait", "host_memory", "hlo"): 6,
        ("elementwise", "", "category"): 3,
    }


@pytest.mark.real
def test_the_categories_of_v7x(real_traces: Path):
    (path,) = (real_traces / "v7x-2-prefill").glob("*.json.gz")
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    sources: Counter[str] = Counter()
    for row in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        arguments = row.get("args", {})
        if "hlo_category" in arguments:
            text, category = arguments.get("long_name"), arguments["hlo_category"]
            cls = event(row["name"], text, category)
            kinds[category][cls.kind] += 1
            sources[cls.source] += 1
    assert kinds["convolution fusion"].keys() == {"matmul"}
    assert kinds["custom-call"] == {"attention": 128, "custom_kernel": 252}
    assert kinds["data formatting"].keys() == {"data_movement"}
    assert kinds["all-reduce"].keys() == kinds["all-gather"].keys() == {"collective"}
    assert kinds["loop fusion"].keys() == {"elementwise"}
    assert kinds["copy-start"].keys() == kinds["async-start"].keys() == {"data_movement"}
    assert kinds["copy-done"].keys() == kinds["async-done"].keys() == {"dma_wait"}
    assert sources["none"] == 0


@pytest.mark.real
def test_the_llama_train_step(real_traces: Path):
    (module,) = load_hlo(str(real_traces / "llama3-8b-fsdp8-v6e-hlo/jit_train_step.after_optimizations.hlo.txt.gz"))
    kinds: Counter[tuple[str, str]] = Counter()
    for computation in module.computations:
        for each in computation.instructions:
            cls = classify_instruction(each, module)
            assert cls.source == "hlo", each
            kinds[each.opcode, cls.kind] += 1
            if each.opcode.startswith("async-"):
                assert cls.kind == "collective"
                assert cls.async_class == "collective"
                assert cls.collective in ("all_gather", "all_reduce", "reduce_scatter")
    assert kinds["fusion", "matmul"] == 31
    assert kinds["convolution", "matmul"] == 31
    assert kinds["custom-call", "attention"] == 3
    assert kinds["copy-done", "dma_wait"] == kinds["copy-start", "data_movement"] == 129
    assert kinds["while", "container"] == 6
    assert kinds["fusion", "other_compute"] == kinds["fusion", "custom_kernel"] == 0
