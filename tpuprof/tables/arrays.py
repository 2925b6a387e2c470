"""Typed access to NumPy arrays where its own annotations give up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def ints(values: npt.NDArray[np.integer[Any]]) -> list[int]:
    """The elements of a one-dimensional integer array as Python integers."""
    result: list[int] = values.tolist()
    return result
