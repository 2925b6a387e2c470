"""Dataclasses as plain data: the named ones come back as they were, everything else is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from tpuprof.cache.codec import Codec
from tpuprof.cache.container import NotKeptError


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    number: int | None = None
    inner: Leaf | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    value: float
    pair: tuple[str, int] = ("a", 1)


@dataclass(frozen=True, eq=False)
class Tree:
    array: npt.NDArray[np.int32]
    leaves: tuple[Leaf, ...] = ()
    rows: tuple[Row, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict[str, Any])
    by_id: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    kind: Literal["one", "two"] = "one"
    names: list[str] = field(default_factory=list[str])
    anything: npt.NDArray[Any] | None = None


CODEC = Codec((Tree, Leaf), rows=(Row,))
ARRAY = np.arange(5, dtype=np.int32)


def copy(value: Any, codec: Codec = CODEC) -> Any:
    tree, parts = codec.encode(value)
    return codec.decode(json.loads(json.dumps(tree)), parts)


def test_a_value_comes_back() -> None:
    leaf = Leaf(1.5, ("b", 2))
    tree = Tree(
        ARRAY,
        (leaf, Leaf(2)),
        (Row("x", 1, leaf), Row("y")),
        {"": b"\x00\xff", "n": [1, (2.5, None)], "deep": {"t": {1: True}}, "array": np.ones(3)},
        {7: b"seven", -1: b""},
        "two",
        ["n"],
        np.zeros(2, np.int8),
    )
    found = copy(tree)
    assert type(found) is Tree
    assert found.array.dtype == np.int32
    assert found.array.tolist() == ARRAY.tolist()
    assert (found.leaves, found.rows, found.by_id, found.kind) == (tree.leaves, tree.rows, tree.by_id, "two")
    assert found.stats["deep"] == {"t": {1: True}}
    assert found.stats["n"] == [1, (2.5, None)]
    assert type(found.leaves[1].value) is int  # as it was
    assert list(found.stats) == list(tree.stats)


def test_what_is_one_object_stays_one() -> None:
    leaf = Leaf(1.0)
    found = copy(Tree(ARRAY, (leaf, leaf), anything=ARRAY))
    assert found.leaves[0] is found.leaves[1]
    assert found.anything is found.array


@pytest.mark.parametrize("name", ["t", "l", "d", "o", "p", "r", "c"])
def test_names_that_are_tags_are_only_names(name: str) -> None:
    assert copy(Tree(ARRAY, stats={name: {name: name}})).stats == {name: {name: name}}


@dataclass(frozen=True)
class Unnamed:
    value: int = 1


@pytest.mark.parametrize("value", [Unnamed(), {1, 2}, np.int64(4), np.float64(0.5), object(), Row, 1j, True.__class__])
def test_other_types_are_not_written(value: Any) -> None:
    with pytest.raises(NotKeptError, match="has no form in the cache"):
        CODEC.encode(Tree(ARRAY, stats={"x": value}))


def test_another_class_of_the_same_name_is_not_written() -> None:
    other: Any = dataclass(frozen=True)(type("Leaf", (), {"__annotations__": {"value": float}}))
    with pytest.raises(NotKeptError, match="has no form in the cache"):
        CODEC.encode(Tree(ARRAY, stats={"x": other(1.0)}))


WRONG: list[dict[str, Any]] = [
    {"array": np.arange(3, dtype=np.int64)},
    {"array": [1, 2]},
    {"leaves": [Leaf(1.0)]},
    {"leaves": (1,)},
    {"leaves": (Leaf("x"),)},  # type: ignore[arg-type]
    {"leaves": (Leaf(1.0, ("a", 1, 2)),)},  # type: ignore[arg-type]
    {"leaves": (Leaf(1.0, ("a", "b")),)},  # type: ignore[arg-type]
    {"leaves": (Leaf(True),)},
    {"rows": (Row(1),)},  # type: ignore[arg-type]
    {"rows": (Row("x", "y"),)},  # type: ignore[arg-type]
    {"stats": {1: 2}},
    {"by_id": {1: "x"}},
    {"kind": "three"},
    {"names": [1]},
    {"names": ("x",)},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_fields_of_another_type_are_not_written_and_not_read(wrong: dict[str, Any]) -> None:
    value = Tree(**{"array": ARRAY, **wrong})
    with pytest.raises(NotKeptError, match="is not what it is declared to be"):
        CODEC.encode(value)
    lax, parts = Codec((_Lax, Leaf, Row)).encode(_lax(value))
    tree = json.loads(json.dumps(lax).replace('"_Lax"', '"Tree"').replace('"_LaxLeaf"', '"Leaf"'))
    with pytest.raises(NotKeptError, match="makes no sense"):
        CODEC.decode(tree, parts)


@dataclass(frozen=True, eq=False)
class _Lax:
    array: Any
    leaves: Any
    rows: Any
    stats: Any
    by_id: Any
    kind: Any
    names: Any
    anything: Any


def _lax(tree: Tree) -> _Lax:
    """The same without declared types; leaves and rows of wrong types are stood for by plain numbers."""

    def plain(values: Any) -> Any:
        return type(values)(1 for _ in values)

    return _Lax(tree.array, plain(tree.leaves), plain(tree.rows), tree.stats, tree.by_id, tree.kind, tree.names, None)


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        {},
        {"objects": [], "root": {"o": 0}},
        {"objects": [], "root": {"p": 0}},
        {"objects": [], "root": {"p": "0"}},
        {"objects": [], "root": {"x": 0}},
        {"objects": [], "root": {}},
        {"objects": [], "root": [1]},
        {"objects": [["Leaf", [{"o": 0}]]], "root": {"o": 0}},
        {"objects": [["Leaf", []]], "root": {"o": 0}},
        {"objects": [["Leaf", [1.0, {"t": ["a", 1]}, 3]]], "root": {"o": 0}},
        {"objects": [["Path", ["/etc"]]], "root": {"o": 0}},
        {"objects": [["__class__", []]], "root": {"o": 0}},
        {"objects": [[["Leaf"], []]], "root": {"o": 0}},
        {"objects": 7, "root": 1},
        {"objects": [], "root": {"d": [[{"l": []}], [1]]}},
        {"objects": [], "root": {"d": [[1, 2], [1]]}},
        {"objects": [], "root": {"t": 5}},
        {"objects": [], "root": {"r": "Row", "c": [["x"]]}},
        {"objects": [], "root": {"r": "Row", "c": [["x"], [1, 2], [None]]}},
        {"objects": [], "root": {"r": "Row", "c": [[7], [None], [None]]}},
        {"objects": [], "root": {"r": "Row"}},
        {"objects": [], "root": {"r": "Path", "c": [["x"]]}},
    ],
)
def test_trees_of_another_form_are_refused(tree: Any) -> None:
    with pytest.raises(NotKeptError):
        CODEC.decode(tree, [])


def test_nesting_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"l": [deep]}
    with pytest.raises(NotKeptError):
        CODEC.decode({"objects": [], "root": deep}, [])
