"""What a mixture of experts costs beside its matmuls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.hardware import chip
from tpuprof.plan.model import Attention, Experts, Layer, Mlp
from tpuprof.plan.remat import remat_policy
from tpuprof.plan.train_compute import device_of, layer_time
from tpuprof.plan.train_experts import dispatch, grouped_rows
from tpuprof.plan.train_profile import efficiency

MIXED = Layer(1024, Attention(8, 8, 128), Experts(16, 2, 2048, gated=True))
DENSE = Layer(1024, Attention(8, 8, 128), Mlp(4096, gated=True))
NONE, FULL = remat_policy("everything"), remat_policy("block-inputs")
PROFILE = efficiency("v5p")
DEVICE = device_of(chip("v5p"), "bf16")


def _tiles(sizes: list[int], tile: int) -> int:
    """Tiles that a grouped kernel visits, counted row by row."""
    owners = [group for group, size in enumerate(sizes) for _ in range(size)]
    return sum(len(set(owners[at : at + tile])) for at in range(0, len(owners), tile))


@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32))
def test_a_tile_in_which_groups_meet_is_computed_for_each(groups: int, rows: int, seed: int) -> None:
    # Groups are uneven, so that their borders lie inside tiles: a kernel visits at most one tile more per border.
    sizes = [rows + ((seed >> group) & 1) for group in range(groups)]
    total, tile = sum(sizes), 8
    visited = _tiles(sizes, tile)
    assert -(-total // tile) <= visited <= -(-total // tile) + groups - 1


def test_rows_of_a_group_grow_by_what_borders_cost() -> None:
    assert grouped_rows(1024, 256, 512) == 1024 + 510  # 255/256 of a tile: all groups but the last
    assert grouped_rows(1024, 1, 512) == 1024  # nothing to share a tile with
    assert grouped_rows(8, 4, 512) == 14  # small groups have small tiles
    # The worst case of the tiles of 256 groups of 1024 rows, 511 borders and all.
    assert grouped_rows(1024, 256, 512) * 256 == pytest.approx(512 * (256 * 2 + 255), rel=1e-3)


def test_sorted_tokens_are_gathered_once_each_way() -> None:
    found = dispatch(MIXED, 4096, 1024, 1, None)
    assert found is not None
    routed = 4096 * 2 * 1024 * 2  # tokens, experts each, width, bytes
    assert found.gathered == 2 * 2 * routed  # there and back, read and written
    assert found.streamed == 2 * routed
    assert found.products == ()
    split = dispatch(MIXED, 4096, 1024, 4, None)
    assert split is not None
    assert split.gathered == 2 * found.gathered  # by device before the exchange, and by expert after it
    assert dispatch(DENSE, 4096, 1024, 1, None) is None


def test_places_are_filled_by_products_with_masks() -> None:
    found = dispatch(MIXED, 4096, 1024, 1, 1.25)
    assert found is not None
    assert found.gathered == 0
    # Each of 4 sequences has 1024 * 2 * 1.25 places; a product with a mask joins all tokens with all places.
    each = 2 * 4 * 1024 * 2560 * 1024
    assert [made.flops for made in found.products] == [each, each]
    assert [made.flops for made in found.backward_products] == [each, each, each]


def test_dispatch_is_a_part_of_its_own() -> None:
    made = layer_time(MIXED, DEVICE, PROFILE, 4096, 1024, 1, 1, NONE)
    assert made.dispatch > 0
    assert layer_time(DENSE, DEVICE, PROFILE, 4096, 1024, 1, 1, NONE).dispatch == 0
    fast = layer_time(MIXED, DEVICE, replace(PROFILE, gather=1.0), 4096, 1024, 1, 1, NONE)
    gathered = 2 * 4 * 4096 * 2 * 1024 * 2 / DEVICE.bandwidth  # forward and backward
    assert made.dispatch - fast.dispatch == pytest.approx(gathered * (1 / PROFILE.gather - 1))
    assert made.total == pytest.approx(made.matmuls + made.attention + made.elementwise + made.dispatch)
    # A layer that is computed again moves its tokens again.
    again, again_fast = (
        layer_time(MIXED, DEVICE, profile, 4096, 1024, 1, 1, FULL)
        for profile in (PROFILE, replace(PROFILE, gather=1.0))
    )
    assert again.recompute - again_fast.recompute == pytest.approx(0.5 * gathered * (1 / PROFILE.gather - 1))


def test_tiles_cost_more_where_groups_are_small() -> None:
    for tokens, more in ((65536, 1.1), (4096, 1.9)):
        tiled = layer_time(MIXED, DEVICE, replace(PROFILE, launch_s=0), tokens, 1024, 1, 1, NONE).matmuls
        plain = layer_time(MIXED, DEVICE, replace(PROFILE, launch_s=0, group_tile=1), tokens, 1024, 1, 1, NONE).matmuls
        assert 1 < tiled / plain < more


def test_narrow_types_cost_their_conversion() -> None:
    v7x, profile = chip("tpu7x"), efficiency("tpu7x")
    wide, narrow = (
        layer_time(DENSE, device_of(v7x, dtype), profile, 8192, 1024, 1, 1, NONE) for dtype in ("bf16", "fp8")
    )
    assert narrow.matmuls < 0.6 * wide.matmuls
    # By hand: inputs of q/k/v, of the output, of gate/up and of the last matrix, all weights, gradients of all outputs.
    d, f, tokens = 1024, 4096, 8192
    inputs, weights, outputs = tokens * (d + d + d + f), 4 * d * d + 3 * d * f, tokens * (3 * d + d + 2 * f + d)
    rate = device_of(v7x, "fp8").bandwidth * profile.memory
    assert narrow.elementwise - wide.elementwise == pytest.approx(5 * (inputs + weights + outputs) / rate)
