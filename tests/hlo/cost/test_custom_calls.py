"""Custom calls: library matmuls, kernels that state their cost, attention, formulas of the user, and the unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from tpuprof.errors import UsageError
from tpuprof.hlo import parse_instruction_text
from tpuprof.hlo.cost import CallCost, CustomCall, OpCost, instruction_cost, program_cost, register_formula
from tpuprof.hlo.cost import formulas as formulas_module
from tpuprof.hlo.text import parse_text


@pytest.fixture(autouse=True)
def _no_formulas(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(formulas_module, "_registered", [])
    formulas_module._installed.cache_clear()
    yield
    formulas_module._installed.cache_clear()


def call(
    operands: str, result: str, target: str, *, name: str = "call", config: object = None, op_name: str = "",
    attributes: str = "", kernel_metadata: str = "",
) -> OpCost:  # fmt: skip
    """The cost of a lone custom call."""
    text = f'%{name} = {result} custom-call({operands}), custom_call_target="{target}"{attributes}'
    if kernel_metadata:
        text += f", frontend_attributes={{kernel_metadata={kernel_metadata}}}"
    if op_name:
        text += f', metadata={{op_name="{op_name}"}}'
    if config is not None:
        text += f", backend_config={json.dumps(config)}"
    return instruction_cost(parse_instruction_text(text))


A, B = "bf16[4096,1024]{1,0} %a", "bf16[1024,3584]{1,0} %b"


def test_a_library_matmul_without_a_configuration():
    cost = call(f"{A}, {B}", "bf16[4096,3584]{1,0}", "__cublas$gemm")
    assert cost.flops == 2 * 4096 * 1024 * 3584 == 30_064_771_072
    assert (cost.source, cost.family, cost.flops_by_dtype) == ("formula", "gemm", {"bf16": 30_064_771_072})
    assert cost.bytes == {"hbm": 2 * (4096 * 1024 + 1024 * 3584 + 4096 * 3584)}
    (shape,) = cost.matmuls
    assert (shape.batch, shape.m, shape.n, shape.k) == (1, 4096, 3584, 1024)


def test_a_library_matmul_by_its_dimension_numbers():
    numbers = {
        "lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["2"],
        "lhs_batch_dimensions": ["0"], "rhs_batch_dimensions": ["0"],
    }  # fmt: skip
    cost = call(
        "f8e4m3fn[7,64,32]{2,1,0} %a, f8e4m3fn[7,16,64]{2,1,0} %b, f32[] %s, f32[] %t",
        "(bf16[7,32,16]{2,1,0}, s8[4096]{0})", "__cublas$lt$matmul$f8",
        config={"gemm_backend_config": {"dot_dimension_numbers": numbers}},
    )  # fmt: skip
    assert cost.flops == 2 * 7 * 32 * 16 * 64
    assert cost.flops_by_dtype == {"f8e4m3fn": cost.flops}
    assert cost.bytes_written == {"hbm": 7 * 32 * 16 * 2}  # the workspace is scratch memory


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        ("bf16[8,4] %a", "bf16[8,8]"),
        ("bf16[8,5] %a, bf16[7,6] %b", "bf16[8,6]"),
        ("bf16[8,4] %a, bf16[4,?] %b", "bf16[8,?]"),
        ("bf16[2,8,4] %a, bf16[3,4,8] %b", "bf16[2,8,8]"),
    ],
)
def test_a_library_matmul_of_shapes_that_do_not_fit_is_unknown(operands: str, result: str):
    cost = call(operands, result, "__cublas$gemm")
    assert cost.flops is None
    assert cost.reason == "No cost is known for custom calls to '__cublas$gemm'."


def test_an_empty_library_matmul_is_free_of_flops():
    assert call("bf16[0,4] %a, bf16[4,8] %b", "bf16[0,8]", "__cublas$gemm").flops == 0


@pytest.mark.parametrize(
    ("target", "operands", "result"),
    [
        ("__cudnn$convForward", "f32[2,3,8,8] %x, f32[5,3,3,3] %k", "(f32[2,5,6,6], u8[100])"),
        ("__cudnn$convBackwardInput", "f32[2,5,6,6] %dy, f32[5,3,3,3] %k", "(f32[2,3,8,8], u8[100])"),
        ("__cudnn$convBackwardFilter", "f32[2,3,8,8] %x, f32[2,5,6,6] %dy", "(f32[5,3,3,3], u8[100])"),
    ],
)
def test_library_convolutions_do_the_work_of_the_forward_one(target: str, operands: str, result: str):
    cost = call(operands, result, target, attributes=", window={size=3x3}, dim_labels=bf01_oi01->bf01")
    assert cost.flops == 2 * 2 * 6 * 6 * 5 * 3 * 9
    assert cost.family == "convolution"


def test_what_a_kernel_states_of_itself():
    config = {"custom_call_config": {"cost_estimate": {"flops": "12000000000", "bytes_accessed": "45088768",
                                                       "transcendentals": "7"}}}  # fmt: skip
    cost = call("bf16[256,256]{1,0} %a", "bf16[256,256]{1,0}", "tpu_custom_call", config=config)
    assert (cost.flops, cost.source, cost.bytes, cost.transcendentals) == (
        12_000_000_000, "cost_estimate", {"hbm": 45_088_768}, 7,
    )  # fmt: skip
    assert cost.note == "By the kernel's own estimate."


@pytest.mark.parametrize(
    "estimate",
    [{}, {"flops": "many"}, {"flops": "-5"}, {"flops": "nan"}, {"flops": None}, {"flops": True}, {"flops": [1]}, "x"],
)
def test_a_statement_that_makes_no_sense_is_none(estimate: object):
    config = {"custom_call_config": {"cost_estimate": estimate}}
    cost = call("bf16[256,256]{1,0} %a", "bf16[256,256]{1,0}", "tpu_custom_call", config=config)
    assert cost.flops is None
    assert cost.bytes is None
    assert cost.reason == "No cost is known for custom calls to 'tpu_custom_call'."


def test_a_kernel_of_which_nothing_is_known():
    cost = call("bf16[256,256]{1,0} %a", "bf16[256,256]{1,0}", "tpu_custom_call")
    assert (cost.flops, cost.model_flops, cost.transcendentals, cost.bytes, cost.source) == (None,) * 5
    assert cost.reason


@pytest.mark.parametrize("target", ["AllocateBuffer", "ConcatBitcast", "Noop", "AsyncCollectiveStart"])
def test_marks_of_the_compiler_are_free(target: str):
    assert call("bf16[256]{0} %a", "bf16[256]{0}", target).is_free


# --- attention

Q, K = "bf16[2,8,4096,128]{3,2,1,0}", "bf16[2,2,4096,128]{3,2,1,0}"
SQUARE = 4 * 2 * 8 * 4096 * 4096 * 128
SIZES = {"block_q": 1024, "block_kv": 1024, "block_q_dkv": 1024, "block_kv_dkv": 512}
BLOCKS = json.dumps({"xprof_metadata": json.dumps(SIZES)})


def splash(operands: str, result: str, name: str, blocks: str = BLOCKS) -> OpCost:
    return call(operands, result, "tpu_custom_call", name=name, kernel_metadata=blocks)


def test_splash_attention_counts_the_blocks_in_its_list():
    cost = splash(f"s8[10] %m, s32[10] %n, {Q} %q, {K} %k, {K} %v", f"({Q}, f32[2,8,4096])", "splash_mha_fwd.1")
    assert cost.matmul_flops == SQUARE * 10 / 16
    assert (cost.family, cost.bound) == ("splash_attention", "exact")
    assert cost.note == "10 of 16 blocks of 1024 x 1024 are active, by the kernel's own list."
    assert cost.transcendentals == 2 * 8 * 4096 * 4096 * 10 / 16


def test_splash_attention_with_a_full_list_has_no_mask():
    cost = splash(f"s8[16] %m, {Q} %q, {K} %k, {K} %v", Q, "splash_mqa_fwd")
    assert cost.matmul_flops == SQUARE


def test_splash_attention_backwards():
    gradients = f"(bf16[8,2,8,4096,128], {K}, {K})"  # dQ in parts, one per block of keys
    operands = f"s8[32] %m, {Q} %q, {K} %k, {K} %v, {Q} %do, s32[8,4096] %positions"
    cost = splash(operands, gradients, "splash_mha_dkv_no_residuals.1")
    assert cost.matmul_flops == 2.5 * SQUARE * 20 / 32  # five products; 2 + 4 + 6 + 8 of 32 blocks under the diagonal
    assert cost.note == "20 of 32 blocks of 1024 x 512 are active under a causal mask, which is assumed."
    assert cost.bound == "upper"
    alone = splash(operands, f"({K}, {K})", "splash_mha_dkv.1")
    assert alone.matmul_flops == 2 * SQUARE * 20 / 32
    unmasked = splash(f"s8[32] %m, {Q} %q, {K} %k, {K} %v, {Q} %do", gradients, "splash_mha_dkv.1")
    assert (unmasked.matmul_flops, unmasked.bound) == (2.5 * SQUARE, "exact")
    assert unmasked.note == "All of 32 blocks of 1024 x 512 are active: there is no mask."


def test_splash_attention_by_the_marks_of_its_blocks():
    marks = "{{{1,0,0,0},{2,1,0,0},{2,2,1,0},{2,2,2,1}}, {{1,0,0,0},{2,1,0,0},{0,2,1,0},{0,0,2,1}}}"
    text = f"""HloModule m

ENTRY %main (q: {Q}, k: {K}, next: s8[2,4,4], p: s32[4096,128]) -> {Q} {{
  %q = {Q} parameter(0)
  %k = {K} parameter(1)
  %next = s8[2,4,4] parameter(2)
  %p = s32[4096,128] parameter(3)
  %marks = s8[2,4,4] constant({marks})
  %copied = s8[2,4,4] copy(%marks)
  ROOT %splash_mha_fwd = {Q} custom-call(%next, %copied, %q, %k, %k, %p), custom_call_target="tpu_custom_call", \
frontend_attributes={{kernel_metadata={BLOCKS}}}
}}
"""
    found = program_cost(parse_text(text)).ops["splash_mha_fwd"]
    assert (found.matmul_flops, found.bound) == (SQUARE * 8.5 / 16, "exact")  # 10 blocks of one head, 7 of the other
    assert found.note == "8.5 of 16 blocks of 1024 x 1024 are active, by the kernel's constants."


def test_splash_attention_backwards_has_the_mask_of_the_forward_kernel():
    for listed, share in ((10, 20 / 32), (16, 1), (7, 7 / 16)):
        text = f"""HloModule m

ENTRY %main (q: {Q}, k: {K}, m: s8[{listed}], n: s8[32], p: s32[8,4096]) -> {Q} {{
  %q = {Q} parameter(0)
  %k = {K} parameter(1)
  %m = s8[{listed}] parameter(2)
  %n = s8[32] parameter(3)
  %p = s32[8,4096] parameter(4)
  %splash_fwd = {Q} custom-call(%m, %q, %k, %k), custom_call_target="tpu_custom_call", \
frontend_attributes={{kernel_metadata={BLOCKS}}}
  ROOT %splash_dkv = (bf16[8,2,8,4096,128], {K}, {K}) custom-call(%n, %q, %k, %k, %splash_fwd, %p), \
custom_call_target="tpu_custom_call", \
frontend_attributes={{kernel_metadata={BLOCKS}}}
}}
"""
        ops = program_cost(parse_text(text)).ops
        assert ops["splash_fwd"].matmul_flops == SQUARE * listed / 16
        assert ops["splash_dkv"].matmul_flops == 2.5 * SQUARE * share


def test_splash_attention_without_block_sizes_counts_all():
    cost = splash(f"s8[10] %m, {Q} %q, {K} %k, {K} %v", Q, "splash_mha_fwd", "{}")
    assert (cost.matmul_flops, cost.bound) == (SQUARE, "upper")


def test_flash_attention_counts_the_square_and_says_so():
    cost = call(f"{Q} %q, {K} %k, {K} %v", Q, "tpu_custom_call", op_name="jit(f)/flash_attention/pallas_call")
    assert (cost.matmul_flops, cost.bound, cost.family) == (SQUARE, "upper", "flash_attention")
    assert cost.note == "All pairs of queries and keys are counted; a causal mask would halve them."
    stated = call(f"{Q} %q, {K} %k, {K} %v", Q, "tpu_custom_call", op_name="jit(f)/flash_attention/pallas_call",
                  config={"custom_call_config": {"cost_estimate": {"flops": "5"}}})  # fmt: skip
    assert (stated.flops, stated.source, stated.bound) == (5, "cost_estimate", "upper")


@pytest.mark.parametrize(
    ("name", "result", "products"),
    [("flash_mha_bwd_dkv_block_q_128", f"({K}, {K})", 4), ("flash_mha_bwd_dq_block_q_128", Q, 3)],
)
def test_the_two_backward_kernels_of_flash_attention(name: str, result: str, products: int):
    cost = call(f"{Q} %q, {K} %k, {K} %v, {Q} %do", result, "tpu_custom_call", name=name)
    assert cost.matmul_flops == products * SQUARE / 2


def test_ragged_paged_attention_by_its_blocks():
    cost = call(
        "s32[]{:T(128)} %n, s32[256]{0} %lengths, bf16[4,1024,3,2,128]{4,3,2,1,0} %q, bf16[1024,4,2,128]{3,2,1,0} %kv, "
        "bf16[7007,64,4,2,128]{4,3,2,1,0} %cache",
        "(bf16[4,1024,3,2,128]{4,3,2,1,0}, bf16[7007,64,4,2,128]{4,3,2,1,0})", "tpu_custom_call",
        name="RPA-bq_32-bkvp_64-p_64-.1",
    )  # fmt: skip
    assert cost.flops == 4 * 1024 * 24 * 128 * 4096 == 51_539_607_552
    assert (cost.bound, cost.family) == ("lower", "ragged_paged_attention")
    assert cost.bytes is not None
    assert cost.bytes["hbm"] < 20e6  # the cache of 918 MB is not taken to be read as a whole


@pytest.mark.parametrize("table", ["s32[4,10]", "s32[40]"])
def test_paged_attention_by_its_page_table(table: str):
    cost = call(
        f"s32[4] %lengths, {table} %table, s32[1] %n, bf16[4,8,128] %q, bf16[2,100,16,128] %k, bf16[2,100,16,128] %v",
        "bf16[4,8,128]", "tpu_custom_call", name="paged_attention_kernel",
    )  # fmt: skip
    assert (cost.flops, cost.bound) == (4 * 4 * 8 * 128 * 160, "upper")


def test_ragged_attention_without_blocks_in_its_name_is_unknown():
    cost = call(
        "s32[4] %lengths, s32[4,10] %table, bf16[64,8,128] %q, bf16[100,16,4,128] %kv", "bf16[64,8,128]",
        "tpu_custom_call", name="ragged_paged_attention_kernel",
    )  # fmt: skip
    assert cost.flops is None
    assert cost.reason == "The shapes of this attention kernel do not tell how much it computes."


@pytest.mark.parametrize(
    ("target", "mask", "window", "factor"),
    [
        ("__cudnn$fmhaSoftmax", "NO_MASK", 0, 1),
        ("__cudnn$fmhaSoftmax", "CAUSAL", 0, 0.5),
        ("__cudnn$fmhaSoftmax", "CAUSAL", 64, 64 / 512),
        ("__cudnn$fmhaSoftmaxBackward", "CAUSAL", 0, 1.25),
    ],
)
def test_cudnn_attention(target: str, mask: str, window: int, factor: float):
    config = {"cudnn_fmha_backend_config": {
        "mask_type": mask, "sliding_window_length": window,
        "bmm1_dot_dimension_numbers": {
            "lhs_batch_dimensions": ["0", "2"], "rhs_batch_dimensions": ["0", "2"],
            "lhs_contracting_dimensions": ["3"], "rhs_contracting_dimensions": ["3"],
        },
    }}  # fmt: skip
    shape = "bf16[2,512,8,64]"
    cost = call(f"{shape} %q, {shape} %k, {shape} %v", f"({shape}, u8[0])", target, config=config)
    assert cost.matmul_flops == factor * 4 * 2 * 8 * 512 * 512 * 64
    assert cost.family == "cudnn_attention"


def test_attention_of_odd_shapes_is_unknown_not_wrong():
    for operands in ("bf16[4,8] %q", f"{Q} %q, {K} %k", f"{Q} %q, bf16[2,2,4096,64] %k, {K} %v", ""):
        cost = call(operands, Q, "tpu_custom_call", name="splash_mha_fwd", kernel_metadata=BLOCKS)
        assert cost.flops is None, operands


# --- formulas of the user


def test_a_registered_formula_comes_first():
    register_formula(r"my_kernel", lambda given: CallCost(matmul_flops=given.operands[0].elements or 0, dtype="f32"))
    cost = call("f32[3,5] %a", "f32[3]", "tpu_custom_call", op_name="jit(f)/my_kernel/pallas_call")
    assert (cost.flops, cost.source, cost.flops_by_dtype) == (15, "user", {"f32": 15})
    assert cost.bytes == {"hbm": 60 + 12}
    assert call("f32[3,5] %a", "f32[3]", "tpu_custom_call").flops is None


def test_the_formula_registered_last_counts_and_may_decline():
    register_formula("k", lambda given: CallCost(matmul_flops=1))
    register_formula("k", lambda given: CallCost(matmul_flops=2) if len(given.operands) > 1 else None)
    assert call("f32[3] %a", "f32[3]", "k").flops == 1
    assert call("f32[3] %a, f32[3] %b", "f32[3]", "k").flops == 2


def test_a_formula_that_fails_makes_the_cost_unknown():
    def broken(given: CustomCall) -> CallCost:
        raise ZeroDivisionError("oh")

    register_formula("^k$", broken)
    cost = call("f32[3] %a", "f32[3]", "k")
    assert cost.flops is None
    assert cost.reason == "The cost formula 'broken' failed: ZeroDivisionError: oh"


@pytest.mark.parametrize("given", [5, CallCost(matmul_flops=-1), CallCost(vector_flops=float("nan")),
                                   CallCost(bytes_read={"hbm": -4})])  # fmt: skip
def test_a_formula_that_gives_nonsense_makes_the_cost_unknown(given: CallCost):
    register_formula("^k$", lambda call: given)
    cost = call("f32[3] %a", "f32[3]", "k")
    assert cost.flops is None
    assert cost.reason is not None
    assert cost.reason.startswith("The cost formula '<lambda>' gave ")


def test_a_pattern_that_is_none():
    with pytest.raises(UsageError) as error:
        register_formula("(", lambda given: None)
    assert str(error.value).startswith("The pattern '(' of a cost formula is no regular expression")


def from_plugin(given: CustomCall) -> CallCost:
    return CallCost(matmul_flops=len(given.target), dtype="s8")


from_plugin.pattern = "plugged"  # pyright: ignore[reportFunctionMemberAccess]


def test_formulas_of_installed_packages(monkeypatch: pytest.MonkeyPatch):
    entry = EntryPoint("plugged", f"{__name__}:from_plugin", "tpuprof.costs")
    monkeypatch.setattr(EntryPoint, "load", lambda self: from_plugin)
    monkeypatch.setattr(formulas_module, "entry_points", lambda group: [entry] if group == "tpuprof.costs" else [])
    assert call("f32[3] %a", "f32[3]", "plugged").flops == 7
    assert call("f32[3] %a", "f32[3]", "other").flops is None


def test_a_formula_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch):
    entry = EntryPoint("gone", "no_such_package_of_costs:function", "tpuprof.costs")
    monkeypatch.setattr(formulas_module, "entry_points", lambda group: [entry])
    with pytest.raises(UsageError) as error:
        call("f32[3] %a", "f32[3]", "k")
    assert "'gone' (no_such_package_of_costs:function) cannot be loaded" in str(error.value)
    assert "Repair or uninstall" in str(error.value)
