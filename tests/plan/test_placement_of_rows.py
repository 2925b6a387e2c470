"""Published FSDP and tensor layouts are placed on the torus as JAX places them, which is how they were measured."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tpuprof.plan.published import PublishedStep, bundled_rows, published_step
from tpuprof.plan.train_layout import AXES
from tpuprof.plan.train_placement import place

FOUND = [made for row in bundled_rows() if isinstance(made := published_step(row), PublishedStep)]
MIXED = {(one.where.shape, one.layout.text()): one for one in FOUND if one.layout.tensor > 1}


@pytest.mark.parametrize("one", MIXED.values(), ids=lambda one: f"{one.where.name}-{one.layout.text()}")
def test_axes_stand_where_jax_puts_them(one: PublishedStep) -> None:
    pytest.importorskip("jax", reason="compares with the meshes of JAX")
    meshes: Any = import_module("jax._src.mesh_utils")
    made = getattr(meshes, "_create_device_mesh_for_nd_torus", None)
    if made is None:
        pytest.skip("this version of JAX makes its meshes otherwise")
    shape = tuple(getattr(one.layout, name) for name in reversed(AXES))  # the axis that talks the most comes last
    mesh, _ = made(np.arange(np.prod(one.where.shape)).reshape(one.where.shape), shape, allow_split_physical_axes=True)
    placed = place(one.layout, one.where)
    for position, name in enumerate(reversed(AXES)):
        if getattr(one.layout, name) > 1:
            # Along one axis of the mesh the coordinates that change are those of the torus axes that it stands on.
            line = np.moveaxis(mesh, position, -1).reshape(-1, shape[position])[0]
            coords = np.array(np.unravel_index(line, one.where.shape))
            counts = [len(set(coords[axis])) for axis in range(len(one.where.shape))]
            ours = [1] * len(one.where.shape)
            for piece in placed[name]:
                ours[piece.axis] *= piece.count
            assert sorted(counts) == sorted(ours), name
