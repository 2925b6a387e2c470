"""Capturing a run: a context manager, a profiler for loops, step marks, and the launcher for unmodified scripts.

The module itself can be called: ``tpuprof.capture(logdir)`` is ``tpuprof.capture.capture(logdir)``. A package
and a function share the name, and importing any submodule puts the package in the function's place; a package
that can be called is right either way.

Nothing here is imported before it is used: the launcher's hook loads this package at the start of every
Python process of the program that is being watched.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuprof.capture.annotations import annotate
    from tpuprof.capture.budget import Budget
    from tpuprof.capture.entry import capture
    from tpuprof.capture.loop import Profiler
    from tpuprof.capture.plan import OnRequest
    from tpuprof.capture.programs import forget_programs, note_program
    from tpuprof.capture.recorder import Capture, CaptureState
    from tpuprof.capture.schedule import Schedule
    from tpuprof.capture.sidecar import read_sidecars
    from tpuprof.capture.slowsteps import SlowSteps
    from tpuprof.capture.stepmarks import step, step_count, steps

__all__ = [
    "Budget",
    "Capture",
    "CaptureState",
    "OnRequest",
    "Profiler",
    "Schedule",
    "SlowSteps",
    "annotate",
    "capture",
    "forget_programs",
    "note_program",
    "read_sidecars",
    "step",
    "step_count",
    "steps",
]

_HOMES = {
    "Budget": "budget",
    "Capture": "recorder",
    "CaptureState": "recorder",
    "OnRequest": "plan",
    "Profiler": "loop",
    "Schedule": "schedule",
    "SlowSteps": "slowsteps",
    "annotate": "annotations",
    "capture": "entry",
    "forget_programs": "programs",
    "note_program": "programs",
    "read_sidecars": "sidecar",
    "step": "stepmarks",
    "step_count": "stepmarks",
    "steps": "stepmarks",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Capture:
        from tpuprof.capture.entry import capture

        return capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
