"""Sizes of products inferred from a fusion's line and its operations."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tpuprof.hlo.shapes import Shape
from tpuprof.roofline import HardwareOptions, roofline
from tpuprof.roofline.inferred import inferred_matmul

sizes = st.integers(2, 4096)


def array(*dims: int, dtype: str = "bf16") -> Shape:
    return Shape(dtype, dims)


@given(sizes, sizes, sizes, st.booleans(), st.booleans(), st.floats(0, 1))
def test_a_product_is_found_or_nothing(m: int, k: int, n: int, turned: bool, split: bool, extra: float) -> None:
    weights = array(*((n, k) if turned else (k, n)))
    out = array(m, 1, n) if split else array(m, n)
    # Up to two elementwise operations per element of the result are fused to it.
    flops = 2.0 * m * n * k + 2 * extra * m * n
    found = inferred_matmul(out, [array(m, k), weights, array(n)], flops)
    if found is not None:
        assert found.flops <= flops
        assert found.m * found.n == m * n
        assert found.flops >= 0.95 * flops
    if k > 100 and len({m, n, k}) == 3 and all(abs(size - k) > 0.1 * k for size in (m, n)):
        assert found is not None
        assert (found.k, {found.m, found.n}) == (k, {m, n})


def test_a_fused_left_operand_is_no_obstacle() -> None:
    found = inferred_matmul(
        array(1024, 1, 27648), [array(27648, 5120), array(1024, 5120), Shape("f32", (1024,)), None], 289_946_992_640.0
    )
    assert found is not None
    assert (found.m, found.k, found.n) == (1024, 5120, 27648)


def test_types_are_those_of_the_operands() -> None:
    found = inferred_matmul(array(64, 512), [array(64, 256), array(256, 512, dtype="s8")], 2.0 * 64 * 256 * 512)
    assert found is not None
    assert (found.lhs_dtype, found.rhs_dtype, found.out_dtype) == ("bf16", "s8", "bf16")


@pytest.mark.parametrize(
    ("out", "operands", "flops"),
    [
        (array(64, 64), [array(64, 64)], 0.0),
        (array(64, 64), [], 2.0 * 64**3),
        (array(64, 64), [array(64, 64)], 1e9),
        (array(0, 64), [array(64, 64)], 2.0 * 64**3),
        (Shape("token"), [array(64, 64)], 2.0 * 64**3),
        (Shape("bf16", (-1, 64)), [array(64, 64)], 2.0 * 64**3),
        (array(64, 64), [array(4, 64, 64)], 2.0 * 64**3),
        (array(6400), [array(80, 100), array(80, 80)], 2.0 * 6400 * 80),
    ],
)
def test_what_fits_no_product_or_several(out: Shape, operands: list[Shape], flops: float) -> None:
    assert inferred_matmul(out, operands, flops) is None


@pytest.mark.real
def test_products_of_a_prefill_have_sizes(real_traces: Path) -> None:
    found = roofline(tpuprof.load(real_traces / "v7x-2-prefill"), HardwareOptions(chip="tpu7x"))
    shapes = found.matmuls["shape"].tolist()
    assert shapes[:4] == [
        "1024 x 5120 x 27648 bf16 -> bf16",
        "1024 x 13824 x 5120 bf16 -> bf16",
        "1024 x 5120 x 3584 bf16 -> bf16",
        "1024 x 2560 x 5120 bf16 -> bf16",
    ]
    assert found.matmuls["executions"].tolist()[:4] == [128] * 4, "64 layers on two cores"
    products = found.table[found.table["kind"] == "matmul"]
    covered = found.matmuls["self_ps"].sum() / products["self_ps"].sum()
    assert covered > 0.99
