"""The command line. This module starts it and turns whatever goes wrong into a message and an exit code.

Exit codes: 0 fine · 1 a finding at or above ``--fail-on`` · 2 usage · 3 input unreadable or not a trace · 4 internal ·
5 cannot tell · 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tpuprof.cli.commands import group
from tpuprof.cli.failures import INTERNAL, INTERRUPTED, USAGE, report_error, report_unexpected, report_usage, silence
from tpuprof.errors import TpuprofError

__all__ = ["group", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; nothing but the exit of a child program passes through."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in (words[: words.index("--")] if "--" in words else words)
    code = _run(words, debug)
    return _flush(code)


def _run(words: list[str], debug: bool) -> int:
    try:
        result = group.main(args=words, prog_name="tpuprof", standalone_mode=False)
    except click.ClickException as error:
        report_usage(error)
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except TpuprofError as error:
        report_error(error, debug)
        return error.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE if stop.code else 0
    except BrokenPipeError:
        return 0
    except Exception as error:
        report_unexpected(error, debug)
        return INTERNAL
    return result if isinstance(result, int) else 0


def _flush(code: int) -> int:
    """Writes out what is buffered; a reader that has gone away (``| head``) is no error."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by the caller (``>&-``)
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)  # the interpreter flushes once more when it ends
    return code
