"""Small runs of one program for comparisons: ops in order, each with its scope, shape and time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tpuprof
from tpuprof.testing import Program, Ps, TraceBuilder

NS = 1_000
SCOPE = "jit(step)/jit(main)"


@dataclass(frozen=True)
class Op:
    """One op of the program, run once per step after a gap.

    ``role`` is the opcode; ``start`` and ``done`` halves of an all-gather are written as ``all-gather-start`` and
    ``all-gather-done`` with the name of the start half as ``of``.
    """

    name: str
    ps: int = 10 * NS
    scope: str | None = None
    shape: str = "f32[64,32]"
    role: str = "multiply"
    gap: int = 0
    of: str = ""
    source: str = ""
    operand: str = "f32[64,32]"
    extra: str = ""

    @property
    def line(self) -> str:
        extra, shape = self.extra, self.shape
        operand = f"{self.operand}{{1,0}} %a"
        if self.role == "fusion":
            extra = ", kind=kLoop, calls=%fused" + extra
        elif self.role.startswith("all-gather") and not self.of:
            extra = ", replica_groups={{0,1}}, dimensions={0}" + extra
            shape = f"({self.operand}{{1,0}}, {shape})" if self.role.endswith("-start") else shape
        elif self.of:
            operand = f"({self.operand}{{1,0}}, {shape}) %{self.of}"
        facts = [f'op_name="{SCOPE}/{self.scope}"'] if self.scope else []
        if self.source:
            file, number = self.source.split(":")
            facts += [f'source_file="{file}"', f"source_line={number}"]
        metadata = f", metadata={{{' '.join(facts)}}}" if facts else ""
        return f"  %{self.name} = {shape} {self.role}({operand}){extra}{metadata}"

    @property
    def category(self) -> str:
        return "loop fusion" if self.role == "fusion" else self.role


def program(ops: Sequence[Op], name: str = "jit_step", number: int = 7) -> Program:
    lines = "\n".join({op.name: op.line for op in ops}.values())
    text = f"""HloModule {name}, is_scheduled=true, num_partitions=2

%fused (p: f32[64,32]) -> f32[64,32] {{
  %p = f32[64,32]{{1,0}} parameter(0)
  ROOT %multiply = f32[64,32]{{1,0}} multiply(f32[64,32]{{1,0}} %p, f32[64,32]{{1,0}} %p)
}}

ENTRY %main (a: f32[64,32]) -> f32[64,32] {{
  %a = f32[64,32]{{1,0}} parameter(0)
{lines}
  ROOT %end = f32[64,32]{{1,0}} negate(f32[64,32]{{1,0}} %a)
}}
"""
    return Program(name, number, text)


def built(
    ops: Sequence[Op],
    *,
    steps: int = 3,
    cores: int = 1,
    tail: int = 5 * NS,
    kind: str = "TPU v5 lite",
    name: str = "jit_step",
    number: int = 7,
    hlo: bool = True,
    step_line: bool = True,
) -> TraceBuilder:
    """A TPU trace whose every step runs the ops in order, then idles for ``tail``."""
    trace, made = TraceBuilder(), program(ops, name, number)
    host = trace.add_host("h")
    for core in range(cores):
        plane = host.add_tpu(core, kind)
        marks = plane.add_line("Steps", line_id=1) if step_line else None
        modules, line = plane.add_line("XLA Modules", line_id=2), plane.add_line("XLA Ops", line_id=3)
        at = 1_000 * NS
        for step in range(steps):
            begin = at
            for op in ops:
                at += op.gap
                facts = {"tf_op": made.scope(op.name)} if op.scope else {}
                if op.source:
                    facts["source"] = op.source
                line.op(op.name, Ps(at), Ps(op.ps), made, op.category, meta=facts)
                at += op.ps
            modules.module(made, Ps(begin), Ps(at - begin))
            at += tail
            if marks is not None:
                marks.event(str(step), Ps(begin), Ps(at - begin))
    if hlo:
        host.add_program(made)
    host.add_task_environment(1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
    return trace


def loaded(trace: TraceBuilder, *, json: bool = False, **options: Any) -> tpuprof.Trace:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        return tpuprof.load(trace.write_json(path) if json else trace.write(path), **options)


def run(ops: Sequence[Op], **options: Any) -> tpuprof.Trace:
    return loaded(built(ops, **options))


def layers(count: int, *, ps: int = 10 * NS, first: int = 10) -> list[Op]:
    """Unrolled layers of two ops each, with instruction numbers from ``first``."""
    found: list[Op] = []
    for layer in range(count):
        scope = f"layers_{layer}"
        found += [
            Op(f"fusion.{first + 2 * layer}", ps, f"{scope}/attn/dot_general", "f32[64,16]", "fusion"),
            Op(f"fusion.{first + 2 * layer + 1}", 3 * ps, f"{scope}/mlp/mul", "f32[64,64]", "fusion"),
        ]
    return found


def renumbered(ops: Sequence[Op], by: int = 1000) -> list[Op]:
    def new(name: str) -> str:
        base, _, number = name.rpartition(".")
        return f"{base}.{int(number) * 7 % 991 + by}" if base else name

    return [replace(op, name=new(op.name), of=new(op.of) if op.of else "") for op in ops]


def streams(second: int) -> TraceBuilder:
    """Two streams of a GPU: a matmul beside an elementwise kernel that it hides for the most part."""
    trace = TraceBuilder()
    host = trace.add_host("h")
    made = Program("jit_step", 7, "")
    python, plane = host.add_thread("python"), host.add_gpu(0)
    lines = plane.add_line("Stream #1(Kernel)", line_id=11), plane.add_line("Stream #2(Kernel)", line_id=12)
    for step in range(3):
        at = (1 + step) * 1_000 * NS
        python.step(step, Ps(at - 100 * NS), Ps(50 * NS))
        for number, (line, op, ps) in enumerate(
            ((lines[0], "dot.1", 100 * NS), (lines[1], "loop_add_fusion.2", second))
        ):
            launch = {"correlation_id": 10 * step + number + 1}
            facts = {"hlo_module": made.name, "hlo_op": op, "program_id": 7, **launch}
            line.event(op, Ps(at), Ps(ps), stats=facts)
            python.event("cuLaunchKernel", Ps(at - 90 * NS + number), Ps(1), stats=launch)
    return trace


def on_cpu(ops: Sequence[Op], *, steps: int = 3, number: int = 3) -> TraceBuilder:
    """The program on the CPU backend: one device, two threads that take ops in turn; scopes are in the HLO alone."""
    trace, made = TraceBuilder(), program(ops, number=number)
    host = trace.add_host("h")
    python = host.add_thread("python")
    threads = [host.add_thread(f"tf_XLAEigen/{n}") for n in range(2)]
    at = 1_000 * NS
    for step in range(steps):
        python.step(step, Ps(at), Ps(10 * NS))
        python.event("TfrtCpuExecutable::Execute", Ps(at + NS), Ps(NS), stats={"run_id": step + 1})
        at += 20 * NS
        for turn, op in enumerate(ops):
            threads[turn % 2].cpu_op(op.name, Ps(at), Ps(op.ps), made, run_id=step + 1)
            at += op.ps
        at += 100 * NS
    host.add_program(made)
    host.add_task_environment(1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
    return trace


def without_steps(trace: TraceBuilder) -> TraceBuilder:
    """The trace without the annotations of its steps."""
    trace["h"]["/host:CPU"]["python"].keep(lambda event: event.name != "train")
    return trace
