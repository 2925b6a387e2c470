"""Small runs and ops whose costs can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpuprof.perfmodel.rates import Rate, Rates
from tpuprof.roofline.costs import Cost
from tpuprof.roofline.table import OpWork
from tpuprof.tables.opclass import OpClass
from tpuprof.tables.rows import OpInfo
from tpuprof.testing import Program, TraceBuilder
from tpuprof.testing.values import Ps
from tpuprof.trace import Trace, load

US = 1_000_000
MATMUL = """HloModule jit_f, is_scheduled=true, num_partitions=1

ENTRY %main (a: bf16[4096,1024], w: bf16[1024,3584]) -> bf16[4096,3584] {
  %a = bf16[4096,1024]{1,0} parameter(0)
  %w = bf16[1024,3584]{1,0} parameter(1)
  ROOT %dot.1 = bf16[4096,3584]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
MATMUL_FLOPS = 30_064_771_072
Op = tuple[str, int, int, str]
"""Name, start in the step and length in ps, category."""


def run_builder(
    text: str,
    ops: list[Op],
    step_ps: int,
    *,
    kind: str = "TPU v5 lite",
    steps: int = 4,
    cores: int = 1,
    stats: Mapping[str, Any] | None = None,
) -> TraceBuilder:
    """A run of one program: the same ops in every step, on every core."""
    trace = TraceBuilder()
    host = trace.add_host("h")
    program = Program("jit_f", 7, text)
    host.add_program(program)
    for core in range(cores):
        tpu = host.add_tpu(core, kind, dict(stats or {}))
        marks, line = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        for step in range(steps):
            marks.event(str(step), Ps(step * step_ps), Ps(step_ps))
            for name, start, length, category in ops:
                line.op(name, Ps(step * step_ps + start), Ps(length), program, category)
    return trace


def run_of(directory: Path, text: str, ops: list[Op], step_ps: int, **more: Any) -> Trace:
    """The same, written and read."""
    return load(run_builder(text, ops, step_ps, **more).write(directory))


def matmul_run(directory: Path, rate: float, *, share: float = 1.0, kind: str = "TPU v5 lite") -> Trace:
    """One product per step, measured at this rate (FLOP/s), which fills this share of the step."""
    length = round(MATMUL_FLOPS / rate * 1e12)
    return run_of(directory, MATMUL, [("dot.1", 0, length, "convolution")], round(length / share), kind=kind)


def rates(peak: float = 200e12, hbm: float = 800e9) -> Rates:
    """A device with one peak for all types and a memory."""
    return Rates("made", Rate(peak), {"hbm": Rate(hbm)}, Rate(peak / 100))


def op_of(
    name: str,
    self_ps: int,
    *,
    kind: str = "matmul",
    executions: int = 1,
    flops: float | None = 0.0,
    vector: float = 0.0,
    hbm: int | None = 0,
    remat: bool = False,
) -> OpWork:
    """An op with this cost per execution; ``flops`` are of bf16 products."""
    total = None if flops is None else flops + vector
    cost = Cost(
        source=None if flops is None else "hlo",
        flops=total,
        matmul_flops=flops,
        model_matmul_flops=0.0 if remat else flops,
        by_dtype={"bf16": flops} if flops else {},
        vector_flops=0.0 if flops is None else vector,
        bytes=None if hbm is None else {"hbm": hbm},
        remat=remat,
    )
    return OpWork((OpInfo(name, OpClass(kind, "hlo")),), cost, executions, self_ps)
