"""The error tree. Every error says what went wrong, where, why, and what to do next.

Each class carries the exit code with which the command line ends when the error reaches it:
2 usage, 3 input unreadable or not a trace, 4 internal, 5 cannot tell.
"""

from __future__ import annotations


class TpuprofError(Exception):
    """Root of all errors that tpuprof raises on purpose.

    Args:
        what: one sentence on what went wrong, with the offending value.
        where: the file, directory, option or row concerned.
        why: the known or usual cause.
        hint: what to do next.
    """

    exit_code = 4

    def __init__(self, what: str, *, where: str = "", why: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        tail = "".join(f" {part}" for part in (self.why, self.hint) if part)
        return f"{place}{self.what}{tail}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders when host files are read in parallel.
        return (_rebuild, (type(self), self.what, self.where, self.why, self.hint))


def _rebuild(cls: type[TpuprofError], what: str, where: str, why: str, hint: str) -> TpuprofError:
    return cls(what, where=where, why=why, hint=hint)


class UsageError(TpuprofError, ValueError):
    """An argument, option or call is wrong."""

    exit_code = 2


class OutputExistsError(UsageError, FileExistsError):
    """An output file exists and overwriting was not asked for."""


class InputError(TpuprofError):
    """The input cannot be read or is not a trace."""

    exit_code = 3


class TraceNotFoundError(InputError, FileNotFoundError):
    """There is no run at the given place."""


class NotATraceError(InputError, ValueError):
    """The file exists but is not a trace, or nothing in it can be used."""


class UnsupportedContainerError(InputError):
    """The file is a trace in a container that tpuprof does not read."""


class InputTooLargeError(InputError):
    """The input, or what it decompresses to, passes a safety limit."""


class HloError(InputError, ValueError):
    """An HLO module, as text or protobuf, cannot be parsed."""


class SchemaError(TpuprofError, TypeError):
    """A table does not have the columns, types or nulls that its schema states."""


class MissingDependencyError(TpuprofError, ImportError):
    """An optional dependency is needed and not installed."""

    exit_code = 2


class WorkerError(TpuprofError):
    """A process that read host files ended before it was done."""


class CompilerError(TpuprofError):
    """The compiler did not answer: it took too long, broke down, or does not fit this jax."""

    exit_code = 5


class StoreError(InputError):
    """A run store cannot be opened, read or written."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no run store at the given place."""


class StoreBusyError(StoreError):
    """Others keep the run store locked for longer than was waited."""


class StoreVersionError(StoreError):
    """The run store was made by a newer tpuprof, or needs an upgrade that was not allowed."""


class UnlikeRunsError(TpuprofError):
    """Runs of different programs or different hardware would be compared."""

    exit_code = 5


class CaptureError(TpuprofError):
    """A capture could not be started, stopped or saved."""


class CaptureActiveError(CaptureError):
    """A capture of this process is already running."""


class ProfilerBusyError(CaptureError):
    """Somebody else holds the profiler session of this process."""
