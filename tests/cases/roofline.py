"""Rooflines, intensities, rates of units."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, by, case
from tpuprof.perfmodel import compare, intensity, peaks, roofline
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.matmul import Matmul, matmul_of
from tpuprof.perfmodel.matmul_time import matmul_time
from tpuprof.perfmodel.rates import Rates


@case("roofline-tmath-h100", "tpus-q6-tmath")
def _compute_time(g: Given, _: Any) -> Any:
    return ask(f"roofline-time --flops {g.flops} --peak {g.peak}", roofline.compute_time(g.flops, g.peak))


@case("tpus-q6-hbm")
def _memory_time(g: Given, _: Any) -> Any:
    return ask(f"roofline-time --bytes {g.bytes} --bandwidth {g.hbm_bw}", roofline.traffic_time(g.bytes, g.hbm_bw))


@case("roofline-hw-intensity-*", "gpus-quiz1-q3-*")
def _ridge(g: Given, _: Any) -> Any:
    return ask(f"ridge --peak {g.peak} --bandwidth {g.hbm_bw}", roofline.ridge(g.peak, g.hbm_bw))


@case("roofline-matmul-intensity-finite")
def _matmul_intensity(g: Given, _: Any) -> Any:
    made = Matmul(g.B, g.F, g.D, 1, g.dtype, g.dtype, g.dtype)
    words = f"matmul {g.dtype}[{g.B},{g.D}] {g.dtype}[{g.D},{g.F}] --ask intensity"
    return ask(words, matmul_time(made, Rates()).answers()["intensity"])


@case("roofline-tile-intensity")
def _tile(g: Given, _: Any) -> Any:
    return ask(f"tile {g.bm}x{g.bn} --dtype {g.dtype}", intensity.tile_intensity(g.bm, g.bn, g.dtype))


@case("roofline-bounds-ratio")
def _bounds(g: Given, _: Any) -> Any:
    words = f"roofline-time --compute-time {g.T_math} --comm-time {g.T_comms} --ask ratio"
    return ask(words, roofline.overlap({"compute": g.T_math, "comm": g.T_comms}).answers()["ratio"])


@case("roofline-q3-throughput-b64")
def _mixed_dtypes(g: Given, _: Any) -> Any:
    made = Matmul(g.B, g.F, g.D, 1, g.activations, g.weights, g.activations)
    rates = Rates().with_peak(g.peak).with_link("hbm", g.hbm_bw)
    words = (
        f"matmul {g.activations}[{g.B},{g.D}] {g.weights}[{g.D},{g.F}] --out-dtype {g.activations} "
        f"--peak {g.peak} --bandwidth {g.hbm_bw} --ask attainable"
    )
    return ask(words, matmul_time(made, rates).answers()["attainable"])


@case("tpus-q4-time-*")
def _int8_matmul(g: Given, _: Any) -> Any:
    x, w = parse_array(g.X_shape).sized({"B": g.B}), parse_array(g.W_shape)
    rates = Rates().with_peak(g.peak_int8).with_link("hbm", g.hbm_bw)
    words = f"matmul {x} {w} --contract 1,1 --peak {g.peak_int8} --bandwidth {g.hbm_bw} --ask time"
    return ask(words, matmul_time(matmul_of(x, w, contract=(1, 1)), rates).answers()["time"])


@case("tpus-mxu-flops")
def _one_matrix_unit(g: Given, _: Any) -> Any:
    (m, k), (_k, n) = parse_array(g.lhs).shape, parse_array(g.rhs).shape
    per_cycle = peaks.product_per_cycle(m, n, k, g.cycles).number()
    words = f"units --units 1 --product {m}x{n}x{k} --cycles {g.cycles} --clock {g.clock}"
    return ask(words, peaks.rate_of_units(units=1, per_cycle=per_cycle, clock=g.clock))


@case("tpus-chip-flops-v5e")
def _matrix_units(g: Given, _: Any) -> Any:
    per_cycle = peaks.product_per_cycle(8, 128, 128, 8).number()
    words = f"units --units {g.mxus} --product 8x128x128 --cycles 8 --clock {g.clock}"
    return ask(words, peaks.rate_of_units(units=g.mxus, per_cycle=per_cycle, clock=g.clock))


@case("tpus-popquiz-vpu")
def _vector_unit(g: Given, _: Any) -> Any:
    units = (g.lanes, g.sublanes, g.alus)
    rate = peaks.rate_of_units(units=peaks.unit_count(units).number(), per_cycle=1, clock=g.clock)
    return ask(f"units --units {by([*units])} --per-cycle 1 --clock {g.clock}", rate)


@case("gpus-quiz1-q2-*")
def _lanes(g: Given, _: Any) -> Any:
    rate = peaks.rate_of_units(units=g.alus, per_cycle=1, clock=g.clock)
    return ask(f"units --units {g.alus} --per-cycle 1 --clock {g.clock}", rate)


@case("gpus-quiz1-q6-clock")
def _clock(g: Given, _: Any) -> Any:
    clock = peaks.rate_of_units(units=g.alus, per_cycle=g.fma, rate=g.vector)
    return ask(f"units --units {g.alus} --per-cycle {g.fma} --rate {g.vector}", clock)


@case("gpus-tc-flops-*")
def _tensor_core(g: Given, _: Any) -> Any:
    units = peaks.unit_count((g.sms, g.tc_per_sm)).number()
    words = f"units --units {g.sms}x{g.tc_per_sm} --clock {g.clock} --rate {g.peak}"
    return ask(words, peaks.rate_of_units(units=units, clock=g.clock, rate=g.peak))


@case("gpus-quiz1-q1-h100", "gpus-quiz1-q1-b200")
def _gpu_lanes(g: Given, _: Any) -> Any:
    return ask(f"units --units {g.sms}x{g.sub}x{g.lanes}", peaks.unit_count((g.sms, g.sub, g.lanes)))


@case("gpus-quiz1-q1-v5p")
def _tpu_alus(g: Given, _: Any) -> Any:
    units = (g.cores, g.alus, *g.shape)
    return ask(f"units --units {by([*units])}", peaks.unit_count(units))


@case("tpus-pcie-vs-hbm-v4")
def _links_compared(g: Given, _: Any) -> Any:
    return ask(f"compare {g.hbm_bw}B/s {g.pcie_bw}B/s", compare.ratio(g.hbm_bw, g.pcie_bw, "B/s"))


@case("tpus-popquiz-mxu-vpu-ratio")
def _units_compared(g: Given, _: Any) -> Any:
    a, b = g.mxu_peak_per_core, g.vpu_peak_per_core
    return ask(f"compare {a}FLOP/s {b}FLOP/s", compare.ratio(a, b, "FLOP/s"))


@case("tpus-v5p-pod-flops")
def _rate_of_chips(g: Given, _: Any) -> Any:
    rate = peaks.slice_totals((g.chips,), peak=g.peak)["peak"]
    return ask(f"topology --shape {g.chips} --peak {g.peak} --ask peak", rate)


@case("tpus-q2-*-flops")
def _rate_of_pod(g: Given, _: Any) -> Any:
    rate = peaks.slice_totals(tuple(g.pod), peak=g.peak)["peak"]
    return ask(f"topology --shape {by(g.pod)} --peak {g.peak} --ask peak", rate)


@case("transformers-q4-prefill-g8")
def _prefill(g: Given, _: Any) -> Any:
    return ask(f"attention --queries {g.T} --group {g.G}", intensity.attention_intensity(g.T, g.T, g.G))


@case("transformers-q4-decode-limit")
def _decode(g: Given, _: Any) -> Any:
    words = f"attention --queries {g.T} --keys {g.S} --group {g.G}"
    return ask(words, intensity.attention_intensity(g.T, g.S, g.G))


@case("inference-mha-intensity-*")
def _multi_head(g: Given, _: Any) -> Any:
    return ask(f"attention --queries {g.T} --keys {g.S}", intensity.attention_intensity(g.T, g.S))


@case("transformers-q4-prefill-crossover-*")
def _crossover(g: Given, _: Any) -> Any:
    words = f"attention --critical {g.hw_intensity} --group {g.G}"
    return ask(words, intensity.attention_crossover(g.hw_intensity, g.G))


@case("inference-mha-prefill-crossover")
def _multi_head_crossover(g: Given, _: Any) -> Any:
    return ask(f"attention --critical {g.hw_intensity}", intensity.attention_crossover(g.hw_intensity))


@case("profiling-q1-bandwidth")
def _achieved(g: Given, _: Any) -> Any:
    found = compare.achieved(g.duration, size=g.bytes)["bandwidth"]
    return ask(f"achieved --bytes {g.bytes} --time {g.duration}", found)


@case("gpus-quiz1-q7-intensity")
def _addition(g: Given, _: Any) -> Any:
    # Any number of elements has the same intensity; 4 bytes per element is f32.
    return ask("elementwise 1024 --dtype f32 --reads 2", intensity.elementwise(1024, "f32", reads=2)["intensity"])


@case("gpus-quiz1-q7-n64k", "gpus-quiz1-q7-n1g")
def _addition_time(g: Given, _: Any) -> Any:
    moved = intensity.elementwise(g.N, "f32", reads=2)["bytes"].number()
    words = f"elementwise {g.N} --dtype f32 --reads 2 --bandwidth {g.hbm_bw} --ask time"
    return ask(words, roofline.traffic_time(moved, g.hbm_bw))
