"""Rows in order, and the running median of a clock's shift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.tables.rows import SHIFT_BLOCK, Rows, Shift


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3)), max_size=12))
def test_rows_are_ordered_by_start_then_longer_first_then_as_given(spans: list[tuple[int, int]]) -> None:
    start, duration = (np.array([s[at] for s in spans], np.int64) for at in (0, 1))
    rows = Rows.make(0, np.arange(len(spans), dtype=np.int32), start, duration).sorted()
    expected = sorted(range(len(spans)), key=lambda row: (spans[row][0], -max(spans[row][1], 0)))
    assert rows.info.tolist() == expected
    assert rows.valid.tolist() == [spans[row][1] >= 0 for row in expected]


def test_rows_in_order_are_not_copied() -> None:
    rows = Rows.make(0, np.arange(3, dtype=np.int32), np.array([1, 1, 2]), np.array([5, 4, 9]))
    assert rows.sorted() is rows


@pytest.mark.parametrize("n", [1, 2, SHIFT_BLOCK - 1, SHIFT_BLOCK, 2 * SHIFT_BLOCK + 77, 9 * SHIFT_BLOCK + 8])
def test_the_shift_is_the_median_of_each_block_interpolated(n: int) -> None:
    rng = np.random.default_rng(n)
    host = np.sort(rng.integers(0, 10**12, n))
    shift = rng.integers(-(10**9), 10**9, n)
    blocks = max(n // SHIFT_BLOCK, 1)
    at = [np.median(part) for part in np.array_split(host, blocks)]
    value = [np.median(part) for part in np.array_split(shift, blocks)]
    times = rng.integers(0, 10**12, 50)
    expected = times - np.interp(times, at, value).astype(np.int64)
    moved = Shift(host, shift)
    np.testing.assert_array_equal(moved.to_device(times), expected)
    np.testing.assert_array_equal(moved.to_device(times), expected)
