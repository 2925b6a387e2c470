"""Decode steps, prompts, batches that fit."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, case
from tpuprof.dtypes import packed_bytes
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.derivation import Quantity
from tpuprof.perfmodel.sharding import shard
from tpuprof.plan import serving
from tpuprof.plan.memory import memory_of_parts


def _rate(value: float) -> Quantity:
    return Quantity(value, "B/s")


def _peak(value: float) -> Quantity:
    return Quantity(value, "FLOP/s")


def _load(weight_bytes: float, words: str, chips: int, bandwidth: float) -> Any:
    found = serving.decode_step(
        batch=1, kv_bytes=0, weight_bytes=weight_bytes, chips=chips, bandwidth=_rate(bandwidth)
    )["weight-time"]
    return ask(f"decode {words} --chips {chips} --bandwidth {bandwidth} --ask weight-time", found)


@case("tpus-q1-sampling-latency", "inference-q6-load-int8")
def _read_params(g: Given, _: Any) -> Any:
    weights = packed_bytes(g.dtype, g.params)
    return _load(weights, f"--params {g.params} --weights {g.dtype}", g.chips, g.hbm_bw)


@case("inference-q3-load", "appinf-q3-min-step-256")
def _read_bytes(g: Given, _: Any) -> Any:
    return _load(g.weights, f"--weight-bytes {g.weights}", g.chips, g.hbm_bw)


@case("appinf-step-4x2", "appinf-step-4x4")
def _read_all(g: Given, _: Any) -> Any:
    return _load(g.bytes, f"--weight-bytes {g.bytes}", g.chips, g.hbm_bw)


@case("appinf-q1-memory-bound")
def _read_on_one(g: Given, _: Any) -> Any:
    weights = packed_bytes(g.dtype, g.params)
    return _load(weights, f"--params {g.params} --weights {g.dtype}", 1, g.hbm_bw)


@case("appinf-q1-compute-bound")
def _compute_on_one(g: Given, _: Any) -> Any:
    found = serving.compute_time(g.params, g.chips, _peak(g.peak))
    return ask(f"decode --params {g.params} --chips {g.chips} --peak {g.peak} --ask compute-time", found)


@case("inference-popquiz-step-b4", "inference-popquiz-step-b256")
def _popquiz(g: Given, _: Any) -> Any:
    peak = g.peak if "peak" in g else None
    weights = packed_bytes(g.param_dtype, g.params)
    found = serving.decode_step(
        batch=g.B, kv_bytes=g.kv, weight_bytes=weights, chips=g.chips, bandwidth=_rate(g.hbm_bw), params=g.params,
        peak=None if peak is None else _peak(peak),
    )["step"]  # fmt: skip
    words = (
        f"decode --params {g.params} --weights {g.param_dtype} --batch {g.B} --kv-bytes {g.kv} --chips {g.chips} "
        f"--bandwidth {g.hbm_bw}"
    )
    return ask(words if peak is None else f"{words} --peak {peak}", found)


@case("inference-13b-*-step-*")
def _step(g: Given, _: Any) -> Any:
    found = serving.decode_step(
        batch=g.B, kv_bytes=g.kv_per_seq, weight_bytes=g.weights, chips=g.chips, bandwidth=_rate(g.hbm_bw),
        params=g.params, peak=_peak(g.peak),
    )["step"]  # fmt: skip
    words = (
        f"decode --params {g.params} --weight-bytes {g.weights} --batch {g.B} --kv-bytes {g.kv_per_seq} "
        f"--chips {g.chips} --bandwidth {g.hbm_bw} --peak {g.peak}"
    )
    return ask(words, found)


@case("inference-q4-step")
def _memory_step(g: Given, _: Any) -> Any:
    found = serving.decode_step(
        batch=g.B, kv_bytes=g.kv, weight_bytes=g.weights, chips=g.chips, bandwidth=_rate(g.hbm_bw)
    )["step"]
    words = (
        f"decode --weight-bytes {g.weights} --batch {g.B} --kv-bytes {g.kv} --chips {g.chips} --bandwidth {g.hbm_bw}"
    )
    return ask(words, found)


@case("inference-13b-*-tput-*", "appinf-tput-4x2")
def _throughput(g: Given, _: Any) -> Any:
    return ask(f"decode --batch {g.B} --step {g.step}", serving.throughput(g.B, g.step)["throughput"])


@case("appinf-tput-chip")
def _throughput_per_chip(g: Given, _: Any) -> Any:
    found = serving.throughput(g.B, g.step, g.chips)["throughput-per-chip"]
    return ask(f"decode --batch {g.B} --step {g.step} --chips {g.chips} --ask throughput-per-chip", found)


@case("inference-13b-mha-max-batch", "inference-13b-gqa-max-batch", "inference-q2-batch", "inference-q2-batch-k1")
def _max_batch(g: Given, _: Any) -> Any:
    # The memory is that of all chips together.
    found = serving.batch_limit(g.weights, g.kv, Quantity(g.hbm, "B"))["max-batch"]
    return ask(f"decode --weight-bytes {g.weights} --kv-bytes {g.kv} --capacity {g.hbm} --ask max-batch", found)


@case("inference-q6-free-hbm")
def _free(g: Given, _: Any) -> Any:
    weights = packed_bytes(g.dtype, g.params)
    found = serving.batch_limit(weights, 0, Quantity(g.hbm, "B"), g.chips)["free"]
    words = f"decode --params {g.params} --weights {g.dtype} --chips {g.chips} --capacity {g.hbm} --ask free"
    return ask(words, found)


@case("inference-13b-activation")
def _activation(g: Given, _: Any) -> Any:
    array = f"{g.dtype}[{g.tokens},{g.D}]"
    return ask(f"shard {array} --ask bytes", shard(parse_array(array), {}).answers()["bytes"])


@case("appinf-mem-32x8k")
def _memory(g: Given, _: Any) -> Any:
    found = memory_of_parts({"weights": g.weights, "kv": g.kv})["total"]
    return ask(f"memory --part weights={g.weights} --part kv={g.kv}", found)


@case("appinf-4x8-thbm")
def _matmul_weights(g: Given, _: Any) -> Any:
    found = serving.sharded_matmul_times(g.D, g.F, g.chips, hbm=g.hbm_bw)["weights"]
    words = f"decode-matmul --d-model {g.D} --d-ff {g.F} --chips {g.chips} --bandwidth {g.hbm_bw} --ask weights"
    return ask(words, found)


@case("appinf-4x8-tmath")
def _matmul_compute(g: Given, _: Any) -> Any:
    found = serving.sharded_matmul_times(g.D, g.F, g.chips, tokens=g.B, peak=g.peak)["compute"]
    words = f"decode-matmul --d-model {g.D} --d-ff {g.F} --chips {g.chips} --tokens {g.B} --peak {g.peak} --ask compute"
    return ask(words, found)


@case("appinf-prefill-8k")
def _prefill(g: Given, _: Any) -> Any:
    found = serving.prefill_time(g.params, g.T, g.chips, _peak(g.peak), g.mfu)
    words = f"prefill --params {g.params} --tokens {g.T} --chips {g.chips} --peak {g.peak} --mfu {g.mfu}"
    return ask(words, found)


@case("appinf-seqs-per-step")
def _finished(g: Given, _: Any) -> Any:
    found = serving.disaggregation(batch=g.B, generated=g.G)["finished"]
    return ask(f"disaggregation --batch {g.B} --generated {g.G}", found)


@case("appinf-evicted-per-step")
def _evicted(g: Given, _: Any) -> Any:
    found = serving.disaggregation(batch=g.B, generated=g.G, prompt=g.P)["evicted"]
    return ask(f"disaggregation --batch {g.B} --generated {g.G} --prompt {g.P} --ask evicted", found)


@case("appinf-disagg-ratio", "appinf-disagg-ratio-b43")
def _servers(g: Given, _: Any) -> Any:
    found = serving.disaggregation(batch=g.B, generated=g.G, prefill=g.prefill, step=g.decode_step)["ratio"]
    words = f"disaggregation --batch {g.B} --generated {g.G} --prefill {g.prefill} --step {g.decode_step}"
    return ask(words, found)
