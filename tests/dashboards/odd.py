"""Runs that pages must bear: nothing in them, one core, names that would be markup, and many ops."""

from __future__ import annotations

from pathlib import Path

from tpuprof.testing import TraceBuilder

HOSTILE = "<img src=x onerror=alert(1)>[a](javascript:alert(1)) **b** $x$ `c` :material/bug: \x1b[31m\u202e"


def empty_run(folder: Path) -> Path:
    """A host and no device."""
    builder = TraceBuilder()
    builder.add_host("hostA").add_thread("python").event("work", 0, 10)
    builder.write(folder)
    return folder


def hostile_run(folder: Path) -> Path:
    """One core of an unknown kind, without steps or HLO; all names are hostile."""
    builder = TraceBuilder()
    ops = builder.add_host("hostA").add_tpu(0, HOSTILE).add_line("XLA Ops")
    for at in range(6):
        meta = {"hlo_category": HOSTILE, "tf_op": f"jit(f)/{HOSTILE}/dot", "source": f"{HOSTILE}.py:3"}
        ops.event(f"{HOSTILE}.{at % 3}", at * 100, 80, text=f"%{HOSTILE}", meta=meta)
    builder.write(folder)
    return folder


def many_ops(folder: Path, count: int = 1500) -> Path:
    """One core with more ops than a page sends to the browser."""
    builder = TraceBuilder()
    ops = builder.add_host("hostA").add_tpu(0).add_line("XLA Ops")
    for at in range(count):
        ops.event(f"fusion.{at}", at * 100, 50 + at % 7, meta={"hlo_category": "loop fusion"})
    builder.write(folder)
    return folder
