"""What ``tpuprof plan train --from-run`` takes from a run, unless options say it: model, batch, sequence, slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuprof.cli.calibrate import AXIS_HELP
from tpuprof.cli.output import Output
from tpuprof.cli.source import RunSource
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.calibration.shown import ShownRun
    from tpuprof.hardware.topology import Slice
    from tpuprof.plan.model import ModelConfig
    from tpuprof.plan.remat import RematPolicy
    from tpuprof.plan.train_layout import Layout
    from tpuprof.plan.train_search import Plan
    from tpuprof.report.listing import Result

_MOST_CHANGES = 5


@dataclass(frozen=True, slots=True)
class RunAsked:
    """The run to start from, and how to read it."""

    source: RunSource
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """What options say of the job and the hardware; null where they do not."""

    model: str | None
    chip: str | None
    topology: str | None
    chips: int | None
    slices: int
    batch_tokens: float | None
    sequence: int | None
    edition: str | None
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """What a plan starts from.

    Args:
        sources: where each of the facts comes from, in words.
    """

    shown: ShownRun
    model: ModelConfig
    where: Slice
    batch_tokens: float
    sequence: int
    sources: dict[str, str]


def run_asked(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the command receives them as ``from_run``, ``axes``, ``hlo`` and ``step_program``."""
    options = [
        click.option("--from-run", metavar="RUN", help="Start from a run: its hardware and step, and what to change."),
        click.option("--axis", "axes", multiple=True, metavar="NAME=ROLE", help=f"With --from-run. {AXIS_HELP}"),
        click.option("--hlo", metavar="PATH", help="With --from-run: HLO dump for programs whose HLO is missing."),
        click.option("--step-program", metavar="NAME", help="With --from-run: the program whose executions are steps."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def asked(from_run: str | None, axes: tuple[str, ...], hlo: str | None, step_program: str | None) -> RunAsked | None:
    """The run to start from; null without one.

    Raises:
        UsageError: an option is about a run, and there is none.
    """
    if from_run is not None:
        return RunAsked(RunSource(from_run, hlo=hlo, step_program=step_program), axes)
    for option, value in {"--axis": axes, "--hlo": hlo, "--step-program": step_program}.items():
        if value:
            raise UsageError(f"{option} is about a run.", hint="Give --from-run RUN, too.")
    return None


def required(given: Given) -> tuple[str, str, float, int]:
    """Model, chip, tokens of a batch and of a sequence of a plan that does not start from a run.

    Raises:
        UsageError: one of them is missing.
    """
    model, chip, batch, sequence = given.model, given.chip, given.batch_tokens, given.sequence
    if model is None or chip is None or batch is None or sequence is None:
        named = {"MODEL": model, "--chip": chip, "--batch-tokens": batch, "--seq": sequence}
        missing = [name for name, value in named.items() if value is None]
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.",
            hint="Write tpuprof plan train MODEL --chip v5p --chips 64 --batch-tokens 4194304 --seq 4096, "
            "or start from a run with --from-run RUN.",
        )
    return model, chip, batch, sequence


def start(run: RunAsked, given: Given, output: Output) -> Started:
    """What the run and the options say together.

    Raises:
        UsageError: something is not known from either; or as the parts raise.
        InputError: the run or a file cannot be read.
    """
    from tpuprof.calibration.axes import parse_axes
    from tpuprof.calibration.shown import shown_by
    from tpuprof.plan.zoo import load_model
    from tpuprof.roofline import HardwareOptions

    axes = parse_axes(run.axes)
    options = HardwareOptions(
        chip=given.chip, edition=given.edition, files=tuple(Path(file) for file in given.files)
    )  # fmt: skip
    shown = shown_by(run.source.load(output), options=options, axes=axes)
    said, missing = shown.command, list[str]()
    model = load_model(given.model) if given.model is not None else said.model
    sequence = given.sequence if given.sequence is not None else said.sequence
    batch = given.batch_tokens
    if batch is None and said.sequences is not None and sequence is not None:
        batch = float(said.sequences * sequence)
    missing += ["MODEL"] if model is None else []
    missing += ["--seq"] if sequence is None else []
    missing += ["--batch-tokens"] if batch is None else []
    where, slice_source = _where(shown, given)
    if model is None or sequence is None or batch is None:
        raise UsageError(
            f"The run does not say {_names(missing)}.", where=run.source.path,
            why="Neither its trace nor the command line in its sidecar tells.", hint=f"Give {', '.join(missing)}.",
        )  # fmt: skip
    line = "the command line in the sidecar"
    sources = {
        "model": f"{model.name}, {'given' if given.model is not None else line}",
        "sequence": f"{sequence:,} tokens, {'given' if given.sequence is not None else line}",
        "batch": f"{batch:,.0f} tokens, {'given' if given.batch_tokens is not None else line}",
        "slice": f"{where.name}, {slice_source}",
    }  # fmt: skip
    return Started(shown, model, where, batch, sequence, sources)


def against_run(
    result: Result, started: Started, plan: Plan, mesh: Layout | None, policies: Sequence[RematPolicy], top: int
) -> Result:
    """The result of a plan with what the run shows, and what layouts should gain over it.

    Args:
        mesh: the layout in use, where the user gave it.
        policies: of rematerialisation, where the user gave some; one alone is that of the run.
    """
    from dataclasses import replace

    from tpuprof.calibration.compared import compared
    from tpuprof.report.from_run import with_run

    layout = mesh if mesh is not None else started.shown.layout.layout
    if mesh is None and layout is not None and layout.slices == 1:
        layout = replace(layout, slices=plan.where.slices)
    policy = policies[0] if len(policies) == 1 else None
    found = compared(started.shown, plan, layout, policy=policy, top=min(top, _MOST_CHANGES))
    return with_run(result, found, plan.profile, started.sources, given=mesh is not None)


def _where(shown: ShownRun, given: Given) -> tuple[Slice, str]:
    from tpuprof.cli.plan.slices import slice_of
    from tpuprof.hardware import make_slice
    from tpuprof.hardware.slices import default_shape

    chip = shown.chip
    if chip is None:
        raise UsageError("The chip of the run is not known.", why=shown.chip_reason, hint="Give --chip.")
    if chip.platform != "tpu":
        raise UsageError(f"The run is on {chip.name}.", hint="Training plans are for TPUs.")
    if given.topology is not None or given.chips is not None:
        return slice_of(chip, given.topology, given.chips, given.slices), "given"
    if shown.where is None:
        raise UsageError(
            "The slice of the run is not known.", why=shown.where_reason, hint="Give --topology or --chips."
        )
    if given.slices == 1:
        return shown.where, shown.origin.slice or "of the run"
    each, rest = divmod(shown.where.n_chips, given.slices)
    if rest or not each:
        raise UsageError(f"{shown.where.n_chips} chips are no {given.slices} equal slices.", hint="Give --topology.")
    return make_slice(chip, default_shape(chip, each), slices=given.slices), "the usual shape, --slices given"


def _names(missing: list[str]) -> str:
    words = {"MODEL": "its model", "--seq": "the length of its sequences", "--batch-tokens": "its batch"}
    named = [words[name] for name in missing]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
