"""Ways to compute a sharded product, carried out device by device on numbers: each gives the product."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, Dim, parse_array
from tpuprof.perfmodel.layer import communication_bytes, mlp_communication
from tpuprof.perfmodel.mesh_collective import AxisLinks
from tpuprof.perfmodel.product_cost import best, costs, fastest_products, needed
from tpuprof.perfmodel.products import Way, ways
from tpuprof.perfmodel.rates import Rates

MESH = {"X": 2, "Y": 3}
SIZES = {"I": 6, "J": 12, "K": 18}
DEVICES = [dict(zip(MESH, at, strict=True)) for at in product(*(range(n) for n in MESH.values()))]
Indices = list[list[int]]


def _held(array: Array, device: dict[str, int]) -> Indices:
    """The indices of each dimension that a device holds of an array whose dimensions have at most one axis each."""
    held: Indices = []
    for dim in array.dims:
        size = dim.size or 0
        piece = size // prod(MESH[axis] for axis in dim.axes)
        start = device[dim.axes[0]] * piece if dim.axes else 0
        held.append(list(range(start, start + piece)))
    return held


def _peers(device: dict[str, int], axes: tuple[str, ...]) -> list[int]:
    """Numbers of the devices that differ from one only along some axes."""
    return [n for n, other in enumerate(DEVICES) if all(other[a] == device[a] for a in MESH if a not in axes)]


def _carry_out(way: Way, lhs: Array, rhs: Array) -> None:
    """Communicates indices, multiplies what each device then holds, and communicates the results."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (SIZES["I"], SIZES["J"])), rng.integers(0, 9, (SIZES["J"], SIZES["K"]))
    inputs = {"A": [_held(lhs, device) for device in DEVICES], "B": [_held(rhs, device) for device in DEVICES]}
    for step in way.before:
        old = inputs[step.array]
        gathered = [[sorted({i for n in _peers(device, step.axes) for i in old[n][dim]}) for dim in (0, 1)]
                    for device in DEVICES]  # fmt: skip
        # An all-to-all splits what it gathers along another dimension, which the local piece below takes.
        inputs[step.array] = gathered
    local: list[np.ndarray] = []
    rows: list[Indices] = []
    for n, device in enumerate(DEVICES):
        piece_a, piece_b = _held(way.lhs, device), _held(way.rhs, device)
        for piece, had in ((piece_a, inputs["A"][n]), (piece_b, inputs["B"][n])):
            assert all(set(want) <= set(have) for want, have in zip(piece, had, strict=True)), "a piece is not there"
        assert piece_a[1] == piece_b[0], "the two pieces do not fit"
        local.append(a[np.ix_(*piece_a)] @ b[np.ix_(*piece_b)])
        rows.append([piece_a[0], piece_b[1]])
    for step in way.after:
        if step.operation in ("AllReduce", "ReduceScatter"):
            for device in DEVICES:
                assert all(rows[n] == rows[_peers(device, step.axes)[0]] for n in _peers(device, step.axes))
            local = [sum(local[n] for n in _peers(device, step.axes)) for device in DEVICES]  # type: ignore[misc]
        else:
            whole = [np.zeros((SIZES["I"], SIZES["K"])) for _ in DEVICES]
            for m, device in enumerate(DEVICES):
                for n in _peers(device, step.axes):
                    whole[m][np.ix_(*rows[n])] = local[n]
            rows = [[sorted({i for n in _peers(device, step.axes) for i in rows[n][dim]}) for dim in (0, 1)]
                    for device in DEVICES]  # fmt: skip
            local = [values[np.ix_(*at)] for values, at in zip(whole, rows, strict=True)]
    for n, device in enumerate(DEVICES):
        want = _held(way.out, device)
        assert all(set(one) <= set(have) for one, have in zip(want, rows[n], strict=True))
        places = [[rows[n][dim].index(i) for i in want[dim]] for dim in (0, 1)]
        assert np.array_equal(local[n][np.ix_(*places)], (a @ b)[np.ix_(*want)])


@st.composite
def _sharded(draw: st.DrawFn, letters: str, name: str) -> Array:
    """An array of two dimensions, each split by at most one axis, no axis twice."""
    axes = draw(st.permutations(["X", "Y", None, None]))
    dims = (Dim(SIZES[c], c, (axis,) if axis else ()) for c, axis in zip(letters, axes[:2], strict=True))
    return Array("bf16", tuple(dims), (), name)


def _one_axis_per_dim(array: Array) -> bool:
    return all(len(dim.axes) <= 1 for dim in array.dims)


@settings(max_examples=150, deadline=None)
@given(_sharded("IJ", "A"), _sharded("JK", "B"), st.none() | _sharded("IK", "C"))
def test_every_way_gives_the_product(lhs: Array, rhs: Array, out: Array | None) -> None:
    found = ways(lhs, rhs, out)
    assert found
    for way in found:
        if all(map(_one_axis_per_dim, (way.lhs, way.rhs, way.product, way.out))):
            _carry_out(way, lhs, rhs)
        if out is not None:
            assert [set(dim.axes) for dim in way.out.dims] == [set(dim.axes) for dim in out.dims]


@given(_sharded("IJ", "A"), _sharded("JK", "B"))
def test_which_input_comes_first_does_not_change_the_case_or_the_cheapest_time(lhs: Array, rhs: Array) -> None:
    def turned(array: Array) -> Array:
        return Array(array.dtype, array.dims[::-1], (), array.name)

    rates, links = Rates().with_peak(1e12), AxisLinks(1e9, frozenset("XY"))
    ahead = costs(lhs, rhs, MESH, rates, links)
    back = costs(turned(rhs), turned(lhs), MESH, rates, links)
    assert ahead[0].way.case == back[0].way.case
    assert ahead[0].t_upper_s == pytest.approx(back[0].t_upper_s)
    assert len(ahead) == len(back)


@given(_sharded("IJ", "A"), _sharded("JK", "B"), st.none() | _sharded("IK", "C"))
def test_costs_are_ordered_and_bounded(lhs: Array, rhs: Array, out: Array | None) -> None:
    found = costs(lhs, rhs, MESH, Rates().with_peak(1e12), AxisLinks(1e9), out)
    uppers = [cost.t_upper_s for cost in found]
    assert uppers == sorted(uppers)  # pyright: ignore[reportArgumentType]
    whole = 2 * prod(SIZES.values())
    for cost in found:
        assert cost.t_lower_s is not None
        assert cost.t_upper_s is not None
        assert cost.t_lower_s <= cost.t_upper_s <= 2 * cost.t_lower_s
        split = prod(MESH[axis] for axis in cost.way.compute_axes)
        assert cost.flops == pytest.approx(whole / split)
        assert len(cost.bytes) == len(cost.way.communications)


def test_bytes_of_a_collective_leave_out_the_axes_that_take_part() -> None:
    lhs, rhs = parse_array("bf16[8_X,16_Y]"), parse_array("bf16[16_Y,32]")
    way = ways(lhs, rhs)[0]
    (step,) = way.communications
    assert (step.operation, step.array) == ("AllReduce", "C")
    assert communication_bytes(step, way, {"X": 2, "Y": 4}) == 8 * 32 * 2 / 2


def test_fully_sharded_data_parallelism_gathers_weights_three_times() -> None:
    x, w1, w2 = (parse_array(text) for text in ("bf16[64_X,8]", "bf16[8_X,32]", "bf16[32,8_X]"))
    found = mlp_communication(x, w1, w2, {"X": 4})
    one = 8 * 32 * 2
    assert found["forward"].value == 2 * one
    assert found["backward"].value == 4 * one
    assert all("W" in step.what for step in found["forward"].steps)


def test_a_time_that_is_not_known_says_why() -> None:
    lhs, rhs, mesh = parse_array("bf16[64,8_X]"), parse_array("bf16[8,32]"), {"X": 4}
    without_rates = best(costs(lhs, rhs, mesh, Rates(), AxisLinks(1e9)), lhs, rhs, mesh)["time"]
    assert without_rates.value is None
    assert any("no peak rate" in sentence for sentence in without_rates.assumptions)
    without_links = best(costs(lhs, rhs, mesh, Rates().with_peak(1e12)), lhs, rhs, mesh)["time"]
    assert without_links.value is None
    assert any("no bandwidth of the links" in sentence for sentence in without_links.assumptions)


def test_options_are_told_apart_by_operations_first_then_by_bytes() -> None:
    out = parse_array("[I,K]")
    gathered = (parse_array("[I_X,J]"), parse_array("[J,K]"))
    summed = (parse_array("[I,J_X]"), parse_array("[J_X,K]"))
    whole = (parse_array("[I,J]"), parse_array("[J,K]"))
    assert fastest_products([whole, summed, gathered], out).value == [3]
    assert fastest_products([whole, summed], out).value == [2]
    assert fastest_products([summed, summed], out, {"X": 8}).value == [1, 2]


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "message"),
    [
        ("[I_X,J_X]", "[J,K]", None, "used 2 times"),
        ("[I,J]{U_X}", "[J,K]", None, "still has partial sums"),
        ("[]", "[J,K]", None, "no dimension to sum over"),
        ("[I,J]", "[I,J]", None, "share 2 dimensions"),
        ("[2,3]", "[4,5]", None, "sizes that are summed over differ"),
        ("[I,J]", "[J,K]", "[K,I]", r"is C\[I,K\], not \[K,I\]"),
        ("[I_ABCDEFG,J]", "[J,K]", None, "at most 6"),
    ],
)
def test_products_that_cannot_be(lhs: str, rhs: str, out: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        needed(parse_array(lhs), parse_array(rhs), None if out is None else parse_array(out))
