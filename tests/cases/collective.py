"""Collectives on tori, rings, switches and trees; transfers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tests.cases.sharded_matmul import answer_of_shard, mesh_text
from tests.cases.support import Given, ask, by, case
from tpuprof.perfmodel import collectives, compare, gpu_network, peaks
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.layer import mlp_communication, weight_stationary
from tpuprof.perfmodel.mesh_collective import AxisLinks, from_piece, group_bytes, one_way, over_mesh
from tpuprof.perfmodel.sharding import shard
from tpuprof.perfmodel.transfer import pipeline_transfers

DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


@case("tpus-q6-ici")
def _corner(g: Given, _: Any) -> Any:
    found = collectives.point_to_point(g.bytes_to_receive, g.link_bw_one_way, ports=g.axes)
    return ask(f"transfer --bytes {g.bytes_to_receive} --bandwidth {g.link_bw_one_way} --ports {g.axes}", found)


@case("sharding-latency-threshold")
def _threshold(g: Given, _: Any) -> Any:
    found = collectives.latency_bound_below(g.link_bw_one_way, g.hop_latency)
    return ask(f"latency-bound --link-bandwidth {g.link_bw_one_way} --hop-latency {g.hop_latency}", found)


@case("inference-appC-threshold")
def _group_threshold(g: Given, _: Any) -> Any:
    found = collectives.latency_bound_below(g.W_one_way, g.hop, g.shards)
    return ask(f"latency-bound --link-bandwidth {g.W_one_way} --hop-latency {g.hop} --members {g.shards}", found)


@case("inference-appC-ymax")
def _degree(g: Given, _: Any) -> Any:
    array = parse_array(f"{g.dtype}[{g.B},{g.D}]")
    found = collectives.latency_bound_above(array.bytes(), g.link_bw_one_way, g.hop_latency)
    words = (
        f"latency-bound --link-bandwidth {g.link_bw_one_way} --hop-latency {g.hop_latency} --array {array} "
        "--ask members"
    )
    return ask(words, found)


def _traffic(kind: str, directions: int) -> float:
    """Of a gigabyte over a large ring; only ratios of it are used."""
    found = replace(collectives.link_traffic(kind, 1e9, directions=directions), unit="B")  # pyright: ignore[reportArgumentType]
    return ask(f"ring-traffic {kind.replace('_', '-')} --bytes 1GB --directions {directions}", found)


def _ratio(first: float, second: float) -> Any:
    return ask(f"compare {first!r} {second!r}", compare.ratio(first, second, ""))


@case("sharding-a2a-vs-ag-bidir", "sharding-q10-ratio-uni")
def _exchange_over_gather(g: Given, _: Any) -> Any:
    directions = DIRECTIONS[g.ring]
    return _ratio(_traffic("all_to_all", directions), _traffic("all_gather", directions))


@case("sharding-q10-bidir-gain-ag")
def _gather_both_ways(_g: Given, _: Any) -> Any:
    return _ratio(_traffic("all_gather", 1), _traffic("all_gather", 2))


@case("sharding-q10-bidir-gain-a2a")
def _exchange_both_ways(_g: Given, _: Any) -> Any:
    return _ratio(_traffic("all_to_all", 1), _traffic("all_to_all", 2))


@case("sharding-q10-ag-uni", "sharding-q10-a2a-uni")
def _scalars(g: Given, about: dict[str, Any]) -> Any:
    kind = "all_gather" if "AllGather" in about["asked"] else "all_to_all"
    matrix = parse_array(f"[{g.N},{g.N}]")
    elements = shard(matrix, {}).answers()["elements"].number()
    found = collectives.link_traffic(kind, elements, g.D, directions=DIRECTIONS[g.ring])
    words = f"ring-traffic {kind.replace('_', '-')} --array {matrix} --members {g.D} --directions {DIRECTIONS[g.ring]}"
    return ask(words, replace(found, unit="element"))


@case("sharding-a2a-3d")
def _torus_exchange(g: Given, _: Any) -> Any:
    found = collectives.all_to_all(g.V, g.mesh, one_way(g.W_bidir))
    return ask(f"collective all-to-all --bytes {g.V} --shape {by(g.mesh)} --axis-bandwidth {g.W_bidir}", found)


@case("sharding-a2a-1d-limit")
def _ring_exchange(g: Given, _: Any) -> Any:
    found = collectives.all_to_all(g.V, [g.N], one_way(g.W_bidir))
    return ask(f"collective all-to-all --bytes {g.V} --shape {g.N} --axis-bandwidth {g.W_bidir}", found)


def _over(g: Given, kind: str, over: str, idle: str = "") -> Any:
    """On a mesh whose axes all close, with (n-1)/n taken as 1."""
    links = AxisLinks(one_way(g.W_bidir), frozenset(g.mesh))
    array = parse_array(g.array)
    found = over_mesh(kind, array, tuple(over), g.mesh, links, idle=tuple(idle), approximate=True)  # pyright: ignore[reportArgumentType]
    words = ["collective", kind.replace("_", "-"), "--array", array, "--axis-bandwidth", g.W_bidir]
    words += ["--mesh", mesh_text(g.mesh), "--over", ",".join(over), "--ring-axes", ",".join(g.mesh), "--approximate"]
    return ask([*words, "--idle", ",".join(idle)] if idle else words, found)


@case("sharding-q2-ag-x")
def _gather_x(g: Given, _: Any) -> Any:
    return _over(g, "all_gather", "X")


@case("sharding-q2-ag-xy")
def _gather_xy(g: Given, _: Any) -> Any:
    return _over(g, "all_gather", "XY")


@case("sharding-q2-ar-z")
def _reduce_z(g: Given, _: Any) -> Any:
    return _over(g, "all_reduce", "Z")


@case("sharding-q2-opt-ag-x")
def _gather_x_with_z(g: Given, _: Any) -> Any:
    return _over(g, "all_gather", "X", "Z")


@case("sharding-q2-opt-ag-xy")
def _gather_xy_with_z(g: Given, _: Any) -> Any:
    return _over(g, "all_gather", "XY", "Z")


@case("sharding-q2-latency-bound")
def _floor(g: Given, _: Any) -> Any:
    found = collectives.latency_floor(g.axes, g.hop_latency)
    return ask(f"latency-floor {by(g.axes)} --hop-latency {g.hop_latency}", found)


@case("training-comms-*")
def _layer(g: Given, about: dict[str, Any]) -> Any:
    # "FSDP (ZeRO-3): In[B_X,D], weights [D_X,F] and [F,D_X]", or "weights replicated"
    shardings = re.findall(r"\[[^\]]*\]", g.scheme)
    texts = [*shardings, "[D,F]", "[F,D]"][:3]
    sizes = {"B": int(g.B), "D": g.D, "F": g.F}
    x, w1, w2 = (parse_array(f"{g.dtype}{text}").sized(sizes) for text in texts)
    which = "forward" if "forward pass of" in about["asked"] else "backward"
    mesh = {"X": g.X, "Y": g.Y}
    words = f"layer {x} {w1} {w2} --mesh {mesh_text(mesh)} --ask {which}"
    return ask(words, mlp_communication(x, w1, w2, mesh)[which])


@case("training-dp-step-comms")
def _gradients(g: Given, _: Any) -> Any:
    array = parse_array(f"{g.dtype}[2,{g.D},{g.F}]")
    found = collectives.torus("all_reduce", array.bytes(), one_way(g.W_bidir), rings=g.M_X)
    return ask(f"collective all-reduce --array {array} --axis-bandwidth {g.W_bidir} --rings {g.M_X}", found)


@case("inference-q7-coefficient")
def _coefficient(g: Given, _: Any) -> Any:
    return ask(f"weight-stationary --ratio {g.F_over_D}", weight_stationary(g.F_over_D)["coefficient"])


@case("inference-appC-activation")
def _activation(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"{g.dtype}[{g.B},{g.D}]"), {}, "bytes")


@case("profiling-rs-bytes")
def _local_array(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(g.local), {}, "bytes")


@case("gpus-llama-mlp-shard")
def _one_shard(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"{g.dtype}[{g.shape[0]},{g.shape[1]}_Y]"), {"Y": g.tp}, "device-bytes")


@case("appinf-4x8-tici")
def _over_axis(g: Given, _: Any) -> Any:
    array = parse_array(f"{g.dtype}[{g.B},{g.D}]")
    found = collectives.point_to_point(array.bytes(), g.W_bidir)
    return ask(f"transfer --array {array} --bandwidth {g.W_bidir}", found)


@case("profiling-rs-predicted")
def _scatter(g: Given, _: Any) -> Any:
    found = collectives.torus("reduce_scatter", g.bytes, one_way(g.W_bidir), rings=1)
    return ask(f"collective reduce-scatter --bytes {g.bytes} --axis-bandwidth {g.W_bidir} --rings 1", found)


@case("jax-collective-matmul-ag-pred")
def _line(g: Given, _: Any) -> Any:
    # 4 bytes per element is a 32-bit type; the axis has no wraparound.
    assert g.wraparound is False
    piece, mesh = parse_array(f"s32[{g.local_elems}_Y]"), {"Y": g.Y}
    found = over_mesh("all_gather", from_piece(piece, mesh), ("Y",), mesh, AxisLinks(g.W_one_way))
    words = f"collective all-gather --array {piece} --piece --mesh Y={g.Y} --over Y --link-bandwidth {g.W_one_way}"
    return ask(words, found)


@case("gpus-quiz2-q3-exact", "gpus-popquiz1-exact")
def _node_gather(g: Given, _: Any) -> Any:
    size = parse_array(g.array).bytes()
    found = gpu_network.node("all_gather", size, g.W, members=g.N)
    return ask(f"collective all-gather --array {g.array} --node-bandwidth {g.W} --members {g.N}", found)


@case("gpus-quiz2-q3-approx", "gpus-popquiz1-approx")
def _node_gather_of_many(g: Given, _: Any) -> Any:
    found = gpu_network.node("all_gather", parse_array(g.array).bytes(), g.W)
    return ask(f"collective all-gather --array {g.array} --node-bandwidth {g.W}", found)


@case("gpus-popquiz2-dense")
def _node_exchange(g: Given, _: Any) -> Any:
    found = gpu_network.node("all_to_all", g.V, g.W, members=g.N)
    return ask(f"collective all-to-all --bytes {g.V} --node-bandwidth {g.W} --members {g.N}", found)


@case("gpus-a2a-cross-node-2")
def _exchange_of_nodes(g: Given, _: Any) -> Any:
    found = gpu_network.node("all_to_all", g.V, g.W_node, members=g.M)
    return ask(f"collective all-to-all --bytes {g.V} --node-bandwidth {g.W_node} --members {g.M}", found)


@case("gpus-popquiz2-half")
def _some_members(g: Given, _: Any) -> Any:
    share, dense = gpu_network.ragged_share(g.N, g.k), gpu_network.ragged_share(g.N, g.N)
    found = compare.ratio(share.number(), dense.number(), dense.unit)
    return ask(f"ragged --members {g.N} --choices {g.k} --ask of-dense", found)


@case("gpus-ragged-approx")
def _ragged(g: Given, _: Any) -> Any:
    return ask(f"ragged --members {g.Z} --choices {g.K}", gpu_network.ragged_share(g.Z, g.K))


@case("gpus-ragged-exact")
def _ragged_expected(g: Given, _: Any) -> Any:
    found = gpu_network.ragged_share_expected(g.Z, g.K)
    return ask(f"ragged --members {g.Z} --choices {g.K} --ask expected", found)


@case("gpus-a2a-vs-tpu")
def _both_forms(g: Given, _: Any) -> Any:
    # V/(N*W) and V/(4*W) are the bytes over N and over 4 links.
    times: list[float] = []
    for form in (g.tpu_form, g.gpu_form):
        divisor = form.partition("(")[2].partition("*")[0]
        ports = g.N if divisor == "N" else int(divisor)
        found = collectives.point_to_point(1e9, 1e9, ports=ports)
        times.append(ask(f"transfer --bytes 1GB --bandwidth 1GB/s --ports {ports}", found))
    return _ratio(times[0], times[1])


@case("gpus-a2a-degradation")
def _slowdown(g: Given, _: Any) -> Any:
    found = gpu_network.all_to_all_slowdown(g.N, g.W_intra, g.M, g.W_node)
    words = f"all-to-all-slowdown --members {g.N} --bandwidth {g.W_intra} --nodes {g.M} --node-bandwidth {g.W_node}"
    return ask(words, found)


@case("gpus-busbw")
def _bus(g: Given, _: Any) -> Any:
    found = collectives.bus_bandwidth("all_reduce", g.bytes, g.N, g.runtime)
    return ask(f"bus-bandwidth all-reduce --bytes {g.bytes} --members {g.N} --time {g.runtime}", found)


@case("gpus-sharp-theory")
def _in_network_gain(g: Given, _: Any) -> Any:
    return ask(f"in-network --members {g.N}", gpu_network.in_network_gain(g.N))


@case("gpus-sharp-practice")
def _measured_gain(g: Given, _: Any) -> Any:
    found = peaks.links_bandwidth((1,), g.plain, measured_gain=g.gain)
    return ask(f"links --bandwidth {g.plain} --gain {g.gain}", found)


@case("gpus-tree-node", "gpus-tree-leaf", "gpus-tree-spine")
def _level(g: Given, _: Any) -> Any:
    found = gpu_network.level_bandwidth(g.degree, g.W_link)
    return ask(f"level-bandwidth --children {g.degree} --bandwidth {g.W_link}", found)


@case("gpus-quiz4-q5-node")
def _node_level(g: Given, _: Any) -> Any:
    return ask(f"level-bandwidth --children {g.N} --bandwidth {g.W}", gpu_network.level_bandwidth(g.N, g.W))


@case("gpus-quiz4-q5-leaf")
def _leaf_level(g: Given, _: Any) -> Any:
    return ask(f"level-bandwidth --children {g.M} --bandwidth {g.W}", gpu_network.level_bandwidth(g.M, g.W))


@case("gpus-tree-min")
def _slowest(g: Given, _: Any) -> Any:
    words = " ".join(f"--level {level!r}" for level in g.levels)
    return ask(f"level-bandwidth {words}", gpu_network.slowest_level(g.levels))


@case("gpus-popquiz3-*")
def _tree(g: Given, _: Any) -> Any:
    # Each GPU's share of its node's egress; beyond a node the inner axis spans whole nodes, and the question takes the
    # bandwidth of the leaf links without the factor of the nodes that are left.
    units = g.nodes if g.gpus_per_node >= g.Y else None
    array = parse_array(g.array)
    level = gpu_network.TreeLevel("leaf", g.W_leaf_per_gpu, units, g.gpus_per_node)
    found = gpu_network.fat_tree(array.bytes(), [level], inner=g.Y)
    text = f"leaf:{g.W_leaf_per_gpu}:{units or ''}:{g.gpus_per_node}"
    return ask(f"fat-tree --array {g.array} --level {text} --inner {g.Y}", found)


@case("gpus-quiz4-q1-node-egress", "gpus-quiz4-q1-node-ingress", "gpus-quiz4-q1-top-egress")
def _switches(g: Given, about: dict[str, Any]) -> Any:
    which = about["id"].removeprefix("gpus-quiz4-q1-")
    gpus = g.N if "N" in g else 1
    found = gpu_network.tree_traffic(g.B, g.M, gpus)[which.replace("-", "_")]
    return ask(f"tree-traffic --bytes {g.B} --nodes {g.M} --gpus-per-node {gpus} --ask {which}", found)


@case("gpus-quiz4-q2-sharp-bytes")
def _in_network_bytes(g: Given, _: Any) -> Any:
    found = gpu_network.in_network_traffic(g.B, g.N)
    return ask(f"in-network --members {g.N} --bytes {g.B} --ask traffic", found)


@case("gpus-quiz4-q3-sharp-sharded")
def _in_network_sharded(g: Given, _: Any) -> Any:
    array, mesh = parse_array(f"bf16[{g.D},{g.F}_Y]"), {"Y": g.Y}
    found = gpu_network.node("all_reduce", group_bytes(array, (), mesh).number(), g.W, in_network=True)
    words = f"collective all-reduce --array {array} --mesh Y={g.Y} --node-bandwidth {g.W} --in-network"
    return ask(words, found)


@case("gpus-quiz4-q4-spine-bw")
def _shared_spine(g: Given, _: Any) -> Any:
    found = peaks.links_bandwidth((1,), g.spine, shared_by=g.SUs)
    return ask(f"links --bandwidth {g.spine} --shared-by {g.SUs}", found)


@case("gpus-pp-per-hop")
def _hop(g: Given, _: Any) -> Any:
    array = parse_array(f"bf16[{int(g.B)},{g.D}]")
    found = pipeline_transfers(array.bytes(), g.W, g.microbatches)["per-hop"]
    return ask(f"pipeline --array {array} --bandwidth {g.W} --microbatches {g.microbatches}", found)


@case("gpus-pp-total")
def _hops(g: Given, _: Any) -> Any:
    array = parse_array(f"bf16[{int(g.B)},{g.D}]")
    found = pipeline_transfers(array.bytes(), g.W, g.microbatches, g.stages)["total"]
    words = (
        f"pipeline --array {array} --bandwidth {g.W} --microbatches {g.microbatches} --stages {g.stages} --ask total"
    )
    return ask(words, found)
