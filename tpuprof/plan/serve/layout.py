"""How a model is split for serving: weights that stay where they are, in one or two dimensions, experts and the cache.

Formulas: scaling book, chapters "Inference" and "Serving LLaMA".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import gcd, prod
from typing import Literal

from tpuprof.hardware.mesh import torus_mesh
from tpuprof.hardware.topology import TORUS_AXES, Slice
from tpuprof.plan.model import Attention, Experts, Layer, ModelConfig

CacheWay = Literal["heads", "batch", "tokens", "copies"]


@dataclass(frozen=True, slots=True)
class ServeLayout:
    """A split over all devices of a slice.

    Weights into a block are ``[D over X, F over Y]``, those out of it ``[F over Y, D over X]``; with X = 1 that is
    tensor parallelism in one dimension.

    Args:
        where: one slice.
        x_axes: axes of the torus (and ``core``) that split the width D.
        x: their size, the ways that the width is split.
        experts: devices over which routed experts are spread; the rest splits each of them.
        cache: what splits the cache where KV heads do not suffice: ``batch``, ``tokens``, or nothing, so that there
            are ``copies``; ``heads`` where they do suffice.
        heads: ways that KV heads split the cache.
    """

    where: Slice
    x_axes: tuple[str, ...] = ()
    x: int = 1
    experts: int = 1
    cache: CacheWay = "heads"
    heads: int = 1

    @property
    def devices(self) -> int:
        """Runtime devices of the slice."""
        return self.where.n_devices

    @property
    def chips(self) -> int:
        """Chips of the slice."""
        return prod(self.where.shape) * self.where.slices

    @property
    def y(self) -> int:
        """Ways that heads and hidden widths are split."""
        return self.devices // self.x

    @property
    def y_axes(self) -> tuple[str, ...]:
        """The other axes."""
        return tuple(axis for axis in torus_mesh(self.where).shape if axis not in self.x_axes)

    @property
    def rest(self) -> int:
        """Devices that share a KV head."""
        return self.devices // self.heads

    @property
    def batch_ways(self) -> int:
        """Ways that sequences split the cache."""
        return self.rest if self.cache == "batch" else 1

    @property
    def token_ways(self) -> int:
        """Ways that tokens of a sequence split the cache."""
        return self.rest if self.cache == "tokens" else 1

    def mesh(self) -> dict[str, int]:
        """The degrees by name."""
        return {
            "width": self.x, "tensor": self.y, "expert": self.experts, "cache_heads": self.heads,
            "cache_batch": self.batch_ways, "cache_tokens": self.token_ways,
            "cache_copies": self.rest if self.cache == "copies" else 1,
        }  # fmt: skip

    def text(self) -> str:
        """In short, without the slice: ``tensor=16 kv=heads8*tokens2``."""
        split = f"tensor={self.y}" if self.x == 1 else f"width={self.x} tensor={self.y}"
        expert = f" expert={self.experts}" if self.experts > 1 else ""
        ways = "" if self.cache == "heads" else f"*{self.cache}{self.rest}"
        return f"{split}{expert} kv=heads{self.heads}{ways}"


def cached_heads(layer: Layer) -> int:
    """KV heads by which the cache can be split; latent attention has one vector for all heads."""
    return layer.attention.kv_heads if isinstance(layer.attention, Attention) else 1


def layouts(model: ModelConfig, where: Slice) -> Iterator[ServeLayout]:
    """All splits over a slice that are worth a look; what `problem` says of each decides."""
    heads = 0
    for layer in model.layer_counts:
        heads = gcd(heads, cached_heads(layer))
    ways = gcd(heads, where.n_devices)
    caches: tuple[CacheWay, ...] = ("heads",) if ways == where.n_devices else ("batch", "tokens", "copies")
    counts = {layer.mlp.count for layer in model.layer_counts if isinstance(layer.mlp, Experts)}
    spread = {1} | {gcd(count, where.n_devices) for count in counts}
    for x_axes, x in _width_splits(where):
        for experts in sorted(spread):
            for cache in caches:
                yield ServeLayout(where, x_axes, x, experts, cache, ways)


def problem(model: ModelConfig, layout: ServeLayout) -> str:
    """Why a model cannot be split so, as a sentence; empty if it can."""
    x, y = layout.x, layout.y
    if layout.where.slices > 1:
        return "A server is one slice; several slices are several servers."
    if model.width % x:
        return f"The width {model.width} does not split {x} ways."
    for layer in model.layer_counts:
        a, mlp = layer.attention, layer.mlp
        if a.heads % y and y % a.heads:
            return f"{a.heads} heads do not split evenly over {y} devices."
        if isinstance(mlp, Experts):
            inside = layout.devices // layout.experts
            if x > 1:
                return "Experts are split by expert and hidden width, not by the model's width."
            if mlp.hidden % inside:
                return f"The hidden width {mlp.hidden} of an expert does not split {inside} ways."
            if mlp.shared_hidden % y:
                return f"The hidden width {mlp.shared_hidden} of the shared experts does not split {y} ways."
        elif mlp.hidden % y:
            return f"The hidden width {mlp.hidden} does not split {y} ways."
    return ""


def _width_splits(where: Slice) -> Iterator[tuple[tuple[str, ...], int]]:
    """Sets of axes that could split the width, with their size; of those that are alike the first."""
    sizes = torus_mesh(where).shape
    closes: dict[str, bool] = dict(zip(TORUS_AXES, where.wrap, strict=False))
    known: set[tuple[tuple[str, int, bool], ...]] = set()
    for count in range(max(1, len(sizes))):
        for part in combinations(sizes, count):
            alike = tuple(
                sorted(("core" if axis == "core" else "torus", sizes[axis], closes.get(axis, False)) for axis in part)
            )
            if alike not in known:
                known.add(alike)
                yield part, prod(sizes[axis] for axis in part)
