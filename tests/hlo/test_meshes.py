"""Along which axes of a program's mesh a collective goes, against groups that are made coordinate by coordinate."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.hlo import parse_replica_groups, parse_text
from tpuprof.hlo.groups import Iota, Mesh
from tpuprof.hlo.meshes import MAX_MESHES, axes_of_groups, axes_of_pairs, stated_axes

DATA_MODEL = Mesh((("data", 4), ("model", 2)))


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("mesh['data'=4,'model'=2] {'data'}", ("data",)),
        ("mesh['data'=4,'model'=2] {'model','data'}", ("model", "data")),
        ("mesh['data'=4,'model'=2] {'data':(2)2}", ("data:(2)2",)),
        ("mesh['data'=4,'model'=2] {}", None),
        ("maximal_mesh[device_id=5] {}", None),
        ("{{0,1},{2,3}}", None),
        ("[2,4]<=[8]", None),
        ("{}", None),
    ],
)
def test_axes_that_groups_state(text: str, axes: tuple[str, ...] | None) -> None:
    assert stated_axes(parse_replica_groups(text)) == axes


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        (((0, 2, 4, 6), (1, 3, 5, 7)), ("data",)),
        (((7, 5, 3, 1), (0, 2, 4, 6)), ("data",)),  # in whatever order
        (((0, 1), (2, 3), (4, 5), (6, 7)), ("model",)),
        ((tuple(range(8)),), ("data", "model")),
        (((0, 1, 2, 3), (4, 5, 6, 7)), None),  # half of data, and model
        (((0, 1), (2, 3)), None),  # not all devices of the mesh
        (((0, 1, 2), (3, 4, 5, 6, 7)), None),
        (tuple((device,) for device in range(8)), None),
        (((0, 0, 0, 0), (1, 1, 1, 1)), None),
        ((), None),
    ],
)
def test_axes_of_groups_that_do_not_name_them(
    groups: tuple[tuple[int, ...], ...], axes: tuple[str, ...] | None
) -> None:
    assert axes_of_groups(groups, (DATA_MODEL,)) == axes


@pytest.mark.parametrize(
    ("pairs", "axes"),
    [
        (((0, 2), (2, 4), (4, 6), (6, 0)), ("data",)),
        (((0, 2),), ("data",)),  # a shift that does not go around
        (((0, 1), (1, 0)), ("model",)),
        (((0, 3),), ("data", "model")),
        (((0, 2), (0, 1)), ("data", "model")),
        (((3, 3),), None),
        (((0, 9),), None),
        ((), None),
    ],
)
def test_axes_of_pairs(pairs: tuple[tuple[int, int], ...], axes: tuple[str, ...] | None) -> None:
    assert axes_of_pairs(pairs, (DATA_MODEL,)) == axes


def test_meshes_that_name_the_same_devices_differently_name_nothing() -> None:
    groups = ((0, 2, 4, 6), (1, 3, 5, 7))
    assert axes_of_groups(groups, (DATA_MODEL, Mesh((("x", 4), ("y", 2))))) is None
    assert axes_of_groups(groups, (DATA_MODEL, Mesh((("data", 4), ("z", 2))))) == ("data",)
    assert axes_of_groups(groups, (DATA_MODEL, Mesh((("x", 16),)))) == ("data",)
    assert axes_of_groups(groups, ()) is None


@given(data=st.data())
def test_groups_of_any_axes_of_any_mesh_are_recognised(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    names = [f"axis{at}" for at in range(len(sizes))]
    wanted = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    ids = data.draw(st.permutations(range(prod(sizes))))
    grouped: dict[tuple[int, ...], list[int]] = {}
    for device, place in zip(ids, product(*map(range, sizes)), strict=True):
        grouped.setdefault(tuple(c for at, c in enumerate(place) if at not in wanted), []).append(device)
    groups = tuple(tuple(data.draw(st.permutations(group))) for group in grouped.values())
    mesh = Mesh(tuple(zip(names, sizes, strict=True)), tuple(ids))
    expected = tuple(name for at, name in enumerate(names) if at in wanted and sizes[at] > 1)
    assert axes_of_groups(groups, (mesh,)) == (expected or None)
    pairs = tuple((a, b) for group in groups for a in group for b in group)
    assert axes_of_pairs(pairs, (mesh,)) == (expected or None)


def program(head: str = "", groups: str = "{}") -> str:
    return (
        f"HloModule m, num_partitions=8{head}\n\n%s (x: f32[], y: f32[]) -> f32[] {{\n  %x = f32[] parameter(0)\n"
        "  %y = f32[] parameter(1)\n  ROOT %z = f32[] add(%x, %y)\n}\n\nENTRY %e (a: f32[8]) -> f32[8] {\n"
        "  %a = f32[8] parameter(0)\n"
        f"  ROOT %r = f32[8] all-reduce(%a), replica_groups={groups}, use_global_device_ids=true, channel_id=1, "
        "to_apply=%s\n}\n"
    )


def attribute(text: str) -> str:
    return ", frontend_attributes={xla.sdy.meshes={" + text + "}}"


def test_meshes_of_a_program() -> None:
    assert parse_text(program()).meshes == ()
    named = "mesh['data'=4,'model'=2], device_ids=([2,4]T(1,0)) {'data'}"
    assert parse_text(program(groups=named)).meshes == (Mesh(DATA_MODEL.axes, Iota((2, 4), (1, 0))),)
    stated = 'mesh = #sdy.mesh<["data"=4, "model"=2]>'
    assert parse_text(program(attribute(stated))).meshes == (DATA_MODEL,)
    two = 'a = #sdy.mesh<["x"=2], device_ids=[1, 0]>, b = #sdy.mesh<["y"=4]>'
    assert parse_text(program(attribute(two))).meshes == (Mesh((("x", 2),), (1, 0)), Mesh((("y", 4),)))


@pytest.mark.parametrize(
    "text",
    [
        "mesh = #sdy.mesh<[]>",
        'mesh = #sdy.mesh<["x"=0]>',
        'mesh = #sdy.mesh<["x"=999999999]>',
        'mesh = #sdy.mesh<["x"=2, y]>',
        'mesh = #sdy.mesh<["x"=2], device_ids=[0, 5]>',
        'mesh = #sdy.mesh<["x"=2], device_ids=[0]>',
        "nonsense",
    ],
)
def test_a_mesh_that_cannot_be_is_left_out(text: str) -> None:
    assert parse_text(program(attribute(text))).meshes == ()


def test_meshes_are_bounded() -> None:
    text = ", ".join(f'm{n} = #sdy.mesh<["x"={n}]>' for n in range(1, 100))
    assert len(parse_text(program(attribute(text))).meshes) == MAX_MESHES


def test_a_huge_mesh_costs_nothing() -> None:
    text = program(groups="mesh['x'=100000000,'y'=100000000] {'x'}")
    (mesh,) = parse_text(text).meshes
    assert axes_of_groups(((0, 1),), (mesh,)) is None
    assert axes_of_pairs(((0, 1),), (mesh,)) is None
