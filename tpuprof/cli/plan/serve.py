"""``tpuprof plan serve``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from tpuprof.cli.calc.options import quantity
from tpuprof.cli.hardware import hardware_options
from tpuprof.cli.output import Output, output_options
from tpuprof.errors import UsageError
from tpuprof.report.render import PLAN_FORMATS

if TYPE_CHECKING:
    from tpuprof.hardware import Chip, Slice
    from tpuprof.plan.serve import Assumptions

_MOST_SLICES = 32
_LARGEST_CHIPS = 256


@click.command("serve")
@click.argument("model")
@click.option("--chip", required=True, help="Kind of TPU, such as v5e or tpu7x.")
@click.option("--topology", metavar="SHAPE,…", help="Slices to look at, such as 4x4 or 2x4,4x4,4x8.")
@click.option(
    "--chips",
    metavar="N,…",
    help=f"Or their sizes, in their usual shapes. Default: powers of two up to {_LARGEST_CHIPS}.",
)
@click.option("--prompt", type=int, required=True, help="Tokens of a prompt.")
@click.option("--generate", type=int, required=True, help="Tokens of an answer.")
@click.option("--sla-ttft", type=quantity("s"), help="Limit on the time to the first token, such as 500ms.")
@click.option("--sla-tpot", type=quantity("s"), help="Limit on the time per further token, such as 30ms.")
@click.option("--weights", default="bf16", show_default=True, help="Type of the weights.")
@click.option("--cache", default="bf16", show_default=True, help="Type of the KV cache.")
@click.option("--activations", default="bf16", show_default=True, help="Type of the activations.")
@click.option("--batch", "batches", metavar="N,…", help="Sequences at a time. Default: powers of two up to what fits.")
@click.option("--token-budget", type=int, default=2048, show_default=True, help="Tokens of a step at most.")
@click.option("--load", type=float, default=0.8, show_default=True, help="Simulated arrivals, of what a server can do.")
@click.option("--rate", type=float, help="Simulated arrivals instead: requests per second and server.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulated arrivals.")
@click.option("--price", type=quantity("USD/h"), help="Of a chip and hour, instead of the list price.")
@click.option("--ideal", is_flag=True, help="Reach the hardware's figures, hide communication: the book's arithmetic.")
@click.option("--memory-efficiency", type=float, help="Share of the memory bandwidth that is reached. Default: 0.73.")
@click.option("--compute-efficiency", type=float, help="Share of the peak rate that is reached. Default: 0.66.")
@click.option("--step-overhead", type=quantity("s"), help="Of every step besides. Default: 1ms.")
@click.option("--memory-fraction", type=float, help="Share of the memory that may be filled. Default: 0.9.")
@click.option("--overlap", type=float, help="Share of collectives that may hide behind matmuls. Default: 0.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Candidates in the tables.")
@click.option("--load-curve", is_flag=True, help="Simulate the first candidate under more and more load.")
@click.option("--explain", "explained", is_flag=True, help="Derive every number of one candidate.")
@click.option("--candidate", type=click.IntRange(min=1), default=1, show_default=True, help="Its rank.")
@hardware_options
@output_options(PLAN_FORMATS)
def command(
    model: str, chip: str, topology: str | None, chips: str | None, prompt: int, generate: int, sla_ttft: float | None,
    sla_tpot: float | None, weights: str, cache: str, activations: str, batches: str | None, token_budget: int,
    load: float, rate: float | None, seed: int, price: float | None, ideal: bool, memory_efficiency: float | None,
    compute_efficiency: float | None, step_overhead: float | None, memory_fraction: float | None,
    overlap: float | None, top: int, load_curve: bool, explained: bool, candidate: int, edition: str | None,
    hardware_files: tuple[str, ...], output: Output,
) -> None:  # fmt: skip
    """Rank slices, splits and batches for serving a model.

    MODEL is a name such as llama3-70b, a config.json of Hugging Face, or a TOML file. Every split is shown at the
    batch with the most tokens per second and chip that meets the limits, and says why it is not first.
    """
    from tpuprof.hardware import chip as find
    from tpuprof.plan import load_model
    from tpuprof.plan.serve import ServeQuestion, Sla, Types, Workload, plan_serving
    from tpuprof.plan.serve import load_curve as simulated
    from tpuprof.plan.serve.explain import explain
    from tpuprof.report.derivations import derivation_markdown, derivation_text
    from tpuprof.report.plan_serve_page import serve_brief, serve_page
    from tpuprof.report.plan_words import render_plan
    from tpuprof.report.serve_plan import serve_result

    found = find(chip, edition=edition, files=hardware_files)
    assumed = _assumed(
        ideal, memory=memory_efficiency, compute=compute_efficiency, overhead_s=step_overhead,
        memory_fraction=memory_fraction, overlap=overlap,
    )  # fmt: skip
    question = ServeQuestion(
        load_model(model), _slices(found, topology, chips), Workload(prompt, generate),
        Types(weights, cache, activations), assumed, Sla(sla_ttft, sla_tpot), token_budget,
        () if batches is None else _numbers(batches, "--batch"), price, load, rate, seed,
    )  # fmt: skip
    plan = plan_serving(question)
    if candidate > len(plan.candidates):
        raise UsageError(f"There is no candidate {candidate}.", hint=f"There are {len(plan.candidates)}.")
    chosen = plan.candidates[candidate - 1]
    # The document for sharing has the curve anyway; elsewhere it is asked for, as it takes longer than the plan.
    curve = simulated(question, plan.candidates[0]) if load_curve or output.form == "html" else ()
    result = serve_result(plan, explained=candidate if explained else None, curve=curve)
    derived = explain(question, chosen) if explained or output.form == "html" else {}
    document, screen = result.document, output.screen() if output.form == "table" else None
    full = serve_page(document, top, derived if output.form == "html" else None, candidate)
    text = render_plan(result, serve_brief(document, top), full, output.form, screen)
    if output.form in ("table", "md"):
        show = derivation_markdown if output.form == "md" else derivation_text
        text += "".join(f"\n{show(answer, name)}" for name, answer in derived.items())
    output.write(text)


def _assumed(ideal: bool, **given: float | None) -> Assumptions:
    from dataclasses import replace

    from tpuprof.plan.serve import BOUND, Assumptions

    return replace(BOUND if ideal else Assumptions(), **{name: v for name, v in given.items() if v is not None})


def _slices(chip: Chip, topology: str | None, chips: str | None) -> tuple[Slice, ...]:
    from tpuprof.hardware import make_slice
    from tpuprof.hardware.slices import default_shape

    if topology is not None and chips is not None:
        raise UsageError("Slices are given twice.", hint="Give either --topology or --chips.")
    if topology is not None:
        parts = [part.strip() for part in topology.split(",")]
        if len(parts) > _MOST_SLICES or not all(re.fullmatch(r"\d{1,4}([xX×]\d{1,4}){1,2}", part) for part in parts):
            raise UsageError(f"{topology!r} is no list of shapes.", hint="Write it like 4x4 or 2x2x1,2x2x2.")
        return tuple(make_slice(chip, tuple(map(int, re.split("[xX×]", part)))) for part in parts)
    if chips is not None:
        return tuple(make_slice(chip, default_shape(chip, count)) for count in _numbers(chips, "--chips"))
    found: list[Slice] = []
    size, problem = 1, None
    while size <= min(_LARGEST_CHIPS, chip.pod_chips or _LARGEST_CHIPS):
        try:
            found.append(make_slice(chip, default_shape(chip, size)))
        except UsageError as error:  # not every size is built
            problem = error
        size *= 2
    if not found and problem is not None:
        raise problem
    return tuple(found)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_SLICES or not all(part.isdecimal() and len(part) < 8 for part in parts):
        raise UsageError(f"{text!r} is no list of counts.", where=option, hint="Write it like 8 or 4,8,16.")
    return tuple(dict.fromkeys(map(int, parts)))
