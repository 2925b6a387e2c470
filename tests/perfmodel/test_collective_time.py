"""Times of collectives on real hardware: measured cases, regimes, what is unknown, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.hardware.mesh import map_mesh
from tpuprof.hardware.slices import parse_slice
from tpuprof.hardware.topology import Slice
from tpuprof.hlo.groups import parse_replica_groups
from tpuprof.perfmodel.collective_constants import calibration, core_link
from tpuprof.perfmodel.collective_time import KINDS, CollectiveTime, collective_time
from tpuprof.perfmodel.derivation import Derivation

PAIRS = [(0, 4), (1, 5), (2, 6), (3, 7)]
H100 = chip("H100-SXM")


def bound(found: CollectiveTime) -> float:
    assert found.seconds is not None
    return found.seconds


def expected(found: CollectiveTime) -> float:
    assert found.expected_s is not None
    return found.expected_s


def test_an_all_reduce_in_pairs_two_hops_apart() -> None:
    groups = parse_replica_groups("[4,2]<=[2,4]T(1,0)").groups(8)
    found = collective_time("all-reduce", 5.369e9, parse_slice("v6e:2x4"), groups=groups)
    assert groups == tuple(PAIRS)
    assert bound(found) == pytest.approx(0.1193, rel=1e-3)
    assert bound(found) / 0.12169 == pytest.approx(0.98, abs=0.005)
    assert expected(found) == pytest.approx(0.12169, rel=5e-3)
    assert (found.regime, found.shared) == ("line", 2.0)
    assert found.bound_bytes_per_s == pytest.approx(45e9)


@pytest.mark.parametrize(
    ("chip_bytes", "measured"),
    [(1.57e6, 21.9e-6), (6.29e6, 48.7e-6), (25.2e6, 155e-6), (101e6, 576e-6), (403e6, 2252e-6)],
)
def test_all_gathers_of_both_cores_groups_of_four_on_v7x(chip_bytes: float, measured: float) -> None:
    # The benchmark counts three received shards for both cores of a chip.
    found = collective_time(
        "all_gather", chip_bytes / 6 * 4, parse_slice("tpu7x:2x2x1"), groups=[(0, 2, 4, 6), (1, 3, 5, 7)]
    )
    assert bound(found) == pytest.approx(chip_bytes / 180e9)
    assert expected(found) == pytest.approx(measured, rel=0.1)
    assert bound(found) < measured
    assert found.shared == 2.0


def test_an_all_reduce_over_a_v6e_pod() -> None:
    found = collective_time("all_reduce", 606e6, parse_slice("v6e:16x16"))
    assert bound(found) == pytest.approx(3.35e-3, rel=2e-3)
    assert expected(found) == pytest.approx(5.1e-3, rel=0.02)
    assert found.regime == "ring"


def test_an_all_gather_on_a_line_of_four_v5e() -> None:
    found = collective_time("all_gather", 34e6, parse_slice("v5e:4x4"), axes=("x",))
    assert bound(found) == pytest.approx(567e-6, rel=1e-3)
    assert expected(found) == pytest.approx(680e-6, rel=0.02)
    small = collective_time("all_gather", 4 * 32e3, parse_slice("v5e:4x4"), axes=("x",))
    assert small.regime == "latency"
    assert bound(small) == pytest.approx(3e-6)
    assert expected(small) == pytest.approx(8e-6, rel=0.1)


def test_a_reduce_scatter_between_two_v2_chips() -> None:
    found = collective_time("reduce_scatter", 134217728, parse_slice("v2:4x4"), groups=[(0, 2)])
    assert bound(found) == pytest.approx(1.12e-3, rel=2e-3)
    assert expected(found) == pytest.approx(1.13e-3, rel=2e-3)


def test_an_all_reduce_between_the_cores_of_a_v7x_chip() -> None:
    found = collective_time("all_reduce", 10.5e6, parse_slice("tpu7x:1x1x1"))
    assert found.regime == "on_chip"
    assert 24.9e-6 < expected(found) < 28.1e-6
    assert bound(found) == pytest.approx(10.5e6 / 540e9)


def test_an_all_reduce_between_two_v6e_slices() -> None:
    found = collective_time("all_reduce", 606e6, parse_slice("2*v6e:16x16"), axes=("slice",))
    assert found.regime == "dcn"
    assert bound(found) == pytest.approx(606e6 / 12.5e9)
    assert expected(found) == pytest.approx(74e-3, rel=0.02)


def test_a_group_over_slices_uses_links_and_network_at_once() -> None:
    found = collective_time("all_gather", 64e9, parse_slice("2*v5p:4x4x4"))
    names = [step.what for step in found.derivation.steps]
    assert names[:5] == [
        "link directions over which every chip of a group receives, L",
        "bytes on the busiest link, one direction",
        "time of the busiest link",
        "bytes on the network share of the busiest chip, one direction",
        "time of the network share of the busiest chip",
    ]
    assert bound(found) == pytest.approx(64e9 * 63 / 64 / 6 / 90e9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_takes_no_time(kind: str) -> None:
    groups = [(0, 0)] if kind in {"collective_permute", "send_recv"} else [(0,), (3,)]
    found = collective_time(kind, 1e9, parse_slice("v5e:4x4"), groups=groups)
    assert (found.seconds, found.regime, found.expected_s, found.bound_bytes_per_s) == (0.0, "none", 0.0, None)
    alone = collective_time(kind, 1e9, parse_slice("v5e:1x1"), axes=("x",))
    assert alone.seconds == 0.0


@pytest.mark.parametrize("kind", KINDS)
@given(size=st.integers(0, 10**12), data=st.data())
@settings(max_examples=15, deadline=None)
def test_more_bytes_never_take_less(kind: str, size: int, data: st.DataObject) -> None:
    where = parse_slice(data.draw(st.sampled_from(["v5e:4x4", "v5p:4x4x4", "tpu7x:2x2x1", "2*v5p:2x2x2"])))
    axes = data.draw(st.sampled_from([("x",), ("y",), ("x", "y")]))
    first = collective_time(kind, size, where, axes=axes)
    more = collective_time(kind, size * 1.5, where, axes=axes)
    assert bound(more) >= bound(first)
    assert expected(more) >= expected(first) >= bound(first)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    where = parse_slice("v5p:4x4x8")
    one, two = (bound(collective_time(kind, 1e9, where)) for kind in ("all_gather", "all_reduce"))
    assert two == pytest.approx(2 * one)
    assert bound(collective_time("reduce_scatter", 1e9, where)) == one


def test_a_broadcast_sends_the_whole_message_to_everyone() -> None:
    found = collective_time("collective_broadcast", 1e9, parse_slice("v5p:4x4x4"))
    assert bound(found) == pytest.approx(1e9 / 6 / 90e9)


def test_a_permute_adds_its_hops() -> None:
    found = collective_time("collective_permute", 90e3, parse_slice("v5e:4x4"), axes=("x",), link_bandwidth=90e9)
    # The last device sends back over the whole line.
    assert bound(found) == pytest.approx(3e-6 + 1e-6)
    shared = collective_time("send_recv", 90e6, parse_slice("v6e:2x4"), groups=[(0, 4), (2, 6)])
    assert bound(shared) == pytest.approx(2e-3 + 2e-6)


def test_axes_of_a_mesh_and_their_groups_are_the_same_question() -> None:
    where = parse_slice("v6e:2x4")
    mesh = map_mesh(where, {"a": 2, "b": 4})
    by_groups = collective_time("all_reduce", 1e9, where, groups=PAIRS)
    assert collective_time("all_reduce", 1e9, where, axes=("a",), mesh=mesh) == by_groups
    assert collective_time("all_reduce", 1e9, where, axes=("a",), mesh={"a": 2, "b": 4}) == by_groups


def test_gpus_in_a_node_and_over_nodes() -> None:
    inside = collective_time("all_gather", 1e9, H100, groups=[range(8)])
    assert (bound(inside), inside.regime) == (pytest.approx(7 / 8 * 1e9 / 450e9), "switch")
    outside = collective_time("all_reduce", 1e9, H100, groups=[range(256)])
    assert (bound(outside), outside.regime) == (pytest.approx(2 * 31 / 32 * 1e9 / 400e9), "tree")
    # A tensor-parallel axis inside the node leaves two GPUs per node to the other axis.
    rows = [[node * 8 + tensor * 2 + core for node in range(32) for core in (0, 1)] for tensor in range(4)]
    assert bound(collective_time("all_gather", 1e9 / 4, H100, groups=rows)) == pytest.approx(31 / 32 * 1e9 / 400e9)
    swap = collective_time("all_to_all", 1e9 / 16, H100, groups=[range(16)])
    assert bound(swap) == pytest.approx(1e9 / 4 / 400e9)
    assert bound(collective_time("collective_broadcast", 1e9, H100, groups=[range(8)])) == pytest.approx(1e9 / 450e9)
    hop = collective_time("collective_permute", 1e9, H100, groups=[(0, 8), (1, 0)])
    assert (bound(hop), hop.regime) == (pytest.approx(1e9 / 50e9), "tree")
    assert collective_time("all_reduce", 1e9, H100, groups=[(0,)]).seconds == 0.0


def test_what_is_unknown_is_null_with_a_reason() -> None:
    whole = parse_slice("v5e:4x4")
    assert whole.chip.ici is not None
    blind = replace(whole, chip=replace(whole.chip, ici=replace(whole.chip.ici, link_bandwidth=None)))
    found = collective_time("all_reduce", 1e9, blind)
    assert (found.seconds, found.expected_s, found.bound_bytes_per_s) == (None, None, None)
    assert "The bandwidth of the busiest link of v5e is not known." in found.derivation.assumptions
    assert collective_time("all_reduce", 1e9, blind, link_bandwidth=45e9).seconds is not None
    no_node = collective_time("all_reduce", 1e9, replace(H100, scale_up_size=None), groups=[(0, 1)])
    assert no_node.seconds is None
    assert "How many H100-SXM form a node is not known." in no_node.derivation.assumptions
    no_nic = collective_time("all_reduce", 1e9, replace(H100, scale_out_bandwidth=None), groups=[(0, 9)])
    assert no_nic.seconds is None


def test_an_unknown_link_between_cores_is_left_out_where_chips_are_joined_too() -> None:
    both = collective_time("all_gather", 1e9, parse_slice("v3:2x2"))
    assert both.seconds is not None
    assert any("it is left out" in line for line in both.derivation.assumptions)
    assert collective_time("all_gather", 1e9, parse_slice("v3:2x2"), groups=[(0, 1)]).seconds is None


def test_measurements_are_data_with_their_source() -> None:
    known = calibration("v6e", "all_reduce", "ring", 2)
    assert (known.c, known.fits) == (0.65, "measured")
    assert "606 MB" in known.source
    # Two axes at once resemble two axes, whether they close or not; one axis does not.
    assert calibration("v6e", "all_gather", "line", 2) == replace(known, fits="similar")
    assert calibration("v6e", "all_reduce", "line", 1).c == 0.98
    assert calibration("v6e", "all_reduce", "ring", 3).fits == "guess"
    assert calibration("v6e", "all_to_all", "dcn").fits == "similar"
    assert calibration("v6e", "all_to_all", "on_chip").fits == "guess"
    assert calibration("v4", "all_gather", "ring", 1).fits == "guess"
    link = core_link("tpu7x")
    assert link is not None
    assert "six times" in link.source
    assert core_link("v5e") is None


def test_the_derivation_can_be_printed() -> None:
    found = collective_time("all_reduce", 1e9, parse_slice("v5e:4x4"), axes=("x",))
    answer = found.derivation.to_json()
    assert answer["regime"] == "line"
    assert [step.formula for step in found.derivation.steps][1] == "2 * size * (m-1)/m / L"
    assert answer["answer"] == {"value": found.seconds, "unit": "s"}
    assert "along x: a line of 4, 1 group(s) on the busiest link" in found.derivation.assumptions
    assert isinstance(found.derivation, Derivation)


SMALL: Slice = parse_slice("v5e:4x4")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: collective_time("all-of-it", 1.0, SMALL), "There is no collective 'all-of-it'. Known are all_gather,"),
        (lambda: collective_time("all_gather", -1.0, SMALL), "The size is -1.0"),
        (lambda: collective_time("all_gather", 1.0, SMALL, groups=[(0,)], axes=("x",)), "are both given"),
        (lambda: collective_time("all_gather", 1.0, SMALL, axes=("q",)), "q are no axes of this mesh"),
        (lambda: collective_time("all_gather", 1.0, SMALL, groups=[(0, 1), (2,)]), "Groups of 1 and 2 devices."),
        (lambda: collective_time("all_gather", 1.0, SMALL, groups=[(0, 16)]), "Device 16 is outside v5e:4x4."),
        (lambda: collective_time("all_gather", 1.0, SMALL, groups=[]), "A group without members."),
        (lambda: collective_time("all_gather", 1.0, SMALL, link_bandwidth=0.0), "The link bandwidth is 0.0"),
        (lambda: collective_time("send_recv", 1.0, SMALL, groups=[(0, 1, 2)]), "does not have two devices"),
        (lambda: collective_time("all_gather", 1.0, chip("v5e")), "v5e alone has no mesh axes."),
        (lambda: collective_time("all_gather", 1.0, H100), "Which GPUs take part is not said."),
        (lambda: collective_time("all_gather", 1.0, H100, axes=("x",)), "H100-SXM alone has no mesh axes."),
        (lambda: collective_time("all_gather", 1.0, H100, groups=[(0, -1)]), "A device id is negative."),
        (lambda: collective_time("all_gather", 1.0, H100, groups=[(0, 1), (1, 2)]), "Device 1 is named twice."),
        (lambda: collective_time("send_recv", 1.0, H100, groups=[]), "does not have two devices"),
    ],
)
def test_questions_that_make_no_sense(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert words in str(caught.value)
