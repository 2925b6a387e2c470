"""What the command line says when something goes wrong: all on stderr, one line per fact, no traceback unasked."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TextIO

import click

from tpuprof.errors import TpuprofError

FOUND = 1
USAGE = 2
INTERNAL = 4
CANNOT_TELL = 5
INTERRUPTED = 130


def say(text: str) -> None:
    """One line on stderr, whatever characters stderr takes."""
    from tpuprof.text import clean

    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    line = f"tpuprof: {clean(text)}\n"
    try:
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
    except (AttributeError, OSError):
        return  # stderr is closed, or nobody reads it; there is no other place to complain


def silence(stream: TextIO) -> None:
    """Sends what a stream still holds, and all that comes, to nowhere: its reader has gone away."""
    with contextlib.suppress(OSError, ValueError):  # streams without a descriptor have no reader to lose
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


def report_error(error: TpuprofError, debug: bool) -> None:
    """What, where, why and what to do next."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    say(f"error: {error.what}")
    for label, text in (("where", error.where), ("why", error.why), ("next", error.hint)):
        if text:
            say(f"{label}: {text}")


def report_usage(error: click.ClickException) -> None:
    """A wrong option, argument or command; a command called without what it needs shows its help."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    say(f"error: {error.format_message()}")
    if isinstance(context, click.Context):
        say(f"next: See {context.command_path} --help.")


def report_unexpected(error: Exception, debug: bool) -> None:
    """A fault of tpuprof itself."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    say(f"error: internal error: {type(error).__name__}: {error}")
    if not debug:
        say("next: Run the same command with --debug and report what it prints.")
