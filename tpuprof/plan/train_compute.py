"""How long a device computes on its share of one layer: matmuls with padding, attention, elementwise work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.hardware import Chip, matmul_peak
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.plan.matmuls import LayerMatmul, layer_matmuls
from tpuprof.plan.model import Attention, Experts, Layer
from tpuprof.plan.remat import RematPolicy, recomputed
from tpuprof.plan.train_experts import Dispatch, dispatch, grouped_rows
from tpuprof.plan.train_profile import Efficiency

_SPLIT_ROWS = frozenset({"attention_out", "mlp_out", "shared_mlp_out"})
"""Matmuls whose contracted dimension tensor parallelism splits; it splits the output of the others."""
_WHOLE = frozenset({"query_latent", "kv_latent", "router"})
"""Small ones that every device of a tensor-parallel group does for its share of the tokens."""
_SAME_INPUT = frozenset({"value", "kv_latent", "up", "shared_up"})
"""Matmuls that read what the one before them reads, so that its conversion to a narrow type serves both."""
ATTENTION_BACKWARD = 2.5
"""Operations of a fused attention kernel's backward pass over those of its forward pass: five products, not two."""


NARROW = frozenset({"fp8", "int8"})
"""Types that activations are converted to before a matmul."""


@dataclass(frozen=True, slots=True)
class Device:
    """What one runtime device can do, as far as computation goes.

    Args:
        chip: its chip.
        dtype: of the matmuls of weights; attention is computed in bf16.
        peak: for that type, FLOP/s.
        attention_peak: for bf16, FLOP/s.
        bandwidth: of main memory, B/s.
        mxu: edge of a matrix unit.
    """

    chip: str
    dtype: str
    peak: float
    attention_peak: float
    bandwidth: float
    mxu: int


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Seconds of one layer, forward and backward, the latter with what is computed again.

    Args:
        matmuls: forward and backward.
        attention: kernels, forward and backward.
        elementwise: forward and backward, conversion to narrow types included.
        recompute: what of all of these is done a second time; beside the others.
        forward: of the first pass alone, everything together.
        dispatch: of tokens to experts and back, forward and backward.
    """

    matmuls: float
    attention: float
    elementwise: float
    recompute: float
    forward: float
    dispatch: float = 0.0

    @property
    def total(self) -> float:
        """Of everything."""
        return self.matmuls + self.attention + self.elementwise + self.recompute + self.dispatch


@lru_cache(maxsize=64)
def device_of(chip: Chip, dtype: str) -> Device:
    """The rates of a device.

    Raises:
        UsageError: one of them is not known.
    """
    named = {"fp8": "f8e4m3fn", "int8": "s8"}.get(dtype, dtype)
    found, plain = matmul_peak(chip, named), matmul_peak(chip, "bf16")
    if found.device is None or plain.device is None:
        reason = found.reason if found.device is None else plain.reason
        raise UsageError(f"{chip.name} has no known peak for {dtype}.", why=reason,
                         hint="Give another --dtype, or figures with --hardware FILE.")  # fmt: skip
    bandwidth = chip.device_hbm_bandwidth
    if bandwidth is None or chip.mxu_size is None:
        raise UsageError(f"The memory bandwidth or the matrix unit of {chip.name} is not known.",
                         hint="Training plans are for TPUs whose figures are known: tpuprof hardware.")  # fmt: skip
    return Device(chip.name, dtype, found.device.value, plain.device.value, bandwidth.value, chip.mxu_size)


@lru_cache(maxsize=8192)
def layer_time(
    layer: Layer, device: Device, profile: Efficiency, tokens: float, sequence: int, tensor: int, expert: int,
    policy: RematPolicy, capacity: float | None = None,
) -> LayerTime:  # fmt: skip
    """Time of one layer on one device for so many tokens of its own.

    Args:
        tokens: of a microbatch on each device, all of them for a tensor-parallel group together.
        sequence: keys that a causal query of the end of a sequence sees; fewer with a window.
        tensor: degree of tensor parallelism.
        expert: devices over which routed experts are split.
        capacity: rows of an expert over its even share, where there are so many places and the rest is dropped; null
            if experts take whatever comes.
    """
    again = recomputed(layer, policy)
    forward = backward = repeated = narrowed = widened = 0.0
    for output, part in _shares(layer, tokens, sequence, tensor, expert, capacity, profile.group_tile):
        once = _matmul_time(part, device, profile)
        forward += once
        into, out = _conversion_times(layer, output, part, device, profile)
        narrowed += into
        widened += out
        repeated += into if output in again else 0.0
        # The gradient of the input and that of the weight: as many operations each, on other shapes.
        backward += _matmul_time(Matmul(part.m, part.k, part.n, part.batch), device, profile)
        backward += _matmul_time(Matmul(part.k, part.n, part.m, part.batch), device, profile)
        repeated += once if output in again else 0.0
    kernel = _attention_time(layer, device, profile, tokens, sequence, tensor)
    loops = _elementwise_time(layer, device, profile, tokens, tensor)
    backward_loops = loops * profile.factor("backward")
    share = _recomputed_share(layer, again)
    repeated += (kernel if "context" in again else 0.0) + loops * share
    there, back = _dispatch_times(dispatch(layer, tokens, sequence, expert, capacity, tensor), device, profile)
    repeated += there if "dispatched" in again else 0.0
    return LayerTime(
        forward + backward, kernel * (1 + ATTENTION_BACKWARD), loops + backward_loops + narrowed + widened, repeated,
        forward + kernel + loops + narrowed + there, there + back,
    )  # fmt: skip


def head_time(width: int, vocab: int, device: Device, profile: Efficiency, tokens: float, tensor: int) -> float:
    """Seconds of the output matmul and of the loss, forward and backward.

    The vocabulary is split over tensor parallelism; logits of 32 bits are written and read twice.
    """
    rows, columns = max(1, ceil(tokens)), max(1, ceil(vocab / tensor))
    shapes = (Matmul(rows, columns, width), Matmul(rows, width, columns), Matmul(width, columns, rows))
    work = sum(_matmul_time(shape, device, profile) for shape in shapes)
    return work + 4 * packed_bytes("f32", rows * columns) / (device.bandwidth * profile.memory)


@lru_cache(maxsize=1024)
def kernel_pairs(sequence: int, window: int | None, block: int, blocks: int) -> float:
    """Keys per query that a fused causal kernel computes: all of each block that the mask does not cover whole.

    Args:
        window: keys that a query sees.
        block: rows and columns of a block, at most.
        blocks: that a shorter sequence is cut into.
    """
    edge = min(block, max(1, ceil(sequence / blocks)))
    rows = ceil(sequence / edge)
    # The first query of a row of blocks sees window - 1 keys before itself, which lie in so many blocks before its own.
    before = rows if window is None else ceil((min(window, sequence) - 1) / edge)
    touched = sum(min(row, before) + 1 for row in range(rows))
    return min(float(sequence), touched * edge * edge / sequence)


def _shares(
    layer: Layer, tokens: float, sequence: int, tensor: int, expert: int, capacity: float | None, tile: int
) -> Iterator[tuple[str, Matmul]]:
    """The matmuls of weights, as one device does them."""
    rows = max(1, ceil(tokens))
    for found in layer_matmuls(layer, 1, max(sequence, 1)):
        if not found.weights:
            continue
        yield found.output, _share(found, layer, rows, tensor, expert, capacity, tile)


def _share(
    found: LayerMatmul, layer: Layer, rows: int, tensor: int, expert: int, capacity: float | None, tile: int
) -> Matmul:
    whole = found.matmul
    n, k, batch, m = whole.n, whole.k, 1, rows
    mlp = layer.mlp
    if found.part == "experts" and isinstance(mlp, Experts):
        batch = max(1, mlp.count // expert)
        m = max(1, ceil(rows * mlp.top_k * (capacity or 1.0) / batch))
        m = grouped_rows(m, batch, tile) if capacity is None else m
    if found.output in _WHOLE:
        m = max(1, ceil(rows / tensor))
    elif found.output in _SPLIT_ROWS:
        k = max(1, ceil(k / tensor))
    else:
        ways = tensor
        if found.output in ("key", "value") and isinstance(layer.attention, Attention):
            ways = min(tensor, layer.attention.kv_heads)
        n = max(1, ceil(n / ways))
    return Matmul(m, n, k, batch)


def _matmul_time(shape: Matmul, device: Device, profile: Efficiency) -> float:
    compute = shape.padded_flops(device.mxu) / (device.peak * profile.matmul)
    memory = shape.bytes / (device.bandwidth * profile.memory)
    return profile.launch_s + max(compute, memory)


def _attention_time(
    layer: Layer, device: Device, profile: Efficiency, tokens: float, sequence: int, tensor: int
) -> float:
    a = layer.attention
    dims = (a.head_dim, a.head_dim) if isinstance(a, Attention) else (a.query_dim, a.value_dim)
    pairs = kernel_pairs(sequence, a.window, profile.attention_block, profile.attention_blocks)
    # Heads that do not fill the matrix unit leave a part of it idle in both products.
    padded = sum(ceil(dim / device.mxu) * device.mxu for dim in dims)
    flops = 2 * tokens * pairs * padded * a.heads / tensor
    return profile.launch_s + flops / (device.attention_peak * profile.attention)


def _elementwise_time(layer: Layer, device: Device, profile: Efficiency, tokens: float, tensor: int) -> float:
    a, mlp = layer.attention, layer.mlp
    heads = (a.heads + a.kv_heads) * a.head_dim if isinstance(a, Attention) else 2 * a.heads * a.query_dim
    hidden = float(mlp.hidden)
    width = profile.factor("width") * layer.width
    if isinstance(mlp, Experts):
        hidden = mlp.top_k * mlp.hidden + mlp.shared_hidden
    elements = width + profile.factor("heads") * heads + profile.factor("hidden") * hidden
    return packed_bytes("bf16", tokens * elements) / tensor / (device.bandwidth * profile.memory)


def _conversion_times(
    layer: Layer, output: str, shape: Matmul, device: Device, profile: Efficiency
) -> tuple[float, float]:
    """Seconds that operands of a forward matmul, and the gradient of its output, take to become narrow."""
    if device.dtype not in NARROW or output == "router":
        return 0.0, 0.0
    shared = output in _SAME_INPUT or (output == "key" and isinstance(layer.attention, Attention))
    shared = shared and not (output.endswith("up") and not layer.mlp.gated)
    inputs = shape.n * shape.k + (0 if shared else shape.m * shape.k)
    rate = device.bandwidth * profile.memory / profile.factor("narrow_bytes")
    return inputs * shape.batch / rate, shape.m * shape.n * shape.batch / rate


def _dispatch_times(found: Dispatch | None, device: Device, profile: Efficiency) -> tuple[float, float]:
    """Seconds forward and backward."""
    if found is None:
        return 0.0, 0.0
    moving = found.gathered / (device.bandwidth * profile.gather)
    streaming = found.streamed / (device.bandwidth * profile.memory)
    products, backward = (
        sum(_matmul_time(shape, device, profile) for shape in shapes)
        for shapes in (found.products, found.backward_products)
    )
    return moving + streaming + products, moving + streaming * profile.factor("backward") + backward


def _recomputed_share(layer: Layer, again: frozenset[str]) -> float:
    """How much of the elementwise work is done again: all of it if the block starts from its input."""
    if not again:
        return 0.0
    return 1.0 if {"query", "attention_norm"} <= again else 0.5
