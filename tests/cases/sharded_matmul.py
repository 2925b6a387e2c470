"""Sharded arrays and their products."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, case
from tpuprof.perfmodel.arrays import Array, parse_array
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.perfmodel.matmul_time import matmul_time
from tpuprof.perfmodel.product_cost import fastest_products, local_shapes, needed
from tpuprof.perfmodel.rates import Rates
from tpuprof.perfmodel.sharding import legality, mean_over_shards, shard, split_over


def mesh_text(mesh: dict[str, int]) -> str:
    """``X=4,Y=2``."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


def answer_of_shard(array: Array, mesh: dict[str, int], name: str) -> Any:
    """One answer of ``calc shard``."""
    words = f"shard {array} {f'--mesh {mesh_text(mesh)}' if mesh else ''} --ask {name}"
    return ask(words, shard(array, mesh).answers()[name])


def _split(text: str, spec: list[str | None]) -> Array:
    array = parse_array(text)
    for dim, axis in enumerate(spec):
        array = split_over(array, dim, () if axis is None else (axis,))
    return array


@case("sharding-popquiz-per-device")
def _device_bytes(g: Given, _: Any) -> Any:
    array = split_over(parse_array(g.array), 0, parse_array(f"[{g.sharding}]").axes)
    return answer_of_shard(array, g.mesh, "device-bytes")


@case("sharding-popquiz-total")
def _total_bytes(g: Given, _: Any) -> Any:
    array = split_over(parse_array(g.array), 0, parse_array(f"[{g.sharding}]").axes)
    return answer_of_shard(array, g.mesh, "total-bytes")


@case("sharding-code-local*")
def _local_shape(g: Given, _: Any) -> Any:
    return answer_of_shard(_split(g.array, g.spec), g.mesh, "local-shape")


@case("sharding-invalid-spec")
def _legal(g: Given, _: Any) -> Any:
    # The question names no sizes, and none matter.
    array = parse_array("[" + ",".join(f"I_{axis}" for axis in g.spec) + "]")
    return ask(["shard", array, "--ask", "legal"], legality(array))


@case("sharding-case*", "sharding-q6*")
def _collectives(g: Given, _: Any) -> Any:
    out = g.out if "out" in g else None
    found = needed(parse_array(g.A), parse_array(g.B), None if out is None else parse_array(out))
    return ask(f"sharded-matmul {g.A} {g.B} {f'--out {out}' if out else ''}", found)


@case("sharding-q1-ratio")
def _copies(g: Given, _: Any) -> Any:
    array = parse_array(g.sharding)
    # How many copies there are does not depend on the sizes of the dimensions.
    sized = array.sized({dim.letter: 1024 for dim in array.dims})
    found = shard(sized, g.mesh).answers()["copies"]
    return ask(f"shard {g.sharding} --mesh {mesh_text(g.mesh)} --ask copies", found)


@case("sharding-q5-options")
def _options(g: Given, _: Any) -> Any:
    # "replicated" is the product of two whole arrays; what follows a plus sign is the answer to the same question.
    products = ["A[I,J].B[J,K]" if option == "replicated" else option.partition("+")[0] for option in g.options]
    pairs = [(parse_array(text.split(".")[0]), parse_array(text.split(".")[1])) for text in products]
    return ask(["products", *products, "--out", "[I,K]"], fastest_products(pairs, parse_array("[I,K]")))


@case("sharding-q7-matrix-bytes")
def _matrix(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"{g.dtype}[{g.D},{g.F}]"), {}, "bytes")


@case("sharding-q7-activation-bytes")
def _activation(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"{g.dtype}[{g.B},{g.D}]"), {}, "bytes")


@case("sharding-q7-weights-per-chip")
def _weights(g: Given, _: Any) -> Any:
    return answer_of_shard(parse_array(f"{g.dtype}[2,{g.D},{g.F}_Y]"), {"Y": g.chips}, "device-bytes")


@case("sharding-q7-flops-time")
def _two_matmuls(g: Given, _: Any) -> Any:
    made = matmul_time(Matmul(g.B, g.F, g.D, 2), Rates().with_peak(g.peak), devices=g.chips)
    words = f"matmul bf16[{g.B},{g.D}] bf16[{g.D},{g.F}] --count 2 --devices {g.chips} --peak {g.peak} --ask time"
    return ask(words, made.answers()["time"])


@case("profiling-ffw-local-shapes")
def _local_product(g: Given, _: Any) -> Any:
    batch, *rest = g.X
    x = parse_array(f"bf16[{batch}_data,{','.join(map(str, rest))}]")
    w = parse_array(f"bf16[{g.W[0]},{g.W[1]}_model]")
    mesh = {"data": g.data, "model": g.model}
    found = ask(f"sharded-matmul {x} {w} --mesh {mesh_text(mesh)} --ask local-shapes", local_shapes(x, w, mesh))
    return {"X": found["lhs"], "W": found["rhs"], "out": found["out"]}


@case("jax-shardmap-slice-average")
def _average(g: Given, _: Any) -> Any:
    # "arange(512) over 8 shards", "mean over shards of the first 4 elements of each shard"
    size = int(g.x.partition("(")[2].partition(")")[0])
    first = int(g.op.partition("first ")[2].split()[0])
    array = parse_array(f"s32[{size}_X]")
    words = f"shard {array} --mesh X={g.shards} --first {first} --ask mean"
    return ask(words, mean_over_shards(shard(array, {"X": g.shards}), first))
