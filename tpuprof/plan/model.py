"""What a Transformer is made of, as far as it changes arithmetic and bytes.

A model is a tuple of layers, so that mixed ones (dense layers before mixtures of experts, sliding windows between full
attention) need no special case anywhere. Equal layers are equal objects: count them with ``ModelConfig.layer_counts``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tpuprof.errors import UsageError

Norm = Literal["rms", "layer", "none"]
NORMS: tuple[Norm, ...] = ("rms", "layer", "none")
"""``rms`` has a scale per element, ``layer`` a scale and a bias, ``none`` is left out, as the scaling book does."""

LARGEST = 10**9
MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention; fewer KV heads than heads make it grouped, a single one multi-query.

    Args:
        window: keys that a query sees, itself included; null for all before it.
        qkv_bias: query, key and value projections have a bias.
        out_bias: the output projection has one.
        qk_norm: queries and keys are normalised per head, with a scale of ``head_dim`` elements each.
        sinks: each head has a learned logit beside the keys.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False

    def __post_init__(self) -> None:
        _sizes(self, "heads", "kv_heads", "head_dim")
        _window(self.window)
        if self.heads % self.kv_heads:
            raise UsageError(
                f"{self.heads} query heads cannot share {self.kv_heads} KV heads evenly.",
                hint="The number of heads must be a multiple of the number of KV heads.",
            )

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): keys and values come from one small vector per token, which is what is cached.

    Args:
        heads: of queries, keys and values alike.
        q_rank: size of the query's latent vector; null if queries are projected directly.
        kv_rank: size of the latent vector of keys and values.
        nope_dim: part of a head's query and key without position.
        rope_dim: part with position; its key is one for all heads.
        value_dim: of one head.
        window: as in :class:`Attention`.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    window: int | None = None

    def __post_init__(self) -> None:
        _sizes(self, "heads", "kv_rank", "nope_dim", "rope_dim", "value_dim")
        _window(self.window)
        if self.q_rank is not None:
            _sizes(self, "q_rank")

    @property
    def query_dim(self) -> int:
        """Elements of one head's query and key."""
        return self.nope_dim + self.rope_dim


@dataclass(frozen=True, slots=True)
class Mlp:
    """Two matrices with a function between them, or three if gated (SwiGLU, GeGLU).

    Args:
        bias: each matrix has one.
    """

    hidden: int
    gated: bool
    bias: bool = False

    def __post_init__(self) -> None:
        _sizes(self, "hidden")

    @property
    def matrices(self) -> int:
        """Three if gated, else two."""
        return 3 if self.gated else 2


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: a router sends each token to some of them; a shared expert sees all tokens.

    Args:
        count: routed experts.
        top_k: of them per token.
        hidden: width of one routed expert.
        shared_hidden: width of the shared experts together; 0 if there are none.
        bias: each matrix of the experts has one.
        router_bias: each expert has a learned or adjusted bias in the router.
        shared_gate: the shared expert's output is scaled by a learned gate.
    """

    count: int
    top_k: int
    hidden: int
    gated: bool
    shared_hidden: int = 0
    bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False

    def __post_init__(self) -> None:
        _sizes(self, "count", "top_k", "hidden")
        if self.shared_hidden:
            _sizes(self, "shared_hidden")
        if self.top_k > self.count:
            raise UsageError(f"A token cannot go to {self.top_k} of {self.count} experts.")

    @property
    def matrices(self) -> int:
        """Of one expert: three if gated, else two."""
        return 3 if self.gated else 2


AnyAttention: TypeAlias = "Attention | LatentAttention"
AnyMlp: TypeAlias = "Mlp | Experts"


@dataclass(frozen=True, slots=True)
class Layer:
    """One block: attention and an MLP or experts, each beside a residual path.

    Args:
        width: of the residual path, D.
        norms: normalisations of this width in the block; 1 where both parts share one, 4 where outputs have their own.
        parallel: attention and MLP read the same input, and their outputs are added at once.
    """

    width: int
    attention: AnyAttention
    mlp: AnyMlp
    norms: int = 2
    norm: Norm = "rms"
    parallel: bool = False

    def __post_init__(self) -> None:
        _sizes(self, "width")
        if self.norm not in NORMS:
            raise UsageError(f"{self.norm!r} is no kind of norm.", hint=f"Kinds: {', '.join(NORMS)}.")
        if not 0 <= self.norms <= 8:
            raise UsageError(f"A layer with {self.norms} norms is not known.", hint="Give 0 to 8.")

    @property
    def kind(self) -> str:
        """What distinguishes it in a mixed model, in words: ``window-1024 dense``, ``mla experts``."""
        window = self.attention.window
        words = ["mla"] if isinstance(self.attention, LatentAttention) else []
        words += [f"window-{window}"] if window is not None else [] if words else ["full"]
        return " ".join([*words, "experts" if isinstance(self.mlp, Experts) else "dense"])


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder-only Transformer.

    Args:
        layers: from the input to the output.
        vocab: entries of the embedding table.
        tied: the output matrix is the embedding table.
        positions: learned position embeddings; 0 if positions are rotary or otherwise without weights.
        final_norm: the last layer's output is normalised.
        source: where the numbers come from.
        published_params: what the source states, if it states a count.
    """

    name: str
    layers: tuple[Layer, ...]
    vocab: int
    tied: bool
    positions: int = 0
    final_norm: bool = True
    source: str = ""
    published_params: float | None = None

    def __post_init__(self) -> None:
        _sizes(self, "vocab")
        if not 1 <= len(self.layers) <= MOST_LAYERS:
            raise UsageError(f"A model has 1 to {MOST_LAYERS:,} layers, not {len(self.layers):,}.", where=self.name)
        if len({layer.width for layer in self.layers}) > 1:
            raise UsageError("The layers have different widths.", where=self.name)
        if not 0 <= self.positions <= LARGEST:
            raise UsageError(f"The number of learned positions is {self.positions}.", where=self.name)
        # Equal layers become one object, which makes counting them fast.
        known: dict[Layer, Layer] = {}
        object.__setattr__(self, "layers", tuple(known.setdefault(layer, layer) for layer in self.layers))

    @property
    def width(self) -> int:
        """Of the residual path, D."""
        return self.layers[0].width

    @property
    def layer_counts(self) -> dict[Layer, int]:
        """The different layers in order of appearance, with how many there are of each."""
        same = Counter(map(id, self.layers))  # hashing a layer is slow, and equal ones are one object
        return {layer: same[id(layer)] for layer in {id(layer): layer for layer in self.layers}.values()}

    @property
    def norm(self) -> Norm:
        """The kind of the final norm, which is that of the last layer."""
        return self.layers[-1].norm

    def renamed(self, name: str) -> ModelConfig:
        """The same under another name."""
        return replace(self, name=name)


def _sizes(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            raise UsageError(
                f"{name} is {value!r}; it must be a whole number from 1 to {LARGEST:,}.", where=type(owner).__name__
            )


def _window(value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or value < 1):
        raise UsageError(f"A window of {value} keys is not possible.", hint="Leave it out for full attention.")
