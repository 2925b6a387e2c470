"""Sharded arrays in the notation of the scaling book: ``bf16[1024_X,4096_Y]{U_Z}``.

A dimension is a size or a letter, and after ``_`` come the mesh axes over which it is split: capital letters stand for
one axis each (``2048_XY``), other names are joined by plus signs (``2048_data+fsdp``). ``{U_Z}`` marks partial results
that are still to be summed over Z. The element type and a name in front (``A[I_X,J]``) may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from tpuprof.dtypes import hlo_dtype, packed_bytes
from tpuprof.errors import UsageError
from tpuprof.text import clean

MAX_RANK = 32
MAX_SIZE = 10**15
MAX_ELEMENTS = 10**30
_ARRAY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)?\s*\[([^\[\]{}]*)\]\s*(?:\{\s*U_([A-Za-z0-9_+]+)\s*\})?\s*\Z")
_DIM = re.compile(r"\s*(?:([0-9]+(?:_[0-9]{3})*)|([A-Za-z][A-Za-z0-9]*))\s*(?:_([A-Za-z][A-Za-z0-9_+]*))?\s*\Z")
_AXIS = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*[=:]\s*([0-9]+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension.

    Args:
        size: of the whole array; null if only its letter is known.
        letter: its name, such as ``I``; empty if it has none.
        axes: mesh axes that split it, the slowest first.
    """

    size: int | None
    letter: str = ""
    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = self.letter if self.size is None else str(self.size)
        return f"{text}_{join_axes(self.axes)}" if self.axes else text


@dataclass(frozen=True, slots=True)
class Array:
    """An array with the mesh axes that split it.

    Args:
        dtype: by the name of HLO; null if not stated.
        dims: in order.
        partial: mesh axes over which its values are still to be summed.
        name: of the array, such as ``A``.
    """

    dtype: str | None
    dims: tuple[Dim, ...]
    partial: tuple[str, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        unsummed = "{U_" + join_axes(self.partial) + "}" if self.partial else ""
        return f"{self.dtype or self.name}[{','.join(map(str, self.dims))}]{unsummed}"

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that split any dimension, as often as they are used."""
        return tuple(axis for dim in self.dims for axis in dim.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the whole array.

        Raises:
            UsageError: a dimension has a letter and no size, or the array is absurdly large.
        """
        sizes: list[int] = []
        for dim in self.dims:
            if dim.size is None:
                raise UsageError(f"The size of {dim.letter} is not known.", where=str(self), hint="Give it a number.")
            sizes.append(dim.size)
        if prod(sizes) > MAX_ELEMENTS:
            raise UsageError("The array has more elements than any memory.", where=str(self))
        return tuple(sizes)

    def bytes(self) -> float:
        """Bytes of one whole copy, without tile padding.

        Raises:
            UsageError: the element type or a size is not known.
        """
        if self.dtype is None:
            raise UsageError("The element type is not known.", where=str(self), hint=f"Write bf16{self}, for example.")
        return packed_bytes(self.dtype, prod(self.shape))

    def sized(self, sizes: Mapping[str, int]) -> Array:
        """The same with numbers for the letters that ``sizes`` names."""
        dims = tuple(replace(dim, size=sizes.get(dim.letter, dim.size)) for dim in self.dims)
        return replace(self, dims=dims)


def parse_array(text: str) -> Array:
    """The array of a text such as ``bf16[1024_X,4096_Y]{U_Z}``, ``A[I_X,J]`` or ``[8,128]``.

    Raises:
        UsageError: it is not in this notation.
    """
    match = _ARRAY.match(text)
    if match is None:
        raise UsageError(f"{clean(text)[:200]!r} is no array.", hint="Write it like bf16[1024_X,4096_Y] or A[I_X,J].")
    parts = match[2].split(",") if match[2].strip() else []
    if len(parts) > MAX_RANK:
        raise UsageError(f"An array of {len(parts)} dimensions; at most {MAX_RANK} are possible.")
    head = match[1] or ""
    dtype, name = _head(head)
    return Array(dtype, tuple(_dim(part, text) for part in parts), split_axes(match[3] or ""), name)


def parse_mesh(text: str) -> dict[str, int]:
    """The axes of a mesh such as ``X=4,Y=2`` with their sizes, in order.

    Raises:
        UsageError: it is not in this notation, or names an axis twice.
    """
    mesh: dict[str, int] = {}
    for part in text.split(","):
        match = _AXIS.match(part)
        if match is None:
            raise UsageError(f"{clean(part)[:100]!r} is no mesh axis.", hint="Write a mesh like X=4,Y=2.")
        if match[1] in mesh:
            raise UsageError(f"The mesh has the axis {match[1]} twice.", where=clean(text)[:200])
        mesh[match[1]] = int(match[2])
    return check_mesh(mesh)


def check_mesh(mesh: Mapping[str, int]) -> dict[str, int]:
    """The mesh as it is.

    Raises:
        UsageError: an axis is shorter than 1, or too long.
    """
    for axis, size in mesh.items():
        if not 1 <= size <= MAX_SIZE:
            raise UsageError(f"The mesh axis {axis} has {size} devices.", hint="An axis has at least one device.")
    if prod(mesh.values()) > MAX_SIZE:
        raise UsageError("The mesh has more devices than any system.", where=str(dict(mesh)))
    return dict(mesh)


def join_axes(axes: tuple[str, ...]) -> str:
    """``XY`` for single capitals, ``data+fsdp`` for names."""
    return ("" if all(len(axis) == 1 and axis.isupper() for axis in axes) else "+").join(axes)


def split_axes(text: str) -> tuple[str, ...]:
    """The inverse of :func:`join_axes`."""
    if text.isalpha() and text.isupper():
        return tuple(text)
    return tuple(part for part in text.split("+") if part)


def _head(text: str) -> tuple[str | None, str]:
    """The word before the bracket is an element type, or a name if there is no such type."""
    if not text:
        return None, ""
    try:
        return hlo_dtype(text), ""
    except UsageError:
        if text[0].islower():  # arrays have capitals as names; bf61 is a slip
            raise
        return None, text


def _dim(text: str, where: str) -> Dim:
    match = _DIM.match(text)
    if match is None:
        raise UsageError(
            f"{clean(text)[:50]!r} is no dimension.", where=clean(where)[:200], hint="Write 1024, 1024_X, I or I_XY."
        )
    size = int(match[1].replace("_", "")) if match[1] else None
    if size is not None and size > MAX_SIZE:
        raise UsageError(f"A dimension of {size} elements is too long.", where=clean(where)[:200])
    return Dim(size, match[2] or "", split_axes(match[3] or ""))
