"""What a mixture of experts costs beside its matmuls: rows of other experts in a tile, and moving tokens about.

Two implementations are known. Without dropping, tokens are sorted by expert and multiplied by a grouped kernel. With a
fixed capacity per expert, tokens are put into their places, and taken out, by products with masks of zeros and ones.
Sources: MaxText's layers and its grouped matmul kernel (megablox), as read in their repositories.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tpuprof.dtypes import packed_bytes
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.plan.model import Experts, Layer

_SORTED_COPIES = 2
"""Copies of the routed rows that pass through memory beside the gathers: repeated before, weighted and summed after."""
_MASK_PASSES = 4
"""The masks of dispatch and of combination, each written once and read once."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The work of bringing tokens to their experts and back, on one device, once and forward.

    Args:
        gathered: bytes that gathers of rows read and write.
        streamed: bytes that pass through memory in order.
        products: products with masks.
        backward_products: those of their gradients.
    """

    gathered: float
    streamed: float
    products: tuple[Matmul, ...] = ()
    backward_products: tuple[Matmul, ...] = ()


def grouped_rows(rows: int, groups: int, tile: int) -> int:
    """Rows per group that a grouped kernel computes, when groups end anywhere in tiles of so many rows.

    A tile in which a group ends is computed once more for the next group: one tile more per group but the last,
    except where a group happens to end with its tile. Kernels for small groups have small tiles, at best as large as
    a group.

    Args:
        rows: of each group.
        groups: on the device.
        tile: rows of a tile at most.
    """
    edge = min(tile, rows)
    return rows + ceil((edge - 1) * (groups - 1) / groups)


def dispatch(
    layer: Layer, tokens: float, sequence: int, expert: int, capacity: float | None, tensor: int = 1
) -> Dispatch | None:
    """What moving tokens takes; null in a layer without experts.

    Args:
        tokens: of a microbatch, all of a tensor-parallel group together.
        sequence: tokens among which an expert's capacity is counted.
        expert: devices over which experts are split. Tokens are then sorted by device before the exchange, and by
            expert after it.
        capacity: rows of an expert over its even share; null if no token is dropped.
        tensor: devices that each move all rows of the group, because each multiplies all of them.
    """
    mlp = layer.mlp
    if not isinstance(mlp, Experts):
        return None
    routed = packed_bytes("bf16", tokens * mlp.top_k * layer.width)
    if capacity is None:
        gathers = 2 * (1 if expert == 1 else 2)
        return Dispatch(2.0 * gathers * routed, _SORTED_COPIES * routed)
    places = max(1, ceil(sequence * mlp.top_k * capacity))
    rows, width = max(1, ceil(tokens / sequence)), max(1, ceil(layer.width / tensor))
    masks = packed_bytes("bf16", tokens * places / tensor) * _MASK_PASSES
    into, back = Matmul(places, width, sequence, rows), Matmul(sequence, width, places, rows)
    # The mask of dispatch is not learned; that of combination carries the router's weights.
    return Dispatch(0.0, masks, (into, back), (back, into, Matmul(sequence, places, width, rows)))
