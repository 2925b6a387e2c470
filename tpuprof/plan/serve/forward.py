"""How long one pass of a model takes on a layout: decode tokens, chunks of prompts, or both at once.

Matmuls are costed one by one on the shapes that a device holds, padded to its matrix unit; the cache is read once per
step; collectives are on the critical path, since a step of decode has nothing to hide them behind.
Formulas: scaling book, chapters "Inference" and "Serving LLaMA".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from math import ceil

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.perfmodel.rates import Rates
from tpuprof.plan.cache import kv_bytes_per_token
from tpuprof.plan.matmuls import LayerMatmul, attention_pairs, decode_matmuls, head_matmul
from tpuprof.plan.model import Attention, Experts, Layer, ModelConfig
from tpuprof.plan.serve.communication import cache_moves, experts_moves, layer_moves
from tpuprof.plan.serve.engine import computed_keys, dispatch_seconds, loop_seconds
from tpuprof.plan.serve.layout import ServeLayout
from tpuprof.plan.serve.links import Links
from tpuprof.plan.serve.setup import EXPECTED, Assumptions, Types
from tpuprof.plan.serving_model import reached_experts
from tpuprof.plan.train_experts import grouped_rows

MOST_PIECES = 10_000
"""Pieces of a prompt at most."""
_REPLICATED = ("query_latent", "kv_latent", "router")


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of a pass by what bounds them; they add up to the time of the pass.

    Args:
        weights: matmuls that wait for weights.
        arithmetic: matmuls that wait for the matrix unit.
        cache: attention of decode tokens.
        scores: attention of prompts.
        collectives: on the links between chips.
        overhead: what a step costs besides.
        loops: element-wise work, and tokens on their way to experts and back.
    """

    weights: float = 0.0
    arithmetic: float = 0.0
    cache: float = 0.0
    scores: float = 0.0
    collectives: float = 0.0
    overhead: float = 0.0
    loops: float = 0.0

    @property
    def total(self) -> float:
        """The time of the pass."""
        return sum(getattr(self, f.name) for f in fields(self))

    @property
    def bound_by(self) -> str:
        """The largest part."""
        return max(self.to_json(), key=lambda name: getattr(self, name))

    def __add__(self, other: Parts) -> Parts:
        return Parts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, factor: float) -> Parts:
        """Each part so many times."""
        return Parts(*(getattr(self, f.name) * factor for f in fields(self)))

    def to_json(self) -> dict[str, float]:
        """By name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class MatmulShare:
    """A matmul with weights on one device: its shape there and the two times, of which the longer counts."""

    output: str
    matmul: Matmul
    t_weights_s: float
    t_arithmetic_s: float


@dataclass(frozen=True, slots=True)
class ForwardModel:
    """The times of passes of a model on a layout.

    Args:
        rates: of one runtime device.
        links: the collectives of the layout.
        counts: the different layers with how many there are of each.
    """

    model: ModelConfig
    layout: ServeLayout
    types: Types
    rates: Rates
    assumed: Assumptions = EXPECTED
    _linear: dict[tuple[int, int], Parts] = field(default_factory=dict[tuple[int, int], Parts], compare=False)
    links: Links = field(init=False, compare=False)
    counts: dict[Layer, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up once, since a search asks for thousands of passes.
        object.__setattr__(self, "links", Links(self.layout, self.assumed.bound_links))
        object.__setattr__(self, "counts", self.model.layer_counts)

    @property
    def peak(self) -> float:
        """Operations per second of a device that the assumptions leave.

        Raises:
            UsageError: the rate for these types is not known.
        """
        kind = Matmul(1, 1, 1, 1, self.types.activations, self.types.weights).compute_dtype
        return self.rates.need_peak(kind).number() * self.assumed.compute

    @property
    def bandwidth(self) -> float:
        """Bytes per second of a device's memory that the assumptions leave.

        Raises:
            UsageError: the bandwidth is not known.
        """
        return self.rates.need_link("hbm").number() * self.assumed.memory

    def decode(self, batch: int, context: int) -> Parts:
        """A step that makes one token for each of so many sequences, whose caches hold this many tokens each.

        Raises:
            UsageError: a number is below 1, or a rate is not known.
        """
        if batch < 1 or context < 1:
            raise UsageError(
                f"A step of {batch} sequences of {context} tokens is none.", hint="Give 1 or more of each."
            )
        return self.linear(batch, batch) + self.decode_attention(batch, context) + self.overhead

    def prefill(self, tokens: int, keys: int | None = None) -> Parts:
        """A pass over a chunk of one prompt, which sees so many keys, its own included.

        Raises:
            UsageError: a number is out of range, or a rate is not known.
        """
        keys = tokens if keys is None else keys
        return self.linear(tokens, 1) + self.prompt_attention(tokens, keys) + self.overhead

    def prompt(self, tokens: int, chunk: int) -> Parts:
        """All passes over one prompt that is cut into chunks.

        Raises:
            UsageError: a number is below 1, or a rate is not known.
        """
        if tokens > MOST_PIECES * chunk:
            raise UsageError(
                f"A prompt of {tokens:,} tokens would go in pieces of {chunk}, more than {MOST_PIECES:,} of them.",
                hint="Give a larger token budget.",
            )
        whole = Parts()
        for start in range(0, tokens, chunk):
            size = min(chunk, tokens - start)
            whole += self.prefill(size, start + size)
        return whole

    @property
    def overhead(self) -> Parts:
        """What every pass costs besides."""
        return Parts(overhead=self.assumed.overhead_s)

    def linear(self, tokens: int, sampled: int) -> Parts:
        """The matmuls with weights for so many tokens, of which so many get logits, and the collectives around them."""
        found = self._linear.get((tokens, sampled))
        if found is not None:
            return found
        whole = Parts()
        for layer, count in self.counts.items():
            one = Parts()
            for share in self.shares(layer, tokens):
                one += self._parts(share)
            moved = layer_moves(self.links, layer, tokens, self.types)
            moved += experts_moves(self.links, layer, tokens, self.types)
            exposed = moved - min(self.assumed.overlap * moved, one.total)
            whole += replace(one, collectives=exposed, loops=self._loop_time(layer, tokens)).times(count)
        whole += self._parts(self.head_share(sampled))
        embedding = tokens * packed_bytes(self.types.activations, self.model.width)
        whole += Parts(collectives=self.links.seconds("all_reduce", "all", embedding))
        self._linear[tokens, sampled] = whole
        return whole

    def decode_attention(self, batch: int, context: int) -> Parts:
        """Reading the caches of so many sequences, and the collectives that a split by sequences or tokens needs."""
        whole = Parts()
        for layer, count in self.counts.items():
            moved = cache_moves(self.links, layer, batch, self.types)
            whole += Parts(cache=self._cache_time(layer, batch, context), collectives=moved).times(count)
        return whole

    def prompt_attention(self, tokens: int, keys: int) -> Parts:
        """The scores of a chunk of one prompt against all keys so far, shared by all devices."""
        whole = Parts()
        for layer, count in self.counts.items():
            seen = min(keys, (layer.attention.window or keys) + tokens)  # keys that any query of the chunk sees
            size = kv_bytes_per_token(layer, self.types.cache) * seen
            gathered = 0.0 if self.layout.cache in ("heads", "copies") else size / self.layout.heads
            moved = self.links.seconds("all_gather", "rest", gathered)
            whole += Parts(scores=self._score_time(layer, tokens, keys, seen), collectives=moved).times(count)
        return whole

    def shares(self, layer: Layer, tokens: int) -> Iterator[MatmulShare]:
        """The matmuls with weights of a layer as one device does them."""
        for made in decode_matmuls(layer, tokens, 1):
            if made.weights:
                yield self._share(made.output, self._piece(layer, made, tokens))

    def head_share(self, sampled: int) -> MatmulShare:
        """The matmul that makes logits, as one device does it."""
        whole = head_matmul(self.model, sampled)
        return self._share(
            "logits", self._typed(whole, n=ceil(whole.n / self.layout.y), k=ceil(whole.k / self.layout.x))
        )

    def cache_bytes(self, layer: Layer, batch: int, context: int) -> float:
        """Bytes of the cache of one layer that the busiest device reads."""
        at = self.layout
        seen = min(context, layer.attention.window or context)
        each = kv_bytes_per_token(layer, self.types.cache) * ceil(seen / at.token_ways)
        return each * ceil(batch / at.batch_ways) / at.heads

    def _loop_time(self, layer: Layer, tokens: int) -> float:
        engine, dtype = self.assumed.engine, self.types.activations
        if engine is None:
            return 0.0
        peak = self.rates.need_link("hbm").number()
        moved = dispatch_seconds(engine, layer, tokens, self.layout, dtype, peak)
        return moved + loop_seconds(engine, layer, tokens, self.layout, dtype, self.bandwidth)

    def _cache_time(self, layer: Layer, batch: int, context: int) -> float:
        at, a = self.layout, layer.attention
        reading = self.cache_bytes(layer, batch, context) / self.bandwidth
        seen = ceil(min(context, a.window or context) / at.token_ways)
        sequences = ceil(batch / at.batch_ways)
        copies = at.rest if at.cache == "copies" else 1
        if isinstance(a, Attention):
            group, heads = ceil(a.group / copies), sequences * a.kv_heads // at.heads
            pair = (Matmul(group, seen, a.head_dim, heads), Matmul(group, a.head_dim, seen, heads))
        else:
            rows = ceil(a.heads / copies)
            pair = (
                Matmul(rows, seen, a.kv_rank + a.rope_dim, sequences), Matmul(rows, a.kv_rank, seen, sequences)
            )  # fmt: skip
        return max(reading, sum(map(self._padded, pair)) / self._attention_peak)

    def _score_time(self, layer: Layer, tokens: int, keys: int, seen: int) -> float:
        at, a, engine = self.layout, layer.attention, self.assumed.engine
        share, peak, columns = attention_pairs(tokens, keys, a.window) / (tokens * seen), self._attention_peak, seen
        if engine is not None:  # its kernel computes whole blocks, masked or not, and is slow
            share, peak = 1.0, peak / self.assumed.compute * engine.attention
            columns = computed_keys(engine, seen)  # not a multiple of padded keys: few keys are padded once, not twice
        if isinstance(a, Attention):
            ways = at.devices // at.heads
            rows, heads = ceil(tokens * a.group / ways), a.kv_heads // at.heads
            pair = (Matmul(rows, columns, a.head_dim, heads), Matmul(rows, a.head_dim, columns, heads))
            again = 0.0
        else:
            rows, heads = tokens, ceil(a.heads / at.devices)
            pair = (Matmul(rows, columns, a.query_dim, heads), Matmul(rows, a.value_dim, columns, heads))
            # Earlier keys and values are made again from their latent vectors; those of the chunk are in the matmuls.
            again = 2.0 * (keys - tokens) * a.kv_rank * heads * (a.nope_dim + a.value_dim)
        reading = kv_bytes_per_token(layer, self.types.cache) * seen / at.heads / self.bandwidth
        return max(reading, share * sum(map(self._padded, pair)) / peak + again / self._attention_peak)

    @property
    def _attention_peak(self) -> float:
        # Attention multiplies activations, whatever type the weights have.
        return self.rates.need_peak(self.types.activations).number() * self.assumed.compute

    def _padded(self, matmul: Matmul) -> int:
        return matmul.flops if self.rates.mxu_size is None else matmul.padded_flops(self.rates.mxu_size)

    def _piece(self, layer: Layer, made: LayerMatmul, tokens: int) -> Matmul:
        """A matmul's share on the busiest device."""
        at, whole = self.layout, made.matmul
        if made.part == "experts":
            return self._experts_piece(layer, made, tokens)
        if made.output in _REPLICATED:
            return self._typed(whole, k=ceil(whole.k / at.x))
        if whole.batch > 1:  # one product per head, of latent attention
            return self._typed(whole, batch=ceil(whole.batch / at.y))
        if made.output.endswith("mlp_out") or made.output == "attention_out":
            return self._typed(whole, k=ceil(whole.k / at.y), n=ceil(whole.n / at.x))
        return self._typed(whole, k=ceil(whole.k / at.x), n=ceil(whole.n / at.y))

    def _experts_piece(self, layer: Layer, made: LayerMatmul, tokens: int) -> Matmul:
        at, whole, mlp = self.layout, made.matmul, layer.mlp
        assert isinstance(mlp, Experts)
        reached = ceil(reached_experts(mlp, tokens))
        rows = ceil(tokens * mlp.top_k / reached)
        inside = at.devices // at.experts
        batch = ceil(reached / at.experts)
        if self.assumed.engine is not None:
            rows = grouped_rows(rows, batch, self.assumed.engine.tile)
        if made.output == "mlp_out":
            return self._typed(whole, m=rows, k=ceil(whole.k / inside), batch=batch)
        return self._typed(whole, m=rows, n=ceil(whole.n / inside), batch=batch)

    def _typed(self, whole: Matmul, **sizes: int) -> Matmul:
        types = self.types
        sized = {"m": whole.m, "n": whole.n, "k": whole.k, "batch": whole.batch} | sizes
        return Matmul(**sized, lhs_dtype=types.activations, rhs_dtype=types.weights, out_dtype=types.activations)

    def _share(self, output: str, matmul: Matmul) -> MatmulShare:
        each = matmul.bytes_by_operand
        moving = each["rhs"]
        vmem = self.rates.chip.device_vmem_bytes if self.rates.chip is not None else None
        # Activations of a decode step never leave the vector memory; those of a large chunk do not fit there.
        if vmem is not None and each["lhs"] + each["out"] > vmem.value / 2:
            moving = matmul.bytes
        return MatmulShare(output, matmul, moving / self.bandwidth, self._padded(matmul) / self.peak)

    def _parts(self, share: MatmulShare) -> Parts:
        if share.t_arithmetic_s > share.t_weights_s:
            return Parts(arithmetic=share.t_arithmetic_s)
        return Parts(weights=share.t_weights_s)
