"""Bytes of arrays in their layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.hlo import parse_shape
from tpuprof.hlo.cost.memory import by_space, padded_bytes, partial_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[1024,64]", 1024 * 64 * 4),
        ("f32[1024,64]{1,0:T(8,128)}", 1024 * 128 * 4),  # half of every tile is padding
        ("f32[1024,64]{0,1:T(8,128)}", 1024 * 64 * 4),  # the other way round nothing is
        ("bf16[3,5]{1,0:T(8,128)(2,1)}", 8 * 128 * 2),
        ("bf16[1,100]{1,0:T(1,128)(2,1)}", 2 * 128 * 2),  # pairs of rows share their words
        ("bf16[7,4,128]{2,1,0:T(4,128)(2,1)}", 7 * 4 * 128 * 2),
        ("f32[5]{0:T(1024)}", 4096),
        ("s32[]{:T(128)}", 512),
        ("s32[]", 4),
        ("pred[10]", 10),
        ("s4[10]{0:E(4)}", 5),
        ("u8[3]{0:L(4)}", 4),
        ("f32[0,128]{1,0:T(8,128)}", 0),
        ("f32[3,2,128]{2,1,0:T(*,128)}", 6 * 128 * 4),  # a folded dimension
        ("token[]", 0),
        ("(f32[2], f32[3])", 20),
        ("f32[?]", None),
    ],
)
def test_padded_bytes(text: str, expected: int | None):
    assert padded_bytes(parse_shape(text)) == expected


@pytest.mark.parametrize(
    ("text", "sizes", "expected"),
    [
        ("f32[32,64,64]{2,1,0:T(8,128)}", (1, 64, 64), 64 * 128 * 4),  # one layer, with its padding
        ("f32[32,64]{1,0:T(8,128)}", (1, 64), 128 * 4),  # one row of a tile, not the tile
        ("f32[32,64]{1,0:T(8,128)}", (32, 1), 32 * 4),
        ("f32[32,64]", (3, 2), 24),
        ("f32[32,64]{1,0:T(8,128)}", (0, 64), 0),
        ("f32[32,64]{1,0:T(8,128)}", (32, 64), 32 * 128 * 4),
        ("f32[32,64]", (1,), None),
        ("f32[?,64]", (1, 64), None),
    ],
)
def test_bytes_of_a_part(text: str, sizes: tuple[int, ...], expected: int | None):
    assert partial_bytes(parse_shape(text), sizes) == expected


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from(["", ":T(8,128)", ":T(8,128)(2,1)", ":T(2,128)(2,1)", ":T(1024)", ":T(256)"]),
    st.sampled_from(["f32", "bf16", "s8"]),
    st.data(),
)
def test_padding_never_takes_away_and_parts_never_exceed_the_whole(
    dims: list[int], tiles: str, dtype: str, data: st.DataObject
):
    order = ",".join(map(str, data.draw(st.permutations(range(len(dims))))))
    shape = parse_shape(f"{dtype}[{','.join(map(str, dims))}]{{{order}{tiles}}}")
    whole = padded_bytes(shape)
    assert whole is not None
    assert shape.byte_size is not None
    assert whole >= shape.byte_size
    sizes = tuple(data.draw(st.integers(0, size)) for size in dims)
    part = partial_bytes(shape, sizes)
    assert part is not None
    assert part <= whole


def test_bytes_are_summed_by_memory_space():
    shapes = [parse_shape(text) for text in ("f32[8]{0:S(1)}", "f32[4]", "f32[2]{0:S(5)}", "f32[1]{0:S(1)}", "f32[0]")]
    assert by_space((shape, padded_bytes(shape)) for shape in shapes) == {"vmem": 36, "hbm": 16, "host": 8}
    assert by_space([(shapes[0], None)]) is None
