"""Runs for the tests: traces with known truth, and facts without any trace."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpuprof.history import Metric, OpGroup, RunFacts, Store
from tpuprof.testing import Program, TraceBuilder, Unsigned

START_NS = 1_764_000_000_000_000_000
HLO = """\
HloModule jit_train_step, is_scheduled=true, num_partitions=2

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %main (w: f32[64,64], a: f32[8,64]) -> f32[8,64] {
  %w = f32[64,64]{1,0} parameter(0)
  %a = f32[8,64]{1,0} parameter(1)
  %dot.1 = f32[8,64]{1,0} dot(f32[8,64]{1,0} %a, f32[64,64]{1,0} %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(train_step)/layer/dot"}
  ROOT %all-reduce.2 = f32[8,64]{1,0} all-reduce(f32[8,64]{1,0} %dot.1), replica_groups={{0,1}}, to_apply=%add, metadata={op_name="jit(train_step)/layer/psum"}
}
"""  # noqa: E501
PROGRAM = Program("jit_train_step", 77, HLO)


def trace(
    steps_us: Sequence[int] = (100, 110, 120, 130),
    *,
    program: Program = PROGRAM,
    kind: str = "TPU v5 lite",
    cores: int = 2,
    host: str = "hostA",
    session: str = "2026_01_01_00_00_00",
    start_ns: int = START_NS,
    with_hlo: bool = True,
) -> TraceBuilder:
    """Steps of the given lengths on every core: 60 us of matmul, 20 us of all-reduce, the rest idle."""
    builder = TraceBuilder(session)
    machine = builder.add_host(host)
    machine.add_task_environment(start_ns, start_ns + 10**9)
    if with_hlo:
        machine.add_program(program)
    for core in range(cores):
        plane = machine.add_tpu(core, kind)
        marks, modules, ops = (plane.add_line(name) for name in ("Steps", "XLA Modules", "XLA Ops"))
        at = 10
        for number, length in enumerate(steps_us):
            marks.event(str(number), at, length)
            modules.event(program.label, at, 90, stats={"run_id": Unsigned(number)})
            ops.op("dot.1", at, 60, program, "convolution fusion")
            ops.op("all-reduce.2", at + 60, 20, program, "all-reduce")
            at += length
    return builder


def write(directory: Path, **changes: Any) -> Path:
    """A trace in a directory; returns the log directory."""
    trace(**changes).write(directory)
    return directory


def facts(
    number: int = 0,
    p50_ps: float | None = 100e6,
    *,
    name: str | None = None,
    program: str | None = "p" * 32,
    hardware: str | None = "h" * 32,
    captured_ns: int | None = None,
    structure: str | None = "s" * 32,
    steps: Sequence[tuple[int, int]] = ((0, 100_000_000), (1, 101_000_000)),
    **more: Any,
) -> RunFacts:
    """Facts of a run that differs from those of other numbers."""
    about: dict[str, Any] = {"program": "jit_f(f32[8]) -> f32[8]", "hardware": "8 × TPU v5 lite, 1 host"}
    values: dict[str, Any] = {
        "key": hashlib.sha256(str(number).encode()).hexdigest(),
        "name": name or f"run{number}",
        "path": f"/logs/run{number}",
        "captured_ns": START_NS + number * 10**12 if captured_ns is None else captured_ns,
        "platform": "tpu",
        "device_kind": "TPU v5 lite",
        "n_devices": 8,
        "n_hosts": 1,
        "step_source": "steps_line",
        "n_steps": len(steps),
        "window_ps": 200_000_000,
        "worst_quality": None,
        "program_name": "jit_f",
        "program": program,
        "program_source": "hlo",
        "structure": structure,
        "hardware": hardware,
        "hardware_source": "devices",
        "facts": {**about, "versions": {"jax": "0.10.2"}, "environment": {}, **more.pop("about", {})},
        "steps": tuple(steps),
        "metrics": (
            Metric("step_p50_ps", p50_ps, None if p50_ps is not None else "No step counts."),
            Metric("mfu", None, "The chip is not known."),
        ),
        "op_groups": (OpGroup("jit_f", "layer", "matmul", 4, 160, 160),),
        **more,
    }
    return RunFacts(**values)


def changed_store(path: Path, branch: str = "main") -> Store:
    """A store with 20 runs of a branch, whose step is 10 % longer from the 13th on."""
    store = Store.open(path)
    for number in range(20):
        level = 1e6 if number < 12 else 1.1e6
        store.add_facts(facts(number, (100 + number % 3 * 0.2) * level), {"branch": branch, "commit": f"c{number}"})
    return store
