"""Calculators of memory: of training, of host and chip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.given import KEEP, MODEL, MOVE, PARAMS, WEIGHTS, capacity_of, model_of, policy_of, refuse
from tpuprof.cli.calc.options import AMOUNT, DTYPES, Answers, calculator, quantity, rate_options, rates_over
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.rates import Rates
    from tpuprof.plan.state import StateTypes


@calculator("memory")
@MODEL
@click.option("--tokens", type=AMOUNT, help="Tokens of one microbatch over all devices, such as 4M.")
@click.option("--remat", help="What is kept for the backward pass, with MODEL. Default: block-inputs.")
@KEEP
@MOVE
@click.option(
    "--zero", type=click.IntRange(0, 3), default=3, show_default=True, help="ZeRO stage, with MODEL; 3 is FSDP."
)
@click.option("--data", type=int, default=1, show_default=True, help="Data-parallel and FSDP devices, with MODEL.")
@click.option("--tensor", type=int, default=1, show_default=True, help="Tensor-parallel devices, with MODEL.")
@click.option("--pipeline", type=int, default=1, show_default=True, help="Pipeline stages, with MODEL.")
@click.option("--context", type=int, default=1, show_default=True, help="Context-parallel devices, with MODEL.")
@click.option("--expert", type=int, default=1, show_default=True, help="Expert-parallel devices, with MODEL.")
@click.option(
    "--in-flight", type=int, default=1, show_default=True, help="Microbatches that a stage holds, with MODEL."
)
@WEIGHTS
@click.option("--gradients", type=DTYPES, default="bf16", show_default=True, help="Type of gradients, or none.")
@click.option("--moments", type=DTYPES, default="f32,f32", show_default=True, help="Types of moments, or none.")
@click.option("--master", type=DTYPES, default="none", show_default=True, help="Type of master weights, or none.")
@PARAMS
@click.option("--bytes-per-param", type=float, help="Bytes of state per parameter, instead of types.")
@click.option("--layers", type=int, help="Layers that keep activations, without MODEL.")
@click.option("--d-model", type=int, help="Width of the activations that are kept, without MODEL.")
@click.option("--checkpoints", type=int, help="Activations of that width that each layer keeps.")
@click.option("--d-ff", type=int, help="Hidden width, if what is kept are the outputs of the three MLP matmuls.")
@click.option("--dtype", default="bf16", show_default=True, help="Type of activations.")
@click.option("--part", "parts", multiple=True, metavar="NAME=BYTES", help="Further bytes, such as cache=42GB.")
@click.option("--chips", type=int, help="Chips over which all of it is spread, without MODEL.")
@click.option("--capacity", type=quantity("B"), help="Memory of one chip, such as 96GB; replaces that of --chip.")
@rate_options
def memory(
    rates: Rates, link: str, model_name: str | None, tokens: float | None, remat: str | None,
    keep: tuple[str, ...] | None, move: tuple[str, ...] | None, zero: int, data: int,
    tensor: int, pipeline: int, context: int, expert: int, in_flight: int, weights_dtype: str,
    gradients: tuple[str, ...], moments: tuple[str, ...], master: tuple[str, ...], params: float | None,
    bytes_per_param: float | None,
    layers: int | None, d_model: int | None, checkpoints: int | None, d_ff: int | None, dtype: str,
    parts: tuple[str, ...], chips: int | None, capacity: float | None,
) -> Answers:  # fmt: skip
    """Memory of training, and whether it fits.

    Per device of a MODEL that is split as said, with state, kept activations, the work of one layer and logits.
    Without MODEL the sum of what is described: state of --params, activations of --tokens, --part.
    """
    from tpuprof.plan.peak import memory_answers
    from tpuprof.plan.state import StateTypes, TrainingSplit

    if len(gradients) > 1 or len(master) > 1:
        raise UsageError("Gradients and master weights have one type each.", hint="Write --gradients f32.")
    types = StateTypes(weights_dtype, next(iter(gradients), None), moments, next(iter(master), None))
    room = capacity_of(rates, capacity)
    if model_name is not None:
        refuse(
            "with MODEL", "params", "bytes_per_param", "layers", "d_model", "checkpoints", "d_ff", "dtype", "parts",
            "chips",
        )  # fmt: skip
        if tokens is None:
            raise UsageError("A model needs the tokens of a microbatch.", hint="Give --tokens, such as 4M.")
        split = TrainingSplit(data, tensor, pipeline, context, expert, zero, in_flight)
        return memory_answers(model_of(model_name), tokens, policy_of(remat, keep, move), split, types, room)
    refuse(
        "without MODEL", "remat", "keep", "move", "zero", "data", "tensor", "pipeline", "context", "expert", "in_flight"
    )
    described = (tokens, layers, d_model, checkpoints, d_ff, dtype)
    return _sum(types, params, bytes_per_param, described, parts, chips, None if room is None else room.number())


def _sum(
    types: StateTypes, params: float | None, per_param: float | None,
    activations: tuple[float | None, int | None, int | None, int | None, int | None, str], parts: tuple[str, ...],
    chips: int | None, capacity: float | None,
) -> Answers:  # fmt: skip
    """The answers without a model."""
    from tpuprof.hardware.quantity import parse_quantity
    from tpuprof.plan import memory as made

    bytes_of: dict[str, float] = {}
    own: dict[str, Derivation] = {}
    if params is not None:
        own = made.state_of_params(params, types if per_param is None else per_param)
        bytes_of["state"] = own["state"].number()
    tokens, layers, width, checkpoints, hidden, dtype = activations
    if any(value is not None for value in (tokens, layers, width, checkpoints, hidden)):
        if tokens is None or layers is None or width is None:
            raise UsageError("Activations are described in part.", hint="Give --tokens, --layers and --d-model.")
        each = made.checkpoint_elements(width, hidden, checkpoints)
        own["activations"] = made.checkpoint_bytes(tokens, layers, each, dtype)
        bytes_of["activations"] = own["activations"].number()
    for text in parts:
        name, equals, size = text.partition("=")
        if not equals or not name or name in bytes_of:
            raise UsageError(f"{text!r} is no part, or it is there twice.", hint="Write parts like cache=42GB.")
        bytes_of[name] = parse_quantity(size, "B", f"The bytes of {name}")
    found = made.memory_of_parts(bytes_of, chips=chips, capacity=capacity) if bytes_of else {}
    # A single thing is what was asked for, not its sum.
    found = {**own, **found} if len(bytes_of) == 1 and chips is None and capacity is None else {**found, **own}
    given = made.bytes_per_param(types) if per_param is None else None
    if capacity is not None:
        found["largest-model"] = made.largest_model(capacity, per_param if given is None else given.number())  # pyright: ignore[reportArgumentType]
    return found if given is None else {**found, "bytes-per-param": given}


@calculator("offload")
@click.option("--bytes", "size", type=quantity("B"), help="Bytes that move, of all chips together.")
@click.option("--links", type=int, default=1, show_default=True, help="Chips, each with a link of its own.")
@click.option("--step", type=quantity("s"), help="Time of the step that can hide it, such as 2s.")
@click.option(
    "--passes", type=click.IntRange(1, 2), default=2, show_default=True, help="Out, or out and back, with --step."
)
@click.option("--dtype", default="bf16", show_default=True, help="Type of weights that are streamed in.")
@rates_over("pcie")
def offload(
    rates: Rates, link: str, size: float | None, links: int, step: float | None, passes: int, dtype: str
) -> Answers:
    """What moving bytes between host and chip costs.

    `time` of the bytes; with --step how much of it is `exposed`; with a peak rate the `critical-batch` from which
    weights can be streamed from the host's memory without slowing matmuls down.
    """
    from tpuprof.cli.calc.given import intensity_of, with_sources
    from tpuprof.plan.limits import weight_batch
    from tpuprof.plan.training import host_load, offload_cost

    found: dict[str, Derivation] = {}
    width = rates.need_link(link)
    if size is not None:
        found["time"] = host_load(size, width, links)
        if step is not None:
            found["exposed"] = offload_cost(size / links, width, step, passes=passes)["exposed"]
    if rates.matmul_rate(dtype).value is not None:
        alpha = intensity_of(rates, link, dtype, None)
        made = weight_batch(alpha.number(), dtype)
        found |= {"critical-batch": with_sources(made, {"alpha": alpha.source})["answer"]}
    if not found:
        raise UsageError("There is nothing to calculate.", hint="Give --bytes, or a peak rate.")
    return found
