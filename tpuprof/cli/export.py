"""The command ``tpuprof export``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.redact import Redactor
    from tpuprof.trace import Trace

FORMATS = ("perfetto", "speedscope", "parquet", "csv", "xplane")
_FOLDERS = ("parquet", "csv")
DEFAULT_EVENTS = 1_000_000


@click.command("export")
@run_options
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option(
    "--redact",
    is_flag=True,
    help="Take out paths (base names stay), host and user names, addresses, and command lines.",
)
@click.option(
    "--max-events",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write at most N events; perfetto leaves out the shortest host events, otherwise more is an error. "
    f"Default: {DEFAULT_EVENTS} for perfetto and speedscope, no limit for the others.",
)
@output_options(())
def command(source: RunSource, output: Output, form: str, redact: bool, max_events: int | None) -> None:
    """Write a run, or part of it, for another program or another person.

    perfetto: a timeline for ui.perfetto.dev, gzipped unless -o ends in .json. speedscope: flame graphs of name
    scopes. parquet, csv: a directory with all tables. xplane: the recording itself, trimmed to --steps and --devices;
    a directory, or for one host a file if -o ends in .xplane.pb. Only perfetto and speedscope can go to stdout.
    """
    if output.path is None and form not in ("perfetto", "speedscope"):
        raise UsageError(f"--to {form} needs an output.", hint="Name a file or directory with -o.")
    single = output.path is not None and form == "xplane" and output.path.name.endswith(".xplane.pb")
    folder = form in _FOLDERS or (form == "xplane" and not single)
    if folder and output.path is not None:
        from tpuprof.cli.folder import check_folder

        check_folder(output.path, force=output.force)
    else:
        output.check()
    trace = source.load(output)
    redactor = None
    if redact:
        from tpuprof.export.redaction import redactor_for

        redactor = redactor_for(trace)
    if form == "perfetto":
        _perfetto(trace, output, max_events or DEFAULT_EVENTS, redactor)
    elif form == "speedscope":
        from tpuprof.export.speedscope import speedscope_document

        output.write(json.dumps(speedscope_document(trace, max_events or DEFAULT_EVENTS, redactor)) + "\n")
    elif output.path is not None:
        _files(trace, output, output.path, form, max_events, redactor, folder=folder)
    if redact:
        output.note("redacted; names of programs, ops, scopes, functions and source files stay: look before you share")
    output.finish([entry.severity for entry in trace.quality])


def _perfetto(trace: Trace, output: Output, max_events: int, redactor: Redactor | None) -> None:
    from tpuprof.export.perfetto import compressed, perfetto_json
    from tpuprof.export.timeline import timeline

    tracks = timeline(trace, max_events)
    if tracks.left_out:
        output.note(f"left out the {tracks.left_out} shortest host events to stay within --max-events {max_events}")
    pieces = perfetto_json(trace, tracks, redactor)
    if output.path is None or output.path.suffix.lower() == ".json":
        output.write("".join(pieces))
    else:
        output.write_bytes(output.path, compressed(pieces))


def _files(
    trace: Trace,
    output: Output,
    path: Path,
    form: str,
    max_events: int | None,
    redactor: Redactor | None,
    *,
    folder: bool,
) -> None:
    from tpuprof.cli.folder import marked, write_folder
    from tpuprof.export.xplane import exported_recordings, session_files

    if form == "xplane":
        recordings = exported_recordings(trace, max_events, redactor)
        if not folder:
            if len(recordings) > 1:
                raise UsageError(
                    f"The run has {len(recordings)} hosts, and each has a file of its own.",
                    where=str(path),
                    hint="Name a directory with -o, or choose the devices of one host with --devices.",
                )
            from tpuprof.formats.xplane_writer import write_xplane

            for recording in recordings:
                output.write_bytes(path, write_xplane(recording.space))
            return
        files: Iterable[tuple[str, bytes]] = session_files(trace, recordings, redactor)
    else:
        from tpuprof.export.tables import table_files

        files = table_files(trace, form, max_events, redactor)
    count = write_folder(path, marked(files, "export", form), force=output.force)
    output.note(f"wrote {count} files to {path}")
