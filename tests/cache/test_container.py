"""Files of arrays: what is written comes back to the bit, and nothing that is damaged comes back at all."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tpuprof.cache import mapping
from tpuprof.cache.container import NotKeptError, Part, read_container, write_container

DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float64")
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
CONSTANT = st.sampled_from(DTYPES).flatmap(
    lambda dtype: st.builds(
        lambda value, shape: np.full(shape, value[0], dtype),
        hnp.arrays(dtype, 1),
        st.sampled_from([(64,), (100,), (50, 3), (70, 0)]),
    )
)
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def written(path: Path, tree: Any, parts: list[Part]) -> Path:
    with path.open("wb") as stream:
        assert write_container(stream, tree, parts) == stream.tell()
    return path


def back(path: Path) -> tuple[Any, list[Part]]:
    with path.open("rb") as stream:
        return read_container(stream)


def assert_same(one: Part, other: Part) -> None:
    if isinstance(one, bytes) or isinstance(other, bytes):
        assert one == other
    else:
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert other.flags.writeable
        assert other.flags.c_contiguous


@settings(max_examples=60, deadline=None)
@given(TREES, st.lists(ARRAYS | CONSTANT | st.binary(max_size=200), max_size=5))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, tree: Any, parts: list[Part]) -> None:
    path = tmp_path_factory.mktemp("container") / "file"
    found, copies = back(written(path, tree, parts))
    assert found == tree
    for one, other in zip(parts, copies, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("value", [0.0, -0.0, np.nan, np.inf])
def test_repeated_floats_keep_their_bits(tmp_path: Path, value: float) -> None:
    mixed = np.full(100, value)
    mixed[50] = -mixed[50]
    parts: list[Part] = [np.full(100, value), mixed]
    for one, other in zip(parts, back(written(tmp_path / "f", None, parts))[1], strict=True):
        assert_same(one, other)


def test_views_are_written_as_what_they_show(tmp_path: Path) -> None:
    whole = np.arange(200, dtype=np.int64).reshape(20, 10)
    views: list[Part] = [whole[:, 3], whole[::-1, ::2], whole.T]
    for one, other in zip(views, back(written(tmp_path / "f", None, views))[1], strict=True):
        assert_same(one, other)


def test_one_repeated_value_takes_no_room(tmp_path: Path) -> None:
    path = written(tmp_path / "f", None, [np.full(1_000_000, -1, np.int64)])
    assert path.stat().st_size < 1000


def test_writing_to_an_array_leaves_the_file_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "f", None, [np.arange(100)])
    array: Any = back(path)[1][0]
    array[:] = 7
    assert np.array_equal(back(path)[1][0], np.arange(100))


def test_a_file_that_is_deleted_while_it_is_open_stays_readable(tmp_path: Path) -> None:
    path = written(tmp_path / "f", None, [np.arange(100_000)])
    array: Any = back(path)[1][0]
    path.unlink()
    assert int(array.sum()) == sum(range(100_000))


@pytest.mark.parametrize(
    "array", [np.array(5), np.array(["a"]), np.array([1 + 2j]), np.array([None]), np.zeros((1,) * 5)]
)
def test_other_arrays_are_refused(tmp_path: Path, array: Any) -> None:
    with pytest.raises(NotKeptError, match="has no form in the cache"), (tmp_path / "f").open("wb") as stream:
        write_container(stream, None, [array])


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotKeptError, match="surrogate"), (tmp_path / "f").open("wb") as stream:
        write_container(stream, ["\ud83d"], [])


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    parts: list[Part] = [np.arange(16, dtype=np.int64), b"seventeen bytes..", np.arange(90, dtype=np.uint8)]
    path = written(tmp_path / "f", {"name": "x"}, parts)
    good = path.read_bytes()
    noticed = 0
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x20]) + good[at + 1 :])
        try:
            _, copies = back(path)
        except NotKeptError:
            noticed += 1
            continue
        for one, other in zip(parts, copies, strict=True):  # it was padding
            assert_same(one, other)
    assert noticed >= 28 + 16 * 8 + 17 + 90


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "f", None, [np.arange(32, dtype=np.int64)])
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(NotKeptError):
            back(path)


def crafted(path: Path, header: Any) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(b"tpuprof cache 1\n" + struct.pack("<QI", len(text), zlib.crc32(text)) + text + bytes(256))
    return path


@pytest.mark.parametrize(
    "part",
    [
        ["int64", [8], -8, 0],
        ["int64", [8], 1 << 62, 0],
        ["int64", [1 << 62], 0, 0],
        ["int64", [-1], 0, 0],
        ["int64", [True], 0, 0],
        ["int64", [1.0], 0, 0],
        ["int64", [], 0, 0],
        ["int64", [1] * 9, 0, 0],
        ["int64", "88", 0, 0],
        ["int64", [1 << 50], "0000000000000000"],
        ["int64", [(1 << 31) + 1], "0000000000000000"],
        ["int64", [64], "00"],
        ["int64", [64], "zz"],
        ["int64", [64], 5],
        ["object", [8], 0, 0],
        ["<U4", [2], 0, 0],
        ["bytes", [8], "00"],
        ["bytes", [1 << 40], 0, 0],
        ["int64"],
        [],
        None,
        7,
    ],
)
def test_headers_that_make_no_sense_are_refused(tmp_path: Path, part: Any) -> None:
    with pytest.raises(NotKeptError):
        back(crafted(tmp_path / "f", {"tree": None, "parts": [part]}))


@pytest.mark.parametrize(
    "header", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"tree": 1}', b'{"parts": []}']
)
def test_headers_of_another_form_are_refused(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(NotKeptError):
        back(crafted(tmp_path / "f", header))


@pytest.mark.parametrize("content", [b"", b"x", b"tpuprof cache 1\n", b"PAR1" * 100, b"tpuprof cache 2\n" + bytes(100)])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(NotKeptError):
        back(tmp_path / "f")


@pytest.mark.parametrize("kind", ["ext4", "nfs4", "fuse.sshfs", None])
def test_on_every_file_system_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None) -> None:
    monkeypatch.setattr(mapping, "file_system", lambda descriptor: kind)
    parts: list[Part] = [np.arange(1000), b"bytes", np.zeros(0, np.int32)]
    path = written(tmp_path / "f", [1], parts)
    tree, copies = back(path)
    assert tree == [1]
    for one, other in zip(parts, copies, strict=True):
        assert_same(one, other)
    if kind != "ext4":  # a file that is cut would end the process if it were mapped
        path.write_bytes(b"")
        assert np.array_equal(copies[0], np.arange(1000))


def test_the_file_system_is_known_here(tmp_path: Path) -> None:
    with open("/proc/self/mountinfo", "rb") as stream:
        assert mapping.file_system(stream.fileno()) == "proc"


def test_where_the_system_does_not_say_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "_MOUNTS", str(tmp_path / "nothing"))
    with open("/proc/self/mountinfo", "rb") as stream:
        assert mapping.file_system(stream.fileno()) is None
