"""How tables scale numbers."""

from __future__ import annotations

import pandas as pd
import pytest
from tpuprof_dashboards.columns import _format  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([77.77, 3.26, 0.0], "%.2f"),  # figures align; zero is zero
        ([77.77, 0.0043], "%.3f"),  # 0.00 would not be true
        ([77.77, 0.00043], "%.3g"),
        ([0.0], "%.1f"),
        ([None, 784.1], "%.1f"),
        ([float("inf"), 1.0], "%.1f"),
        ([], "%.1f"),
    ],
)
def test_no_figure_reads_as_zero_that_is_not(values: list[float | None], expected: str) -> None:
    assert _format(pd.Series(values, dtype="float64")) == expected
