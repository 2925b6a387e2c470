"""Frozen dataclasses as plain data and arrays, and back.

Only classes that are named can be written, and only they come back, with values of the types that their fields
declare: nothing in a file decides what code runs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from tpuprof.cache.container import NotKeptError, Part

_PLAIN = (type(None), bool, int, float, str)
Check = Callable[[Any], bool]


class Codec:
    """Writes and reads values made of some dataclasses, builtin types and arrays.

    What is one object (or one array) in the value is one in the copy.

    Args:
        classes: the dataclasses that may occur.
        rows: those of them that occur in long tuples of plain fields; such a tuple is written column by column.
    """

    def __init__(self, classes: Iterable[type], rows: Iterable[type] = ()) -> None:
        self._classes = {one.__name__: one for one in (*classes, *rows)}
        self._rows = frozenset(rows)

    def encode(self, value: Any) -> tuple[Any, list[Part]]:
        """The value as a tree for JSON and the arrays and byte strings that it refers to.

        Raises:
            NotKeptError: something in it is of a type that was not named, or not of the type its field declares.
        """
        writer = _Writer(self._classes, self._rows)
        root = writer.tree(value)
        return {"objects": writer.objects, "root": root}, writer.parts

    def decode(self, tree: Any, parts: Sequence[Part]) -> Any:
        """The value that was encoded.

        Raises:
            NotKeptError: the tree is none that ``encode`` writes.
        """
        try:
            reader = _Reader(self._classes, parts)
            for name, values in tree["objects"]:
                reader.objects.append(reader.made(name, [reader.value(each) for each in values]))
            return reader.value(tree["root"])
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise NotKeptError("its content makes no sense") from error


class _Writer:
    def __init__(self, classes: Mapping[str, type], rows: frozenset[type]) -> None:
        self.objects: list[Any] = []
        self.parts: list[Part] = []
        self._classes = classes
        self._rows = rows
        self._known: dict[int, Any] = {}  # by id: all of it is held by the value while this works

    def tree(self, value: Any) -> Any:
        kind = _kind(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return self._tuple(value)
        if kind is list:
            return {"l": [self.tree(each) for each in value]}
        if kind is dict:
            return {"d": [[self.tree(key) for key in value], [self.tree(each) for each in value.values()]]}
        if kind in (bytes, np.ndarray):
            return self._part(value)
        if self._classes.get(kind.__name__) is kind:
            return self._object(value)
        raise NotKeptError(f"{kind.__module__}.{kind.__name__} has no form in the cache")

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        kind = _kind(value[0] if value else value)
        if kind not in self._rows or any(type(each) is not kind for each in value):
            return {"t": [self.tree(each) for each in value]}
        columns: list[list[Any]] = []
        for field in fields(kind):
            column = [getattr(each, field.name) for each in value]
            check = _checks(kind)[field.name]
            if not all(map(check, column)):
                raise NotKeptError(f"{kind.__name__}.{field.name} is not what it is declared to be")
            columns.append([self.tree(each) for each in column])
        return {"r": kind.__name__, "c": columns}

    def _part(self, value: Any) -> Any:
        if id(value) not in self._known:
            self._known[id(value)] = {"p": len(self.parts)}
            self.parts.append(value)
        return self._known[id(value)]

    def _object(self, value: Any) -> Any:
        if id(value) not in self._known:
            kind = _kind(value)
            values: list[Any] = []
            for name, check in _checks(kind).items():
                inner = getattr(value, name)
                if not check(inner):
                    raise NotKeptError(f"{kind.__name__}.{name} is not what it is declared to be")
                values.append(self.tree(inner))
            self._known[id(value)] = {"o": len(self.objects)}
            self.objects.append([kind.__name__, values])
        return self._known[id(value)]


class _Reader:
    def __init__(self, classes: Mapping[str, type], parts: Sequence[Part]) -> None:
        self.objects: list[Any] = []
        self._classes = classes
        self._parts = parts

    def value(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            if _kind(tree) not in _PLAIN:
                raise TypeError(tree)
            plain: Any = tree
            return plain
        ((tag, content), *rest) = cast("dict[str, Any]", tree).items()
        if tag == "r":
            return self._rows(content, dict(rest)["c"])
        if tag == "p":
            return cast("Any", self._parts)[content]
        if tag == "o":
            return self.objects[content]
        if tag == "d":
            keys, values = content
            return dict(zip(map(self.value, keys), map(self.value, values), strict=True))
        if tag not in ("t", "l"):
            raise KeyError(tag)
        return [self.value(each) for each in content] if tag == "l" else tuple(self.value(each) for each in content)

    def made(self, name: str, values: Sequence[Any]) -> Any:
        kind = self._classes[name]
        for value, check in zip(values, _checks(kind).values(), strict=True):
            if not check(value):
                raise TypeError(name)
        return kind(*values)

    def _rows(self, name: str, columns: list[list[Any]]) -> tuple[Any, ...]:
        kind = self._classes[name]
        checks = _checks(kind)
        if len(columns) != len(checks):
            raise TypeError(name)
        decoded = [
            [self.value(each) if type(each) is dict else each for each in column] for column in columns
        ]  # a loop of its own: there are tens of thousands of plain values
        for column, check in zip(decoded, checks.values(), strict=True):
            if not all(map(check, column)):
                raise TypeError(name)
        return tuple(kind(*row) for row in zip(*decoded, strict=True))


@cache
def _checks(kind: type) -> dict[str, Check]:
    """For each field of a dataclass, in order, whether a value is of its type."""
    hints = get_type_hints(kind)
    return {field.name: _check(hints[field.name]) for field in fields(cast("Any", kind)) if field.init}


def _check(hint: Any) -> Check:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return lambda value: True
    if origin in (Union, types.UnionType):
        return _any_of([_check(each) for each in inner])
    if origin is Literal:
        return lambda value: isinstance(value, str | int) and value in inner
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            each = _check(inner[0])
            return lambda value: type(value) is tuple and all(map(each, cast("tuple[Any, ...]", value)))
        checks = [_check(one) for one in inner]
        return lambda value: (
            type(value) is tuple
            and len(cast("tuple[Any, ...]", value)) == len(checks)
            and all(check(one) for check, one in zip(checks, cast("tuple[Any, ...]", value), strict=True))
        )
    if origin is list:
        each = _check(inner[0])
        return lambda value: type(value) is list and all(map(each, cast("list[Any]", value)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, content = map(_check, inner)
        return lambda value: (
            type(value) is dict
            and all(map(key, cast("dict[Any, Any]", value)))
            and all(map(content, cast("dict[Any, Any]", value).values()))
        )
    if origin is np.ndarray:
        wanted = [_dtype(scalar) for scalar in get_args(inner[1]) if scalar is not Any]
        return lambda value: type(value) is np.ndarray and all(cast("Any", value).dtype == dtype for dtype in wanted)
    if hint is float:
        return lambda value: type(value) in (float, int)
    if hint in (int, str, bool, bytes, type(None)) or is_dataclass(hint):
        return lambda value: type(value) is hint
    raise TypeError(f"no check for {hint}")


def _kind(value: object) -> Any:
    return type(value)


def _dtype(scalar: Any) -> np.dtype[Any]:
    return np.dtype(scalar)


def _any_of(checks: list[Check]) -> Check:
    return lambda value: any(check(value) for check in checks)
