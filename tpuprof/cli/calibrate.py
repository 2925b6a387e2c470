"""The command ``tpuprof calibrate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.roofline_options import roofline_options
from tpuprof.cli.source import RunSource
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS

if TYPE_CHECKING:
    from tpuprof.calibration import Calibration
    from tpuprof.roofline import HardwareOptions

AXIS_HELP = "What an axis of the mesh is for, such as x=fsdp; * for collectives without stated axes. Can be repeated."


@click.command("calibrate")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--published", type=click.Path(path_type=Path), metavar="FILE", help="Published rows instead of runs: one scale."
)
@click.option("--name", help="Store the profile under this name, for plan train --profile NAME.")
@click.option("--list", "listed", is_flag=True, help="List the stored profiles.")
@click.option("--axis", "axes", multiple=True, metavar="NAME=ROLE", help=AXIS_HELP)
@click.option("--hlo", metavar="PATH", help="HLO dump (file or directory) for programs whose HLO is missing.")
@click.option("--step-program", metavar="NAME", help="Take the executions of this program as steps.")
@click.option("--steps", metavar="A:B", help="Only the steps A to B - 1 of each run.")
@roofline_options
@output_options(TABLE_FORMATS)
def command(
    runs: tuple[str, ...], published: Path | None, name: str | None, listed: bool, axes: tuple[str, ...],
    hlo: str | None, step_program: str | None, steps: str | None, hardware: HardwareOptions, output: Output,
) -> None:  # fmt: skip
    """Fit the constants of training plans from runs, or from published steps.

    What the traces do not tell stays as it is built in, and is listed with the reason. The profile is stored with
    --name, or written to a file that ends in .toml with -o.
    """
    from tpuprof.plan.profile_store import profile_directory, profile_path, profile_text, stored_profiles
    from tpuprof.report.calibration import calibration_result, profiles_result
    from tpuprof.report.render import render_result

    _check(runs, published, name, listed)
    screen = output.screen() if output.form == "table" else None
    if listed:
        result = profiles_result(stored_profiles(), str(profile_directory()))
        output.write(render_result(result, output.form, screen))
        return
    to_file = output.path if output.path is not None and output.path.suffix == ".toml" else None
    if name is not None and to_file is not None:
        raise UsageError("The profile is stored twice.", hint="Give either --name or -o FILE.toml.")
    target = to_file if name is None else profile_path(name)
    if name is not None and target is not None and target.exists() and not output.force:
        raise UsageError(f"There is a profile {name!r} already.", where=str(target), hint="Give --force to replace it.")
    called = name if name is not None else "unnamed" if to_file is None else to_file.stem
    if published is None:
        sources = [RunSource(run, hlo=hlo, step_program=step_program, steps=steps) for run in runs]
        found = _from_runs(sources, called, axes, hardware, output)
    else:
        found = _from_rows(published, called, hardware)
    if target is None:
        output.note("The profile is not stored; --name NAME does that.")
    elif not found.fitted:
        raise UsageError(
            "There is nothing to store: no constant was fitted.",
            why="; ".join(dict.fromkeys(one.reason for one in found.kept[:3])),
            hint="Without --name and -o the reasons are listed.",
        )
    else:
        if name is not None:
            _make(target.parent)
        replace(output, path=target).write_bytes(target, profile_text(found.profile).encode())
    shown = replace(output, path=None) if to_file is not None else output
    result = calibration_result(found, None if target is None else str(target))
    shown.write(render_result(result, shown.form, shown.screen() if shown.form == "table" else None))


def _check(runs: tuple[str, ...], published: Path | None, name: str | None, listed: bool) -> None:
    if listed and (runs or published is not None or name is not None):
        raise UsageError("--list only lists.", hint="Leave out RUN, --published and --name.")
    if not listed and bool(runs) == (published is not None):
        what = "There is nothing to calibrate from." if published is None else "Runs and published rows do not mix."
        raise UsageError(what, hint="Name one or more runs, or give --published FILE.")


def _from_runs(
    sources: list[RunSource], name: str, axes: tuple[str, ...], hardware: HardwareOptions, output: Output
) -> Calibration:
    from tpuprof.calibration import calibrate
    from tpuprof.calibration.axes import parse_axes

    given = parse_axes(axes)
    return calibrate([source.load(output) for source in sources], name, options=hardware, axes=given)


def _from_rows(file: Path, name: str, hardware: HardwareOptions) -> Calibration:
    from tpuprof.calibration import calibrate_published
    from tpuprof.plan.published import read_rows

    return calibrate_published(read_rows(file), name, chip=hardware.chip, source=file.name)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The directory of profiles cannot be made: {error.strerror}.", where=str(directory),
            hint="Write the profile to a file with -o FILE.toml.",
        ) from error  # fmt: skip
