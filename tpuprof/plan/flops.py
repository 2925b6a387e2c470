"""Operations of a model's forward and backward pass, by part, and the short formulas on parameters.

Formulas: scaling book, chapter "Transformers".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step, Value
from tpuprof.plan.matmuls import LayerMatmul, Masking, Part, decode_matmuls, head_matmul, layer_matmuls
from tpuprof.plan.model import Layer, ModelConfig
from tpuprof.plan.params import TRANSFORMERS, model_inputs
from tpuprof.plan.remat import RematPolicy, recomputed_matmuls, remat_policy

_TWICE = "the backward pass multiplies twice per forward matmul: for the weights and for the input"
_CONVENTION = {
    "causal": "masked pairs of tokens do not count, which halves the scores of a whole sequence",
    "full": "all pairs of tokens count, masked ones too",
}


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations of one step over a batch.

    Args:
        forward: by part; ``head`` is the output matmul. The backward pass has twice as many.
        recompute: forward operations that rematerialisation repeats, by part.
    """

    forward: Mapping[Part, float]
    recompute: Mapping[Part, float]

    @property
    def forward_all(self) -> float:
        """Of the forward pass."""
        return sum(self.forward.values())

    @property
    def training(self) -> float:
        """Of forward and backward pass, as a model's utilisation (MFU) counts them."""
        return 3 * self.forward_all

    @property
    def hardware(self) -> float:
        """With what is computed twice, as the utilisation of the hardware (HFU) counts."""
        return self.training + sum(self.recompute.values())


def layer_flops(
    layer: Layer, sequences: int, sequence: int, *, masking: Masking = "causal", remat: RematPolicy | None = None
) -> Flops:
    """Operations of one layer over whole sequences.

    Args:
        sequence: tokens of each.
        remat: what is kept for the backward pass; everything if not given.

    Raises:
        UsageError: a number is below 1.
    """
    made = layer_matmuls(layer, sequences, sequence, masking=masking)
    again = recomputed_matmuls(layer, remat or remat_policy("everything"), made)
    return Flops(_by_part(made), _by_part(again))


def model_flops(
    model: ModelConfig, sequences: int, sequence: int, *, masking: Masking = "causal", remat: RematPolicy | None = None
) -> Flops:
    """Operations of a training step over whole sequences; the forward part is that of prefill.

    Raises:
        UsageError: a number is below 1.
    """
    forward: dict[Part, float] = {}
    again: dict[Part, float] = {}
    for layer, count in model.layer_counts.items():
        found = layer_flops(layer, sequences, sequence, masking=masking, remat=remat)
        _add(forward, found.forward, count)
        _add(again, found.recompute, count)
    _add(forward, {"head": float(head_matmul(model, sequences * sequence).flops)}, 1)
    return Flops(forward, again)


def decode_flops(model: ModelConfig, sequences: int, keys: int) -> Flops:
    """Operations of one decode step: a token per sequence, each of which looks at its cache.

    Raises:
        UsageError: a number is below 1.
    """
    forward: dict[Part, float] = {}
    for layer, count in model.layer_counts.items():
        _add(forward, _by_part(decode_matmuls(layer, sequences, keys)), count)
    _add(forward, {"head": float(head_matmul(model, sequences).flops)}, 1)
    return Flops(forward, {})


def flop_answers(
    model: ModelConfig, sequences: int, sequence: int, masking: Masking, remat: RematPolicy
) -> dict[str, Derivation]:
    """``training``, ``forward``, ``backward``, ``recompute``, ``hardware``, ``per-token``; what the short formula says.

    Raises:
        UsageError: a number is below 1.
    """
    from tpuprof.plan.params import param_counts

    found = model_flops(model, sequences, sequence, masking=masking, remat=remat)
    tokens = sequences * sequence
    inputs = {
        "model": Quantity(model.name, "", model.source), **model_inputs(model), "B": Quantity(sequences, "seq"),
        "T": Quantity(sequence, "token"), "remat": Quantity(remat.name),
    }  # fmt: skip
    steps = tuple(
        Step(f"forward, {part}", "2*m*n*k of its matmuls", value, "FLOP") for part, value in found.forward.items()
    )
    again = tuple(Step(f"again, {part}", "as forward", value, "FLOP") for part, value in found.recompute.items())
    assumed = (_CONVENTION[masking], _TWICE)

    def made(value: float, formula: str, unit: str = "FLOP", more: tuple[Step, ...] = ()) -> Derivation:
        return Derivation(value, unit, formula, inputs, None, assumed, (*steps, *more), TRANSFORMERS)

    rows: list[Value] = []
    for layer, count in model.layer_counts.items():
        one = layer_flops(layer, sequences, sequence, masking=masking, remat=remat)
        rows.append({
            "kind": layer.kind, "layers": count, "forward_per_layer": one.forward_all,
            "recompute_per_layer": sum(one.recompute.values()),
        })  # fmt: skip
    forward, repeated = found.forward_all, sum(found.recompute.values())
    active = param_counts(model).active_all
    return {
        "training": made(found.training, "3 * forward"),
        "forward": made(forward, "sum over the parts"),
        "backward": made(2 * forward, "2 * forward"),
        "recompute": made(repeated, "forward matmuls whose outputs are not kept", more=again),
        "hardware": made(found.training + repeated, "3 * forward + recompute", more=again),
        "per-token": made(found.training / tokens, "training / (B*T)", "FLOP/token"),
        "attention-share": made(found.forward.get("scores", 0) / forward, "scores / forward", "fraction"),
        "layers": Derivation(rows, "FLOP", "sum over its matmuls", inputs, None, assumed, (), TRANSFORMERS),
        "short-formula": training_flops(active, tokens),
        "short-formula-error": made(
            6 * active * tokens / found.training - 1, "6*P*B*T / training - 1", "fraction",
            (Step("active parameters", "P", active, "param"),),
        ),
    }  # fmt: skip


def run_flops(model: ModelConfig, sequence: int, tokens: float, masking: Masking = "causal") -> Derivation:
    """Training operations of a whole run over sequences of one length.

    Raises:
        UsageError: a number is out of range.
    """
    each = model_flops(model, 1, sequence, masking=masking).training / sequence
    inputs = {
        "model": Quantity(model.name, "", model.source), **model_inputs(model), "T": Quantity(sequence, "token"),
        "tokens": Quantity(not_negative("The number of tokens", tokens), "token"),
    }  # fmt: skip
    steps = (Step("operations per token", "3 * forward / T", each, "FLOP/token"),)
    assumed = (_CONVENTION[masking], _TWICE)
    return Derivation(each * tokens, "FLOP", "per token * tokens", inputs, None, assumed, steps, TRANSFORMERS)


def training_flops(params: float, tokens: float | None = None) -> Derivation:
    """6 per parameter and token; per token if no number of tokens is given.

    Raises:
        UsageError: a number is negative.
    """
    return _per_param(6, params, tokens, (_TWICE,))


def forward_flops(params: float, tokens: float | None = None) -> Derivation:
    """2 per active parameter and token; per token if no number of tokens is given.

    Raises:
        UsageError: a number is negative.
    """
    return _per_param(2, params, tokens, ())


def flops_of_tokens(per_token: float, tokens: float) -> Derivation:
    """So many operations per token, in all.

    Raises:
        UsageError: a number is negative.
    """
    value = not_negative("FLOPs per token", per_token) * not_negative("The number of tokens", tokens)
    inputs = {"f": Quantity(per_token, "FLOP/token"), "B": Quantity(tokens, "token")}
    return Derivation(value, "FLOP", "f * B", inputs, source=TRANSFORMERS)


def matmul_flops(m: int, k: int, n: int) -> dict[str, Derivation]:
    """``forward``, ``backward`` and ``training`` operations of a matmul [m,k] x [k,n] with learned weights.

    Raises:
        UsageError: a size is below 1.
    """
    sizes = {"m": m, "k": k, "n": n}
    inputs = {name: Quantity(counted(f"The size {name}", size), "element") for name, size in sizes.items()}
    product = m * k * n

    def made(factor: int) -> Derivation:
        return Derivation(factor * product, "FLOP", f"{factor}*m*k*n", inputs, None, (_TWICE,), (), TRANSFORMERS)

    return {"training": made(6), "forward": made(2), "backward": made(4)}


def einsum_flops(subscripts: str, sizes: Mapping[str, int]) -> Derivation:
    """Operations of a contraction of two arrays: 2 x the product of all letters, each once.

    Args:
        subscripts: such as ``IJKL,IJMNO->KLMNO``, one letter per dimension.
        sizes: of each letter.

    Raises:
        UsageError: the text is no contraction of two arrays, or a letter has no size.
    """
    inputs_text, arrow, out = subscripts.replace(" ", "").partition("->")
    operands = inputs_text.split(",")
    letters = dict.fromkeys("".join(operands))
    bad = not arrow or len(operands) != 2 or not all(letter.isalpha() for letter in letters)
    if bad or any(len(set(part)) != len(part) for part in (*operands, out)) or set(out) - set(letters):
        raise UsageError(f"{subscripts[:60]!r} is no contraction of two arrays.", hint="Write it like ij,jk->ik.")
    for letter in letters:
        if letter not in sizes:
            raise UsageError(f"The size of {letter} is not known.", hint=f"Give it like {letter}=128.")
        counted(f"The size of {letter}", sizes[letter])
    inputs = {letter: Quantity(sizes[letter], "element") for letter in letters}
    value = 2 * prod(sizes[letter] for letter in letters)
    return Derivation(value, "FLOP", "2 * " + "*".join(letters), inputs, source=TRANSFORMERS)


def attention_length(
    width: int, hidden: int | None = None, *, query_width: int | None = None, kv_width: int | None = None,
    matrices: int = 3,
) -> dict[str, Derivation]:  # fmt: skip
    """The sequence lengths at which attention scores cost as much as other matmuls of a layer.

    ``all-matmuls`` is against projections and MLP, ``projections`` against the projections alone. The defaults are
    those of the book: F = 4D, gated, as many KV heads as heads, NH = D.

    Args:
        query_width: query heads times head size.
        kv_width: KV heads times head size.
        matrices: of the MLP.

    Raises:
        UsageError: a size is below 1.
    """
    hidden = 4 * counted("The width", width) if hidden is None else counted("The hidden width", hidden)
    queries = width if query_width is None else counted("The width of the queries", query_width)
    pairs = queries if kv_width is None else counted("The width of the keys", kv_width)
    inputs = {
        "D": Quantity(width, "element"), "F": Quantity(hidden, "element"), "NH": Quantity(queries, "element"),
        "KH": Quantity(pairs, "element"), "n": Quantity(counted("The number of matrices", matrices), "matrix"),
    }  # fmt: skip
    assumed = ("all pairs of tokens count; with a causal mask it takes twice the length",)
    projections = 2 * width * (queries + pairs)
    everything = projections + matrices * width * hidden
    return {
        "all-matmuls": Derivation(
            everything / (2 * queries), "token", "(n*D*F + 2*D*(NH+KH)) / (2*NH)", inputs, None, assumed, (),
            TRANSFORMERS,
        ),
        "projections": Derivation(
            projections / (2 * queries), "token", "2*D*(NH+KH) / (2*NH)", inputs, None, assumed, (), TRANSFORMERS
        ),
    }  # fmt: skip


def _per_param(factor: int, params: float, tokens: float | None, assumed: tuple[str, ...]) -> Derivation:
    inputs = {"P": Quantity(positive("The number of parameters", params), "param")}
    assumed += ("attention scores are left out", "P are the parameters that a token uses")
    if tokens is None:
        return Derivation(factor * params, "FLOP/token", f"{factor} * P", inputs, None, assumed, (), TRANSFORMERS)
    inputs["B"] = Quantity(not_negative("The number of tokens", tokens), "token")
    return Derivation(factor * params * tokens, "FLOP", f"{factor} * P * B", inputs, None, assumed, (), TRANSFORMERS)


def _by_part(matmuls: tuple[LayerMatmul, ...]) -> dict[Part, float]:
    found: dict[Part, float] = {}
    for made in matmuls:
        found[made.part] = found.get(made.part, 0.0) + made.flops
    return found


def _add(into: dict[Part, float], found: Mapping[Part, float], count: int) -> None:
    for part, value in found.items():
        into[part] = into.get(part, 0.0) + count * value
