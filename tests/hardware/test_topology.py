"""Slices: device order, distances, routes; a search through the graph of links is the oracle."""

from __future__ import annotations

from collections import deque
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.hardware.slices import parse_slice
from tpuprof.hardware.topology import Place, Slice, can_twist, wraparound

SMALL = (
    "v5e:2x4",
    "v5e:4x4",
    "v5e:1x1",
    "v6e:2x16",
    "v5p:2x2x4",
    "v5p:4x4x4",
    "v5p:4x4x8",
    "v5p:4x4x8_twisted",
    "v5p:4x8x8_twisted",
    "tpu7x:2x4x4",
    "2*tpu7x:2x2x1",
    "v3:4x8",
)
slices = st.sampled_from(SMALL).map(parse_slice)


def distances(where: Slice, start: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    found = {start: 0}
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for axis in range(where.dims):
            for step in (1, -1):
                to = where.neighbour(at, axis, step)
                if to is not None and to not in found:
                    found[to] = found[at] + 1
                    waiting.append(to)
    return found


@pytest.mark.parametrize("name", SMALL)
def test_hops_are_the_shortest_ways_through_the_links(name: str) -> None:
    where = parse_slice(name)
    corners = [(0,) * where.dims, tuple(size // 2 for size in where.shape), tuple(size - 1 for size in where.shape)]
    farthest = 0
    for start in corners:
        known = distances(where, start)
        assert len(known) == where.chips_per_slice
        assert {to: where.chip_hops(start, to) for to in known} == known
        farthest = max(farthest, *known.values())
    assert where.diameter == farthest


@given(slices, st.data())
def test_a_route_is_a_chain_of_links_from_end_to_end(where: Slice, data: st.DataObject) -> None:
    chips = st.tuples(*(st.integers(0, size - 1) for size in where.shape))
    here, there = data.draw(chips), data.draw(chips)
    ways = where.displacements(here, there)
    assert where.displacement(here, there) in ways
    for steps in ways:
        at = here
        route = list(where.route(here, there, steps=steps))
        for link in route:
            assert link.coords == at
            to = where.neighbour(at, link.axis, link.step)
            assert to is not None
            at = to
        assert at == there
        assert len(route) == where.chip_hops(here, there) == where.chip_hops(there, here)


@given(slices, st.data())
def test_every_link_leads_back(where: Slice, data: st.DataObject) -> None:
    at = data.draw(st.tuples(*(st.integers(0, size - 1) for size in where.shape)))
    for axis, step in product(range(where.dims), (1, -1)):
        to = where.neighbour(at, axis, step)
        assert to is None or where.neighbour(to, axis, -step) == at


@given(slices)
@settings(max_examples=20)
def test_ids_and_places_are_one_to_one(where: Slice) -> None:
    places = [where.place(device) for device in range(where.n_devices)]
    assert len(set(places)) == where.n_devices
    assert [where.device_at(place) for place in places] == list(range(where.n_devices))


def test_ids_run_host_by_host_with_x_fastest() -> None:
    rows = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]
    assert [parse_slice("v6e:2x4").coords(device) for device in range(8)] == rows
    wide = parse_slice("v6e:4x4")
    assert [wide.coords(device) for device in (0, 3, 4, 5, 8)] == [(0, 0), (1, 1), (2, 0), (3, 0), (0, 2)]


def test_the_cores_of_a_chip_are_neighbours_in_the_order_of_ids() -> None:
    where = parse_slice("tpu7x:2x2x2")
    assert where.place(0) == Place(0, (0, 0, 0), 0)
    assert where.place(1) == Place(0, (0, 0, 0), 1)
    assert where.place(8) == Place(0, (0, 0, 1), 0)
    assert where.hops(0, 1) == 0
    assert where.hops(0, 14) == 3


def test_slices_follow_each_other_and_no_link_joins_them() -> None:
    where = parse_slice("2*v5e:4x4")
    assert where.place(16) == Place(1, (0, 0))
    assert where.hops(0, 16) is None
    assert (where.n_chips, where.n_hosts, where.slices) == (32, 4, 2)


def test_a_twisted_torus_is_rounder_than_the_plain_one() -> None:
    assert parse_slice("v5p:4x4x8_twisted").diameter < parse_slice("v5p:4x4x8").diameter
    assert parse_slice("v5p:4x8x8_twisted").diameter < parse_slice("v5p:4x8x8").diameter
    twistable = {shape: can_twist(shape) for shape in ((4, 4, 8), (8, 4, 8), (12, 12, 24))}
    assert all(twistable.values())
    plain = {shape: can_twist(shape) for shape in ((4, 4, 4), (2, 2, 4), (4, 8, 16), (6, 6, 12), (16, 32))}
    assert not any(plain.values())


@pytest.mark.parametrize(
    ("generation", "shape", "wrap"),
    [
        ("v5e", (4, 4), (False, False)),
        ("v5e", (8, 16), (False, True)),
        ("v5e", (16, 16), (True, True)),
        ("v6e", (16, 16), (True, True)),
        ("v3", (16, 32), (True, True)),
        ("v4p", (2, 2, 1), (False, False, False)),
        ("v4p", (4, 4, 4), (True, True, True)),
        ("v5p", (2, 2, 4), (False, False, False)),
        ("v5p", (4, 4, 8), (True, True, True)),
        ("v5p", (16, 20, 28), (True, True, True)),
    ],
)
def test_wraparound_by_generation(generation: str, shape: tuple[int, ...], wrap: tuple[bool, ...]) -> None:
    assert wraparound(chip(generation), shape) == wrap


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: parse_slice("v5e:2x4").coords(8), "Device 8 is outside v5e:2x4. Its 8 devices have the ids 0 to 7."),
        (lambda: parse_slice("v5e:2x4").coords(-1), "Device -1 is outside"),
        (lambda: parse_slice("v5e:2x4").device_at(Place(0, (2, 0))), "There is no device at (2, 0)"),
        (lambda: parse_slice("v5e:2x4").device_at(Place(1, (0, 0))), "slice 1 of v5e:2x4"),
        (lambda: Slice(chip("v5e"), (4, 4), (False,)), "is no slice"),
        (lambda: Slice(chip("v5e"), (), ()), "is no slice"),
        (lambda: Slice(chip("v5e"), (4, 4), (False, False), slices=0), "0 slices are none"),
        (lambda: Slice(chip("v5p"), (4, 4, 4), (True,) * 3, twisted=True), "4x4x4 cannot be twisted"),
        (lambda: wraparound(chip("H100-SXM"), (8,)), "has no torus"),
    ],
)
def test_what_is_no_slice_or_outside_it_says_so(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(UsageError) as caught:
        call()
    assert words in str(caught.value)
