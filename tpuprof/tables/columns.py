"""Columns of the tables from arrays: categorical texts, nullable integers, one value per op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.tables.arrays import ints
from tpuprof.tables.rows import OpInfo

if TYPE_CHECKING:
    from tpuprof.tables.build import Built


def cat(parts: Sequence[Any], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """The arrays one after the other; empty if there are none."""
    return np.concatenate(parts) if len(parts) else np.zeros(0, dtype)


def devices(built: Built, sizes: Sequence[int]) -> Any:
    """The column ``device``, for so many rows of each core."""
    codes = np.repeat(np.arange(len(built.cores), dtype=np.int32), list(sizes))
    return categorical(codes, [c.record.device.id for c in built.cores])


def by_info(info: npt.NDArray[Any], infos: Sequence[OpInfo], of: Callable[[OpInfo], str | None]) -> Any:
    """A text column that depends on the op alone; the categories are the distinct texts in use."""
    used = np.flatnonzero(np.bincount(info + 1, minlength=1)[1:])  # several times faster than np.unique
    codes: dict[str, int] = {}
    table = np.full(len(infos) + 1, -1, np.int32)
    for row in ints(used):
        text = of(infos[row])
        if text is not None:
            table[row] = codes.setdefault(str(text), len(codes))
    return categorical(table[info], list(codes))


def categorical(codes: npt.NDArray[Any], categories: Sequence[str]) -> Any:
    """A categorical text column; code -1 is null."""
    make: Any = pd.Categorical.from_codes
    return make(codes, pd.Index(list(categories), dtype="str"))


def masked(values: npt.NDArray[Any], null: npt.NDArray[np.bool_]) -> Any:
    """A nullable integer column."""
    if values.dtype == np.int32:
        return pd.arrays.IntegerArray(values, null.copy())
    return pd.arrays.IntegerArray(values.astype(np.int64, copy=False), null.copy())
