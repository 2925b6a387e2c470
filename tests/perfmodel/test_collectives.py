"""Closed forms of collectives on rings, lines and tori: worked numbers, limits, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.perfmodel import collectives as c
from tpuprof.perfmodel.derivation import Derivation

V5E, V4 = 45e9, 45e9


@pytest.mark.parametrize(
    ("found", "value", "regime"),
    [
        # An array of 2*1024*4096 bytes on a v4 cube: one axis, two axes, twice for an all-reduce of a sixteenth.
        (c.torus("all_gather", 2 * 1024 * 4096 / 4, V4), 2.330169e-05, "ring"),
        (c.torus("all_gather", 2 * 1024 * 4096, V4, rings=2), 4.660338e-05, "ring"),
        (c.torus("all_reduce", 2 * 1024 * 4096 / 16, V4), 1.165084e-05, "ring"),
        (c.torus("all_gather", 2 * 1024 * 4096, V4, rings=3), 3.106892e-05, "ring"),
        # Gradients of a layer over three v5p axes.
        (c.torus("all_reduce", 4 * 8192 * 28672, 90e9, rings=3), 0.003479719, "ring"),
        # A line of four: 34 MB on v5e.
        (c.torus("all_gather", 34e6, V5E, rings=0, lines=1, members=4), 566.667e-6, "line"),
        # 134 MB over two neighbours of v2.
        (c.torus("reduce_scatter", 134217728, 60e9, rings=0, lines=1, members=2), 0.001118481, "line"),
        # 606 MB over a v6e pod.
        (c.torus("all_reduce", 606e6, 90e9, rings=2, members=256), 3.3535e-3, "ring"),
        (c.torus("all_gather", 1e9, V5E, rings=1, lines=1, members=128), 1e9 * 127 / 128 / 3 / V5E, "ring and line"),
        (c.torus("all_gather", 1e3, V5E, hops=8, hop_latency=1e-6), 8e-6, "latency"),
        (c.torus("all_gather", 1e9, V5E, members=1), 0.0, "ring"),
        (c.latency_floor((4, 4), 1e-6), 4e-6, "latency"),
        (c.latency_floor((4,), 1e-6, ring=False), 3e-6, "latency"),
        (c.latency_floor((4, 4), 1e-6, kind="all_reduce"), 8e-6, "latency"),
        (c.latency_bound_below(V5E, 1e-6), 45e3, "latency"),
        (c.latency_bound_below(V5E, 1e-6, 8), 360e3, "latency"),
        (c.latency_bound_above(131072, V5E, 1e-6), 2.912711, "latency"),
        (c.all_to_all(1e9, (4, 4, 4), V4), 0.0001736111, "ring"),
        (c.all_to_all(1e9, (16,), V4), 0.002777778, "ring"),
        (c.all_to_all(1e9, (4, 16), V5E, wrap=(False, True)), 1e9 * 16 / (8 * 64 * V5E), "ring and line"),
        (c.link_traffic("all_gather", 1024 * 1024, 8, directions=1), 917504, "ring"),
        (c.link_traffic("all_to_all", 1024 * 1024, 8, directions=1), 458752, "ring"),
        (c.point_to_point(15e9, V5E, ports=2), 0.1666667, "bandwidth"),
        (c.point_to_point(9e3, 90e9, hops=6, hop_latency=1e-6), 6.1e-6, "latency"),
        (c.across_slices("all_reduce", 606e6, 2, 12.5e9), 0.04848, "dcn"),
        (c.across_slices("all_gather", 1e9, 4, 6.25e9, chips=64), 0.75e9 / 64 / 6.25e9, "dcn"),
        (c.bus_bandwidth("all_reduce", 1e9, 8, 0.00473), 369.9789e9, None),
        (c.bus_bandwidth("all_gather", 1e9, 2, 1.0), 0.5e9, None),
    ],
)
def test_worked_numbers(found: Derivation, value: float, regime: str | None) -> None:
    assert found.number() == pytest.approx(value, rel=1e-5)
    assert found.regime == regime
    assert found.formula
    assert found.source


def test_ratios_of_large_rings() -> None:
    gather = c.torus("all_gather", 1.0, 1.0).number()
    assert c.all_to_all(1.0, (1000,), 1.0).number() / gather == pytest.approx(0.25)
    for kind, gain in (("all_gather", 2.0), ("all_to_all", 4.0)):
        one_way = c.link_traffic(kind, 1.0, directions=1).number()
        assert one_way / c.link_traffic(kind, 1.0).number() == gain
    one_way_gather = c.link_traffic("all_gather", 1.0, directions=1).number()
    assert c.link_traffic("all_to_all", 1.0, directions=1).number() / one_way_gather == 0.5


def test_a_line_takes_twice_as_long_as_a_ring() -> None:
    ring = c.torus("all_gather", 1e9, V5E, members=16).number()
    assert c.torus("all_gather", 1e9, V5E, rings=0, lines=1, members=16).number() == pytest.approx(2 * ring)


def test_the_derivation_names_its_steps() -> None:
    found = c.torus("all_reduce", 1e9, V5E, members=4, hops=2, hop_latency=1e-6)
    assert [step.formula for step in found.steps] == ["2 * V * (n-1)/n / (W * L)", "2 * hops * t_hop"]
    assert found.formula == "max(transfer, latency floor)"
    assert "(n-1)/n is taken as 1" in " ".join(c.torus("all_reduce", 1e9, V5E).assumptions)


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("ring", [True, False])
def test_the_load_of_an_axis_is_that_of_counted_messages(length: int, ring: bool) -> None:
    right = [0.0] * length
    for a in range(length):
        for b in range(length):
            forward = (b - a) % length if ring else b - a
            if forward > 0 and (not ring or 2 * forward <= length):
                for link in range(a, a + forward):
                    right[link % length] += 0.5 if ring and 2 * forward == length else 1.0
    assert c.axis_load(length, ring) == pytest.approx(max(right) / length)


@given(
    st.sampled_from(["all_gather", "reduce_scatter", "all_reduce"]),
    st.integers(0, 10**15),
    st.floats(1, 1e13),
    st.integers(1, 3),
    st.integers(1, 10000),
)
def test_more_bytes_never_take_less_and_a_member_receives_at_most_its_links(
    kind: c.RingKind, size: float, bandwidth: float, rings: int, members: int
) -> None:
    found = c.torus(kind, size, bandwidth, rings=rings, members=members).number()
    assert c.torus(kind, size * 2, bandwidth, rings=rings, members=members).number() >= found
    assert found >= size * (1 - 1 / members) / (2 * rings * bandwidth) * 0.999999
    assert math.isfinite(found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: c.torus("all_to_all", 1.0, 1.0), "is no collective of a ring"),
        (lambda: c.torus("all_gather", -1.0, 1.0), "The size is -1.0"),
        (lambda: c.torus("all_gather", math.nan, 1.0), "The size is nan"),
        (lambda: c.torus("all_gather", 1.0, 0.0), "The link bandwidth is 0.0"),
        (lambda: c.torus("all_gather", 1.0, 1.0, rings=0), "A collective over no axis."),
        (lambda: c.torus("all_gather", 1.0, 1.0, rings=-1, lines=2), "-1 rings are impossible"),
        (lambda: c.torus("all_gather", 1.0, 1.0, members=0), "The number of members is 0"),
        (lambda: c.latency_floor((4, 0), 1e-6), "The length of an axis is 0"),
        (lambda: c.all_to_all(1.0, (), 1.0), "A shape of 0 axes"),
        (lambda: c.all_to_all(1.0, (4, 4), 1.0, wrap=(True,)), "with 1 wraparounds"),
        (lambda: c.link_traffic("all_gather", 1.0, 4, directions=3), "A ring used in 3 directions"),
        (lambda: c.link_traffic("all_reduce", 1.0, 4), "No traffic of a ring is known"),
        (lambda: c.point_to_point(1.0, 1.0, ports=0), "The number of links is 0"),
        (lambda: c.across_slices("all_gather", 1.0, 0, 1.0), "The number of slices is 0"),
        (lambda: c.bus_bandwidth("all_gather", 1.0, 2, 0.0), "The time is 0.0"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert words in str(caught.value)
