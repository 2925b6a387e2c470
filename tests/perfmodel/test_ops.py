"""The bound of one op, rooflines, derivations, and comparisons."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.perfmodel import compare, intensity, peaks, roofline, transfer
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.ops import op_time
from tpuprof.perfmodel.rates import Rates, rates_of
from tpuprof.report.derivations import derivation_markdown, derivation_text, show_quantity

V5E = rates_of(chip("v5e"))
AMOUNT = st.floats(0, 1e18)


def test_an_op_is_bound_by_what_takes_longest() -> None:
    peak, hbm = V5E.need_peak("bf16").number(), V5E.need_link("hbm").number()
    matmul = op_time({"bf16": peak}, {"hbm": hbm / 2}, V5E)
    assert (matmul.bound_by, matmul.t_bound_s, matmul.t_hbm_s) == ("compute", 1.0, 0.5)
    assert matmul.complete
    copy = op_time({}, {"hbm": hbm, "vmem": 1.0}, V5E)
    assert (copy.bound_by, copy.t_bound_s) == ("hbm", 1.0)
    hosted = op_time({}, {"host": V5E.need_link("pcie").number() * 3}, V5E)
    assert (hosted.bound_by, hosted.t_bound_s) == ("host", pytest.approx(3.0))
    waiting = op_time({}, {"hbm": 1.0}, V5E, comm_s=2.0)
    assert (waiting.bound_by, waiting.t_bound_s) == ("comm", 2.0)
    assert waiting.derivation().regime == "comm"


def test_mixed_types_take_their_own_rates_one_after_the_other() -> None:
    bf16, int8 = V5E.need_peak("bf16").number(), V5E.need_peak("s8").number()
    found = op_time({"bf16": bf16, "s8": int8}, {}, V5E)
    assert found.t_compute_s == pytest.approx(2.0)


def test_what_is_not_known_is_null_with_its_reason_and_the_bound_a_lower_one() -> None:
    found = op_time({"bf16": None}, {"hbm": 8.19e11}, V5E)
    assert (found.t_compute_s, found.complete) == (None, False)
    assert found.reasons == {"t_compute_s": "The FLOPs of bf16 are not known."}
    assert found.bound_by == "hbm"
    assert any("lower one" in text for text in found.derivation().assumptions)
    unrated = op_time({"s32": 1.0}, {}, V5E)
    assert (unrated.t_bound_s, unrated.bound_by) == (None, None)
    assert "s32" in unrated.reasons["t_compute_s"]
    silent = op_time({}, {}, V5E, comm_s=None)
    assert (silent.t_comm_s, silent.t_bound_s) == (None, None)
    spaceless = op_time({}, {"hbm": None}, V5E)
    assert spaceless.reasons == {"t_hbm_s": "The bytes of hbm are not known."}


def test_work_of_zero_needs_no_rate() -> None:
    found = op_time({"s32": 0.0}, {"hbm": 0}, Rates())
    assert (found.t_bound_s, found.bound_by, found.complete) == (0.0, None, True)
    with pytest.raises(UsageError, match="FLOPs of bf16 is -1"):
        op_time({"bf16": -1.0}, {}, V5E)
    with pytest.raises(UsageError, match="precision"):
        op_time({"bf16": 1.0}, {}, V5E, precision="low")


@given(AMOUNT, AMOUNT, AMOUNT, st.floats(0, 1e3))
def test_a_bound_is_at_least_each_time_and_equal_to_one(flops: float, hbm: float, vector: float, comm: float) -> None:
    found = op_time({"bf16": flops}, {"hbm": hbm}, V5E, vector_flops=vector, comm_s=comm)
    times = (found.t_compute_s, found.t_hbm_s, found.t_vector_s, found.t_comm_s)
    assert found.t_bound_s == max(time for time in times if time is not None)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1e6), min_size=1))
def test_bounds_of_overlap_are_within_the_number_of_resources(times: dict[str, float]) -> None:
    made = roofline.overlap(times)
    assert made.lower_s <= made.upper_s <= len(times) * made.lower_s * (1 + 1e-9)
    assert times[made.bound_by] == made.lower_s
    hidden = made.answers(measured_s=made.upper_s or 1.0)["hidden"]
    if made.upper_s > made.lower_s:
        assert hidden.value == 0
        assert made.answers(measured_s=made.lower_s)["hidden"].value == 1
    else:
        assert hidden.value is None


@given(st.floats(1e9, 1e16), st.floats(1e6, 1e13), st.floats(1e-3, 1e6))
def test_attainable_is_the_lower_roof_and_meets_at_the_ridge(peak: float, bw: float, at: float) -> None:
    found = roofline.attainable(at, peak, bw)
    assert found.value == min(peak, at * bw)
    assert roofline.attainable(peak / bw, peak, bw).number() == pytest.approx(peak)
    assert found.regime == ("compute" if at >= peak / bw else "memory")


def test_numbers_that_no_formula_takes() -> None:
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(UsageError, match="above zero and finite"):
            roofline.ridge(bad, 1.0)
    with pytest.raises(UsageError, match="zero or more"):
        roofline.compute_time(-1, 1.0)
    with pytest.raises(UsageError, match="no time to bound"):
        roofline.overlap({})
    with pytest.raises(UsageError, match="time of x is nan"):
        roofline.overlap({"x": math.nan})
    with pytest.raises(UsageError, match="move nothing"):
        intensity.elementwise(8, "f32", reads=0, writes=0)
    with pytest.raises(UsageError, match="number of queries is 0"):
        intensity.attention_intensity(0, 8)
    with pytest.raises(UsageError, match="no count of units"):
        peaks.unit_count(())
    with pytest.raises(UsageError, match="no group of units"):
        peaks.total_of_groups(())
    with pytest.raises(UsageError, match="2 of units"):
        peaks.rate_of_units(units=1, clock=1.0)


def test_attention_tends_to_its_limits() -> None:
    assert intensity.attention_intensity(1, math.inf, 8).value == 8
    assert intensity.attention_intensity(4096, 4096, math.inf).value == 4096
    assert intensity.attention_intensity(math.inf, math.inf).value == math.inf
    for group in (1, 8, math.inf):
        at = intensity.attention_crossover(240, group).number()
        assert intensity.attention_intensity(at, at, group).number() == pytest.approx(240)


def test_elementwise_and_tiles_by_hand() -> None:
    found = intensity.elementwise(1000, "bf16", reads=2, writes=1, flops_per_element=3)
    assert (found["bytes"].value, found["flops"].value, found["intensity"].value) == (6000, 3000, 0.5)
    assert intensity.tile_intensity(512, 512, "s8").value == 512
    assert intensity.tile_intensity(512, 512, "bf16").value == 256


def test_comparisons_name_the_impossible() -> None:
    assert compare.efficiency(1.0, 2.0).regime == "within its bound"
    assert compare.efficiency(2.0, 1.0).regime == "faster than its bound"
    found = compare.achieved(1.0, size=10.0, flops=4.0, bandwidth=5.0, peak=8.0)
    assert {name: d.value for name, d in found.items()} == {
        "bandwidth": 10.0, "bandwidth-utilization": 2.0, "rate": 4.0, "utilization": 0.5,
    }  # fmt: skip
    assert found["bandwidth-utilization"].regime == "above the peak"


def test_replica_groups() -> None:
    even = compare.replica_group((32, 0, 16))
    assert (even["members"].value, even["stride"].value, even["stride"].regime) == (3, 16, "evenly spaced")
    uneven = compare.replica_group((0, 2, 6))
    assert (uneven["stride"].value, uneven["stride"].regime) == (2, "unevenly spaced")
    assert compare.replica_group((7,))["stride"].value is None
    for bad in ((), (1, 1), (-1, 2)):
        with pytest.raises(UsageError, match="no replica group"):
            compare.replica_group(bad)


def test_stages_overlap_to_the_slowest() -> None:
    found = transfer.staged({"pcie": 0.063, "ici": 0.167, "hbm": 0.02, "matmul": 0.0014})
    assert (found["time"].value, found["time"].regime) == (0.167, "ici")
    assert found["upper"].number() == pytest.approx(0.2514)


ANSWER = Derivation(
    math.inf, "B/s", "a / b", {"a": Quantity(1e9, "B", "v5e: a page"), "b": Quantity([1, 2], "x")}, "ring",
    ("first",), (Step("half", "a / 2", 5e8, "B"),), "scaling book",
)  # fmt: skip


def test_a_derivation_is_plain_json_and_survives_a_pickle() -> None:
    document = ANSWER.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == {
        "answer": {"value": "infinity", "unit": "B/s"}, "regime": "ring", "formula": "a / b",
        "inputs": {"a": {"value": 1e9, "unit": "B", "source": "v5e: a page"}, "b": {"value": [1, 2], "unit": "x"}},
        "assumptions": ["first"], "source": "scaling book",
        "steps": [{"what": "half", "formula": "a / 2", "value": 5e8, "unit": "B"}],
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(ANSWER))
    assert again == ANSWER
    assert ANSWER.assuming("first", "second", "second").assumptions == ("first", "second")
    assert ANSWER.as_step("whole").formula == "a / b"
    assert Derivation(math.nan, "", "x").to_json()["answer"] == {"value": None, "unit": ""}
    for value in ("text", True, None, [1]):
        with pytest.raises(TypeError, match="the answer is no number"):
            Derivation(value, "", "x").number()  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        ANSWER.inputs["a"] = Quantity(1)  # type: ignore[index]


def test_a_derivation_for_people() -> None:
    text = derivation_text(ANSWER, "speed", {"other": Derivation(0.5, "fraction", "c")})
    assert text == (
        "speed    infinity\n"
        "regime   ring\n"
        "formula  a / b\n"
        "inputs   a = 1 GB  (v5e: a page)\n"
        "         b = 1, 2\n"
        "steps    half: a / 2 = 500 MB\n"
        "assumes  first\n"
        "source   scaling book\n"
        "also     other 50.00 %\n"
    )
    marked = derivation_markdown(Derivation([{"a": 1}, {"a": 2}], "", "x|y", {"p|q": Quantity("<b>")}), "rows")
    assert "p\\|q" in marked
    assert "<b>" not in marked


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1e-6, "s", "1 us"), (2e6, "s", "2,000,000 s"), (0, "s", "0"), (197e12, "FLOP/s", "197 TFLOP/s"),
        (0.125, "fraction", "12.50 %"), (240.24390, "FLOP/B", "240.244 FLOP/B"), (None, "s", "n/a"),
        (True, "bool", "yes"), ([False, True], "bool per axis", "no, yes"), (16384, "", "16,384"), ([], "x", "none"),
        ({"a": [1, 2]}, "", "a=(1, 2)"),
        ([[1024, 2048.5], ["bf16[1,2]"]], "", "(1024, 2048.5), (bf16[1,2])"),
        (float("-inf"), "s", "-infinity"), ("a\x1b[31mb", "", "ab"),
    ],
)  # fmt: skip
def test_values_for_people(value: object, unit: str, shown: str) -> None:
    assert show_quantity(value, unit) == shown  # pyright: ignore[reportArgumentType]
