"""The notation of sharded arrays, and the pieces that it means."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, Dim, check_mesh, parse_array, parse_mesh
from tpuprof.perfmodel.mesh_collective import AxisLinks, from_piece, group_bytes, one_way, over_mesh
from tpuprof.perfmodel.sharding import legality, mean_over_shards, objection, shard, starts, undo, undo_all

AXES = st.lists(st.sampled_from(["X", "Y", "Z", "data", "fsdp"]), max_size=2, unique=True).map(tuple)
DIMS = st.builds(Dim, st.integers(0, 10_000), st.just(""), AXES)
LETTERS = st.builds(Dim, st.none(), st.sampled_from(["I", "J", "KV"]), AXES)


@given(st.sampled_from(["bf16", "s8", "f8e4m3fn", None]), st.lists(DIMS | LETTERS, max_size=4), AXES)
def test_an_array_reads_back_as_it_is_written(dtype: str | None, dims: list[Dim], partial: tuple[str, ...]) -> None:
    array = Array(dtype, tuple(dims), partial)
    assert parse_array(str(array)) == array


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16[1024_X,4096_Y]{U_Z}", Array("bf16", (Dim(1024, "", ("X",)), Dim(4096, "", ("Y",))), ("Z",))),
        ("int8[128_XY,2048]", Array("s8", (Dim(128, "", ("X", "Y")), Dim(2048)))),
        (" A[ I_X , J ] ", Array(None, (Dim(None, "I", ("X",)), Dim(None, "J")), (), "A")),
        ("[8_data+fsdp]", Array(None, (Dim(8, "", ("data", "fsdp")),))),
        ("[8_model_2]", Array(None, (Dim(8, "", ("model_2",)),))),
        ("f32[]", Array("f32", ())),
        ("fp8[16_384_X]", Array("f8e4m3fn", (Dim(16384, "", ("X",)),))),
    ],
)
def test_notation(text: str, expected: Array) -> None:
    assert parse_array(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf16", "is no array"),
        ("bf16[8", "is no array"),
        ("bf16[8]]", "is no array"),
        ("bf61[8]", "is no element type"),
        ("bf16[8,]", "is no dimension"),
        ("bf16[-8]", "is no dimension"),
        ("bf16[8_]", "is no dimension"),
        ("bf16[1.5]", "is no dimension"),
        ("bf16[" + "9" * 30 + "]", "too long"),
        ("bf16[" + ",".join("1" * 40) + "]", "at most 32"),
    ],
)
def test_texts_that_are_no_arrays(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_array(text)


def test_meshes() -> None:
    assert parse_mesh("X=4,Y=2") == {"X": 4, "Y": 2}
    assert parse_mesh("data:8") == {"data": 8}
    for text, message in (("X", "no mesh axis"), ("X=2,X=3", "twice"), ("X=0", "0 devices"), ("", "no mesh axis")):
        with pytest.raises(UsageError, match=message):
            parse_mesh(text)
    with pytest.raises(UsageError, match="more devices than any system"):
        check_mesh({"X": 10**9, "Y": 10**9})


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.permutations(["X", "Y", "Z"]),
)
def test_pieces_add_up_to_the_copies_of_the_array(sizes: list[int], lengths: list[int], order: list[str]) -> None:
    mesh = dict(zip("XYZ", lengths, strict=True))
    used = order[: len(sizes)]
    dims = tuple(Dim(size * mesh[axis], "", (axis,)) for size, axis in zip(sizes, used, strict=True))
    made = shard(Array("bf16", dims), mesh)
    assert made.local_shape == tuple(sizes)
    assert made.ways * made.copies == made.devices == prod(lengths)
    assert made.total_bytes == made.array.bytes() * made.copies
    pieces = [starts(made, n) for n in range(len(sizes))]
    held = [tuple(a + b for a, b in zip(at, inside, strict=True))
            for at in product(*pieces) for inside in product(*map(range, sizes))]  # fmt: skip
    assert sorted(held) == sorted(product(*(range(dim.size or 0) for dim in dims)))
    piece = Array("bf16", tuple(Dim(n, "", dim.axes) for n, dim in zip(made.local_shape, dims, strict=True)))
    assert undo(piece, mesh).value == list(made.array.shape)
    assert from_piece(piece, mesh) == made.array


def test_a_dimension_that_does_not_divide_is_padded_and_says_so() -> None:
    made = shard(parse_array("bf16[10_X,4]"), {"X": 4})
    assert made.local_shape == (3, 4)
    assert made.uneven == (0,)
    (note,) = made.answers()["device-bytes"].assumptions
    assert note.startswith("X=4 does not divide dimension 0")
    with pytest.raises(UsageError, match="do not all hold"):
        mean_over_shards(made, 1)


def test_the_operands_of_a_local_op_name_the_global_one() -> None:
    pieces = [parse_array("bf16[8_data,1024,8192]"), parse_array("bf16[8192,16384_model]")]
    found = undo_all(pieces, {"data": 4, "model": 2})
    assert found.value == [[32, 1024, 8192], [8192, 32768]]
    with pytest.raises(UsageError, match="no axis data"):
        undo_all(pieces, {"model": 2})
    with pytest.raises(UsageError, match="no piece"):
        undo_all([], {})


def test_half_bytes_are_packed_and_nothing_is_nothing() -> None:
    assert parse_array("int4[3]").bytes() == 1.5
    assert shard(parse_array("bf16[0_X,4]"), {"X": 4}).total_bytes == 0


def test_what_a_sharding_cannot_be() -> None:
    assert objection(parse_array("[8_X,8_X]")) == (
        "The mesh axis X is used 2 times; an axis may split only one dimension of an array."
    )
    assert objection(parse_array("[8_X]{U_X}")).startswith("The mesh axis X is used 2 times")
    assert objection(parse_array("[8_X]"), {"Y": 2}) == "The mesh has no axis X; it has Y."
    assert legality(parse_array("[8_X,8]")).value is True
    with pytest.raises(UsageError, match="used 2 times"):
        shard(parse_array("bf16[8_X,8_X]"), {"X": 2})
    with pytest.raises(UsageError, match="size of I is not known"):
        shard(parse_array("bf16[I_X]"), {"X": 2})
    with pytest.raises(UsageError, match="more elements than any memory"):
        shard(parse_array(f"bf16[{10**14},{10**14},{10**14}]"), {})
    with pytest.raises(UsageError, match="no dimension 2"):
        starts(shard(parse_array("bf16[8_X,8]"), {"X": 2}), 2)
    with pytest.raises(UsageError, match="element type is not known"):
        _ = shard(parse_array("[8]"), {}).device_bytes


def test_a_gather_over_an_idle_axis_too_takes_half_as_long() -> None:
    mesh, links = {"X": 4, "Y": 4, "Z": 4}, AxisLinks(one_way(9e10), frozenset("XYZ"))
    array = parse_array("bf16[1024_X,4096_Y]")
    alone = over_mesh("all_gather", array, ("X",), mesh, links, approximate=True)
    helped = over_mesh("all_gather", array, ("X",), mesh, links, idle=("Z",), approximate=True)
    assert alone.number() == pytest.approx(2 * helped.number())
    assert alone.number() == pytest.approx(1024 * 4096 * 2 / 4 / 9e10)
    assert any("first split over Z" in sentence for sentence in helped.assumptions)
    exact = over_mesh("all_gather", array, ("X",), mesh, links)
    assert exact.number() == pytest.approx(0.75 * alone.number())
    line = over_mesh("all_gather", array, ("X",), mesh, AxisLinks(4.5e10))
    assert line.number() == pytest.approx(2 * exact.number())


def test_reductions_and_their_parts_agree() -> None:
    mesh, links = {"X": 4, "Y": 2}, AxisLinks(1e9, frozenset("XY"), 1e-6)
    whole = over_mesh("all_reduce", parse_array("bf16[1024,4096_Y]{U_X}"), ("X",), mesh, links)
    scatter = over_mesh("reduce_scatter", parse_array("bf16[1024_X,4096_Y]"), ("X",), mesh, links)
    gather = over_mesh("all_gather", parse_array("bf16[1024_X,4096_Y]"), ("X",), mesh, links)
    assert whole.number() == pytest.approx(scatter.number() + gather.number())
    tiny = over_mesh("all_gather", parse_array("bf16[4_X]"), ("X",), mesh, links)
    assert (tiny.regime, tiny.value) == ("latency", 2e-6)
    assert group_bytes(parse_array("[8_X,4_Y]"), ("X",), mesh).unit == "element"


@pytest.mark.parametrize(
    ("kind", "text", "over", "idle", "message"),
    [
        ("all_gather", "bf16[8_X]", "", "", "over no axis"),
        ("all_gather", "bf16[8_X]", "Y", "", "does not split the array"),
        ("all_reduce", "bf16[8_X]", "X", "", "no partial sums"),
        ("all_gather", "bf16[8_X,8_Y]", "X", "Y", "not idle"),
        ("all_gather", "bf16[8_X]", "XX", "", "named twice"),
        ("all_reduce", "bf16[8_X]", "W", "", "no axis W"),
    ],
)
def test_collectives_that_an_array_cannot_do(kind: str, text: str, over: str, idle: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        over_mesh(kind, parse_array(text), tuple(over), {"X": 2, "Y": 2}, AxisLinks(1e9), idle=tuple(idle))  # pyright: ignore[reportArgumentType]
