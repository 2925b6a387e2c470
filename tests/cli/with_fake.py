"""Runs the command line in a process of its own on the stand-in trace: ``python -m tests.cli.with_fake report X``.

``X`` says which: ``clean``, ``poor`` (with a warning and an error), ``hostile``; anything else is not found.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tests.report.fake import HOSTILE, FakeTrace, fake_trace
from tpuprof.errors import TraceNotFoundError
from tpuprof.quality import Quality

POOR = (
    Quality("cores_missing", "warning", "4 of 8 cores were recorded.", 4, {}),
    Quality("over_peak", "error", "105 % of the peak.", None, {}),
)


def load(path: str, *, run: str | None = None, **_: Any) -> FakeTrace:
    """In place of ``tpuprof.trace.load``."""
    if path == "clean":
        return fake_trace(4, other_runs=("2025_12_31_00_00_00", "2025_12_30_00_00_00"))
    if path == "poor":
        return fake_trace(2, quality=POOR)
    if path == "hostile":
        ops = ((HOSTILE, "collective", 100, HOSTILE, HOSTILE),)
        return fake_trace(2, ops_rows=ops, module=HOSTILE, name=HOSTILE, quality=(Quality("x", "warning", HOSTILE),))
    if path == "broken":
        raise RuntimeError("the cat sat\x1b[31m on it")
    raise TraceNotFoundError(
        "There is no run here.", where=path, why="The directory holds no trace files.", hint="Look with: tpuprof runs ."
    )


def install() -> None:
    """Puts the stand-in where commands look for ``tpuprof.trace``."""
    module = types.ModuleType("tpuprof.trace")
    module.load = load  # type: ignore[attr-defined]
    sys.modules["tpuprof.trace"] = module


def without_analyzers() -> None:
    """Reports without findings, whether or not analyzers are installed."""
    from tpuprof import registry

    registry.discover = tuple


if __name__ == "__main__":
    install()
    without_analyzers()
    from tpuprof.cli import main

    sys.exit(main())
