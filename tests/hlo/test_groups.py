from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import HloError
from tpuprof.hlo import ReplicaGroups, parse_replica_groups


def test_the_three_forms_of_the_same_groups():
    expected = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
    for text in (
        "{{0,4,8,12},{1,5,9,13},{2,6,10,14},{3,7,11,15}}",
        "[4,4]<=[4,4]T(1,0)",
        "mesh['x'=4,'y'=4] {'x'}",
        "mesh['y'=4,'x'=4], device_ids=([4,4]T(1,0)) {'x'}",
    ):
        groups = parse_replica_groups(text)
        assert str(groups) == text
        assert (groups.num_groups, groups.group_size) == (4, 4)
        assert groups.groups(16) == expected


def test_empty_braces_are_one_group_of_all():
    groups = parse_replica_groups("{}")
    assert groups == ReplicaGroups()
    assert groups.is_all
    assert (groups.num_groups, groups.group_size) == (1, None)
    assert groups.groups(4) == ((0, 1, 2, 3),)
    assert groups.groups(0) == ()


def test_groups_of_different_sizes():
    groups = parse_replica_groups("{{0,1,2},{3}}")
    assert (groups.num_groups, groups.group_size) == (2, 3)
    assert groups.groups(4) == ((0, 1, 2), (3,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'a','b':(1)2}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=2,'b'=4] {'b','a'}", ((0, 4, 1, 5, 2, 6, 3, 7),)),
        ("mesh['a'=2,'b'=2], device_ids=(3,1,0,2) {'b'}", ((3, 1), (0, 2))),
        ("maximal_mesh[device_id=5] {}", ((5,),)),
        ("mesh['a'=4] {}", ((0,), (1,), (2,), (3,))),
    ],
)
def test_known_groups(text: str, expected: tuple[tuple[int, ...], ...]):
    groups = parse_replica_groups(text)
    assert groups.groups(8) == expected
    assert str(groups) == text
    assert (groups.num_groups, groups.group_size) == (len(expected), len(expected[0]))


@pytest.mark.parametrize(
    "text",
    [
        "[2,4]<=[9]",
        "[2,2]<=[2,2]T(0,0)",
        "[2,2]<=[4]T(1,0)",
        "[0,4]<=[0]",
        "mesh['a'=2] {'b'}",
        "mesh['a'=2,'b'=3], device_ids=(0,1) {'a'}",
        "mesh['a'=4] {'a':(1)3}",
        "mesh['a'=4] {'a':(1)4,'a':(2)2}",
        "mesh[a=4] {'a'}",
        "{{0,x}}",
        "nonsense",
        "",
    ],
)
def test_contradictions_are_errors(text: str):
    with pytest.raises(HloError):
        parse_replica_groups(text)


def test_the_error_names_the_forms():
    with pytest.raises(HloError, match=r"none of the forms \{\{0,1\}\}, \[2,4\]<=\[8\], mesh"):
        parse_replica_groups("nonsense")


def test_huge_groups_keep_their_sizes_and_are_not_listed():
    groups = parse_replica_groups("[1000000,1000000]<=[1000000000000]")
    assert (groups.num_groups, groups.group_size) == (1_000_000, 1_000_000)
    with pytest.raises(HloError, match="pass the limit"):
        groups.groups(8)
    with pytest.raises(HloError, match="pass the limit"):
        parse_replica_groups("{}").groups(10**12)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
@settings(max_examples=200, deadline=None)
def test_iota_against_numpy(dims: list[int], data: st.DataObject):
    perm = data.draw(st.permutations(range(len(dims))))
    total = prod(dims)
    rows = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    text = f"[{rows},{total // rows}]<=[{','.join(map(str, dims))}]T({','.join(map(str, perm))})"
    expected = np.arange(total).reshape(dims).transpose(perm).reshape(rows, -1)
    assert parse_replica_groups(text).groups(total) == tuple(map(tuple, expected.tolist()))


@given(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4), st.data())
@settings(max_examples=200, deadline=None)
def test_mesh_against_numpy(sizes: list[int], data: st.DataObject):
    """Whole axes: move the named axes last, in their order; every row is then a group."""
    names = [f"axis_{i}" for i in range(len(sizes))]
    used = data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True))
    devices = data.draw(st.none() | st.permutations(range(prod(sizes))))
    ids = np.arange(prod(sizes)) if devices is None else np.array(devices)
    rest = [axis for axis in range(len(sizes)) if axis not in used]
    width = prod(sizes[axis] for axis in used)
    expected = ids.reshape(sizes).transpose(rest + used).reshape(-1, width)
    mesh = ",".join(f"'{name}'={size}" for name, size in zip(names, sizes, strict=True))
    ordered = "" if devices is None else f", device_ids=({','.join(map(str, devices))})"
    groups = parse_replica_groups(f"mesh[{mesh}]{ordered} {{{','.join(repr(names[a]) for a in used)}}}")
    assert groups.groups(0) == tuple(map(tuple, expected.tolist()))
    assert (groups.num_groups, groups.group_size) == expected.shape


@given(st.sampled_from([(4, 1, 2), (4, 2, 2), (8, 1, 4), (8, 2, 2), (8, 4, 2), (12, 2, 3)]), st.integers(1, 3))
def test_a_part_of_an_axis_against_numpy(part: tuple[int, int, int], other: int):
    size, pre, width = part
    ids = np.arange(size * other).reshape(pre, width, size // (pre * width), other)
    expected = ids.transpose(0, 2, 3, 1).reshape(-1, width)
    groups = parse_replica_groups(f"mesh['a'={size},'b'={other}] {{'a':({pre}){width}}}")
    assert groups.groups(0) == tuple(map(tuple, expected.tolist()))
