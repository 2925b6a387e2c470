"""Parameters, operations and caches of models."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, case
from tpuprof.perfmodel.matmul import Matmul, matmul_of_line
from tpuprof.perfmodel.matmul_time import matmul_time
from tpuprof.perfmodel.rates import Rates
from tpuprof.plan import cache, flops
from tpuprof.plan.params import params_of_sizes


@case("training-q1-ffw")
def _mlp(g: Given, _: Any) -> Any:
    found = params_of_sizes(g.D, g.L, hidden=g.F)["mlp"]
    return ask(f"params --layers {g.L} --d-model {g.D} --d-ff {g.F} --ask mlp", found)


@case("training-q1-attn")
def _attention(g: Given, _: Any) -> Any:
    found = params_of_sizes(g.D, g.L, heads=g.N, head_dim=g.H)["attention"]
    return ask(f"params --layers {g.L} --d-model {g.D} --n-heads {g.N} --head-dim {g.H} --ask attention", found)


@case("training-q1-vocab")
def _vocabulary(g: Given, _: Any) -> Any:
    found = params_of_sizes(g.D, vocab=g.V, tied=g.tied)["vocabulary"]
    return ask(f"params --d-model {g.D} --vocab {g.V} --{'tied' if g.tied else 'untied'} --ask vocabulary", found)


def _model(g: Given, name: str) -> Any:
    m = g.model
    mixed = {"experts": m.get("E"), "top_k": m.get("k")}
    found = params_of_sizes(
        m["D"], m["L"], hidden=m["F"], heads=m["N"], kv_heads=m["K"], head_dim=m["H"], vocab=m["V"], gated=m["gated"],
        tied=m["tied"], **mixed,
    )[name]  # fmt: skip
    words = (
        f"params --layers {m['L']} --d-model {m['D']} --d-ff {m['F']} --n-heads {m['N']} --n-kv-heads {m['K']} "
        f"--head-dim {m['H']} --vocab {m['V']} --{'gated' if m['gated'] else 'ungated'} "
        f"--{'tied' if m['tied'] else 'untied'} --ask {name}"
    )
    return ask(f"{words} --experts {m['E']} --top-k {m['k']}" if "E" in m else words, found)


@case("training-q1-total", "apptrain-q2-params-405b", "inference-q1-params", "inference-q5-total")
def _all(g: Given, _: Any) -> Any:
    return _model(g, "params")


@case("inference-q5-active")
def _active(g: Given, _: Any) -> Any:
    return _model(g, "active")


@case("tpus-q6-flops")
def _product(g: Given, _: Any) -> Any:
    found = matmul_time(Matmul(g.m, g.n, g.k), Rates()).answers()["flops"]
    return ask(f"matmul bf16[{g.m},{g.k}] bf16[{g.k},{g.n}] --ask flops", found)


@case("transformers-train-matmul")
def _trained_product(g: Given, _: Any) -> Any:
    return ask(f"flops --matmul {g.N}x{g.P}x{g.M}", flops.matmul_flops(g.N, g.P, g.M)["training"])


@case("transformers-vocab-train-flops")
def _head(g: Given, _: Any) -> Any:
    return ask(f"flops --matmul {g.tokens}x{g.D}x{g.V}", flops.matmul_flops(g.tokens, g.D, g.V)["training"])


@case("transformers-attn-dominates-*")
def _length(g: Given, _: Any) -> Any:
    assert g.assume == "F=4D, NH=D, N=K, no causal saving"  # the defaults
    return ask(f"attention-length --d-model {g.D}", flops.attention_length(g.D)["all-matmuls"])


@case("transformers-q5-crossover")
def _projections_length(g: Given, _: Any) -> Any:
    assert g.assume == "NH=D, N=K"
    return ask(f"attention-length --d-model {g.D} --ask projections", flops.attention_length(g.D)["projections"])


@case("transformers-q3-einsum")
def _einsum(g: Given, _: Any) -> Any:
    sizes = {letter: getattr(g, letter) for letter in "IJKLMNO"}
    text = "IJKL,IJMNO->KLMNO"
    named = ",".join(f"{letter}={size}" for letter, size in sizes.items())
    return ask(f"einsum {text} --sizes {named}", flops.einsum_flops(text, sizes))


@case("training-llama70b-flops", "apptrain-q2-flops-total")
def _training(g: Given, _: Any) -> Any:
    return ask(f"flops --params {g.params} --tokens {g.tokens}", flops.training_flops(g.params, g.tokens))


@case("apptrain-flops-per-token", "apptrain-q2-flops-token")
def _training_per_token(g: Given, _: Any) -> Any:
    return ask(f"flops --params {g.params}", flops.training_flops(g.params))


@case("apptrain-total-flops")
def _of_tokens(g: Given, _: Any) -> Any:
    found = flops.flops_of_tokens(g.per_token, g.tokens)
    return ask(f"flops --per-token {g.per_token} --tokens {g.tokens}", found)


@case("inference-q5-fwd-flops")
def _forward(g: Given, _: Any) -> Any:
    found = flops.forward_flops(g.active, g.T)
    return ask(f"flops --params {g.active} --tokens {g.T} --ask forward", found)


@case("appinf-q1-flops-token")
def _forward_per_token(g: Given, _: Any) -> Any:
    return ask(f"flops --params {g.params} --ask forward", flops.forward_flops(g.params))


@case("profiling-overview-fusion143-modelflops", "profiling-q1-flops")
def _of_line(g: Given, _: Any) -> Any:
    found = matmul_time(matmul_of_line(g.hlo), Rates()).answers()["flops"]
    return ask(["matmul", "--line", g.hlo, "--ask", "flops"], found)


@case("transformers-kv-8k")
def _cache_of_width(g: Given, _: Any) -> Any:
    found = cache.kv_of_sizes(g.L, g.KH, g.dtype, g.S)
    return ask(f"kv-cache --layers {g.L} --kv-width {g.KH} --dtype {g.dtype} --context {g.S}", found)


@case("inference-13b-kv-8k")
def _cache_of_heads(g: Given, _: Any) -> Any:
    found = cache.kv_of_heads(g.L, g.K, g.H, g.dtype, g.T)
    words = f"kv-cache --layers {g.L} --n-kv-heads {g.K} --head-dim {g.H} --dtype {g.dtype} --context {g.T}"
    return ask(words, found)


@case("inference-q1-kv-token", "inference-q5-kv", "appinf-kv-token")
def _cache_per_token(g: Given, _: Any) -> Any:
    found = cache.kv_of_heads(g.L, g.K, g.H, g.dtype)
    return ask(f"kv-cache --layers {g.L} --n-kv-heads {g.K} --head-dim {g.H} --dtype {g.dtype}", found)


@case("inference-popquiz-kv", "inference-q2-kv-seq", "appinf-kv-32k")
def _cache_of_context(g: Given, _: Any) -> Any:
    found = cache.kv_of_token(g.per_token, g.context)
    return ask(f"kv-cache --per-token {g.per_token} --context {g.context}", found)


@case("appinf-kv-32x8k")
def _cache_of_batch(g: Given, _: Any) -> Any:
    found = cache.kv_of_token(g.per_token, g.context, g.B)
    return ask(f"kv-cache --per-token {g.per_token} --context {g.context} --batch {g.B}", found)


@case("appinf-kv-bs240")
def _cache_of_sequences(g: Given, _: Any) -> Any:
    found = cache.kv_of_sequences(g.per_seq, g.B)
    return ask(f"kv-cache --per-sequence {g.per_seq} --batch {g.B}", found)


@case("inference-13b-kv-vs-weights")
def _outweighing(g: Given, _: Any) -> Any:
    found = cache.sequences_outweighing(g.kv, g.weights)
    return ask(f"kv-cache --per-sequence {g.kv} --weight-bytes {g.weights} --ask outweighing", found)
