"""Calculators of inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.given import MODEL, PARAMS, UTILIZATION, WEIGHTS, capacity_of, exactly_one, model_of, refuse
from tpuprof.cli.calc.options import AMOUNT, Answers, calculator, quantity, rate_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Quantity
    from tpuprof.perfmodel.rates import Rates

_CHIPS = click.option("--chips", type=int, default=1, show_default=True, help="Chips.")
_DTYPE = click.option("--dtype", default="bf16", show_default=True, help="Type that is multiplied.")
_CAPACITY = click.option("--capacity", type=quantity("B"), help="Memory of one chip; replaces that of --chip.")


@calculator("decode")
@MODEL
@click.option("--batch", type=float, default=1, show_default=True, help="Sequences.")
@click.option("--context", type=int, help="Tokens in the cache of each sequence, with MODEL.")
@WEIGHTS
@click.option("--cache", "cache_dtype", default="bf16", show_default=True, help="Type of the KV cache, with MODEL.")
@PARAMS
@click.option("--weight-bytes", type=quantity("B"), help="Bytes of the weights, if not --params times their type.")
@click.option("--kv-bytes", type=quantity("B"), default=0.0, help="Bytes of the cache of one sequence, without MODEL.")
@click.option("--step", type=quantity("s"), help="Time of a step that is known, for the throughput alone.")
@_CHIPS
@_DTYPE
@_CAPACITY
@rate_options
def decode(
    rates: Rates, link: str, model_name: str | None, batch: float, context: int | None, weights_dtype: str,
    cache_dtype: str, params: float | None, weight_bytes: float | None, kv_bytes: float, step: float | None,
    chips: int, dtype: str, capacity: float | None,
) -> Answers:  # fmt: skip
    """Time of a decode step, throughput and the largest batch.

    Of a MODEL with a --context; or of --params or --weight-bytes and --kv-bytes. With a peak rate, the linear layers
    take the longer of arithmetic and reading weights. With a capacity `max-batch` is what fits beside the weights.
    """
    from tpuprof.dtypes import packed_bytes
    from tpuprof.plan import serving
    from tpuprof.plan.serving_model import decode_of_model

    if step is not None:
        refuse(
            "with --step", "model_name", "context", "weights_dtype", "cache_dtype", "params", "weight_bytes",
            "kv_bytes", "capacity", "chip", "peak", "bandwidth",
        )  # fmt: skip
        return serving.throughput(batch, step, chips)
    room = capacity_of(rates, capacity)
    if model_name is not None:
        refuse("with MODEL", "params", "weight_bytes", "kv_bytes")
        if context is None:
            raise UsageError("A model needs a context.", hint="Give --context, such as 8192.")
        if batch != int(batch):
            raise UsageError(f"A batch of {batch} sequences is not whole.")
        return decode_of_model(
            model_of(model_name), batch=int(batch), context=context, chips=chips, bandwidth=rates.need_link(link),
            peak=_peak(rates, dtype), capacity=room, weights=weights_dtype, cache=cache_dtype,
        )  # fmt: skip
    refuse("without MODEL", "context", "cache_dtype")
    if weight_bytes is not None:
        refuse("with --weight-bytes", "weights_dtype")
    else:
        if params is None:
            raise UsageError("There is no model.", hint="Give MODEL, --params or --weight-bytes.")
        weight_bytes = packed_bytes(weights_dtype, params)
    width, peak = rates.link(link), _peak(rates, dtype)
    if width.value is None and room is not None:
        return serving.batch_limit(weight_bytes, kv_bytes, room, chips)
    if width.value is None and peak is not None and params is not None:
        return {"compute-time": serving.compute_time(params, chips, peak, batch)}
    return serving.decode_step(
        batch=batch, kv_bytes=kv_bytes, weight_bytes=weight_bytes, chips=chips, bandwidth=rates.need_link(link),
        params=params, peak=peak, capacity=room,
    )  # fmt: skip


@calculator("decode-matmul")
@click.option("--d-model", type=float, required=True, help="Width of the model.")
@click.option("--d-ff", type=float, required=True, help="Hidden width of the MLP.")
@click.option("--tokens", type=float, help="Tokens, one per sequence.")
@click.option("--ici", type=quantity("B/s"), help="Bandwidth of one ICI axis, both directions, such as 90GB/s.")
@WEIGHTS
@_CHIPS
@_DTYPE
@rate_options
def decode_matmul(
    rates: Rates, link: str, d_model: float, d_ff: float, tokens: float | None, ici: float | None, weights_dtype: str,
    chips: int, dtype: str,
) -> Answers:  # fmt: skip
    """What bounds one matmul of decode under tensor parallelism.

    Times of reading weights, of arithmetic and of communication.
    """
    from tpuprof.dtypes import packed_bytes
    from tpuprof.plan.serving import sharded_matmul_times

    peak = rates.matmul_rate(dtype).value
    return sharded_matmul_times(
        d_model, d_ff, chips, tokens=tokens, peak=peak, hbm=rates.link(link).value,
        ici=ici if ici is not None else rates.link("ici").value, weight_bytes=packed_bytes(weights_dtype, 1),
    )  # fmt: skip


@calculator("prefill")
@MODEL
@PARAMS
@click.option("--tokens", type=AMOUNT, required=True, help="Tokens of the prompt.")
@_CHIPS
@UTILIZATION
@_DTYPE
@rate_options
def prefill(
    rates: Rates, link: str, model_name: str | None, params: float | None, tokens: float, chips: int,
    utilization: float, dtype: str,
) -> Answers:  # fmt: skip
    """Time of a prompt.

    Of a MODEL with its attention scores, or of --params.
    """
    from tpuprof.plan.serving import prefill_time
    from tpuprof.plan.serving_model import prefill_of_model

    exactly_one("Give MODEL or --params.", MODEL=model_name, params=params)
    peak = rates.need_peak(dtype)
    if params is not None:
        return {"time": prefill_time(params, tokens, chips, peak, utilization)}
    if tokens != int(tokens):
        raise UsageError(f"{tokens} is no whole number of tokens.")
    return {
        "time": prefill_of_model(
            model_of(model_name or ""), tokens=int(tokens), chips=chips, peak=peak, utilization=utilization
        )
    }


@calculator("disaggregation")
@click.option("--batch", type=float, required=True, help="Sequences of a decode server.")
@click.option("--generated", type=float, required=True, help="Tokens per answer.")
@click.option("--prompt", type=float, help="Tokens per prompt.")
@click.option("--prefill", type=quantity("s"), help="Time of a prompt on a prefill server, such as 0.91s.")
@click.option("--step", type=quantity("s"), help="Time of a decode step, such as 19ms.")
def disaggregation(
    batch: float, generated: float, prompt: float | None, prefill: float | None, step: float | None
) -> Answers:
    """Prefill servers per decode server, and what leaves per step."""
    from tpuprof.plan.serving import disaggregation as ratio_of

    return ratio_of(batch=batch, generated=generated, prompt=prompt, prefill=prefill, step=step)


@calculator("speculative")
@click.option("--acceptance", type=float, required=True, help="Probability that a drafted token is kept.")
@click.option("--drafted", type=int, required=True, help="Drafted tokens per step.")
@click.option("--draft-cost", type=float, default=0.0, show_default=True, help="Time of drafting one token, in steps.")
@click.option("--verify-cost", type=float, default=1.0, show_default=True, help="Time of checking them all, in steps.")
def speculative(acceptance: float, drafted: int, draft_cost: float, verify_cost: float) -> Answers:
    """Gain of speculative decoding."""
    from tpuprof.plan.serving import speculative as gain_of

    return gain_of(acceptance, drafted, draft_cost=draft_cost, verify_cost=verify_cost)


def _peak(rates: Rates, dtype: str) -> Quantity | None:
    return None if rates.matmul_rate(dtype).value is None else rates.need_peak(dtype)
