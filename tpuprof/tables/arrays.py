"""Typed access to NumPy arrays where its own annotations give up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def ints(values: npt.NDArray[np.integer[Any]]) -> list[int]:
    """The elements of a one-dimensional integer array as Python integers."""
    result: list[int] = values.tolist()
    return result


def row_codes(*columns: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A number for each distinct combination of values of integer columns of equal length, from 0 without gaps.

    Combinations are numbered in the order of their columns, as ``np.unique`` over rows would, which is much slower.
    """
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, dense = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * max(len(values), 1) + dense.reshape(-1), return_inverse=True)
        codes = codes.reshape(-1).astype(np.int64)
    return codes
