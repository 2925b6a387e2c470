"""Memory, time and cost of training, and what the host adds."""

from __future__ import annotations

import re
from typing import Any

from tests.cases.support import Given, ask, by, case
from tpuprof.perfmodel import peaks
from tpuprof.perfmodel.derivation import Quantity
from tpuprof.perfmodel.roofline import ridge
from tpuprof.perfmodel.transfer import staged
from tpuprof.plan import flops, memory, training
from tpuprof.plan.limits import weight_batch
from tpuprof.plan.state import StateTypes

_TYPES = StateTypes("bf16", None, ("f32", "f32"))
_WORDS = "--weights bf16 --gradients none --moments f32,f32"


def _peak(value: float) -> Quantity:
    return Quantity(value, "FLOP/s")


def _price(value: float) -> Quantity:
    return Quantity(value, "USD/chip-hour")


@case("training-dp-max-params-v5p")
def _largest(g: Given, _: Any) -> Any:
    found = memory.largest_model(g.hbm, g.bytes_per_param)
    return ask(f"memory --capacity {g.hbm} --bytes-per-param {g.bytes_per_param} --ask largest-model", found)


@case("training-bytes-per-param")
def _per_param(g: Given, _: Any) -> Any:
    count, dtype = re.fullmatch(r"(\d+) x (\w+)", g.moments).groups()  # type: ignore[union-attr]
    types = StateTypes(g.weights, None, (dtype,) * int(count))
    words = f"memory --weights {g.weights} --gradients none --moments {','.join(types.moments)} --ask bytes-per-param"
    return ask(words, memory.bytes_per_param(types))


@case("training-q2-state", "gpus-quiz5-q2-state")
def _state(g: Given, _: Any) -> Any:
    found = memory.state_of_params(g.params, g.bytes_per_param)["state"]
    return ask(f"memory --params {g.params} --bytes-per-param {g.bytes_per_param}", found)


@case("apptrain-mem-params", "inference-13b-weights")
def _weights(g: Given, _: Any) -> Any:
    found = memory.state_of_params(g.params, StateTypes(g.dtype))["weights"]
    return ask(f"memory --params {g.params} --weights {g.dtype} --ask weights", found)


@case("apptrain-mem-opt")
def _optimizer(g: Given, _: Any) -> Any:
    assert g.dtype == "2 x fp32"
    found = memory.state_of_params(g.params, _TYPES)["optimizer"]
    return ask(f"memory --params {g.params} {_WORDS} --ask optimizer", found)


@case("training-q2-acts", "training-q3-acts")
def _after_mlp(g: Given, _: Any) -> Any:
    found = memory.checkpoint_bytes(g.tokens, g.L, memory.checkpoint_elements(g.D, g.F), g.dtype)
    words = f"memory --tokens {g.tokens} --layers {g.L} --d-model {g.D} --d-ff {g.F} --dtype {g.dtype}"
    return ask(f"{words} --ask activations", found)


@case("apptrain-mem-acts")
def _checkpoints(g: Given, _: Any) -> Any:
    each = memory.checkpoint_elements(g.D, per_layer=g.ckpt_per_layer)
    found = memory.checkpoint_bytes(g.tokens, g.L, each, g.dtype)
    words = f"memory --tokens {g.tokens} --layers {g.L} --d-model {g.D} --checkpoints {g.ckpt_per_layer}"
    return ask(f"{words} --dtype {g.dtype} --ask activations", found)


@case("training-q3-hbm")
def _slice(g: Given, _: Any) -> Any:
    found = peaks.slice_totals(tuple(g.slice), hbm=g.hbm)["hbm"]
    return ask(f"topology --shape {by(g.slice)} --hbm {g.hbm} --ask hbm", found)


@case("training-q3-total")
def _sum(g: Given, _: Any) -> Any:
    found = memory.memory_of_parts({"acts": g.acts, "state": g.state})["total"]
    return ask(f"memory --part acts={g.acts} --part state={g.state}", found)


@case("apptrain-mem-total")
def _sum_of_list(g: Given, _: Any) -> Any:
    parts = {f"part{n}": size for n, size in enumerate(g.parts)}
    words = " ".join(f"--part {name}={size}" for name, size in parts.items())
    return ask(f"memory {words}", memory.memory_of_parts(parts)["total"])


@case("training-q3-per-chip", "apptrain-mem-per-chip")
def _per_chip(g: Given, _: Any) -> Any:
    found = memory.memory_of_parts({"total": g.total}, chips=g.chips)["per-chip"]
    return ask(f"memory --part total={g.total} --chips {g.chips}", found)


@case("apptrain-mem-per-chip-12ckpt")
def _all_per_chip(g: Given, _: Any) -> Any:
    each = memory.checkpoint_elements(g.D, per_layer=g.ckpt_per_layer)
    parts = {
        "state": memory.state_of_params(g.params, g.bytes_per_param)["state"].number(),
        "activations": memory.checkpoint_bytes(g.tokens, g.L, each, g.dtype).number(),
    }
    words = (
        f"memory --params {g.params} --bytes-per-param {g.bytes_per_param} --tokens {g.tokens} --layers {g.L} "
        f"--d-model {g.D} --checkpoints {g.ckpt_per_layer} --dtype {g.dtype} --chips {g.chips}"
    )
    return ask(words, memory.memory_of_parts(parts, chips=g.chips)["per-chip"])


@case("apptrain-min-chips")
def _fewest(g: Given, _: Any) -> Any:
    found = memory.memory_of_parts({"total": g.total}, capacity=g.hbm)["chips"]
    return ask(f"memory --part total={g.total} --capacity {g.hbm} --ask chips", found)


@case("gpus-quiz5-q2-min-gpus")
def _fewest_gpus(g: Given, _: Any) -> Any:
    found = memory.memory_of_parts({"state": g.state}, capacity=g.hbm)["chips"]
    return ask(f"memory --part state={g.state} --capacity {g.hbm} --ask chips", found)


@case("gpus-quiz5-q2-mem-tp8")
def _split_state(g: Given, _: Any) -> Any:
    found = memory.memory_of_parts({"state": g.state}, chips=g.tp)["per-chip"]
    return ask(f"memory --part state={g.state} --chips {g.tp}", found)


def _time(work: float, chips: float, peak: float, mfu: float, name: str) -> Any:
    found = training.train_time(work, chips, _peak(peak), mfu)[name]
    return ask(f"train-time --flops {work} --chips {chips} --peak {peak} --mfu {mfu} --ask {name}", found)


@case("training-llama70b-days-16M", "apptrain-pod-days", "apptrain-q2-days-8pods")
def _days(g: Given, _: Any) -> Any:
    return _time(g.flops, g.chips, g.peak, g.mfu, "days")


@case("gpus-quiz5-q2-days")
def _gpu_days(g: Given, _: Any) -> Any:
    return _time(g.flops, g.gpus, g.peak, g.mfu, "days")


@case("apptrain-time-per-token")
def _token(g: Given, _: Any) -> Any:
    return _time(g.flops, 1, g.peak, 1, "time")


@case("apptrain-single-chip-years")
def _years(g: Given, _: Any) -> Any:
    assert g.days_per_year == 365
    return _time(g.flops, 1, g.peak, 1, "years")


@case("training-q3-step")
def _step(g: Given, _: Any) -> Any:
    work = flops.training_flops(g.params, g.tokens).number()
    found = training.train_time(work, g.chips, _peak(g.peak), g.mfu)["time"]
    words = f"train-time --params {g.params} --tokens {g.tokens} --chips {g.chips} --peak {g.peak} --mfu {g.mfu}"
    return ask(words, found)


@case("apptrain-min-chips-days")
def _scaled(g: Given, _: Any) -> Any:
    found = training.scaled_time(g.days_pod, g.pod, g.chips)
    return ask(f"train-time --known-days {g.days_pod} --known-chips {g.pod} --chips {g.chips}", found)


@case("apptrain-cost-pod")
def _cost(g: Given, _: Any) -> Any:
    found = training.run_cost(g.days * training.DAY_S, g.chips, _price(g.price))
    return ask(f"cost --days {g.days} --chips {g.chips} --price {g.price}", found)


@case("appinf-flops-per-dollar-*")
def _per_dollar(g: Given, _: Any) -> Any:
    found = training.flops_per_dollar(_peak(g.peak), _price(g.price))
    return ask(f"cost --peak {g.peak} --price {g.price}", found)


@case("appinf-cost-per-mtok")
def _per_million(g: Given, _: Any) -> Any:
    found = training.cost_per_million(g.tput, _price(g.price))
    return ask(f"cost --throughput {g.tput} --price {g.price}", found)


@case("tpus-q3-pcie-bcrit")
def _streamed(g: Given, _: Any) -> Any:
    found = weight_batch(ridge(g.peak, g.pcie_bw).number(), g.dtype)
    return ask(f"offload --peak {g.peak} --bandwidth {g.pcie_bw} --dtype {g.dtype} --ask critical-batch", found)


@case("tpus-q6-pcie")
def _loaded(g: Given, _: Any) -> Any:
    found = training.host_load(g.bytes, Quantity(g.pcie_bw, "B/s"), g.links)
    return ask(f"offload --bytes {g.bytes} --links {g.links} --bandwidth {g.pcie_bw}", found)


@case("tpus-q6-total")
def _stages(g: Given, _: Any) -> Any:
    times = dict(zip(("pcie", "ici", "hbm", "compute"), g.stages_s, strict=True))
    found = next(iter(staged(times).values()))
    return ask(["stages", *(f"{name}={time!r}" for name, time in times.items())], found)
