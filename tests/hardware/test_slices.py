"""Names of slices: what they mean, which shapes exist, and why others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import chip
from tpuprof.hardware.slices import default_shape, job_limit, make_slice, parse_slice, shape_problem, twistable


@pytest.mark.parametrize(
    ("text", "name", "chips", "devices", "hosts"),
    [
        ("v4-8", "v4:2x2x1", 4, 4, 1),
        ("v4-64", "v4:2x4x4", 32, 32, 8),
        ("v4-512", "v4:4x8x8", 256, 256, 64),
        ("v3-8", "v3:2x2", 4, 8, 1),
        ("v3-2048", "v3:32x32", 1024, 2048, 256),
        ("v2-512", "v2:16x16", 256, 512, 64),
        ("v5e-8", "v5e:2x4", 8, 8, 1),
        ("v5litepod-16", "v5e:4x4", 16, 16, 2),
        ("v5e:4x2", "v5e:4x2", 8, 8, 1),
        ("v6e-256", "v6e:16x16", 256, 256, 32),
        ("v6e-1", "v6e:1x1", 1, 1, 1),
        ("TPU v6 lite:2x4", "v6e:2x4", 8, 8, 1),
        ("v5p-12288", "v5p:16x16x24", 6144, 6144, 1536),
        ("v5p-1152", "v5p:4x12x12", 576, 576, 144),
        ("v5p:2x4", "v5p:2x4x1", 8, 8, 2),
        ("V5P:4X4X8_TWISTED", "v5p:4x4x8_twisted", 128, 128, 32),
        ("v5p:4x4x8_untwisted", "v5p:4x4x8", 128, 128, 32),
        ("v5e=4x4x1", "v5e:4x4", 16, 16, 2),
        ("tpu7x-128", "tpu7x:4x4x4", 64, 128, 16),
        ("tpu7x:1x1x1", "tpu7x:1x1x1", 1, 2, 1),
        ("tpu7x:4x4x576", "tpu7x:4x4x576", 9216, 18432, 2304),
        ("2*v5p:8x8x8", "2*v5p:8x8x8", 1024, 1024, 256),
        (" 3 × v5e-16 ", "3*v5e:4x4", 48, 48, 6),
    ],
)
def test_a_name_means_a_slice(text: str, name: str, chips: int, devices: int, hosts: int) -> None:
    where = parse_slice(text)
    assert (where.name, where.n_chips, where.n_devices, where.n_hosts) == (name, chips, devices, hosts)
    assert parse_slice(where.name) == where


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v5e", "'v5e' names no slice. Write CHIP:SHAPE"),
        ("", "names no slice"),
        ("v5e:4x", "names no slice"),
        ("v5e:-4x4", "names no slice"),
        ("v5e:8", "gives one number as a shape. v5e slices have 2 axes. Write v5e-8"),
        ("v5e:3x3", "v5e has no slice of shape 3x3. Hosts hold blocks of 2x2 chips"),
        ("v5e:6x6", "Axes are 2, 4, 8 or 16 long"),
        ("v5e:32x32", "The pod is 16x16 chips; larger systems are several slices."),
        ("v5e:2x2x2", "Its torus has 2 axes, not 3. 8 chips are usually 2x4."),
        ("v5e:0x4", "Every axis has at least one chip."),
        ("v5e-12", "v5e has no slice of 12 chips. No shape of so many chips is built. Slices nearby have 8 and 16"),
        ("v5e-0", "v5e has no slice of 0 chips"),
        ("v5e-99999999", "v5e has no slice of 99999999 chips"),
        ("v5p:2x2x8", "A slice that does not fit into one cube of 4x4x4 chips is made of whole cubes. 32 chips are"),
        ("v5p:2x2x3", "Inside a cube of 4x4x4 chips the axes are 1, 2 or 4 long."),
        ("v4:64x64x64", "The pod has 4096 chips, this would be 262144."),
        ("v4-7", "v4-N counts TensorCores, 2 per chip."),
        ("tpu8i-8", "No document says whether tpu8i-N counts chips or TensorCores."),
        ("H100:8", "H100-SXM is not joined to others by a torus of links."),
        ("v9:2x2", "There is no chip 'v9'"),
        ("0*v5e:2x2", "asks for 0 slices"),
        ("v5e:4x4_twisted", "4x4 cannot be twisted"),
    ],
)
def test_a_slice_that_cannot_be_had_says_why(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_slice(text)
    assert words in str(caught.value)


@given(st.text(max_size=20))
def test_any_text_is_a_slice_or_a_usage_error(text: str) -> None:
    try:
        where = parse_slice(text)
    except UsageError:
        return
    assert parse_slice(where.name) == where


@given(st.sampled_from(["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"]), st.integers(0, 12))
def test_the_default_shape_has_the_chips_and_exists(name: str, power: int) -> None:
    found = chip(name)
    try:
        shape = default_shape(found, 2**power)
    except UsageError:
        assert power == 1 or 2**power > (found.pod_chips or 0)
        return
    where = make_slice(found, shape)
    assert where.n_chips == 2**power
    assert shape_problem(found, shape) == ""
    smaller = [edge for edge in where.shape if edge > 1]
    assert smaller == sorted(smaller)


def test_a_pod_is_larger_than_what_one_job_gets() -> None:
    assert "One job gets at most 6144 chips (16x16x24)" in job_limit(parse_slice("v5p:16x20x28"))
    assert job_limit(parse_slice("v5p:16x16x24")) == ""
    assert job_limit(parse_slice("v5e:16x16")) == ""


def test_which_shapes_are_offered_twisted() -> None:
    assert twistable(parse_slice("v5p:8x16x16"))
    assert not twistable(parse_slice("v5p:8x8x8"))


def test_a_gpu_has_no_shape_of_a_slice() -> None:
    with pytest.raises(UsageError, match="H100-SXM has no torus of links"):
        default_shape(chip("H100-SXM"), 8)
