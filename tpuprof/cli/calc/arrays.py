"""Calculators of sharded arrays and of layers made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import ARRAY, IDS, MESH, Answers, calculator, quantity

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array
    from tpuprof.perfmodel.derivation import Derivation


@calculator("shard")
@click.argument("array", type=ARRAY)
@click.option("--mesh", type=MESH, help="Sizes of the mesh axes, such as X=4,Y=2.")
@click.option("--first", type=int, help="Mean over the shards of the first N elements, if the array counts up.")
def shard(array: Array, mesh: dict[str, int] | None, first: int | None) -> Answers:
    """The piece of an array that each device holds, and bytes.

    ARRAY is written like bf16[1024_X,4096_Y]: dimension 0 is split over mesh axis X. Without --mesh the answer `legal`
    says whether a sharding is possible at all.
    """
    from tpuprof.perfmodel import sharding

    legal = sharding.legality(array, mesh)
    if not legal.value or (mesh is None and array.axes):
        return {"legal": legal}
    if any(dim.size is None for dim in array.dims):
        sized = array.sized({dim.letter: 1 for dim in array.dims if dim.size is None})
        return {"legal": legal, "copies": sharding.shard(sized, mesh or {}).answers()["copies"]}
    made = sharding.shard(array, mesh or {})
    found: dict[str, Derivation] = {**made.answers(), "legal": legal}
    return found if first is None else {**found, "mean": sharding.mean_over_shards(made, first)}


@calculator("unshard")
@click.argument("pieces", type=ARRAY, nargs=-1, required=True)
@click.option("--mesh", type=MESH, required=True, help="Sizes of the mesh axes, such as X=4,Y=2.")
def unshard(pieces: tuple[Array, ...], mesh: dict[str, int]) -> Answers:
    """The whole array of which a piece is known.

    PIECES are arrays of one device with the mesh axes that split the whole ones, such as bf16[4096_X,8192]. Of several,
    such as the operands of a local op, the whole ones name the global op.
    """
    from tpuprof.perfmodel.sharding import undo, undo_all

    return {"shape": undo(pieces[0], mesh) if len(pieces) == 1 else undo_all(pieces, mesh)}


@calculator("replica-group")
@click.argument("members", type=IDS)
def replica_group(members: tuple[int, ...]) -> Answers:
    """Degree and stride of a replica group.

    MEMBERS are the device ids of one group of a collective, such as 0,16,32,48.
    """
    from tpuprof.perfmodel.compare import replica_group as group_of

    return group_of(members)


@calculator("layer")
@click.argument("x", type=ARRAY)
@click.argument("w1", type=ARRAY)
@click.argument("w2", type=ARRAY)
@click.option("--mesh", type=MESH, required=True, help="Sizes of the mesh axes, such as X=1024,Y=8.")
def layer(x: Array, w1: Array, w2: Array, mesh: dict[str, int]) -> Answers:
    """Communication of a layer of two matmuls, forward and backward.

    X is the input [batch,D], W1 [D,F] and W2 [F,D] are the weights, with their shardings. Bytes as they enter the time
    of the collectives: an all-reduce counts twice.
    """
    from tpuprof.perfmodel.layer import mlp_communication

    return mlp_communication(x, w1, w2, mesh)


@calculator("weight-stationary")
@click.option("--ratio", type=float, required=True, help="Hidden width over model width, F / D.")
@click.option("--batch", type=float, help="Tokens.")
@click.option("--width", type=float, help="Model width D.")
@click.option("--chips", type=int, help="Number of chips.")
@click.option("--bandwidth", type=quantity("B/s"), help="Of one ICI axis, both directions, such as 90GB/s.")
def weight_stationary(
    ratio: float, batch: float | None, width: float | None, chips: int | None, bandwidth: float | None
) -> Answers:
    """Least communication of weights split over both dimensions.

    The coefficient c of T = c B D / (sqrt(N) W), and with all numbers the time.
    """
    from tpuprof.perfmodel import layer as layers

    return layers.weight_stationary(ratio, batch=batch, width=width, chips=chips, bandwidth=bandwidth)
