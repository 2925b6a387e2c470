"""Open runs: read once for everyone who looks at them, with what pages derived from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tpuprof.errors import InputError, UsageError
from tpuprof.selection import match_devices, match_steps, parse_steps
from tpuprof_dashboards.memo import Memo

if TYPE_CHECKING:
    from tpuprof.analysis import Context
    from tpuprof.engine import Progress
    from tpuprof.formats.recording import RunFiles
    from tpuprof.roofline import HardwareOptions
    from tpuprof.trace import Trace
    from tpuprof_dashboards.timeline import TimelineModel

T = TypeVar("T")

MOST_RUNS = 4
"""Runs held in memory at once; of those looked at longest ago, the next look reads the files again."""
_MOST_SELECTIONS = 6
_MOST_DERIVED = 64
_MOST_WHOLE = 6


class Selection:
    """A run with the steps and devices that were picked, and what was derived from it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._memo = Memo(_MOST_DERIVED)
        self._whole = Memo(_MOST_WHOLE)  # what takes longest, so that no number of small results pushes it out

    @property
    def report(self) -> dict[str, Any]:
        """The report of the selection (see ``tpuprof.report``); made when it is first asked for. Not to be changed."""
        return self.report_on(None)

    def report_on(self, hardware: HardwareOptions | None) -> dict[str, Any]:
        """The report with this hardware; null for what the trace names.

        Raises:
            UsageError: there is no such hardware.
        """
        return self._whole.get(("report", hardware), lambda: _report(self.context(hardware)))

    def context(self, hardware: HardwareOptions | None) -> Context:
        """What analyzers work on, its roofline made: the one that the report has too.

        Raises:
            UsageError: there is no such hardware.
        """
        return self._whole.get(("context", hardware), lambda: _context(self.trace, hardware))

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returns, made once per selection and key. Results are shared: nobody may change them."""
        return self._memo.get(key, make)


class OpenRun:
    """A run that was read."""

    def __init__(self, files: RunFiles, trace: Trace) -> None:
        self.files = files
        self.trace = trace
        self._selections = Memo(_MOST_SELECTIONS)

    def selection(self, steps: str = "", devices: str = "") -> Selection:
        """The run with these steps and devices only; the texts are those of ``--steps`` and ``--devices``.

        Raises:
            UsageError: the run has no such step or device.
        """
        return self._selections.get((steps, devices), lambda: Selection(_narrowed(self.trace, steps, devices)))


@dataclass(frozen=True, slots=True)
class Library:
    """The runs of a log directory, and those of them that are open."""

    logdir: str
    memo: Memo

    @classmethod
    def of(cls, logdir: str) -> Library:
        """The runs under a directory, file or URL; nothing is read yet."""
        return cls(logdir, Memo(MOST_RUNS))

    def list(self) -> list[RunFiles]:
        """The runs that are there now, newest first; those that links lead out of the directory to are left out.

        Raises:
            InputError: the directory cannot be read.
        """
        from tpuprof.errors import TraceNotFoundError
        from tpuprof.formats.discover import list_runs

        try:
            found = list_runs(self.logdir)
        except TraceNotFoundError:
            if os.path.isdir(self.logdir):
                return []
            raise
        return [files for files in found if self._inside(files)]

    def find(self, runs: Sequence[RunFiles], name: str) -> RunFiles | None:
        """The run of that name, the newest one without a name; null if there is none.

        Args:
            runs: those that :meth:`list` found; older ones are looked for by the name of their directory.
            name: what the URL says; nothing outside of the log directory can be reached with it.
        """
        from tpuprof.formats.discover import find_run

        if not name:
            return runs[0] if runs else None
        found = next((files for files in runs if files.name == name), None)
        if found is None and runs:
            with suppress(InputError, UsageError):
                older = find_run(self.logdir, run=name)
                found = older if self._inside(older) else None
        return found

    def is_open(self, files: RunFiles) -> bool:
        """True if the run is in memory as it is on disk now."""
        return self.memo.has(_key(files))

    def open(self, files: RunFiles, progress: Progress | None = None) -> OpenRun:
        """The run, read if it is not in memory or was written again since.

        Raises:
            InputError: it cannot be read.
        """
        from tpuprof.trace import load

        def read() -> OpenRun:
            return OpenRun(files, load(self.logdir, run=files.name, progress=progress, cache=True))

        return self.memo.get(_key(files), read)

    def _inside(self, files: RunFiles) -> bool:
        if "://" in self.logdir:
            return True
        root = Path(self.logdir).resolve()
        return all(Path(path).resolve().is_relative_to(root) for path in _paths(files))


def _paths(files: RunFiles) -> list[str]:
    return [path for file in files.files for path in (file.xplane, file.trace_json) if path is not None]


def _key(files: RunFiles) -> Hashable:
    """Changes when a file of the run does: what is shown must be what is there."""
    stamps: list[tuple[str, int, int]] = []
    for path in _paths(files):
        try:
            facts = os.stat(path)
            stamps.append((path, facts.st_size, facts.st_mtime_ns))
        except OSError:  # on another file system: the listing says how large it is
            stamps.append((path, files.size_bytes, 0))
    return (files.path, files.name, tuple(stamps))


def _narrowed(trace: Trace, steps: str, devices: str) -> Trace:
    if devices:
        trace = trace.select(devices=match_devices(devices, [device.id for device in trace.devices]))
    if steps:
        numbers = sorted({int(step) for step in trace.steps["step"]})
        trace = trace.select(steps=match_steps(parse_steps(steps), numbers))
    return trace


def _context(trace: Trace, hardware: HardwareOptions | None) -> Context:
    from tpuprof.analysis import Context

    context = Context(trace, hardware=hardware)
    _ = context.roofline  # made here, where others wait for it
    return context


def _report(context: Context) -> dict[str, Any]:
    from tpuprof.report.build import context_report

    return context_report(context)


def check_selection(run: OpenRun, steps: str, devices: str) -> tuple[Selection, str | None]:
    """The selection that was asked for, or the whole run and the reason why not."""
    try:
        return run.selection(steps, devices), None
    except UsageError as error:
        return run.selection(), " ".join(filter(None, (error.what, error.hint)))


@cache
def library_of(logdir: str) -> Library:
    """The runs of a log directory, one for everyone that this process serves."""
    return Library.of(logdir)


def timeline_of(selection: Selection) -> TimelineModel:
    """The timeline of a selection, laid out once for everyone."""
    from tpuprof_dashboards.timeline import build_timeline

    return selection.derived("timeline", lambda: build_timeline(selection.trace))
