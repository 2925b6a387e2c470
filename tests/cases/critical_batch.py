"""Batches from which work is bound by arithmetic."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, case
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.matmul import Matmul, matmul_of
from tpuprof.perfmodel.matmul_time import critical_rows
from tpuprof.perfmodel.roofline import ridge
from tpuprof.plan import limits


@case("roofline-matmul-bcrit-bf16", "roofline-q2-bcrit", "inference-bcrit-h100")
def _weights(g: Given, _: Any) -> Any:
    weights = g.weights if "weights" in g else "bf16"
    found = limits.weight_batch(ridge(g.peak, g.hbm_bw).number(), weights)
    return ask(f"critical-batch --peak {g.peak} --bandwidth {g.hbm_bw} --weights {weights}", found)


@case("inference-bcrit-int8-int8")
def _all_int8(g: Given, _: Any) -> Any:
    weights = f"int{g.bits_per_param}"
    found = limits.weight_batch(ridge(g.peak_int8, g.hbm_bw).number(), weights)
    return ask(f"critical-batch --peak {g.peak_int8} --bandwidth {g.hbm_bw} --weights {weights}", found)


@case("inference-bcrit-beta")
def _bits(g: Given, _: Any) -> Any:
    weights = f"int{g.bits_per_param}"
    return ask(f"critical-batch --intensity {g.alpha} --weights {weights}", limits.weight_batch(g.alpha, weights))


@case("roofline-q3-bcrit-*")
def _exact(g: Given, _: Any) -> Any:
    found = critical_rows(Matmul(1, g.F, g.D, 1, g.activations, g.weights, g.activations), g.peak, g.hbm_bw)
    words = (
        f"matmul {g.activations}[1,{g.D}] {g.weights}[{g.D},{g.F}] --out-dtype {g.activations} --peak {g.peak} "
        f"--bandwidth {g.hbm_bw} --ask critical-rows"
    )
    return ask(words, found)


@case("tpus-q4-bcrit-*")
def _exact_int8(g: Given, _: Any) -> Any:
    x, w = parse_array(g.X_shape).sized({"B": 1}), parse_array(g.W_shape)
    bandwidth = g.hbm_bw if "hbm_bw" in g else g.vmem_bw
    found = critical_rows(matmul_of(x, w, contract=(1, 1)), g.peak_int8, bandwidth)
    words = f"matmul {x} {w} --contract 1,1 --peak {g.peak_int8} --bandwidth {bandwidth} --ask critical-rows"
    return ask(words, found)


@case("transformers-q8-bcrit-deepseek")
def _experts_int8(g: Given, _: Any) -> Any:
    found = limits.weight_batch(g.hw_intensity, g.weights, experts=g.E, top_k=g.k)
    words = f"critical-batch --intensity {g.hw_intensity} --weights {g.weights} --experts {g.E} --top-k {g.k}"
    return ask(words, found)


@case("inference-q5-bcrit")
def _experts(g: Given, _: Any) -> Any:
    found = limits.weight_batch(g.alpha, experts=g.E, top_k=g.k)
    return ask(f"critical-batch --intensity {g.alpha} --experts {g.E} --top-k {g.k}", found)


@case("training-alpha-v5p", "training-alpha-v5e", "training-alpha-v6e", "training-alpha-7x", "training-alpha-v4p")
def _one_axis(g: Given, _: Any) -> Any:
    found = limits.data_parallel_tokens(ridge(g.peak, g.W_bidir).number())
    return ask(f"parallelism --peak {g.peak} --bandwidth {g.W_bidir}", found)


@case("training-alpha-int8-v5p")
def _one_axis_int8(g: Given, _: Any) -> Any:
    found = ridge(g.peak_int8, g.W_bidir)
    return ask(f"ridge --link ici --peak {g.peak_int8} --bandwidth {g.W_bidir}", found)


@case("training-alpha-v5p-3axes")
def _three_axes(g: Given, _: Any) -> Any:
    found = limits.data_parallel_tokens(g.alpha, g.M_X)
    return ask(f"parallelism --intensity {g.alpha} --axes {g.M_X}", found)


@case("training-pod-batch-v5p", "training-q3-min-batch")
def _of_chips(g: Given, _: Any) -> Any:
    found = limits.batch_of(chips=g.chips, per_chip=g.per_chip)["batch"]
    return ask(f"batch --chips {g.chips} --per-chip {g.per_chip}", found)


@case("gpus-dp-llama3-batch", "gpus-dp-deepseek-batch")
def _of_gpus(g: Given, _: Any) -> Any:
    found = limits.batch_of(chips=g.gpus, per_chip=g.per_gpu)["batch"]
    return ask(f"batch --chips {g.gpus} --per-chip {g.per_gpu}", found)


@case("gpus-deepseek-batch")
def _of_sequences(g: Given, _: Any) -> Any:
    found = limits.batch_of(sequences=g.sequences, sequence=g.seq)["batch"]
    return ask(f"batch --sequences {g.sequences} --seq {g.seq}", found)


@case("gpus-deepseek-per-gpu", "gpus-llama3-per-gpu", "gpus-quiz5-q2-tokens")
def _per_gpu(g: Given, _: Any) -> Any:
    found = limits.batch_of(batch=g.batch, chips=g.gpus)["per-chip"]
    return ask(f"batch --batch {g.batch} --chips {g.gpus}", found)


@case("training-dcn-bcrit*")
def _between_slices(g: Given, _: Any) -> Any:
    found = limits.slice_tokens(ridge(g.peak, g.W_dcn).number())
    return ask(f"parallelism --link dcn --peak {g.peak} --bandwidth {g.W_dcn}", found)


@case("training-2M-mixed-threshold", "training-q3-mixed-threshold", "apptrain-q2-mixed-threshold")
def _mixed(g: Given, _: Any) -> Any:
    found = limits.mixed_tokens(g.alpha, g.F, (g.M_X_times_M_Y, 1))["overlapping"]
    words = f"parallelism --intensity {g.alpha} --d-ff {g.F} --split-axes {g.M_X_times_M_Y}x1 --ask mixed"
    return ask(words, found)


@case("gpus-dp-node", "gpus-dp-scaleout", "gpus-dp-h800", "gpus-quiz5-q1-*", "gpus-gb200-dp", "gpus-quiz5-q2-pp8")
def _gpus(g: Given, _: Any) -> Any:
    found = limits.data_parallel_tokens(ridge(g.peak, g.W).number())
    return ask(f"parallelism --link scale-out --peak {g.peak} --bandwidth {g.W}", found)


@case("gpus-moe-oss")
def _gpu_experts(g: Given, _: Any) -> Any:
    found = limits.data_parallel_tokens(g.alpha, experts=g.E, top_k=g.k)
    return ask(f"parallelism --intensity {g.alpha} --experts {g.E} --top-k {g.k}", found)


@case("gpus-dp-2node")
def _two_nodes(g: Given, _: Any) -> Any:
    found = limits.data_parallel_tokens(g.alpha, members=g.X)
    return ask(f"parallelism --intensity {g.alpha} --members {g.X}", found)
