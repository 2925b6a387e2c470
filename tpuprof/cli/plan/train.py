"""The command ``tpuprof plan train``."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import AMOUNT, AXES, DTYPES, MESH
from tpuprof.cli.hardware import hardware_options
from tpuprof.cli.output import Output, output_options
from tpuprof.cli.plan.from_run import Given, against_run, asked, required, run_asked, start
from tpuprof.cli.plan.slices import slice_of
from tpuprof.errors import UsageError
from tpuprof.report.render import PLAN_FORMATS
from tpuprof.text import plural

if TYPE_CHECKING:
    from tpuprof.hardware.topology import Slice
    from tpuprof.plan.train_layout import Layout

_MESH_AXES = (
    "data", "fsdp", "tensor", "context", "pipeline", "expert", "slices", "zero", "accumulation"
)  # fmt: skip


@click.command("train")
@click.argument("model_name", metavar="[MODEL]", required=False)
@click.option("--chip", "chip_name", help="Name of the chip, such as v5p. Needed without --from-run.")
@click.option("--topology", help="Shape of one slice, such as 8x16x16.")
@click.option("--chips", type=int, help="Chips of one slice, in its usual shape, instead of --topology.")
@click.option("--slices", type=click.IntRange(1, 4096), default=1, show_default=True, help="Slices, joined by DCN.")
@click.option("--batch-tokens", type=AMOUNT, help="Tokens of one optimizer step, such as 4M or 4194304.")
@click.option("--seq", "sequence", type=int, help="Tokens of a sequence.")
@click.option("--tokens", "budget", type=AMOUNT, help="Tokens of the whole training, such as 15T: gives days and cost.")
@click.option("--price", type=float, help="USD per chip-hour, instead of the list price.")
@click.option(
    "--remat", "policies", multiple=True, help="Policy of rematerialisation. Can be repeated. Default: several."
)
@click.option("--save", type=AXES, help="Tensors that a policy of your own keeps, such as query,key,value.")
@click.option("--offload", type=AXES, help="Tensors that it keeps in the host's memory, such as block_input.")
@click.option("--dtype", default="bf16", show_default=True, help="Type of the matmuls: bf16, fp8 or int8.")
@click.option("--weights", default="f32", show_default=True, help="Type of the weights that are kept.")
@click.option("--gradients", type=DTYPES, default="f32", show_default=True, help="Type of the gradients, or none.")
@click.option("--moments", type=DTYPES, default="f32,f32", show_default=True, help="Types of the optimizer's moments.")
@click.option("--master", help="Type of a second copy of the weights. Default: there is none.")
@click.option("--offload-optimizer", is_flag=True, help="Keep the optimizer state in the host's memory.")
@click.option(
    "--mesh",
    type=MESH,
    help="Judge one layout only, such as fsdp=256,tensor=8; with --from-run the layout in use. "
    f"Axes: {', '.join(_MESH_AXES)}.",
)
@run_asked
@click.option(
    "--profile",
    "profile_name",
    metavar="NAME|FILE",
    help="Constants of tpuprof calibrate instead of the built-in ones.",
)
@click.option(
    "--overlap", type=float, help="Share of all communication that is hidden, 0 to 1. Default: see the profile."
)
@click.option("--top", type=click.IntRange(1, 1000), default=10, show_default=True, help="Candidates to show.")
@click.option("--explain", "rank", type=click.IntRange(1), help="Derive every number of the candidate of this rank.")
@click.option("--scaling", is_flag=True, help="The same batch on slices of other sizes: the strong-scaling curve.")
@hardware_options
@output_options(PLAN_FORMATS)
def command(
    model_name: str | None, chip_name: str | None, topology: str | None, chips: int | None, slices: int,
    batch_tokens: float | None, sequence: int | None, budget: float | None, price: float | None,
    policies: tuple[str, ...], save: tuple[str, ...] | None, offload: tuple[str, ...] | None, dtype: str, weights: str,
    gradients: tuple[str, ...], moments: tuple[str, ...], master: str | None, offload_optimizer: bool,
    mesh: dict[str, int] | None, from_run: str | None, axes: tuple[str, ...], hlo: str | None,
    step_program: str | None, profile_name: str | None, overlap: float | None, top: int, rank: int | None,
    scaling: bool, edition: str | None, hardware_files: tuple[str, ...], output: Output,
) -> None:  # fmt: skip
    """Rank the ways to split a training step over a slice.

    MODEL is a name such as llama3-70b, a TOML file, or the config.json of Hugging Face. Each layout comes with its step
    time, memory, utilisation and cost, and with why it loses; impossible ones are listed with the reason. With
    --from-run the plan starts from what a run shows, and says what to change; what the run tells need not be given.
    """
    from tpuprof.hardware import chip as find
    from tpuprof.perfmodel.checks import positive
    from tpuprof.plan.profile_store import load_profile
    from tpuprof.plan.remat import custom_policy, remat_policy
    from tpuprof.plan.state import StateTypes
    from tpuprof.plan.train_explain import explain
    from tpuprof.plan.train_layout import Job
    from tpuprof.plan.train_profile import efficiency
    from tpuprof.plan.train_search import search
    from tpuprof.plan.zoo import load_model
    from tpuprof.report.plan_train_page import scaling_page, train_brief, train_page
    from tpuprof.report.plan_words import render_plan
    from tpuprof.report.training_plan import explanation, plan_result, scaling_result

    given = Given(model_name, chip_name, topology, chips, slices, batch_tokens, sequence, edition, hardware_files)
    run = asked(from_run, axes, hlo, step_program)
    started = None if run is None else start(run, given, output)
    if started is not None:
        model, where, batch_tokens, sequence = started.model, started.where, started.batch_tokens, started.sequence
    else:
        named, chip_name, batch_tokens, sequence = required(given)
        where = slice_of(find(chip_name, edition=edition, files=hardware_files), topology, chips, slices)
        model = load_model(named)
    sequences = _sequences(batch_tokens, sequence)
    if sequences * sequence != batch_tokens:
        near = 2 ** round(log2(sequences))
        advice = f" What splits well has many factors 2: {near:,} sequences are {near * sequence:,} tokens."
        output.note(
            f"The batch is taken as {plural(sequences, 'sequence')}, {sequences * sequence:,} tokens."
            + (advice if near != sequences else "")
        )
    if price is not None:
        positive("The price", price)
    if budget is not None:
        positive("The token budget", budget)
    if len(gradients) > 1:
        raise UsageError("Gradients have one type.", hint="Give --gradients f32, bf16 or none.")
    types = StateTypes(weights, gradients[0] if gradients else None, moments, master)
    chosen = [remat_policy(name) for name in policies]
    if save is not None or offload is not None:
        chosen.append(custom_policy(save or (), offload or ()))
    job = Job(
        model, sequences, sequence, remat_policy("block-inputs"), dtype, types, offload_optimizer
    )  # fmt: skip
    stored = None if profile_name is None else load_profile(profile_name)
    profile = efficiency(where.chip.name) if stored is None else stored.efficiency(where.chip.name)
    if overlap is not None:
        profile = profile.with_overlap(overlap)
    screen = output.screen() if output.form == "table" else None
    if scaling:
        from tpuprof.plan.train_scaling import strong_scaling

        if mesh is not None or rank is not None or run is not None:
            raise UsageError("--scaling searches by itself.", hint="Leave out --mesh, --explain and --from-run.")
        points = strong_scaling(job, where, policies=chosen or None, profile=profile)
        curve = scaling_result(job, points)
        page = scaling_page(curve.document)
        output.write(render_plan(curve, page, page, output.form, screen))
        return
    layout = _layout(mesh, where)
    plan = search(job, where, policies=chosen or None, profile=profile, only=layout if run is None else None)
    if not plan.candidates and output.form in ("json", "jsonl", "csv"):  # pages say it
        output.note(f"No layout of {where.name} is possible: {plan.rejected[0].why.rstrip('.')}.")
    if rank is not None and rank > len(plan.candidates):
        raise UsageError(f"There is no rank {rank}.", why=f"{len(plan.candidates)} layouts fit.")
    if rank is not None and output.form not in ("table", "md", "json", "html"):
        raise UsageError(f"--explain cannot be written as {output.form}.", hint="Formats: table, md, json, html.")
    if rank is not None and output.form != "html":
        output.write(explanation(plan, rank, budget, price, output.form, stored))
        return
    result = plan_result(plan, budget, price, top, stored)
    if started is not None:
        result = against_run(result, started, plan, layout, chosen, top)
    derived = {}
    if output.form == "html" and plan.candidates:
        derived = explain(plan, plan.candidates[(rank or 1) - 1], budget, price)
    full = train_page(result.document, derived, rank or 1)
    output.write(render_plan(result, train_brief(result.document), full, output.form, screen))


def _sequences(batch_tokens: float, sequence: int) -> int:
    if not 1 <= sequence <= 10**9:
        raise UsageError(f"Sequences of {sequence} tokens are not possible.", hint="Give --seq from 1.")
    if not 0 < batch_tokens <= 1e12:
        raise UsageError(f"A batch of {batch_tokens:g} tokens is not possible.", hint="Give --batch-tokens above zero.")
    sequences = round(batch_tokens / sequence)
    if sequences < 1:
        raise UsageError(
            f"The batch of {batch_tokens:,.0f} tokens is less than one sequence of {sequence:,}.",
            hint="Give more --batch-tokens, or a shorter --seq.",
        )
    return sequences


def _layout(mesh: dict[str, int] | None, where: Slice) -> Layout | None:
    from tpuprof.plan.train_layout import Layout

    if mesh is None:
        return None
    unknown = [name for name in mesh if name not in _MESH_AXES]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no axis of a layout.", hint=f"Axes: {', '.join(_MESH_AXES)}.")
    if mesh.get("zero", 3) not in (1, 2, 3):
        raise UsageError(f"There is no ZeRO stage {mesh['zero']} of an FSDP axis.", hint="Stages: 1, 2, 3.")
    named = {"slices": where.slices, "accumulation": max(1, mesh.get("pipeline", 1)), **mesh}
    return Layout(**named)
