"""Valid window positions against a count by hand, and the work of convolutions against multiplying them out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.hlo import WindowDim
from tpuprof.hlo.cost.windows import MAX_STEPS, valid_pairs

dims = st.builds(
    WindowDim,
    size=st.integers(1, 9),
    stride=st.integers(1, 5),
    pad_low=st.integers(-6, 9),
    pad_high=st.just(0),
    base_dilation=st.integers(1, 6),
    window_dilation=st.integers(1, 5),
)


def by_hand(dim: WindowDim, inputs: int, outputs: int) -> int:
    """Every pair of positions tried."""
    positions = {i * dim.base_dilation for i in range(inputs)}
    pairs = itertools.product(range(outputs), range(dim.size))
    return sum(o * dim.stride + k * dim.window_dilation - dim.pad_low in positions for o, k in pairs)


@given(dims, st.integers(0, 12), st.integers(0, 14))
def test_as_many_as_by_hand(dim: WindowDim, inputs: int, outputs: int):
    assert valid_pairs(dim, inputs, outputs) == by_hand(dim, inputs, outputs)


@pytest.mark.parametrize(
    ("dim", "inputs", "outputs", "expected"),
    [
        (WindowDim(3), 8, 6, 18),  # no padding: all
        (WindowDim(3, pad_low=1, pad_high=1), 8, 8, 22),  # one position of each end lies in the padding
        (WindowDim(32, pad_low=31, pad_high=31), 1, 32, 32),  # a matmul in disguise: one hit per output
        (WindowDim(4, stride=3, base_dilation=4), 4, 4, 4),  # a batched matmul in disguise
        (WindowDim(1 << 40), 1 << 40, 1, 1 << 40),
        (WindowDim(1, stride=2), 1 << 40, 1 << 39, 1 << 39),
    ],
)
def test_known_windows(dim: WindowDim, inputs: int, outputs: int, expected: int):
    assert valid_pairs(dim, inputs, outputs) == expected


def test_an_absurd_window_is_not_counted():
    assert valid_pairs(WindowDim(MAX_STEPS + 1), 1 << 40, MAX_STEPS + 1) is None
