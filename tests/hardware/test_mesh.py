"""Mesh axes on torus axes: from coordinates, whatever the axes are called."""

from __future__ import annotations

import random

import pytest

from tpuprof.errors import UsageError
from tpuprof.hardware.layout import lay_out
from tpuprof.hardware.mesh import MeshMapping, map_mesh, torus_mesh
from tpuprof.hardware.slices import parse_slice
from tpuprof.hardware.topology import Place


def facts(mapping: MeshMapping, name: str) -> tuple[object, ...]:
    axis = mapping.axis(name)
    return (axis.kind, axis.torus_axes, axis.hops, axis.stride, axis.shared)


def test_pairs_two_hops_apart_share_the_link_between_them() -> None:
    mapping = map_mesh(parse_slice("v6e:2x4"), {"a": 2, "b": 4})
    assert mapping.groups(("a",)) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert facts(mapping, "a") == ("line", (1,), 2, 2, 2)
    assert facts(mapping, "b") == ("line", (0, 1), 2, None, 1)


def test_the_torus_itself_is_a_mesh() -> None:
    mapping = torus_mesh(parse_slice("v5p:4x4x8"))
    assert dict(mapping.shape) == {"z": 8, "y": 4, "x": 4}
    for name, axis in (("x", 0), ("y", 1), ("z", 2)):
        assert facts(mapping, name) == ("ring", (axis,), 1, 1, 1)


def test_an_axis_may_span_several_torus_axes() -> None:
    where = parse_slice("v5p:4x4x4")
    order = torus_mesh(where).devices
    mapping = map_mesh(where, {"fsdp": 16, "tensor": 4}, order)
    assert facts(mapping, "tensor") == ("ring", (0,), 1, 1, 1)
    assert mapping.axis("fsdp").torus_axes == (1, 2)
    assert mapping.axis("fsdp").kind == "ring"


def test_half_an_axis_is_a_line_and_its_two_halves_a_ring_of_two() -> None:
    where = parse_slice("v5p:4x4x8")
    mapping = map_mesh(where, {"half": 2, "rest": 4, "y": 4, "x": 4}, torus_mesh(where).devices)
    assert facts(mapping, "rest") == ("line", (2,), 1, 1, 1)
    assert facts(mapping, "half") == ("ring", (2,), 4, 4, 4)


def test_cores_and_slices_are_no_torus_axes() -> None:
    where = parse_slice("2*tpu7x:2x2x1")
    mapping = map_mesh(where, {"dcn": 2, "chip": 4, "core": 2})
    assert facts(mapping, "core") == ("on_chip", (), 0, None, 1)
    assert facts(mapping, "dcn")[:3] == ("dcn", (), None)
    assert mapping.axis("dcn").slices == 2
    assert facts(mapping, "chip") == ("line", (0, 1), 2, None, 2)
    assert [axis.name for axis in mapping.axes] == ["dcn", "chip", "core"]
    assert mapping.groups(("dcn", "core"))[0] == (0, 1, 8, 9)


def test_a_mesh_out_of_order_is_uneven() -> None:
    where = parse_slice("v5e:4x4")
    order = list(range(16))
    random.Random(3).shuffle(order)
    mapping = map_mesh(where, {"a": 4, "b": 4}, order)
    assert "uneven" in {axis.kind for axis in mapping.axes}


def test_an_axis_of_one_joins_nobody_and_names_do_not_matter() -> None:
    where = parse_slice("v5e:4x4")
    one = map_mesh(where, {"data": 1, "model": 16})
    assert facts(one, "data") == ("none", (), 0, None, 1)
    places = [where.place(device) for device in range(16)]
    assert map_mesh(where, {"z": 16}, places).devices == tuple(range(16))


def test_a_whole_twisted_torus_closes_but_its_short_axes_do_not() -> None:
    where = parse_slice("v5p:4x4x8_twisted")
    assert map_mesh(where, {"all": 128}).axis("all").kind == "ring"
    assert torus_mesh(where).axis("x").kind == "line"
    assert torus_mesh(where).axis("z").kind == "ring"


@pytest.mark.parametrize(
    ("axes", "assignment", "words"),
    [
        ({"a": 3}, list(range(4)), "It has 3 devices, not 4."),
        ({"a": 32}, None, "It has 32 devices, not 16."),
        ({"a": 0}, None, "Mesh axis a has 0 devices."),
        ({"a": 2}, [0, 16], "Device 16 is outside v5e:4x4."),
        ({"a": 2}, [3, 3], "Device 3 is named twice."),
        ({"a": 1}, [Place(0, (4, 0))], "There is no device at (4, 0)"),
    ],
)
def test_a_mesh_that_does_not_fit(axes: dict[str, int], assignment: list[int] | None, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        map_mesh(parse_slice("v5e:4x4"), axes, assignment)
    assert words in str(caught.value)


def test_an_unknown_mesh_axis_names_the_known_ones() -> None:
    mapping = map_mesh(parse_slice("v5e:4x4"), {"a": 4, "b": 4})
    with pytest.raises(UsageError, match="Its axes: a, b"):
        mapping.groups(("c",))
    with pytest.raises(UsageError, match="a, a are no axes"):
        mapping.groups(("a", "a"))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "A group without members."),
        ([()], "A group without members."),
        ([(0, 1), (2,)], "Groups of 1 and 2 devices."),
        ([(0, 1), (1, 2)], "Device 1 is named twice."),
        ([(0, 99)], "Device 99 is outside v5e:4x4."),
    ],
)
def test_groups_that_cannot_be(groups: list[tuple[int, ...]], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        lay_out(parse_slice("v5e:4x4"), groups)
    assert words in str(caught.value)
