"""tpuprof: where the step time of a sharded JAX program goes, and how far it is from what the hardware allows.

    import tpuprof

    trace = tpuprof.load("/tmp/logdir")      # newest run below the directory
    trace.partition                          # every picosecond of every step, by core
    trace.op_stats(by="scope")

    with tpuprof.capture("/tmp/logdir"):     # around the steps to look at
        train(steps=3)

Importing this package is cheap: everything heavy is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof._version import __version__
from tpuprof.errors import TpuprofError

if TYPE_CHECKING:
    from tpuprof.capture import (
        Budget,
        Capture,
        OnRequest,
        Profiler,
        Schedule,
        SlowSteps,
        annotate,
        capture,
        step,
        steps,
    )
    from tpuprof.registry import analyze
    from tpuprof.trace import Trace, load

__all__ = [
    "Budget",
    "Capture",
    "OnRequest",
    "Profiler",
    "Schedule",
    "SlowSteps",
    "TpuprofError",
    "Trace",
    "__version__",
    "analyze",
    "annotate",
    "capture",
    "load",
    "step",
    "steps",
]

_LAZY = {
    "Budget": "tpuprof.capture",
    "Capture": "tpuprof.capture",
    "OnRequest": "tpuprof.capture",
    "Profiler": "tpuprof.capture",
    "Schedule": "tpuprof.capture",
    "SlowSteps": "tpuprof.capture",
    "Trace": "tpuprof.trace",
    "analyze": "tpuprof.registry",
    "annotate": "tpuprof.capture",
    "capture": "tpuprof.capture",
    "load": "tpuprof.trace",
    "step": "tpuprof.capture",
    "steps": "tpuprof.capture",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tpuprof' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LAZY[name])
    # tpuprof.capture is a package that can be called: the function of the same name would hide its modules.
    value = module if name == "capture" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
