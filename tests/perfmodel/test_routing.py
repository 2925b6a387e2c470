"""Loads of links: counting every message one by one, a linear program and the closed forms are the oracles."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tpuprof.errors import UsageError
from tpuprof.hardware.layout import Layout, lay_out
from tpuprof.hardware.mesh import map_mesh, torus_mesh
from tpuprof.hardware.slices import parse_slice
from tpuprof.hardware.topology import Place, Slice
from tpuprof.perfmodel import collectives, routing
from tpuprof.perfmodel.linkloads import link_loads, row_load
from tpuprof.perfmodel.routing import best_mix, exchange, gather, permute

NAMES = ("v5e:2x4", "v5e:4x4", "v5e:2x16", "v5p:2x2x4", "v5p:4x4x4", "tpu7x:2x2x2", "2*v5e:2x2")


@st.composite
def meshes(draw: st.DrawFn) -> Layout:
    # Groups along some axes of a mesh whose factors are powers of two: boxes and strided rows.
    where = parse_slice(draw(st.sampled_from(NAMES)))
    left, axes = where.n_devices, dict[str, int]()
    for name in "abc":
        axes[name] = draw(st.sampled_from([size for size in (1, 2, 4) if left % size == 0]))
        left //= axes[name]
    axes["rest"] = left
    names = draw(st.lists(st.sampled_from(list(axes)), min_size=1, max_size=3, unique=True))
    ordered = torus_mesh(where).devices if draw(st.booleans()) else None
    return lay_out(where, map_mesh(where, axes, ordered).groups(names))


def counted(layout: Layout, amount: float) -> float:
    flows = [(a, b, amount) for group in layout.groups for a, b in permutations(group, 2) if a.slice == b.slice]
    return max(link_loads(layout.where, flows).values(), default=0.0)


@given(meshes())
@settings(max_examples=40, deadline=None)
def test_an_exchange_loads_links_as_its_messages_do_one_by_one(layout: Layout) -> None:
    found = exchange(layout, 1e6)
    if layout.box and layout.slices > 1:
        # Messages to another slice arrive at the chip that sent them on and go on from there; those are counted too.
        assert found.link_bytes >= counted(layout, 1e6 / layout.size) * 0.999999
    else:
        assert found.link_bytes == pytest.approx(counted(layout, 1e6 / layout.size))


@given(meshes())
@settings(max_examples=40, deadline=None)
def test_a_gather_moves_at_least_what_every_chip_has_to_receive(layout: Layout) -> None:
    size = 1e6
    found = gather(layout, size)
    if layout.size == 1:
        assert found == routing.Traffic(0.0)
        return
    if layout.slices == 1 and layout.cores == 1:
        received = size * (layout.size - 1) / layout.size
        assert found.link_bytes >= received / (2 * layout.where.dims) * 0.999999
        fewest = sum(1 if size_ < 3 else 2 for size_ in layout.where.shape if size_ > 1)
        assert found.link_bytes >= received / fewest * 0.999999
    assert gather(layout, 2 * size) == found.times(2)
    if layout.box and found.link_bytes:
        assert found.directions is not None
        in_slice = size * (layout.chips - 1) / layout.chips
        assert found.link_bytes == pytest.approx(in_slice / found.directions)
        assert found.directions <= 2 * layout.where.dims


@given(meshes(), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_groups_and_members_changes_nothing(layout: Layout, random: object) -> None:
    if not layout.box:
        return
    where = layout.where
    groups = [[where.device_at(place) for place in group] for group in layout.groups]
    for group in groups:
        random.shuffle(group)  # type: ignore[attr-defined]
    random.shuffle(groups)  # type: ignore[attr-defined]
    again = lay_out(where, groups)
    assert gather(again, 1e6).link_bytes == pytest.approx(gather(layout, 1e6).link_bytes)
    assert exchange(again, 1e6) == exchange(layout, 1e6)


@given(meshes(), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_a_mirrored_slice_takes_as_long(layout: Layout, axis: int) -> None:
    where = layout.where
    if axis >= where.dims:
        return

    def mirrored(place: Place) -> int:
        coords = list(place.coords)
        coords[axis] = where.shape[axis] - 1 - coords[axis]
        return where.device_at(Place(place.slice, tuple(coords), place.core))

    again = lay_out(where, [list(map(mirrored, group)) for group in layout.groups])
    if layout.box:
        assert gather(again, 1e6).link_bytes == pytest.approx(gather(layout, 1e6).link_bytes)
        assert exchange(again, 1e6).link_bytes == pytest.approx(exchange(layout, 1e6).link_bytes)


@pytest.mark.parametrize(
    ("name", "axes", "rings", "lines"),
    [
        ("v5p:4x4x4", ("x",), 1, 0),
        ("v5p:4x4x4", ("x", "z"), 2, 0),
        ("v5p:4x4x8", ("x", "y", "z"), 3, 0),
        ("v5p:4x8x12", ("x", "y", "z"), 3, 0),
        ("v5e:4x4", ("x",), 0, 1),
        ("v5e:4x4", ("x", "y"), 0, 2),
        ("v5e:4x8", ("x", "y"), 0, 2),
        ("v5e:8x16", ("y",), 1, 0),
        ("v5e:8x16", ("x", "y"), 1, 1),
        ("v5e:16x16", ("x", "y"), 2, 0),
        ("v5p:2x2x2", ("x", "y", "z"), 0, 3),
        ("v5p:2x4x4", ("x", "y", "z"), 0, 3),
        ("tpu7x:4x4x36", ("x", "y", "z"), 3, 0),
    ],
)
def test_whole_axes_take_what_the_closed_form_says(name: str, axes: tuple[str, ...], rings: int, lines: int) -> None:
    where = parse_slice(name)
    layout = lay_out(where, torus_mesh(where).groups(axes))
    traffic = gather(layout, 1e9)
    closed = collectives.torus("all_gather", 1e9, 1e9, rings=rings, lines=lines, members=layout.size)
    cores = where.chip.devices_per_chip  # the groups of both cores use the same links
    assert traffic.link_bytes / 1e9 == pytest.approx(cores * closed.number())
    assert traffic.way == closed.regime
    assert traffic.shared == cores


@pytest.mark.parametrize("name", ["v5p:4x4x4", "v5p:4x4x8", "v5e:4x8", "v5e:2x16", "v6e:16x16"])
def test_an_all_to_all_of_a_whole_slice_takes_what_the_closed_form_says(name: str) -> None:
    where = parse_slice(name)
    layout = lay_out(where, [range(where.n_devices)])
    closed = collectives.all_to_all(1e9, where.shape, 1.0, wrap=where.wrap).number()
    assert exchange(layout, 1e9 / where.n_devices).link_bytes == pytest.approx(closed)


@given(st.lists(st.tuples(st.integers(2, 16), st.floats(0.2, 4)), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_the_best_mix_of_orders_is_that_of_a_linear_program(axes: list[tuple[int, float]]) -> None:
    counts = [count for count, _ in axes]
    loads = [(count - 1) / directions for count, directions in axes]
    orders: list[list[float]] = []
    for order in permutations(range(len(axes))):
        held, row = 1, [0.0] * len(axes)
        for axis in order:
            row[axis] = held * loads[axis]
            held *= counts[axis]
        orders.append(row)
    limits = [[row[axis] for row in orders] + [-1.0] for axis in range(len(axes))]
    cost = [0.0] * len(orders) + [1.0]
    oracle = linprog(cost, limits, [0.0] * len(axes), [[1.0] * len(orders) + [0.0]], [1.0])
    assert best_mix(counts, loads) == pytest.approx(oracle.fun, rel=1e-6)


@given(st.integers(2, 12), st.booleans(), st.data())
def test_a_row_hands_on_every_shard_once(length: int, wraps: bool, data: st.DataObject) -> None:
    own = tuple(sorted(data.draw(st.sets(st.integers(0, length - 1), min_size=2))))
    right = [0] * length
    left = [0] * length
    starts = range(len(own)) if wraps else range(1)
    best = None
    for start in starts:
        row = own[start:] + tuple(position + length for position in own[:start])
        right, left = [0] * (2 * length), [0] * (2 * length)
        for position in row:
            for link in range(position, row[-1]):
                right[link] += 1
            for link in range(row[0], position):
                left[link] += 1
        span = row[-1] - row[0]
        best = min(best or (length, 0), (span, max(*right, *left)))
    assert best is not None
    assert row_load("along", length, wraps, [own]) == best[1] == len(own) - 1


def test_pairs_two_hops_apart_share_a_link() -> None:
    where = parse_slice("v6e:2x4")
    found = gather(lay_out(where, [(0, 4), (1, 5), (2, 6), (3, 7)]), 5.369e9)
    assert found.link_bytes == 5.369e9
    assert (found.shared, found.hops, found.way) == (2.0, 2, "line")


def test_a_stride_on_a_ring_uses_both_directions() -> None:
    where = parse_slice("v5e:2x16")
    rows = [tuple(where.device_at(Place(0, (x, y))) for y in range(start, 16, 2)) for x in (0, 1) for start in (0, 1)]
    found = gather(lay_out(where, rows), 8e6)
    assert (found.way, found.shared) == ("ring", 2.0)
    assert found.link_bytes == 2 * 8e6 * 7 / 8 / 2


def test_a_row_may_lie_over_the_seam_of_a_ring() -> None:
    where = parse_slice("v5e:2x16")
    rows = [
        tuple(where.device_at(Place(0, (x, y % 16))) for y in range(start, start + 4))
        for x in (0, 1)
        for start in range(14, 30, 4)
    ]
    found = gather(lay_out(where, rows), 4e6)
    assert (found.way, found.shared, found.hops) == ("line", 1.0, 3)
    assert found.link_bytes == 3e6


def test_both_cores_of_a_chip_share_its_links() -> None:
    where = parse_slice("tpu7x:2x2x1")
    alone = gather(lay_out(where, [(0, 2, 4, 6)]), 1e6)
    both = gather(lay_out(where, [(0, 2, 4, 6), (1, 3, 5, 7)]), 1e6)
    assert (both.link_bytes, both.shared) == (2 * alone.link_bytes, 2.0)
    joined = gather(lay_out(where, [range(8)]), 1e6)
    assert joined.core_bytes == 0.5e6
    # Every chip receives three quarters of the array over two links, whichever core it is for.
    assert joined.link_bytes == pytest.approx(0.375e6)


def test_groups_over_slices_send_over_the_network() -> None:
    where = parse_slice("2*v5e:4x4")
    found = gather(lay_out(where, [range(32)]), 32e6)
    assert found.network_bytes == 1e6
    assert found.link_bytes == pytest.approx(32e6 * 15 / 16 / 2)
    assert exchange(lay_out(where, [range(32)]), 32e6).network_bytes == 16e6
    cores = parse_slice("2*tpu7x:2x2x1")
    one, both = ([(device, device + 8) for device in range(0, 8, step)] for step in (2, 1))
    for traffic in (gather, exchange):
        assert traffic(lay_out(cores, one), 2e6).network_bytes == 1e6
        assert traffic(lay_out(cores, both), 2e6).network_bytes == 2e6
    pairs = permute(where, [(0, 16), (16, 0), (1, 2)], 1e6)
    assert (pairs.network_bytes, pairs.link_bytes, pairs.hops) == (1e6, 1e6, 2)


def test_a_group_that_is_no_box_goes_round_in_one_ring() -> None:
    where = parse_slice("v5e:4x4")
    layout = lay_out(where, [tuple(where.device_at(Place(0, at)) for at in ((0, 0), (1, 0), (1, 1)))])
    found = gather(layout, 3e6)
    assert (found.way, layout.box) == ("embedded ring", False)
    # Three chips round a corner: the way back crosses the two links again, each with one member's third.
    assert found.link_bytes == pytest.approx(2e6)
    diagonal = gather(lay_out(where, [(0, 3)]), 2e6)
    assert (diagonal.way, diagonal.link_bytes, diagonal.hops) == ("embedded ring", 1e6, 2)


def test_a_twisted_torus_exchanges_faster_than_a_plain_one() -> None:
    plain, twisted = parse_slice("v5p:4x4x8"), parse_slice("v5p:4x4x8_twisted")
    whole = [range(128)]
    assert exchange(lay_out(twisted, whole), 1e6).link_bytes < 0.7 * exchange(lay_out(plain, whole), 1e6).link_bytes
    assert gather(lay_out(twisted, whole), 1e6).link_bytes == pytest.approx(
        gather(lay_out(plain, whole), 1e6).link_bytes
    )
    rows = torus_mesh(twisted).groups(("x",))
    assert gather(lay_out(twisted, rows), 1e6).way == "line"


def test_a_permute_counts_who_shares_a_link() -> None:
    where = parse_slice("v6e:2x4")
    around = permute(where, [(0, 2), (2, 4), (4, 6), (6, 0)], 1e6)
    assert (around.link_bytes, around.hops) == (1e6, 3)
    assert permute(where, [(0, 4), (2, 6)], 1e6).link_bytes == 2e6
    assert permute(where, [(0, 0)], 1e6) == routing.Traffic(0.0)
    assert permute(parse_slice("tpu7x:1x1x1"), [(0, 1), (1, 0)], 1e6).core_bytes == 1e6


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "A permute without pairs"),
        ([(0, 1), (0, 2)], "Device 0 is twice a source"),
        ([(0, 1), (2, 1)], "Device 1 is twice a target"),
        ([(0, 8)], "Device 8 is outside v6e:2x4"),
    ],
)
def test_permutes_that_cannot_be(pairs: list[tuple[int, int]], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        permute(parse_slice("v6e:2x4"), pairs, 1e6)
    assert words in str(caught.value)


def test_uneven_groups_too_large_to_route_are_refused() -> None:
    where: Slice = parse_slice("v5p:16x16x16")
    uneven = lay_out(where, [range(4095)])
    with pytest.raises(UsageError, match="too large to route"):
        exchange(uneven, 1e6)
    assert gather(uneven, 1e6).link_bytes > 0
