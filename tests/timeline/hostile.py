"""A run whose names are markup, script and worse."""

from __future__ import annotations

from tpuprof.testing import Program, TraceBuilder

SCRIPT = "<img src=x onerror=alert(1)>"
NAMES = (
    SCRIPT,
    "</script><script>alert(2)</script>",
    "\u202egnp.exe",
    "a\x00b\x07c",
    "“${7*7}{{7*7}}`",
    "x" * 3000,
    "🧨\u0301",
)
PROGRAM = Program("jit_<b>step</b>", 7)


def hostile_trace() -> TraceBuilder:
    """One core, two steps, an op by each name; a thread with such a name that has them as well."""
    trace = TraceBuilder()
    host = trace.add_host("worker-0")
    core = host.add_tpu(0)
    steps, modules, ops = core.add_line("Steps"), core.add_line("XLA Modules"), core.add_line("XLA Ops")
    thread = host.add_thread(f"<i>{SCRIPT}</i>")
    for step in range(2):
        at = 1_000.0 * step
        steps.event(str(step), at, 1_000.0)
        modules.module(PROGRAM, at, 900.0)
        for number, name in enumerate(NAMES):
            ops.op(name, at + 120 * number, 100, PROGRAM, "loop fusion")
            thread.event(name, at + 120 * number, 100)
    return trace
