"""Parameters of a model: in all, per token, by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpuprof.errors import UsageError
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step, Value
from tpuprof.plan.model import AnyAttention, AnyMlp, Experts, LatentAttention, Layer, ModelConfig

TRANSFORMERS = "scaling book, Transformer arithmetic"
_FORMULAS = {
    "attention": "sum over layers of 2*D*(N+K)*H, and biases",
    "latent-attention": "sum over layers of the projections to and from the latent vectors",
    "mlp": "sum over layers of 3*D*F (2*D*F if not gated), and biases",
    "routed-experts": "sum over layers of E*3*D*F",
    "shared-experts": "sum over layers of 3*D*F_shared",
    "router": "sum over layers of D*E",
    "norms": "D per norm, twice with a bias",
    "embedding": "V*D, and learned positions",
    "unembedding": "V*D unless tied",
}
_ATTENTION = ("attention", "latent-attention")


@dataclass(frozen=True, slots=True)
class ParamCounts:
    """Parameters by block, in all and as far as one token uses them.

    Args:
        total: by block; the keys of :func:`layer_params`, and ``embedding`` and ``unembedding``.
        active: the same of one token: of the routed experts those that it goes to.
    """

    total: Mapping[str, int]
    active: Mapping[str, int]

    @property
    def all(self) -> int:
        """All parameters."""
        return sum(self.total.values())

    @property
    def active_all(self) -> int:
        """Those that take part in the work on one token, the whole embedding included, as publications count."""
        return sum(self.active.values())


def layer_params(layer: Layer) -> dict[str, int]:
    """Parameters of one layer by block: attention, MLP or experts with router, norms; only blocks that it has."""
    per_norm = {"rms": 1, "layer": 2, "none": 0}[layer.norm] * layer.width
    attention = "latent-attention" if isinstance(layer.attention, LatentAttention) else "attention"
    found = {attention: attention_params(layer.attention, layer.width), **mlp_params(layer.mlp, layer.width)}
    return {**found, "norms": layer.norms * per_norm}


def active_params(layer: Layer) -> dict[str, int]:
    """Those of :func:`layer_params` that one token uses."""
    found = layer_params(layer)
    if isinstance(layer.mlp, Experts):
        found["routed-experts"] = found["routed-experts"] // layer.mlp.count * layer.mlp.top_k
    return found


def attention_params(attention: AnyAttention, width: int) -> int:
    """Parameters of the attention of one layer, with its biases and the norms inside it."""
    if isinstance(attention, LatentAttention):
        a = attention
        to_query = a.heads * a.query_dim
        query = width * to_query if a.q_rank is None else width * a.q_rank + a.q_rank + a.q_rank * to_query
        latent = width * (a.kv_rank + a.rope_dim) + a.kv_rank
        return query + latent + a.kv_rank * a.heads * (a.nope_dim + a.value_dim) + a.heads * a.value_dim * width
    queries, pairs = attention.heads * attention.head_dim, 2 * attention.kv_heads * attention.head_dim
    extra = (queries + pairs) * attention.qkv_bias + width * attention.out_bias
    extra += 2 * attention.head_dim * attention.qk_norm + attention.heads * attention.sinks
    return width * (2 * queries + pairs) + extra


def mlp_params(mlp: AnyMlp, width: int) -> dict[str, int]:
    """Parameters of the MLP of one layer: ``mlp``, or ``routed-experts``, ``shared-experts`` and ``router``."""
    if not isinstance(mlp, Experts):
        return {"mlp": _matrices(mlp.matrices, width, mlp.hidden, mlp.bias)}
    found = {
        "routed-experts": mlp.count * _matrices(mlp.matrices, width, mlp.hidden, mlp.bias),
        "router": width * mlp.count + mlp.count * mlp.router_bias,
    }
    if mlp.shared_hidden:
        found["shared-experts"] = _matrices(mlp.matrices, width, mlp.shared_hidden, mlp.bias)
        found["shared-experts"] += width * mlp.shared_gate
    return found


def param_counts(model: ModelConfig) -> ParamCounts:
    """Parameters of a model by block."""
    total: dict[str, int] = {}
    active: dict[str, int] = {}
    for layer, count in model.layer_counts.items():
        for into, found in ((total, layer_params(layer)), (active, active_params(layer))):
            for block, number in found.items():
                into[block] = into.get(block, 0) + count * number
    per_norm = {"rms": 1, "layer": 2, "none": 0}[model.norm] * model.width
    table = (model.vocab + model.positions) * model.width
    for into in (total, active):
        into["norms"] += per_norm * model.final_norm
        into["embedding"] = table
        into["unembedding"] = 0 if model.tied else model.vocab * model.width
    return ParamCounts(total, active)


def matmul_params(model: ModelConfig) -> int:
    """Parameters by which one token is multiplied: active ones, without embedding, norms and biases, with the output.

    Twice this number is the FLOPs of a forward pass per token without attention scores.
    """
    from tpuprof.plan.matmuls import head_matmul, layer_matmuls

    def weights(layer: Layer) -> int:
        found = layer_matmuls(layer, 1, 1)
        return sum(round(made.flops / 2) for made in found if made.weights)

    return sum(count * weights(layer) for layer, count in model.layer_counts.items()) + head_matmul(model, 1).flops // 2


def param_answers(model: ModelConfig) -> dict[str, Derivation]:
    """``params``, ``active`` and one answer per block that the model has."""
    counts = param_counts(model)
    inputs = {"model": Quantity(model.name, "", model.source), **model_inputs(model)}
    total = _blocks(counts.total, inputs, "sum over the blocks")
    found = {"params": total, "active": _blocks(counts.active, inputs, "sum over the blocks, k of E experts")}
    for block, number in counts.total.items():
        if number:
            found[block] = Derivation(number, "param", _FORMULAS[block], inputs, source=TRANSFORMERS)
    rows: list[Value] = [
        {
            "kind": layer.kind, "layers": count, "params_per_layer": sum(layer_params(layer).values()),
            "active_per_layer": sum(active_params(layer).values()),
        }
        for layer, count in model.layer_counts.items()
    ]  # fmt: skip
    found["layers"] = Derivation(rows, "param", "sum over the blocks of a layer", inputs, source=TRANSFORMERS)
    attention = sum(counts.total.get(block, 0) for block in _ATTENTION)
    both = counts.total["embedding"] + counts.total["unembedding"]
    found["attention"] = Derivation(attention, "param", _FORMULAS["attention"], inputs, source=TRANSFORMERS)
    found["vocabulary"] = Derivation(both, "param", "2*V*D, V*D if tied", inputs, source=TRANSFORMERS)
    return found


def params_of_sizes(
    width: int, layers: int = 1, *, hidden: int | None = None, heads: int | None = None, kv_heads: int | None = None,
    head_dim: int | None = None, vocab: int | None = None, gated: bool = True, tied: bool = False,
    experts: int | None = None, top_k: int | None = None,
) -> dict[str, Derivation]:  # fmt: skip
    """Parameters of the blocks whose sizes are given: ``mlp``, ``attention``, ``vocabulary``; all of them make a model.

    Norms and biases are left out, as the book does. With all sizes the answers are those of :func:`param_answers`.

    Raises:
        UsageError: a size is out of range, or no block is complete.
    """
    from tpuprof.plan.table import model_of_table

    sizes: dict[str, object] = {
        "layers": layers, "d_model": width, "n_heads": heads, "n_kv_heads": kv_heads, "head_dim": head_dim,
        "d_ff": hidden, "vocab": vocab, "gated": gated, "tied_embeddings": tied, "experts": experts, "top_k": top_k,
    }  # fmt: skip
    missing = {"hidden": hidden, "heads": heads, "vocab": vocab}
    if all(value is None for value in missing.values()):
        raise UsageError("No block of the model is described.", hint="Give --d-ff, --n-heads or --vocab.")
    # What is missing stands in with its smallest size, and its answers are dropped.
    stand_in = {"d_ff": 1, "n_heads": 1, "head_dim": 1, "vocab": 1}
    filled = {key: stand_in.get(key) if value is None else value for key, value in sizes.items()}
    if head_dim is None and heads is not None:
        filled["head_dim"] = None
    found = param_answers(model_of_table({**filled, "name": "these sizes", "norm": "none"}))
    dropped = {"norms", "embedding", "unembedding"} if None in missing.values() else set[str]()
    dropped |= {"layers"} if hidden is None or heads is None else set()
    dropped |= {"mlp", "routed-experts", "router"} if hidden is None else set()
    dropped |= {"attention"} if heads is None else set()
    dropped |= {"vocabulary"} if vocab is None else set()
    dropped |= {"params", "active"} if None in missing.values() else set()
    symbols = {"F": hidden, "N": heads, "K": heads, "H": heads, "V": vocab}
    return {
        name: replace(answer, inputs={k: q for k, q in answer.inputs.items() if symbols.get(k, 0) is not None})
        for name, answer in found.items()
        if name not in dropped
    }


def model_inputs(model: ModelConfig) -> dict[str, Quantity]:
    """The sizes of a model in the symbols of the book; of mixed models those of the last layer."""
    last = model.layers[-1]
    found = {"L": Quantity(len(model.layers), "layer"), "D": Quantity(model.width, "element")}
    if isinstance(last.mlp, Experts):
        found |= {"E": Quantity(last.mlp.count, "expert"), "k": Quantity(last.mlp.top_k, "expert per token")}
    found["F"] = Quantity(last.mlp.hidden, "element")
    a = last.attention
    found["N"] = Quantity(a.heads, "head")
    if isinstance(a, LatentAttention):
        found |= {"c_kv": Quantity(a.kv_rank, "element"), "d_rope": Quantity(a.rope_dim, "element")}
    else:
        found |= {"K": Quantity(a.kv_heads, "head"), "H": Quantity(a.head_dim, "element")}
    found["V"] = Quantity(model.vocab, "entry")
    kinds = {layer.kind: 0 for layer in model.layers}
    for layer in model.layers:
        kinds[layer.kind] += 1
    return found | ({"layer kinds": Quantity(kinds, "layer")} if len(kinds) > 1 else {})


def _matrices(count: int, width: int, hidden: int, bias: bool) -> int:
    return count * width * hidden + ((count - 1) * hidden + width) * bias


def _blocks(blocks: Mapping[str, int], inputs: Mapping[str, Quantity], formula: str) -> Derivation:
    steps = tuple(Step(block, _FORMULAS[block], number, "param") for block, number in blocks.items() if number)
    return Derivation(sum(blocks.values()), "param", formula, inputs, None, (), steps, TRANSFORMERS)
