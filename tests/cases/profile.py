"""What a profile shows, beside what was predicted."""

from __future__ import annotations

import re
from typing import Any

from tests.cases.sharded_matmul import answer_of_shard
from tests.cases.support import Given, Measured, ask, case, load
from tpuprof.perfmodel import compare
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.collectives import torus
from tpuprof.perfmodel.gpu_network import node
from tpuprof.perfmodel.matmul import matmul_of, matmul_of_line
from tpuprof.perfmodel.matmul_time import matmul_time
from tpuprof.perfmodel.mesh_collective import group_bytes, one_way
from tpuprof.perfmodel.rates import Rates
from tpuprof.perfmodel.roofline import overlap
from tpuprof.perfmodel.sharding import undo


def _efficiency(predicted: float, measured: float) -> Any:
    found = compare.efficiency(predicted, measured)
    return ask(f"efficiency --predicted {predicted!r} --measured {measured!r}", found)


def _stated(about: dict[str, Any]) -> float:
    """``… predicted/measured = 0.986.``"""
    found = re.search(r"predicted/measured = ([0-9.]+[0-9])", about["asked"])
    assert found is not None
    return float(found[1])


def _of_line(g: Given) -> Any:
    made = matmul_time(matmul_of_line(g.hlo), Rates().with_peak(g.peak_per_core))
    return ask(["matmul", "--line", g.hlo, "--peak", g.peak_per_core, "--ask", "time"], made.answers()["time"])


@case("profiling-ffw-global")
def _global(g: Given, _: Any) -> Any:
    made = matmul_time(
        matmul_of(parse_array(g.X), parse_array(g.W)), Rates().with_peak(g.peak_per_core), devices=g.cores
    )
    words = f"matmul {g.X} {g.W} --devices {g.cores} --peak {g.peak_per_core} --ask time"
    return ask(words, made.answers()["time"])


@case("profiling-ffw-local", "profiling-qproj-predicted", "profiling-overview-fusion143-predicted")
def _local(g: Given, _: Any) -> Any:
    return _of_line(g)


@case("profiling-ffw-measured", "profiling-qproj-measured", "profiling-overview-fusion143-measured")
def _measured_matmul(g: Given, about: dict[str, Any]) -> Any:
    predicted = _of_line(g)
    return Measured(predicted, _efficiency(predicted, about["answer"]["value"]), _stated(about))


@case("profiling-ffw-efficiency")
def _fraction(g: Given, _: Any) -> Any:
    return _efficiency(g.predicted, g.measured)


@case("profiling-ffw-local-batch")
def _tokens(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"[{g.local[0]},{g.local[1]}]"), {}, "elements")


@case("profiling-rs-measured")
def _measured_scatter(g: Given, about: dict[str, Any]) -> Any:
    array = parse_array(g.array)
    found = torus("reduce_scatter", array.bytes(), one_way(g.W_bidir), rings=1)
    words = f"collective reduce-scatter --array {array} --axis-bandwidth {g.W_bidir} --rings 1"
    predicted = ask(words, found)
    return Measured(predicted, _efficiency(predicted, about["answer"]["value"]), _stated(about))


@case("gpus-quiz2-q3-measured")
def _measured_gather(g: Given, about: dict[str, Any]) -> Any:
    array = parse_array(g.array)
    found = node("all_gather", group_bytes(array, ("X",), {"X": g.N}).number(), g.W, members=g.N)
    words = f"collective all-gather --array {g.array} --node-bandwidth {g.W} --members {g.N}"
    predicted = ask(words, found)
    return Measured(predicted, _efficiency(predicted, about["answer"]["value"]), _stated(about))


@case("profiling-q1-tp-degree")
def _degree(g: Given, _: Any) -> Any:
    group = tuple(g.replica_group)
    return ask(f"replica-group {','.join(map(str, group))}", compare.replica_group(group)["members"])


@case("profiling-q1-global-shape")
def _whole(g: Given, _: Any) -> Any:
    dims = [f"{size}_X" if dim == g.sharded_dim else str(size) for dim, size in enumerate(g.local_weight)]
    piece = f"[{','.join(dims)}]"
    return ask(f"unshard {piece} --mesh X={g.tp}", undo(parse_array(piece), {"X": g.tp}))


@case("profiling-q1-measured")
def _measured_bandwidth(g: Given, about: dict[str, Any]) -> Any:
    # No prediction is given, but a bandwidth that the measured time and the bytes must give.
    stated = re.search(r"it gives ([0-9]+) GB/s", about["asked"])
    assert stated is not None
    measured = about["answer"]["value"]
    found = compare.achieved(measured, size=g.bytes)["bandwidth"]
    bandwidth = ask(f"achieved --bytes {g.bytes} --time {measured}", found)
    return Measured(None, bandwidth, float(f"{stated[1]}e9"))


@case("profiling-q1-mfu")
def _utilization(g: Given, _: Any) -> Any:
    found = compare.achieved(g.duration, flops=g.flops, peak=g.peak)["utilization"]
    return ask(f"achieved --flops {g.flops} --time {g.duration} --peak {g.peak} --ask utilization", found)


@case("profiling-q2-speedup")
def _speedup(g: Given, _: Any) -> Any:
    return ask(f"compare {g.before}s {g.after}s", compare.ratio(g.before, g.after, "s"))


@case("jax-collective-matmul-speedup")
def _overlap_speedup(g: Given, _: Any) -> Any:
    return ask(f"compare {g.naive}s {g.overlapped}s", compare.ratio(g.naive, g.overlapped, "s"))


@case("jax-collective-matmul-exposed")
def _hidden(g: Given, _: Any) -> Any:
    words = f"hidden --exposed {g.naive} --overlapped {g.overlapped} --floor {g.floor}"
    return ask(words, compare.hidden_share(g.naive, g.overlapped, g.floor))


def _answer(case_id: str) -> float:
    return next(about["answer"]["value"] for about in load() if about["id"] == case_id)


def _parts() -> tuple[float, float]:
    """``about 89 us blocking AllGather and 222 us matmul``: the parts of the version without overlap."""
    about = next(about for about in load() if about["id"] == "jax-collective-matmul-naive")
    found = re.search(r"about ([0-9]+) us blocking AllGather and ([0-9]+) us matmul", about["asked"])
    assert found is not None
    return float(f"{found[1]}e-6"), float(f"{found[2]}e-6")


@case("jax-collective-matmul-naive")
def _without_overlap(_g: Given, about: dict[str, Any]) -> Any:
    # int32 has no peak, so nothing can be predicted from the shapes; the sum of the parts is the time without overlap.
    gather, matmul = _parts()
    found = overlap({"compute": matmul, "comm": gather}).answers()["upper"]
    upper = ask(f"roofline-time --compute-time {matmul} --comm-time {gather} --ask upper", found)
    return Measured(None, _efficiency(upper, about["answer"]["value"]), 1.0)


@case("jax-collective-matmul-overlapped")
def _with_overlap(_g: Given, about: dict[str, Any]) -> Any:
    naive, floor = _answer("jax-collective-matmul-naive"), _answer("jax-collective-matmul-unsharded")
    measured = about["answer"]["value"]
    words = f"hidden --exposed {naive} --overlapped {measured} --floor {floor}"
    return Measured(
        None, ask(words, compare.hidden_share(naive, measured, floor)), _answer("jax-collective-matmul-exposed")
    )


@case("jax-collective-matmul-unsharded")
def _without_communication(g: Given, about: dict[str, Any]) -> Any:
    # The prediction must say that the operations of this type are left out, and stay a lower bound.
    x, w = parse_array(f"{g.dtype}[{g.B},{g.D}]"), parse_array(f"{g.dtype}[{g.D},{g.F}]")
    from tpuprof.hardware import chip
    from tpuprof.perfmodel.rates import rates_of

    found = matmul_time(matmul_of(x, w), rates_of(chip("v5e")), devices=8).answers()
    assert ask(f"matmul {x} {w} --chip v5e --devices 8", found["time"]) < about["answer"]["value"]
    assert found["bound-by"].value is None
    assert any("left out" in sentence for sentence in found["time"].assumptions)
    return Measured(None, _efficiency(_parts()[1], about["answer"]["value"]), 1.0)
