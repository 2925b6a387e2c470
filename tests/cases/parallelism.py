"""Which parallelism, and how much of it."""

from __future__ import annotations

import math
from typing import Any

from tests.cases.support import Given, ask, case
from tpuprof.perfmodel import compare, layer
from tpuprof.plan import limits, parallel
from tpuprof.plan.cache import kv_sharding
from tpuprof.plan.memory import memory_of_parts


@case("sharding-q7-choice")
def _choice(g: Given, _: Any) -> Any:
    found = parallel.mlp_choice(g.B, g.D, g.F, g.chips, g.mem_limit, g.dtype)
    words = (
        f"mlp-choice --tokens {g.B} --d-model {g.D} --d-ff {g.F} --chips {g.chips} --capacity {g.mem_limit} "
        f"--dtype {g.dtype}"
    )
    return ask(words, found)


@case("training-deepseekv2-chips")
def _chips(g: Given, _: Any) -> Any:
    found = limits.batch_of(batch=g.batch, per_chip=g.per_chip)["chips"]
    return ask(f"batch --batch {g.batch} --per-chip {g.per_chip}", found)


@case("training-2M-mixed-chips")
def _mixed_chips(g: Given, _: Any) -> Any:
    found = limits.batch_of(batch=g.batch, per_chip=g.threshold)["chips"]
    return ask(f"batch --batch {g.batch} --per-chip {g.threshold}", found)


@case("training-deepseekv2-pods")
def _pods(g: Given, _: Any) -> Any:
    return ask(f"compare {g.chips} {g.pod}", compare.ratio(g.chips, g.pod, ""))


@case("training-llama70b-chips-16M", "training-2M-fsdp-chips")
def _fsdp_chips(g: Given, _: Any) -> Any:
    threshold = limits.data_parallel_tokens(g.alpha, g.M_X)
    found = limits.batch_of(batch=g.batch, per_chip=threshold.number())["chips"]
    return ask(f"parallelism --intensity {g.alpha} --axes {g.M_X} --batch {g.batch} --ask chips", found)


@case("training-2M-2pods-per-chip")
def _per_chip(g: Given, _: Any) -> Any:
    found = limits.batch_of(batch=g.batch, chips=g.chips)["per-chip"]
    return ask(f"batch --batch {g.batch} --chips {g.chips}", found)


@case("training-q3-seqs")
def _sequences(g: Given, _: Any) -> Any:
    found = limits.batch_of(batch=g.batch, sequence=g.seq)["sequences"]
    return ask(f"batch --batch {g.batch} --seq {g.seq}", found)


@case("training-q3-fsdp-ok")
def _enough(g: Given, _: Any) -> Any:
    return ask(f"batch --batch {g.batch} --minimum {g.minimum}", limits.enough(g.batch, g.minimum))


@case("training-q3-dp-ok")
def _fits(g: Given, _: Any) -> Any:
    found = memory_of_parts({"state": g.state}, capacity=g.hbm)["fits"]
    return ask(f"memory --part state={g.state} --capacity {g.hbm} --ask fits", found)


def _limit(hidden: float, alpha: float, axes: float = 1) -> Any:
    found = parallel.tensor_parallel_limit(hidden, alpha, axes)
    return ask(f"parallelism --intensity {alpha} --d-ff {hidden} --axes {axes} --ask tensor", found)


@case("training-tp-llama70b-limit", "training-tp-gemma7b")
def _tensor(g: Given, _: Any) -> Any:
    return _limit(g.F, g.alpha, g.M_Y)


@case("inference-prefill-tp-limit", "gpus-tp-28k", "gpus-quiz5-q2-tp-limit")
def _tensor_one_axis(g: Given, _: Any) -> Any:
    return _limit(g.F, g.alpha)


@case("inference-q4-tp-limit", "appinf-tp-limit")
def _tensor_axes(g: Given, _: Any) -> Any:
    return _limit(g.F, g.alpha, g.axes)


@case("gpus-tp-2node")
def _tensor_two_nodes(g: Given, _: Any) -> Any:
    found = parallel.tensor_parallel_limit(g.F, g.alpha, node=g.D_node)
    return ask(f"parallelism --intensity {g.alpha} --d-ff {g.F} --node {g.D_node} --ask tensor", found)


@case("training-tp-f-for-8way")
def _width(g: Given, _: Any) -> Any:
    found = parallel.tensor_parallel_width(g.Y, g.alpha, g.M_Y)
    return ask(f"parallelism --intensity {g.alpha} --ways {g.Y} --axes {g.M_Y} --ask width", found)


@case("training-q3-xopt")
def _best_split(g: Given, _: Any) -> Any:
    found = parallel.best_split(g.B, g.F, g.N, (g.M_X, g.M_Y))["fsdp"]
    words = f"parallelism --batch {g.B} --d-ff {g.F} --chips {g.N} --split-axes {g.M_X}x{g.M_Y} --ask fsdp"
    return ask(words, found)


@case("inference-beta-v5e")
def _ratio(g: Given, _: Any) -> Any:
    return ask(f"compare {g.hbm_bw}B/s {g.W_bidir}B/s", compare.ratio(g.hbm_bw, g.W_bidir, "B/s"))


@case("inference-decode-tp-limit", "appinf-decode-tp-limit-b64")
def _decode(g: Given, _: Any) -> Any:
    found = parallel.decode_tensor_limit(g.F, g.B, g.beta)
    return ask(f"decode-parallel --d-ff {g.F} --batch {g.B} --ratio {g.beta}", found)


@case("inference-q4-kv-sharding")
def _cache(g: Given, _: Any) -> Any:
    return ask(f"kv-sharding --n-kv-heads {g.K} --chips {g.chips}", kv_sharding(g.K, g.chips))


@case("inference-q6-min-slice")
def _slice(g: Given, _: Any) -> Any:
    from tpuprof.dtypes import packed_bytes

    found = parallel.smallest_slice(packed_bytes(g.dtype, g.params), g.hbm, g.slices)
    words = (
        f"smallest-slice --params {g.params} --dtype {g.dtype} --capacity {g.hbm} "
        f"--slices {','.join(map(str, g.slices))}"
    )
    return ask(words, found)


@case("inference-q7-2d-crossover-*")
def _both_ways(g: Given, _: Any) -> Any:
    found = parallel.weight_stationary_crossover(g.F_over_D, g.tp_axes)
    return ask(f"weight-stationary-chips --ratio {g.F_over_D} --axes {g.tp_axes}", found)


@case("inference-q7-xopt")
def _both_ways_split(g: Given, _: Any) -> Any:
    found = layer.weight_stationary(g.F_over_D, chips=g.N)["split"]
    return ask(f"weight-stationary --ratio {g.F_over_D} --chips {g.N} --ask split", found)


@case("appinf-chips-bs240")
def _holding(g: Given, _: Any) -> Any:
    found = memory_of_parts({"weights": g.weights, "kv": g.kv}, capacity=g.hbm)["chips"]
    return ask(f"memory --part weights={g.weights} --part kv={g.kv} --capacity {g.hbm} --ask chips", found)


@case("appinf-min-chips")
def _fewest(g: Given, _: Any) -> Any:
    found = memory_of_parts({"V": g.mem}, capacity=g.hbm)["chips"]
    return ask(f"smallest-slice --bytes {g.mem} --capacity {g.hbm}", found)


@case("appinf-q3-min-chips-15ms")
def _reading(g: Given, _: Any) -> Any:
    found = parallel.chips_to_read(g.weights, g.hbm_bw, g.limit)
    return ask(f"smallest-slice --bytes {g.weights} --bandwidth {g.hbm_bw} --limit {g.limit}", found)


@case("gpus-ep-f-threshold")
def _wide_experts(g: Given, _: Any) -> Any:
    assert "many more nodes" in g.wide
    found = limits.expert_width(g.alpha, math.inf, 1, g.D_node)
    return ask(f"expert-parallel --intensity {g.alpha} --ways inf --top-k 1 --node {g.D_node}", found)


@case("gpus-ep-small-deepseek")
def _narrow_experts(g: Given, _: Any) -> Any:
    found = limits.expert_width(g.alpha, g.Z, g.k, g.D_node)
    return ask(f"expert-parallel --intensity {g.alpha} --ways {g.Z} --top-k {g.k} --node {g.D_node}", found)


@case("gpus-deepseek-layout")
def _experts_layout(g: Given, _: Any) -> Any:
    mesh = {"EP": g.EP, "PP": g.PP, "DP": g.DP}
    return ask(f"layout EP={g.EP},PP={g.PP},DP={g.DP}", parallel.mesh_devices(mesh))


@case("gpus-llama3-layout")
def _dense_layout(g: Given, _: Any) -> Any:
    mesh = {"TP": g.TP, "PP": g.PP, "DP": g.DP}
    return ask(f"layout TP={g.TP},PP={g.PP},DP={g.DP}", parallel.mesh_devices(mesh))
