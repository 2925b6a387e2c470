"""Matmuls on one device: operations, bytes, padding, and the time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.matmul import Matmul, matmul_of, matmul_of_line
from tpuprof.perfmodel.matmul_time import critical_rows, matmul_time
from tpuprof.perfmodel.rates import Rates, rates_of, rates_of_whole

SIZE = st.integers(1, 3000)
DTYPE = st.sampled_from(["bf16", "s8", "s4", "f8e4m3fn", "f32"])
MATMULS = st.builds(Matmul, SIZE, SIZE, SIZE, st.integers(1, 4), DTYPE, DTYPE, DTYPE)
V5E = Rates().with_peak(197e12).with_link("hbm", 8.2e11)


@given(MATMULS, st.sampled_from([128, 256]))
def test_padding_only_adds_and_vanishes_for_multiples(made: Matmul, edge: int) -> None:
    padded = made.padded_flops(edge)
    assert padded >= made.flops
    assert 0 <= made.padding_waste(edge) < 1
    up = Matmul(*(math.ceil(size / edge) * edge for size in (made.m, made.n, made.k)), made.batch)
    assert padded <= up.flops == up.padded_flops(edge)
    assert padded == Matmul(made.n, made.m, made.k, made.batch).padded_flops(edge), "the compiler may swap operands"


def test_padding_by_hand() -> None:
    assert Matmul(8192, 8192, 128).padding_waste(256) == 0.5
    assert Matmul(8192, 8192, 128).padding_waste(128) == 0
    assert Matmul(1, 4096, 4096).padded_flops(128) == 2 * 8 * 4096 * 4096
    assert Matmul(9, 100, 64).padded_flops(128) == 2 * 128 * min(16 * 128, 128 * 104)


@given(MATMULS, st.floats(1e9, 1e16), st.floats(1e6, 1e13))
def test_the_time_is_the_longer_of_both_and_the_rate_is_under_both_roofs(made: Matmul, peak: float, bw: float) -> None:
    found = matmul_time(made, Rates().with_peak(peak).with_link("hbm", bw))
    assert found.t_bound_s == max(found.t_compute_s or 0, found.t_memory_s or 0)
    rate = found.answers()["attainable"].number()
    assert rate <= min(peak, made.intensity * bw) * (1 + 1e-12)
    assert found.bound_by == ("compute" if made.intensity >= peak / bw * (1 - 1e-15) else "memory")


@given(MATMULS)
def test_from_the_critical_rows_on_it_is_bound_by_arithmetic(made: Matmul) -> None:
    rows = critical_rows(made, 197e12, 8.2e11).number()
    if not math.isfinite(rows) or rows > 1e9:
        return
    for m, bound in ((math.ceil(rows) + 1, "compute"), (math.floor(rows) - 1, "memory")):
        if m >= 1:
            batch1 = Matmul(m, made.n, made.k, 1, made.lhs_dtype, made.rhs_dtype, made.out_dtype)
            assert matmul_time(batch1, V5E).bound_by == bound


def test_critical_rows_of_the_book() -> None:
    """240 in the limit of large matrices, half of it with int8 weights; exact for F = D = 4096 with int8 weights."""
    assert critical_rows(Matmul(1, 10**9, 10**9), 197e12, 8.2e11).number() == pytest.approx(240.24, rel=1e-3)
    wide = Matmul(1, 10**9, 10**9, 1, "bf16", "s8", "bf16")
    assert critical_rows(wide, 197e12, 8.2e11).number() == pytest.approx(120.12, rel=1e-3)
    exact = critical_rows(Matmul(1, 4096, 4096, 1, "bf16", "s8", "bf16"), 240, 1).number()
    assert exact == pytest.approx(4096 * 240 / (2 * 4096 - 4 * 240))
    never = critical_rows(Matmul(1, 128, 128), 197e12, 8.2e11)
    assert (never.value, never.regime) == (math.inf, "never bound by arithmetic")


def test_operands_of_any_rank_and_contraction() -> None:
    found = matmul_of(parse_array("bf16[32,1024,8192]"), parse_array("int8[8192,32768]"))
    assert (found.m, found.n, found.k) == (32768, 32768, 8192)
    assert (found.lhs_dtype, found.rhs_dtype, found.out_dtype) == ("bf16", "s8", "bf16")
    turned = matmul_of(parse_array("s8[2,4096]"), parse_array("s8[16384,4096]"), contract=(1, 1), out_dtype="s32")
    assert (turned.m, turned.n, turned.k, turned.out_dtype) == (2, 16384, 4096, "s32")
    with pytest.raises(UsageError, match="no dimension 5"):
        matmul_of(parse_array("s8[2,4]"), parse_array("s8[4]"), contract=(5, 0))


@given(SIZE, SIZE, SIZE, st.permutations([0, 1, 2]))
def test_a_line_gives_the_sizes_whatever_the_order_of_dimensions(m: int, n: int, k: int, order: list[int]) -> None:
    # Split m into one more dimension, and turn everything round: sizes are all that counts.
    parts = [(1, m, n), (1, m, k), (1, k, n)]
    texts = ["bf16[" + ",".join(str(part[i]) for i in order) + "]{2,1,0:T(8,128)(2,1)}" for part in parts]
    found = matmul_of_line(f"{texts[0]} fusion({texts[1]} %a, {texts[2]} %b), kind=kOutput")
    assert found.flops == 2 * m * n * k
    assert (found.m, found.n, found.k) == (m, n, k)


def test_types_without_a_peak_leave_the_operations_out_and_say_so() -> None:
    found = matmul_time(Matmul(8, 8, 8, 1, "s32", "s32", "s32"), rates_of(chip("v5e")))
    assert found.t_compute_s is None
    assert found.bound_by is None
    assert found.t_bound_s == found.t_memory_s
    assert any("left out" in text for text in found.answers()["time"].assumptions)
    nothing = matmul_time(Matmul(8, 8, 8), Rates())
    assert nothing.t_bound_s is None
    assert "time" not in nothing.answers()
    assert next(iter(nothing.answers())) == "intensity"


def test_a_device_of_tpu7x_is_half_a_chip_and_links_are_shared() -> None:
    half, whole = rates_of(chip("tpu7x")), rates_of_whole(chip("tpu7x"))
    for dtype in ("bf16", "f8e4m3fn", "f32"):
        a, b = half.matmul_rate(dtype).value, whole.matmul_rate(dtype).value
        assert a is not None
        assert b == pytest.approx(2 * a)
    assert whole.need_link("hbm").number() == pytest.approx(2 * half.need_link("hbm").number())
    assert whole.need_link("ici") == half.need_link("ici")


@pytest.mark.parametrize("field", ["m", "n", "k", "batch"])
def test_sizes_start_at_one(field: str) -> None:
    with pytest.raises(UsageError, match=f"size {field} of the matmul is 0"):
        Matmul(**{"m": 1, "n": 1, "k": 1, "batch": 1, field: 0})
