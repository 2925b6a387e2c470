"""Calculators of critical batches and of the limits of parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.given import EXPERTS, INTENSITY, TOP_K, WEIGHTS, intensity_of, refuse, with_sources
from tpuprof.cli.calc.options import AMOUNT, COUNTS, REAL, Answers, calculator, rate_options, rates_over
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.rates import Rates

_DTYPE = click.option("--dtype", default="bf16", show_default=True, help="Type that is multiplied.")
_AXES = click.option("--axes", type=float, default=1, show_default=True, help="Physical axes that carry the bytes.")


@calculator("critical-batch")
@INTENSITY
@_DTYPE
@WEIGHTS
@EXPERTS
@TOP_K
@rate_options
def critical_batch(
    rates: Rates, link: str, intensity: float | None, dtype: str, weights_dtype: str, experts: int | None,
    top_k: int | None,
) -> Answers:  # fmt: skip
    """Batch from which reading weights no longer bounds a matmul.

    In tokens per copy of the weights. Narrow weights lower it, a mixture of experts raises it by experts over experts
    per token.
    """
    from tpuprof.plan.limits import weight_batch

    alpha = intensity_of(rates, link, dtype, intensity)
    found = weight_batch(alpha.number(), weights_dtype, experts=experts, top_k=top_k)
    return {"tokens": with_sources(found, {"alpha": alpha.source})["answer"]}


@calculator("parallelism")
@INTENSITY
@_DTYPE
@_AXES
@click.option(
    "--split-axes", type=COUNTS, default="2x1", show_default=True, help="Axes of FSDP and tensor parallelism."
)
@click.option("--d-ff", type=float, help="Hidden width of the MLP, for tensor parallelism.")
@click.option("--ways", type=float, help="Degree of tensor parallelism, for the width that it needs.")
@click.option("--node", type=int, help="GPUs of a node, if tensor parallelism spans exactly two.")
@click.option("--batch", type=AMOUNT, help="Tokens of all chips, such as 4M.")
@click.option("--chips", type=AMOUNT, help="Chips.")
@EXPERTS
@TOP_K
@click.option("--members", type=int, help="Members of a group on a switch, each of which sends (n-1)/n of its bytes.")
@rates_over("ici")
def parallelism(
    rates: Rates, link: str, intensity: float | None, dtype: str, axes: float, split_axes: tuple[int, ...],
    d_ff: float | None, ways: float | None, node: int | None, batch: float | None, chips: float | None,
    experts: int | None, top_k: int | None, members: int | None,
) -> Answers:  # fmt: skip
    """Limits of data, tensor and mixed parallelism, and the best split.

    `data` is in tokens per chip, for FSDP as for plain data parallelism; with --batch the `chips` that it allows, with
    --chips the `batch` that it needs. With --d-ff the largest `tensor` degree, the `mixed` tokens per chip, and with
    batch and chips the best `fsdp` degree. `slice` is in tokens per slice, for data parallelism over the data-centre
    network.
    """
    from tpuprof.plan import limits, parallel

    if len(split_axes) != 2:
        raise UsageError("Two numbers of axes are split.", hint="Write --split-axes 2x1.")
    found: dict[str, Derivation] = {}
    if d_ff is None:
        refuse("without --d-ff", "node", "split_axes")
    whole = d_ff is not None and batch is not None and chips is not None
    rated = intensity is not None or rates.chip is not None or rates.peak is not None
    if link != "dcn" and (rated or not whole):
        alpha = intensity_of(rates, link, dtype, intensity)
        data = limits.data_parallel_tokens(alpha.number(), axes, experts=experts, top_k=top_k, members=members)
        found["data"] = data
        if batch is not None:
            found["chips"] = limits.batch_of(batch=batch, per_chip=data.number())["chips"].assuming(*data.assumptions)
        if chips is not None:
            found["batch"] = limits.batch_of(chips=chips, per_chip=data.number())["batch"].assuming(*data.assumptions)
        if ways is not None:
            found["width"] = parallel.tensor_parallel_width(ways, alpha.number(), axes)
        if d_ff is not None:
            found["tensor"] = parallel.tensor_parallel_limit(d_ff, alpha.number(), axes, node=node)
            mixed = limits.mixed_tokens(alpha.number(), d_ff, (split_axes[0], split_axes[1]))
            found["mixed"] = mixed["overlapping"]
            found["mixed-serial"] = mixed["one-after-the-other"]
        found = with_sources(found, {"alpha": alpha.source})
    if d_ff is not None and batch is not None and chips is not None:
        # The best split is the same at any rate.
        found["fsdp"] = parallel.best_split(batch, d_ff, chips, (split_axes[0], split_axes[1]))["fsdp"]
    if rates.link("dcn").value is not None and rates.matmul_rate(dtype).value is not None:
        beyond = intensity_of(rates, "dcn", dtype, None)
        found["slice"] = with_sources(limits.slice_tokens(beyond.number()), {"alpha": beyond.source})["answer"]
    if not found:
        raise UsageError("There is no rate of the data-centre network.", hint="Give --peak and --bandwidth, or a chip.")
    return found


@calculator("context-parallel")
@INTENSITY
@_DTYPE
@_AXES
@click.option("--group", type=float, default=1, show_default=True, help="Query heads per KV head.")
@rates_over("ici")
def context_parallel(
    rates: Rates, link: str, intensity: float | None, dtype: str, axes: float, group: float
) -> Answers:
    """Tokens per chip from which ring attention is bound by arithmetic."""
    from tpuprof.plan.limits import context_tokens

    alpha = intensity_of(rates, link, dtype, intensity)
    return {"tokens": with_sources(context_tokens(alpha.number(), group, axes), {"alpha": alpha.source})["answer"]}


@calculator("expert-parallel")
@INTENSITY
@_DTYPE
@click.option("--ways", type=REAL, help="GPUs over which experts are spread; inf for the limit.")
@click.option("--top-k", type=REAL, help="Routed experts per token, with --ways.")
@click.option("--node", type=int, default=8, show_default=True, help="GPUs of a node.")
@click.option("--longest-axis", type=float, help="On TPUs, instead of --ways: chips of the longest axis of the torus.")
@click.option("--matrices", type=int, default=2, show_default=True, help="Matrices of an expert, with --longest-axis.")
@rates_over("ici")
def expert_parallel(
    rates: Rates, link: str, intensity: float | None, dtype: str, ways: float | None, top_k: float | None, node: int,
    longest_axis: float | None, matrices: int,
) -> Answers:  # fmt: skip
    """Width of experts from which expert parallelism is bound by arithmetic.

    Over axes of a torus with --longest-axis. Over nodes of GPUs with --ways and --top-k; the bandwidth is then the
    egress of a node.
    """
    from tpuprof.plan.limits import expert_width, expert_width_torus

    alpha = intensity_of(rates, link, dtype, intensity)
    if longest_axis is not None and ways is None and top_k is None:
        found = expert_width_torus(alpha.number(), longest_axis, matrices)
    elif longest_axis is None and ways is not None and top_k is not None:
        found = expert_width(alpha.number(), ways, top_k, node)
    else:
        raise UsageError(
            "The network is given twice or not at all.", hint="Give --longest-axis, or --ways and --top-k."
        )
    return {"width": with_sources(found, {"alpha": alpha.source})["answer"]}


@calculator("batch")
@click.option("--batch", type=AMOUNT, help="Tokens of all chips, such as 4M.")
@click.option("--chips", type=AMOUNT, help="Chips.")
@click.option("--per-chip", type=AMOUNT, help="Tokens per chip, or chips per slice to count slices with.")
@click.option("--sequences", type=AMOUNT, help="Sequences.")
@click.option("--seq", type=AMOUNT, help="Tokens of a sequence.")
@click.option("--minimum", type=AMOUNT, help="Smallest batch that is bound by arithmetic.")
def batch(
    batch: float | None, chips: float | None, per_chip: float | None, sequences: float | None, seq: float | None,
    minimum: float | None,
) -> Answers:  # fmt: skip
    """Batch, chips, tokens per chip and sequences: one from the others.

    With --minimum whether the batch is `enough`.
    """
    from tpuprof.plan.limits import batch_of, enough

    given = (chips, per_chip, sequences, seq)
    if minimum is None:
        return batch_of(batch=batch, chips=chips, per_chip=per_chip, sequences=sequences, sequence=seq)
    found: dict[str, Derivation] = {}
    if any(value is not None for value in given):
        found = batch_of(batch=batch, chips=chips, per_chip=per_chip, sequences=sequences, sequence=seq)
    whole = batch if batch is not None or "batch" not in found else found["batch"].number()
    if whole is None:
        raise UsageError("The batch is not known.", hint="Give --batch.")
    return {"enough": enough(whole, minimum), **found}
