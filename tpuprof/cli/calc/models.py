"""Calculators of models: parameters, operations, KV cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.given import EXPERTS, KEEP, MODEL, MOVE, PARAMS, TOP_K, exactly_one, model_of, policy_of, refuse
from tpuprof.cli.calc.options import AMOUNT, COUNTS, MESH, Answers, calculator, quantity
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.plan.matmuls import Masking

_LAYERS = click.option("--layers", type=int, help="Layers.")
_WIDTH = click.option("--d-model", type=int, help="Width of the model.")
_HEADS = click.option("--n-heads", type=int, help="Query heads.")
_KV_HEADS = click.option("--n-kv-heads", type=int, help="KV heads; as many as query heads if not given.")
_HEAD_DIM = click.option("--head-dim", type=int, help="Size of a head; the width over the heads if not given.")
_D_FF = click.option("--d-ff", type=int, help="Hidden width of the MLP, or of one expert.")
_VOCAB = click.option("--vocab", type=int, help="Entries of the vocabulary.")


@calculator("params")
@MODEL
@_LAYERS
@_WIDTH
@_HEADS
@_KV_HEADS
@_HEAD_DIM
@_D_FF
@_VOCAB
@click.option("--gated/--ungated", default=True, show_default=True, help="Three or two matrices in the MLP.")
@click.option("--tied/--untied", default=False, show_default=True, help="Whether the output uses the embedding table.")
@EXPERTS
@TOP_K
def params(
    model_name: str | None, layers: int | None, d_model: int | None, n_heads: int | None, n_kv_heads: int | None,
    head_dim: int | None, d_ff: int | None, vocab: int | None, gated: bool, tied: bool, experts: int | None,
    top_k: int | None,
) -> Answers:  # fmt: skip
    """Parameters of a model, in all, per token and by block.

    MODEL is a name such as llama3-70b, or a path to a TOML file or a config.json. Instead of it give sizes: all of them
    for a whole model, or those of one block. Norms and biases are then left out.
    """
    from tpuprof.plan.params import param_answers, params_of_sizes

    if (model_name is None) == (d_model is None):
        raise UsageError("The model is given twice or not at all.", hint="Give MODEL, or --d-model and other sizes.")
    if model_name is not None:
        refuse(
            "with MODEL",
            "layers",
            "n_heads",
            "n_kv_heads",
            "head_dim",
            "d_ff",
            "vocab",
            "gated",
            "tied",
            "experts",
            "top_k",
        )
        return param_answers(model_of(model_name))
    assert d_model is not None
    return params_of_sizes(
        d_model, 1 if layers is None else layers, hidden=d_ff, heads=n_heads, kv_heads=n_kv_heads, head_dim=head_dim,
        vocab=vocab, gated=gated, tied=tied, experts=experts, top_k=top_k,
    )  # fmt: skip


@calculator("flops")
@MODEL
@click.option("--sequences", type=int, default=1, show_default=True, help="Sequences of the batch, with MODEL.")
@click.option("--seq", type=int, help="Tokens of a sequence, with MODEL.")
@click.option("--masking", type=click.Choice(["causal", "full"]), default="causal", show_default=True,
              help="Which pairs of tokens count in attention.")  # fmt: skip
@click.option("--remat", help="What is kept for the backward pass, with MODEL. Default: everything.")
@KEEP
@MOVE
@PARAMS
@click.option("--tokens", type=AMOUNT, help="Tokens, such as 15T, with --params or --per-token.")
@click.option("--per-token", type=quantity("FLOP"), help="Operations per token, instead of MODEL.")
@click.option("--matmul", "sizes", type=COUNTS, help="Rows, summed-over and output size of a matmul: 1024x4096x16384.")
def flops(
    model_name: str | None, sequences: int, seq: int | None, masking: str, remat: str | None,
    keep: tuple[str, ...] | None, move: tuple[str, ...] | None, params: float | None,
    tokens: float | None, per_token: float | None, sizes: tuple[int, ...] | None,
) -> Answers:  # fmt: skip
    """Operations of training and inference.

    Of a MODEL layer by layer, with attention scores and what a policy of rematerialisation computes again; or by the
    short formulas from --params, from --per-token, or of one --matmul.
    """
    from tpuprof.plan import flops as counts

    hint = "Give MODEL with --seq, or --params, or --per-token with --tokens, or --matmul."
    given = exactly_one(hint, MODEL=model_name, params=params, per_token=per_token, matmul=sizes)
    if given != "MODEL":
        refuse("without MODEL", "sequences", "seq", "masking", "remat", "keep", "move")
    if given in ("MODEL", "matmul"):
        refuse(f"with {given}", "tokens")
    if given == "MODEL":
        if seq is None:
            raise UsageError("A model needs the length of its sequences.", hint="Give --seq and --sequences.")
        policy = policy_of("everything" if (remat, keep, move) == (None, None, None) else remat, keep, move)
        masked: Masking = "full" if masking == "full" else "causal"
        return counts.flop_answers(model_of(model_name or ""), sequences, seq, masked, policy)
    if sizes is not None:
        if len(sizes) != 3:
            raise UsageError(f"A matmul has three sizes, not {len(sizes)}.", hint="Write 1024x4096x16384.")
        return counts.matmul_flops(*sizes)
    if per_token is not None:
        if tokens is None:
            raise UsageError("The number of tokens is not given.", hint="Give --tokens, such as 15T.")
        return {"flops": counts.flops_of_tokens(per_token, tokens)}
    assert params is not None
    return {"training": counts.training_flops(params, tokens), "forward": counts.forward_flops(params, tokens)}


@calculator("einsum")
@click.argument("subscripts")
@click.option("--sizes", type=MESH, required=True, help="Size of each letter, such as i=128,j=256,k=64.")
def einsum(subscripts: str, sizes: dict[str, int]) -> Answers:
    """Operations of a contraction of two arrays.

    SUBSCRIPTS are written like ij,jk->ik.
    """
    from tpuprof.plan.flops import einsum_flops

    return {"flops": einsum_flops(subscripts, sizes)}


@calculator("attention-length")
@click.option("--d-model", type=int, required=True, help="Width of the model.")
@click.option("--d-ff", type=int, help="Hidden width of the MLP. Default: four times the width.")
@click.option("--query-width", type=int, help="Query heads times head size. Default: the width.")
@click.option("--kv-width", type=int, help="KV heads times head size. Default: that of the queries.")
@click.option("--matrices", type=int, default=3, show_default=True, help="Matrices of the MLP; 2 if not gated.")
def attention_length(
    d_model: int, d_ff: int | None, query_width: int | None, kv_width: int | None, matrices: int
) -> Answers:
    """Sequence length at which attention costs as much as the matmuls.

    `projections` is against the query, key, value and output projections alone.
    """
    from tpuprof.plan.flops import attention_length as length_of

    return length_of(d_model, d_ff, query_width=query_width, kv_width=kv_width, matrices=matrices)


@calculator("kv-cache")
@MODEL
@click.option("--dtype", default="bf16", show_default=True, help="Type of keys and values.")
@click.option("--context", type=AMOUNT, help="Tokens of a sequence.")
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences.")
@_LAYERS
@click.option("--n-kv-heads", type=int, help="KV heads.")
@click.option("--head-dim", type=int, help="Size of a head.")
@click.option("--kv-width", type=int, help="KV heads times head size, instead of the two.")
@click.option("--per-token", type=quantity("B"), help="Bytes per token, instead of sizes.")
@click.option("--per-sequence", type=quantity("B"), help="Bytes per sequence, instead of sizes.")
@click.option("--weight-bytes", type=quantity("B"), help="Bytes of the weights that sequences are compared with.")
def kv_cache(
    model_name: str | None, dtype: str, context: float | None, batch: int, layers: int | None, n_kv_heads: int | None,
    head_dim: int | None, kv_width: int | None, per_token: float | None, per_sequence: float | None,
    weight_bytes: float | None,
) -> Answers:  # fmt: skip
    """Bytes of the KV cache.

    Of a MODEL, whose windows and latent attention count; of sizes; or of known bytes per token or per sequence.
    With --weight-bytes, `outweighing` is the number of sequences whose caches take more.
    """
    from tpuprof.plan import cache

    hint = "Give MODEL, or --layers with --n-kv-heads and --head-dim, or --per-token, or --per-sequence."
    given = exactly_one(hint, MODEL=model_name, layers=layers, per_token=per_token, per_sequence=per_sequence)
    tokens = None if context is None else _whole(context)
    if given != "layers":
        refuse("without --layers", "n_kv_heads", "head_dim", "kv_width")
    if given in ("per_token", "per_sequence"):
        refuse("with known bytes", "dtype")
    if given == "per_sequence":
        refuse("with --per-sequence", "context")
    if given == "MODEL":
        found = cache.cache_answers(model_of(model_name or ""), dtype, tokens, batch)
        each = found["per-sequence"].number() if "per-sequence" in found else None
    elif layers is not None:
        if (kv_width is None) == (n_kv_heads is None or head_dim is None):
            raise UsageError("The size of keys is given twice or not at all.", hint=hint)
        tokens = 1 if tokens is None else tokens
        if kv_width is not None:
            whole = cache.kv_of_sizes(layers, kv_width, dtype, tokens, batch)
        else:
            whole = cache.kv_of_heads(layers, n_kv_heads or 0, head_dim or 0, dtype, tokens, batch)
        found, each = {"bytes": whole}, whole.number() / batch
    elif per_token is not None:
        if context is None:
            raise UsageError("The context is not given.", hint="Give --context, such as 8192.")
        found = {"bytes": cache.kv_of_token(per_token, context, batch)}
        each = per_token * context
    else:
        assert per_sequence is not None
        found, each = {"bytes": cache.kv_of_sequences(per_sequence, batch)}, per_sequence
    if weight_bytes is not None and each is not None:
        found["outweighing"] = cache.sequences_outweighing(each, weight_bytes)
    return found


@calculator("kv-sharding")
@click.option("--n-kv-heads", type=int, required=True, help="KV heads.")
@click.option("--chips", type=int, required=True, help="Chips.")
@click.option("--batch", type=int, help="Sequences. Default: as many as needed.")
def kv_sharding(n_kv_heads: int, chips: int, batch: int | None) -> Answers:
    """How the KV cache is split over chips.

    Over heads as far as they go, then over sequences, and over tokens what is left.
    """
    from tpuprof.plan.cache import kv_sharding as sharding_of

    return {"ways": sharding_of(n_kv_heads, chips, batch)}


def _whole(value: float) -> int:
    if value != int(value):
        raise UsageError(f"{value} is no whole number of tokens.")
    return int(value)
