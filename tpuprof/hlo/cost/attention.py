"""FLOPs of attention kernels, from the shapes of their operands and what their names and metadata say of blocks.

A forward pass multiplies queries by keys and weights by values; a fused backward pass makes five such products. Of
(query block, key block) pairs that no mask touches nothing is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tpuprof.hlo.cost.configs import axes, count, mapping, parsed
from tpuprof.hlo.cost.formulas import CallCost, CustomCall
from tpuprof.hlo.cost.memory import by_space, padded_bytes
from tpuprof.hlo.cost.model import Bound
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.shapes import Shape
from tpuprof.hlo.targets import ATTENTION, KERNEL_TARGETS

# Products per kernel: (those over the size of a key, those over the size of a value).
_FORWARD, _BACKWARD, _DKV, _DQ = (1, 1), (3, 2), (2, 2), (2, 1)
_RPA_BLOCKS = re.compile(r"bq_(\d{1,9})-bkvp_(\d{1,9})-p_(\d{1,9})")
_SEQUENCE_MINOR = 2  # the value of splash attention's QKVLayout for [.., head size, sequence]
_MAX_ROWS = 1 << 16
_MASK_BLOCK = 128  # the smallest block of a mask
_MASKS = {"NO_MASK": False, "PADDING": False, "CAUSAL": True, "PADDING_CAUSAL": True}


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of one kernel: queries x heads x batch, keys per query, and the sizes of a key and a value."""

    rows: int
    queries: int
    keys: int
    key_size: int
    value_size: int
    dtype: str

    def flops(self, products: tuple[int, int]) -> int:
        """FLOPs of so many products over all pairs of a query and a key."""
        return 2 * self.rows * self.keys * (products[0] * self.key_size + products[1] * self.value_size)


def attention_cost(call: CustomCall) -> CallCost | None:
    """The cost of a flash, splash, paged, ragged paged or cuDNN attention; null if it is none or tells too little."""
    text = " ".join(call.names)
    if call.target.startswith("__cudnn$fmha"):
        return _cudnn(call)
    if not KERNEL_TARGETS.match(call.target) or not ATTENTION.search(text):
        return None
    if "paged" in text.lower() or _RPA_BLOCKS.search(text):
        return _paged(call, text)
    return _dense(call, text)


def is_attention(call: CustomCall) -> bool:
    """Whether a call is an attention kernel of a known family, by its target or its names."""
    if call.target.startswith("__cudnn$fmha"):
        return True
    return bool(KERNEL_TARGETS.match(call.target)) and any(ATTENTION.search(name) for name in call.names)


def head_sizes(instruction: Instruction, operands: Iterable[Shape]) -> tuple[int, int] | None:
    """The sizes of a key and of a value of a kernel over whole sequences; null if its operands do not tell."""
    sizes = _query_key_value(tuple(operands), _metadata_of(instruction))
    return None if sizes is None else (sizes.key_size, sizes.value_size)


def _dense(call: CustomCall, text: str) -> CallCost | None:
    """Flash and splash attention over whole sequences."""
    metadata = _kernel_metadata(call)
    sizes = _query_key_value(call.operands, metadata)
    if sizes is None:
        return None
    splash = "splash" in text.lower()
    products, blocks = _pass(call, text, metadata)
    share, note, bound = _share(call, sizes, blocks, splash=splash)
    flops = sizes.flops(products) * share
    return CallCost(
        matmul_flops=int(flops) if flops == int(flops) else flops,
        dtype=sizes.dtype,
        transcendentals=int(sizes.rows * sizes.keys * share),
        note=note,
        family="splash_attention" if splash else "flash_attention",
        bound=bound,
    )


def _pass(
    call: CustomCall, text: str, metadata: Mapping[str, Any]
) -> tuple[tuple[int, int], tuple[int | None, int | None]]:
    """The products that the kernel makes, and the sizes of its query and key blocks."""
    lowered = text.lower()
    if "dkv" in lowered:
        # A kernel that makes dQ too returns it in parts, one per block of keys, in a dimension of their own.
        ranks = [len(shape.dims) for shape in call.operands if _is_float(shape)]
        parts = any(_is_float(shape) and len(shape.dims) > max(ranks, default=0) for shape in call.results)
        products = _BACKWARD if parts else _DKV
        return products, (_block(metadata, "block_q_dkv"), _block(metadata, "block_kv_dkv"))
    if re.search(r"[_-]dq(?![a-z])", lowered):
        return _DQ, (_block(metadata, "block_q_dq"), _block(metadata, "block_kv_dq"))
    if "bwd" in lowered or "backward" in lowered:
        return _BACKWARD, (_block(metadata, "block_q_dkv"), _block(metadata, "block_kv_dkv"))
    return _FORWARD, (_block(metadata, "block_q"), _block(metadata, "block_kv"))


def _share(
    call: CustomCall, sizes: _Sizes, blocks: tuple[int | None, int | None], *, splash: bool
) -> tuple[float, str, Bound]:
    """The share of block pairs that are computed, and how it is known."""
    if not splash:
        return 1.0, "All pairs of queries and keys are counted; a causal mask would halve them.", "upper"
    if not blocks[0] or not blocks[1]:
        return 1.0, "The block sizes are not recorded: all pairs are counted.", "upper"
    rows, columns = -(-sizes.queries // blocks[0]), -(-sizes.keys // blocks[1])
    what = f"of {rows * columns} blocks of {blocks[0]} x {blocks[1]}"
    listed = _listed_blocks(call, rows * columns)
    backward = not _is_forward(call)
    if listed is not None and (listed < rows * columns or not backward):
        return listed / (rows * columns), f"{listed} {what} are active, by the kernel's own list.", "exact"
    marked = _marked_blocks(call, rows * columns)
    if marked is not None:
        return marked / (rows * columns), f"{marked:g} {what} are active, by the kernel's constants.", "exact"
    # A backward kernel is given all blocks, and skips by their marks; the mask is that of the forward kernel.
    forward = _forward_share(call, sizes) if backward else None
    if (forward is not None and forward[0] == 1) or not _has_mask(call, sizes):
        return 1.0, f"All {what} are active: there is no mask.", "exact"
    if forward is not None and forward[0] != forward[1]:
        return forward[0], "The share of active blocks is that of the forward kernel.", "exact"
    if sizes.queries != sizes.keys or rows > _MAX_ROWS:
        return 1.0, f"The mask is not known: all {what} are counted.", "upper"
    causal = _causal_blocks(sizes, blocks[0], blocks[1])
    note = f"{causal} {what} are active under a causal mask, "
    if forward is not None:
        return causal / (rows * columns), note + "as in the forward kernel.", "exact"
    return causal / (rows * columns), note + "which is assumed.", "upper"


def _causal_blocks(sizes: _Sizes, queries: int, keys: int) -> int:
    """Blocks that a causal mask leaves something of."""
    rows, columns = -(-sizes.queries // queries), -(-sizes.keys // keys)
    return sum(min(columns, -(-min(sizes.queries, (row + 1) * queries) // keys)) for row in range(rows))


def _forward_share(call: CustomCall, sizes: _Sizes) -> tuple[float, float] | None:
    """The share of active blocks of the forward kernel of the same sizes, and what a causal mask would give it."""
    for peer in call.peers.values():
        if not _is_forward(peer) or "splash" not in " ".join(peer.names).lower():
            continue
        metadata = _kernel_metadata(peer)
        queries, keys = _block(metadata, "block_q"), _block(metadata, "block_kv")
        same = _query_key_value(peer.operands, metadata)
        if same != sizes or not queries or not keys or sizes.queries > queries * _MAX_ROWS:
            continue
        total = -(-sizes.queries // queries) * -(-sizes.keys // keys)
        listed = _listed_blocks(peer, total)
        if listed is not None:
            return listed / total, _causal_blocks(sizes, queries, keys) / total
    return None


def _is_forward(call: CustomCall) -> bool:
    return re.search(r"dkv|[_-]dq(?![a-z])|bwd|backward", " ".join(call.names).lower()) is None


def _has_mask(call: CustomCall, sizes: _Sizes) -> bool:
    """Whether a splash kernel is given a mask: the positions of the queries to compute one, or parts of one."""
    operands = [shape for shape in call.operands if shape.is_array and not _is_float(shape)]
    positions = any(shape.dtype == "s32" and len(shape.dims) == 2 and sizes.queries in shape.dims for shape in operands)
    parts = any(len(shape.dims) == 3 and min(shape.dims[1:]) >= _MASK_BLOCK for shape in operands)
    return positions or parts


def _marked_blocks(call: CustomCall, total: int) -> float | None:
    """Active blocks per head by the marks that older splash kernels are given as a constant; null if it is not known.

    The kernels are given two arrays [heads, query blocks, key blocks]: which block to load next, and which to skip (0).
    """
    constants = call.constants or (None,) * len(call.operands)
    grids = [
        (shape, values)
        for shape, values in zip(call.operands, constants, strict=True)
        if shape.dtype in ("s8", "s16", "s32") and len(shape.dims) == 3 and 0 < shape.dims[1] * shape.dims[2] <= total
    ]
    if len(grids) < 2:
        return None
    shape, values = grids[1]
    return None if values is None or not shape.dims[0] else sum(value != 0 for value in values) / shape.dims[0]


def _listed_blocks(call: CustomCall, total: int) -> int | None:
    """The length of the list of active blocks that newer splash kernels are given; null if there is none."""
    lengths = [shape.dims[0] for shape in call.operands if shape.dtype == "s8" and len(shape.dims) == 1]
    return max((length for length in lengths if 0 < length <= total), default=None)


def _paged(call: CustomCall, text: str) -> CallCost | None:
    """Attention over a cache in pages. How long each sequence is stands in the data, not in the shapes."""
    queries = next((shape for shape in call.operands if _is_float(shape) and len(shape.dims) >= 3), None)
    if queries is None or queries.elements is None:
        return None
    ragged = "ragged" in text.lower() or _RPA_BLOCKS.search(text) is not None
    # The cache is the largest operand; how much of it is read depends on the data. All else is read as a whole.
    floats = [shape for shape in call.operands if _is_float(shape)]
    cache = max(floats, key=lambda shape: shape.elements or 0)
    others = [shape for shape in call.operands if shape is not cache]
    result = call.results[:1]
    read = by_space((shape, padded_bytes(shape)) for shape in others)
    written = by_space((shape, padded_bytes(shape)) for shape in result)
    blocks = _RPA_BLOCKS.search(text)
    if blocks is not None:
        keys = int(blocks[2]) * int(blocks[3])
        note = f"One block of {keys} keys per block of {blocks[1]} queries is counted; longer sequences have more."
        bound: Bound = "lower"
    else:
        keys = _table_keys(call, cache)
        note = f"Every sequence is taken to fill its page table, {keys} keys."
        bound = "upper"
        if not keys or ragged:
            return None
    return CallCost(
        matmul_flops=4 * queries.elements * keys, dtype=queries.dtype, bytes_read=read, bytes_written=written,
        note=note + " Bytes are without the cache.", family="ragged_paged_attention" if ragged else "paged_attention",
        bound=bound,
    )  # fmt: skip


def _table_keys(call: CustomCall, cache: Shape) -> int:
    """Keys per sequence by the page table: pages per sequence x size of a page."""
    if len(cache.dims) < 3:
        return 0
    tables = [shape for shape in call.operands if shape.dtype == "s32" and len(shape.dims) == 2]
    if len(tables) == 1:
        return tables[0].dims[1] * cache.dims[-2]
    # The table may be flat: the lengths of the sequences come first, one each.
    flat = [shape.dims[0] for shape in call.operands if shape.dtype == "s32" and len(shape.dims) == 1]
    if tables or not flat or flat[0] < 1 or max(flat) % flat[0]:
        return 0
    return max(flat) // flat[0] * cache.dims[-2] if max(flat) > flat[0] else 0


def _cudnn(call: CustomCall) -> CallCost | None:
    """cuDNN's fused attention, whose configuration names mask and dimensions."""
    config = call.instruction.backend_config_json
    inner = mapping(mapping(config).get("cudnn_fmha_backend_config"))
    first = mapping(inner.get("bmm1_dot_dimension_numbers"))
    arrays = [shape for shape in call.operands if _is_float(shape) and len(shape.dims) == 4]
    if len(arrays) < 3:
        return None
    query, key, value = arrays[:3]
    batch = axes(first.get("lhs_batch_dimensions"))
    contracting = axes(first.get("lhs_contracting_dimensions"))
    if len(batch) != 2 or len(contracting) != 1 or max(batch + contracting) > 3:
        batch, contracting = [0, 2], [3]  # [batch, sequence, heads, size], as JAX lays them out
    (axis,) = [each for each in range(4) if each not in batch and each not in contracting] or [1]
    sizes = _Sizes(
        prod(size for at, size in enumerate(query.dims) if at not in contracting), query.dims[axis], key.dims[axis],
        query.dims[contracting[0]], value.dims[contracting[0]], query.dtype,
    )  # fmt: skip
    mask = str(inner.get("mask_type", ""))
    window = count(inner.get("sliding_window_length")) or 0
    share, note = 1.0, "All pairs of queries and keys are counted."
    if _MASKS.get(mask, False):
        share, note = 0.5, "The causal half of the pairs is counted."
        if 0 < window < sizes.keys:
            share, note = min(0.5, window / sizes.keys), f"A causal window of {window} keys is counted."
    backward = "backward" in call.target.lower()
    flops = sizes.flops(_BACKWARD if backward else _FORWARD) * share
    return CallCost(
        matmul_flops=flops, dtype=query.dtype, transcendentals=int(sizes.rows * sizes.keys * share), note=note,
        family="cudnn_attention",
    )  # fmt: skip


def _query_key_value(operands: tuple[Shape, ...], metadata: Mapping[str, Any]) -> _Sizes | None:
    arrays = [shape for shape in operands if _is_float(shape) and len(shape.dims) >= 2]
    if len(arrays) < 3 or any(shape.elements is None for shape in arrays[:3]):
        return None
    dims = [list(shape.dims) for shape in arrays[:3]]
    for each, key in zip(dims, ("q_layout", "k_layout", "v_layout"), strict=True):
        if metadata.get(key) == _SEQUENCE_MINOR:
            each[-2:] = each[:-3:-1]
    query, key, value = dims
    if query[-1] != key[-1] or key[-2] != value[-2]:
        return None
    return _Sizes(prod(query[:-1]), query[-2], key[-2], key[-1], value[-1], arrays[0].dtype)


def _kernel_metadata(call: CustomCall) -> Mapping[str, Any]:
    return _metadata_of(call.instruction)


def _metadata_of(instruction: Instruction) -> Mapping[str, Any]:
    """Splash attention's block sizes: JSON in a text in the JSON of a frontend attribute."""
    outer = parsed(instruction.frontend_attributes.get("kernel_metadata", ""))
    return parsed(outer.get("xprof_metadata", ""))


def _block(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and 0 < value < 1 << 31 else None


def _is_float(shape: Shape) -> bool:
    return shape.is_array and shape.dtype.startswith(("bf", "f"))
