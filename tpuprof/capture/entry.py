"""`tpuprof.capture(...)`: the arguments of one capture, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tpuprof.capture.budget import Budget
from tpuprof.capture.checking import instance
from tpuprof.capture.hosts import check_hosts
from tpuprof.capture.options import check_options
from tpuprof.capture.recorder import Capture
from tpuprof.capture.session import check_logdir, check_name
from tpuprof.errors import UsageError


def capture(
    logdir: str | os.PathLike[str] | None = None,
    *,
    host_tracer_level: int = 2,
    python_tracer_level: int = 0,
    name: str | None = None,
    hosts: Iterable[int] | str | None = None,
    strict: bool = False,
    budget: Budget | None = None,
    **options: Any,
) -> Capture:
    """A context manager, or a decorator, that captures what the program does inside it.

    A profiler that is busy, with another capture too, or fails does not disturb the program: the body runs, a warning
    is logged once, and `Capture.error` holds the typed error. The body's own exceptions pass through and the profiler
    is stopped. When the program is terminated inside, or ends, the trace is kept and marked as not complete.

    As a decorator, the first call of the function is captured, later ones just run; the function's attribute
    ``capture`` is then the capture.

    Args:
        logdir: log directory that receives ``plugins/profile/<session>/``. None makes a directory
            ``tpuprof-…`` in the system's temporary place; tpuprof never deletes it.
        host_tracer_level: 0 (off) to 3 (verbose).
        python_tracer_level: 1 records every Python call, which slows the program and fills the trace.
        name: name of the session directory instead of its start time.
        hosts: jax processes that record, such as ``(0, 3)`` or ``"0-3"``; None for all, or for those that the
            variable ``TPUPROF_HOSTS`` names. In the others the body runs as if there were no capture.
        strict: raise the profiler's errors instead of recording them.
        budget: what the recording may cost; None takes the limits of `Budget`.
        options: ``enable_hlo_proto``, the keys of `tpuprof.capture.options.ADVANCED_KEYS`, and ``advanced``.

    Raises:
        UsageError: an option is unknown or wrong.
        CaptureActiveError: on entry, when another capture of this process is running and `strict` is given.
        MissingDependencyError: on entry, when jax is not installed.
    """
    if callable(logdir):
        raise UsageError("tpuprof.capture is not called yet.", hint="Write @tpuprof.capture(), with parentheses.")
    instance("strict", strict, bool)
    instance("budget", budget or Budget(), Budget, "Write budget=tpuprof.Budget(max_events=…).")
    return Capture(
        None if logdir is None else check_logdir(logdir),
        check_options(host_tracer_level=host_tracer_level, python_tracer_level=python_tracer_level, **options),
        name=None if name is None else check_name(name),
        hosts=check_hosts(hosts),
        strict=strict,
        budget=budget,
    )
