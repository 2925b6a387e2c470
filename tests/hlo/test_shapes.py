from __future__ import annotations

import pickle
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import HloError
from tpuprof.hlo import Layout, Shape, parse_shape
from tpuprof.hlo.shape_proto import shape_bytes, shape_from_bytes
from tpuprof.hlo.shapes import DTYPE_BITS


def test_a_tiled_array_in_vmem():
    shape = parse_shape("bf16[4096,1024]{1,0:T(8,128)(2,1)S(1)}")
    assert shape == Shape("bf16", (4096, 1024), Layout((1, 0), ((8, 128), (2, 1)), memory_space=1))
    assert shape.elements == 4096 * 1024
    assert shape.byte_size == 2 * 4096 * 1024
    assert shape.layout is not None
    assert shape.layout.memory_space_name == "vmem"


def test_a_nested_tuple_and_its_leaves():
    text = "((f32[2,3]{0,1}, token[]), u32[]{:S(2)}, (), /*index=3*/pred[5]{0})"
    shape = parse_shape(text)
    assert [str(leaf) for leaf in shape.leaves()] == ["f32[2,3]{0,1}", "token[]", "u32[]{:S(2)}", "pred[5]{0}"]
    assert shape.byte_size == 24 + 0 + 4 + 5
    assert shape.elements == 6 + 1 + 5
    assert str(shape) == "((f32[2,3]{0,1}, token[]), u32[]{:S(2)}, (), pred[5]{0})"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("s4[101]", 51),  # no layout: the type's own bits
        ("s4[101]{0:E(4)}", 51),  # packed
        ("s4[101]{0}", 101),  # a layout that does not pack gives each element a byte
        ("u4[8,3]{1,0:T(8,128)E(4)}", 12),
        ("f4e2m1fn[64]{0:E(4)}", 32),
        ("f8e4m3fn[64]{0}", 64),
        ("pred[7]{0}", 7),
        ("c64[3]{0}", 24),
        ("c128[]", 16),
        ("f64[0,5]{1,0}", 0),
        ("token[]", 0),
        ("opaque[]", 0),
        ("()", 0),
        ("f32[<=8,4]{1,0}", 128),
        ("f32[?,4]{1,0}", None),
        ("(f32[?], f32[2])", None),
        ("b(f32[4]{0})", 16),
    ],
)
def test_byte_size(text: str, size: int | None):
    shape = parse_shape(text)
    assert shape.byte_size == size
    assert str(shape) == text
    assert shape_from_bytes(shape_bytes(shape)) == shape


@pytest.mark.parametrize(
    ("space", "name"), [(0, "hbm"), (1, "vmem"), (2, "sync_flags"), (4, "smem"), (5, "host"), (6, "space_6")]
)
def test_memory_spaces_have_names(space: int, name: str):
    layout = parse_shape(f"f32[8]{{0:S({space})}}").layout
    assert layout is not None
    assert (layout.memory_space, layout.memory_space_name) == (space, name)


@pytest.mark.parametrize(
    "text",
    ["f32[8]{0:L(4)}", "f32[2,8]{1,0:T(*,8)}", "f32[8]{0:D(C)}", "f32[8,4]{1,0:SC(0:4)}", "f32[8]{0:M(8)}"],
)
def test_rare_parts_of_a_layout_survive(text: str):
    shape = parse_shape(text)
    assert str(shape) == text
    assert shape_from_bytes(shape_bytes(shape)) == shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[2", "Line 1, column 1: expected a shape"),
        ("f33[2]", "unknown element type 'f33'"),
        ("f32[2]{0,1}", "does not order the 1 dimensions"),
        ("f32[2,2]{1,1}", "does not order the 2 dimensions"),
        ("f32[x]", "'x' is no dimension"),
        ("f32[-2]", "'-2' is no dimension"),
        ("f32[2]{0:T(a)}", "'a' is no number"),
        ("f32[2]{0:!}", "is no layout"),
        ("(f32[2]", "expected ',' or ')'"),
        ("(f32[2] f32[3])", "expected ',' or ')'"),
        ("f32[2] junk", "unexpected 'junk' after a shape"),
        ("", "expected a shape"),
        ("(" * 10_000 + ")" * 10_000, "nested deeper than 100"),
        ("f32[" + "9" * 5000 + "]", "is no dimension"),
    ],
)
def test_what_is_no_shape(text: str, message: str):
    with pytest.raises(HloError) as error:
        parse_shape(text)
    assert message in str(error.value)


def test_a_shape_message_with_contradictions():
    with pytest.raises(HloError, match="no valid protobuf"):
        shape_from_bytes(b"\xff\xff")
    with pytest.raises(HloError, match="Element type 99"):
        shape_from_bytes(b"\x10\x63")
    with pytest.raises(HloError, match="does not order its 1 dimensions"):
        shape_from_bytes(bytes.fromhex("100b1a0108 2a00".replace(" ", "")))


arrays = st.builds(
    lambda dtype, dims, seed, tiles, space, packed: (dtype, dims, seed, tiles, space, packed),
    st.sampled_from(sorted(DTYPE_BITS)),
    st.lists(st.integers(0, 1 << 40), max_size=5),
    st.randoms(use_true_random=False),
    st.lists(st.lists(st.integers(1, 1024), min_size=1, max_size=3), max_size=2),
    st.sampled_from([0, 1, 5]),
    st.booleans(),
).map(lambda parts: _array(*parts))


def _array(dtype, dims, random, tiles, space, packed):
    order = list(range(len(dims)))
    random.shuffle(order)
    dynamic = tuple(random.random() < 0.2 for _ in dims)
    bits = DTYPE_BITS[dtype] if packed and DTYPE_BITS[dtype] < 8 else 0
    layout = Layout(tuple(order), tuple(map(tuple, tiles)), space, bits)
    if not dims and layout == Layout():
        layout = None
    return Shape(dtype, tuple(dims), layout, (), dynamic if any(dynamic) else ())


shapes = st.recursive(
    arrays | st.just(Shape("token")),
    lambda inner: st.lists(inner, max_size=4).map(lambda parts: Shape("tuple", (), None, tuple(parts))),
    max_leaves=8,
)


@given(shapes)
@settings(max_examples=200, deadline=None)
def test_text_and_message_give_the_shape_back(shape: Shape):
    assert parse_shape(str(shape)) == shape
    assert shape_from_bytes(shape_bytes(shape)) == shape
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert shape.byte_size == sum(leaf.byte_size or 0 for leaf in shape.leaves())
    assert shape.elements == sum(prod(leaf.dims) for leaf in shape.leaves() if leaf.is_array)
