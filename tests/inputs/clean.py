"""F00, the clean run: one TPU core, three steps of 1000 us, four ops each, and 50 us of idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tpuprof.testing import HostBuilder, LineBuilder, PlaneBuilder, Program, TraceBuilder

DEVICE_NS = 1_700_000_000_000_000_000
HOST_NS = DEVICE_NS - 1_000_000
STEPS = range(3)
STEP_US = 1000
TPU = "/device:TPU:0"
OPS = (
    ("fusion.1", 0, 400, "loop fusion"),
    ("fusion.2", 400, 300, "convolution fusion"),
    ("all-reduce.3", 700, 200, "all-reduce"),
    ("copy.4", 900, 50, "copy"),
)
FUSION_2_FLOPS = 30_064_771_072

TRAIN_STEP = Program("jit_train_step", 1234567890, Path(__file__).with_name("f00.hlo.txt").read_text())


def f00_trace(steps: Iterable[int] = STEPS, program: Program = TRAIN_STEP) -> TraceBuilder:
    """The clean run with these steps."""
    trace = TraceBuilder("2026_01_01_00_00_00")
    add_f00_host(trace, "hostA", list(steps), program)
    return trace


def add_f00_host(trace: TraceBuilder, name: str, steps: list[int], program: Program) -> HostBuilder:
    """A host that recorded the clean run."""
    host = trace.add_host(name)
    tpu = host.add_tpu(
        0, "TPU v5 lite", {"peak_teraflops_per_second": 197.0, "peak_hbm_bw_gigabytes_per_second": 819.0}
    )
    step_line = tpu.add_line("Steps", timestamp_ns=DEVICE_NS)
    modules = tpu.add_line("XLA Modules", timestamp_ns=DEVICE_NS)
    ops = tpu.add_line("XLA Ops", timestamp_ns=DEVICE_NS)
    tpu.add_line("Async XLA Ops", timestamp_ns=DEVICE_NS)
    host.add_program(program, name=program.name)
    python = host.add_thread("python", timestamp_ns=HOST_NS)
    for k in steps:
        at = STEP_US * k
        step_line.event(str(k), at, STEP_US)
        modules.module(program, at, 950)
        add_f00_ops(ops, at, program)
        python.event("train_step", 900 + at, 80, stats={"step_num": k})
    return host


def add_f00_ops(ops: LineBuilder, at: int, program: Program = TRAIN_STEP) -> None:
    """The four ops of one step that begins at ``at``."""
    for name, start, duration, category in OPS:
        flops = {"flops": FUSION_2_FLOPS} if name == "fusion.2" else {}
        ops.op(name, at + start, duration, program, category, meta=flops)


def step_of(start_ps: int) -> int:
    """The step in which a device time of F00 lies."""
    return start_ps // (STEP_US * 1_000_000)


def tpu_of(trace: TraceBuilder, host: str = "hostA") -> PlaneBuilder:
    """The plane of the host's TPU."""
    return trace[host][TPU]


def write_altered(directory: Path, change: Callable[[TraceBuilder], object]) -> Path:
    """F00 with a change made to its builder, written below ``directory``, which is returned."""
    trace = f00_trace()
    change(trace)
    trace.write(directory)
    return directory


def f00(directory: Path) -> Path:
    """The unchanged run; returns the log root."""
    f00_trace().write(directory)
    return directory
