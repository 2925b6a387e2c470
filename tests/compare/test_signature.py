from __future__ import annotations

import pytest

from tests.compare.models import Op, built, loaded, program
from tpuprof.compare.side import side_of
from tpuprof.compare.signature import Signature, plain_name, plain_scope, result_shapes, signature_of
from tpuprof.compare.similarity import THRESHOLD, similar_pairs, similarity
from tpuprof.hlo import parse_instruction_text
from tpuprof.tables.opclass import OpClass
from tpuprof.tables.rows import OpInfo


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("fusion.12", "fusion"),
        ("fusion.12.remat2.clone.1", "fusion"),
        ("broadcast_add_fusion", "broadcast_add_fusion"),
        ("loop_add_fusion_12", "loop_add_fusion"),
        ("conv2d.3", "conv2d"),
        ("wrapped_broadcast.kd", "wrapped_broadcast"),
        ("_1", "_1"),
        (".5", ".5"),
        ("", ""),
        ("x" * 10_000, "x" * 200),
    ],
)
def test_names_without_numbers(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@pytest.mark.parametrize(
    ("name", "plain"),
    [("layers_12", "layers_*"), ("block7", "block*"), ("h.3.mlp", "h.*.mlp"), ("conv2d", "conv2d"), ("0", "*")],
)
def test_scope_names_without_indices(name: str, plain: str) -> None:
    assert plain_scope(name) == plain


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("%f.1 = bf16[8,128]{1,0:T(8,128)(2,1)} fusion(%a), kind=kLoop, calls=%c", ("bf16[8,128]",)),
        ("%f.1 = (f32[2]{0}, s32[]) fusion(%a), kind=kLoop, calls=%c", ("f32[2]", "s32[]")),
        ("%s = (f32[4]{0}, f32[8]{0}) all-gather-start(%a), dimensions={0}", ("f32[8]",)),
        ("%s = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(%a)", ("f32[4]",)),
        ("%s = f32[4]{0} all-reduce-start(%a), to_apply=%sum", ("f32[4]",)),
        ("%t = () tuple()", ()),
        ("%t = token[] after-all()", ()),
    ],
)
def test_shapes_of_results(text: str, shapes: tuple[str, ...]) -> None:
    assert result_shapes(parse_instruction_text(text)) == shapes


def test_shapes_that_are_not_known() -> None:
    assert result_shapes(None) is None


def test_both_halves_of_a_collective_have_one_signature() -> None:
    halves = [
        Op("all-gather-start.5", 10, "embed/all_gather", "f32[128,32]", "all-gather-start"),
        Op("all-gather-done.9", 10, "embed/all_gather", "f32[128,32]", "all-gather-done", of="all-gather-start.5"),
    ]
    (item,) = side_of(loaded(built(halves))).items
    assert item.signature == Signature(
        module="jit_step",
        scope=("embed", "all_gather"),
        marks=(),
        kind="collective",
        opcode="all-gather",
        name="all-gather",
        shapes=("f32[128,32]",),
        groups="1x2",
    )
    assert (item.count, item.ps, item.window_ps) == (3, 60, 60)


def test_forward_and_backward_ops_are_told_apart() -> None:
    text = "jit(step)/jit(main)/transpose(jvp(layers_3))/mlp/dot_general"
    info = OpInfo("dot.4", OpClass("matmul", "name"), scope=text, module="jit_step(99)")
    found = signature_of(info)
    assert (found.module, found.scope, found.marks) == ("jit_step", ("layers_*", "mlp", "dot_general"), ("backward",))
    assert found.label == "dot [backward]"
    assert (found.shapes, found.groups) == (None, None)


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("jit(f)/(l_0/a/dot:l_0/b/dot:l_1/a/dot:l_1/b/dot:reduce)", ("l_*", "(combined)")),
        ("jit(f)/outer/(l_0/a/dot:l_1/a/dot)", ("outer", "l_*", "a", "(combined)")),
        ("(a/x:b/y)", ("(combined)",)),
        ("jit(f)/a/(b:c", ("a", "(b:c")),
        ("jit(f)/aten::rsqrt/rsqrt", ("aten::rsqrt", "rsqrt")),
        ("jit(f)/named(a:b)", ("a:b",)),
    ],
)
def test_the_scope_of_what_was_combined(path: str, scope: tuple[str, ...]) -> None:
    assert signature_of(OpInfo("x", OpClass("matmul", "name"), scope=path)).scope == scope


def test_a_hostile_scope_takes_no_time() -> None:
    path = "(" + "a:" * 100_000 + ")"
    assert signature_of(OpInfo("x", OpClass("matmul", "name"), scope=path)).scope == ("(combined)",)
    assert signature_of(OpInfo("x", OpClass("matmul", "name"), scope="(" * 50_000 + ":")).scope is not None


def test_an_op_that_states_no_program_has_that_of_its_run() -> None:
    assert signature_of(OpInfo("a.1", OpClass("matmul", "name")), "jit_f(3)").module == "jit_f"
    assert signature_of(OpInfo("a.1", OpClass("matmul", "name"))).module is None


def test_an_opcode_from_the_category_or_the_name() -> None:
    def opcode(name: str, category: str | None) -> str:
        return signature_of(OpInfo(name, OpClass("elementwise", "name"), category=category)).opcode

    assert opcode("x.1", "loop fusion") == "fusion"
    assert opcode("x.1", "data formatting") == "copy"
    assert opcode("x.1", "custom-call") == "custom-call"
    assert opcode("loop_add_fusion.3", None) == "fusion"
    assert opcode("kernel_7", None) == "kernel"


def made(**changes: object) -> Signature:
    facts = {"module": "m", "scope": ("layers_*", "mlp", "mul"), "marks": (), "kind": "elementwise"}
    facts |= {"opcode": "fusion", "name": "fusion", "shapes": ("f32[64,32]",), "groups": None}
    return Signature(**(facts | changes))  # type: ignore[arg-type]


def test_similarity() -> None:
    one = made()
    assert similarity(one, one) == 1.0
    assert similarity(one, made(kind="collective")) == 0.0
    near = made(opcode="multiply", name="multiply", shapes=("f32[64,16]",))
    far = made(scope=("head", "attn", "add"), shapes=("f32[8]",))
    assert similarity(one, near) > THRESHOLD > similarity(one, far)
    assert similarity(one, near) == similarity(near, one)
    nowhere = made(scope=None, shapes=("s32[7]",))
    assert similarity(made(scope=None, name="a_fusion"), nowhere) == 0.0
    assert similarity(made(scope=None, shapes=None, name="a_fusion"), made(scope=None, name="a_fusion")) == 1.0


def test_the_most_alike_come_first_and_not_too_many_are_compared() -> None:
    ops = [Op(f"add{n}x.1", 10, "mlp/mul", f"f32[{n + 1}]", "multiply") for n in range(200)]
    items = side_of(loaded(built(ops, steps=1))).items
    pool = {item.signature: [item] for item in items}
    pairs = list(similar_pairs(pool, pool))
    assert pairs[0][0] == pairs[0][1]
    assert len(pairs) <= 200 + 3 * 16 * 16


def test_the_program_of_the_models_is_what_it_says() -> None:
    ops = [Op("fusion.1", role="fusion", scope="a/mul", source="f.py:3"), Op("all-gather.2", role="all-gather")]
    made = program(ops)
    assert made.scope("fusion.1") == "jit(step)/jit(main)/a/mul:"
    assert "replica_groups={{0,1}}" in made.instruction("all-gather.2")
