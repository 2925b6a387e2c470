"""Makes the sample traces: ``python sample_traces/make.py [NAME ...]``, all of them without a name.

The hand-built ones imitate what TPUs write (names, categories, layouts, clocks) with times chosen so that every
number can be checked by hand; they come out the same byte for byte. The CPU capture is measured and differs every
time. ``manifest.toml`` says what each trace is and which numbers it must give.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))  # a script's path starts with its own folder, not with the checkout

from tpuprof.formats.xplane_schema import full_messages  # noqa: E402
from tpuprof.testing import (  # noqa: E402
    HostBuilder,
    LineBuilder,
    PlaneBuilder,
    Program,
    Stat,
    TraceBuilder,
    Unsigned,
)

SESSION_START_NS = 1_764_000_000_000_000_000
FLOW_TYPE = 12  # what the runtime writes as the type of the link from an enqueue call to a module's row


# Times below are microseconds on the device's clock.
TRAIN_LOOP = Program(
    "jit_train_step", 14695981039346656037, (HERE / "tpu_loop_async.hlo.txt").read_text(encoding="utf-8")
)
TRAIN_HOSTS = Program(
    "jit_train_step", 3202034522624059733, (HERE / "tpu_two_hosts.hlo.txt").read_text(encoding="utf-8")
)
MATMUL_2048_FLOPS = 2 * 2048**3
MATMUL_4096_FLOPS = 2 * 4096**3

V6E: dict[str, Stat] = {
    "peak_teraflops_per_second": 918.0,
    "peak_hbm_bw_gigabytes_per_second": 1638.0,
    "has_megacore": 0,
    "has_merged_vmem": 1,
}
V5P: dict[str, Stat] = {
    "peak_teraflops_per_second": 459.0,
    "peak_hbm_bw_gigabytes_per_second": 2765.0,
    "has_megacore": 1,
    "has_merged_vmem": 0,
}


def tpu_loop_async() -> TraceBuilder:
    """Four steps on two cores of a v6e: four layers in a loop, an all-gather and a copy under their compute."""
    trace = TraceBuilder("2025_11_24_16_00_00")
    host = trace.add_host("tpu-vm-0")
    for ordinal in range(2):
        core = _Core(host, ordinal, "TPU v6 lite", V6E, TRAIN_LOOP)
        # The two cores' clocks are mapped to the host's with different errors, as on real machines.
        core.plane.host_minus_device_ps = (43_012_500, 41_987_500)[ordinal]
        core.modules.module(Program("jit_init", 77), 1000, 50)
        core.ops.event("broadcast.1", 1000, 50, meta={"hlo_category": "broadcast", "program_id": Unsigned(77)})
        for step in range(4):
            _loop_step(core, step, Decimal(2000 + 780 * step))
    host.add_program(TRAIN_LOOP)
    host.add_program(Program("jit_init", 77, INIT_HLO))
    _python_thread(host, TRAIN_LOOP, steps=4, first_step_us=2000, period_us=780)
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 20_000_000)
    return trace


INIT_HLO = """\
HloModule jit_init, is_scheduled=true, num_partitions=2

ENTRY %main.2 () -> bf16[2048,2048] {
  %constant.1 = bf16[]{:T(256)} constant(0)
  ROOT %broadcast.1 = bf16[2048,2048]{1,0:T(8,128)(2,1)} broadcast(bf16[]{:T(256)} %constant.1), dimensions={}
}
"""


def tpu_two_hosts() -> TraceBuilder:
    """Three steps on two hosts with two v5p cores each; one core is 40 us late at the first collective of a step.

    The clock of worker-1 runs 2.3 ms ahead, and its session starts 5 ms later.
    """
    trace = TraceBuilder("2025_11_24_17_00_00")
    matmul_us = {("worker-0", 0): 300, ("worker-0", 1): 310, ("worker-1", 0): 300, ("worker-1", 1): 340}
    starts_ns = {"worker-0": (0, 0), "worker-1": (5_000_000, 2_300_000)}
    for name, (late_ns, clock_ahead_ns) in starts_ns.items():
        host = trace.add_host(name)
        at = 10_000 - late_ns // 1000
        for ordinal in range(2):
            core = _Core(host, ordinal, "TPU v5", V5P, TRAIN_HOSTS)
            core.plane.host_minus_device_ps = (20_000_000, 27_500_000)[ordinal]
            for step in range(3):
                _data_parallel_step(core, step, at + 800 * step, matmul_us[name, ordinal])
        host.add_program(TRAIN_HOSTS)
        _python_thread(host, TRAIN_HOSTS, steps=3, first_step_us=at, period_us=800)
        begin_ns = SESSION_START_NS + late_ns + clock_ahead_ns
        host.add_task_environment(begin_ns, begin_ns + 20_000_000)
    return trace


class _Core:
    """The lines of one TPU core, with ops that carry what real ones do."""

    def __init__(self, host: HostBuilder, ordinal: int, kind: str, peaks: dict[str, Stat], program: Program) -> None:
        details = bytes(byte for tag in (0x10, 0x20, 0x28, 0x30) for byte in (tag, ordinal) if ordinal)
        self.plane: PlaneBuilder = host.add_tpu(ordinal, kind, {"core_details": details, **peaks})
        self.program = program
        self.steps = self.plane.add_line("Steps", line_id=1, clock="mapped")
        self.modules = self.plane.add_line("XLA Modules", line_id=2, clock="mapped")
        self.ops: LineBuilder = self.plane.add_line("XLA Ops", line_id=3, clock="device")
        self.in_flight = self.plane.add_line("Async XLA Ops", line_id=4, clock="mapped")
        self.trace_me = self.plane.add_line("XLA TraceMe", line_id=6, clock="mapped")
        self.ordinal = ordinal
        self.at = Decimal(0)

    def op(self, name: str, duration: Decimal | int | str, category: str, flops: int = 0) -> None:
        """The next op, right behind the one before."""
        self.ops.op(name, self.at, Decimal(duration), self.program, category, meta=self.facts(name, flops))
        self.at += Decimal(duration)

    def facts(self, name: str, flops: int) -> dict[str, Stat]:
        facts: dict[str, Stat] = {
            "flops": flops,
            "model_flops": flops,
            "shape_with_layout": self.program.shape(name),
        }
        scope = self.program.scope(name)
        return {**facts, "tf_op": scope} if scope else facts

    def flight(self, shown: str, start_op: str, done_op: str, start: Decimal, category: str) -> None:
        """A row of the line of asynchronous work, from the start half's begin until now."""
        stats: dict[str, Stat] = {"hlo_op": done_op, "_a": 1, "flow": Unsigned(len(self.in_flight) + 1)}
        meta = self.facts(start_op, 0)
        self.in_flight.op(start_op, start, self.at - start, self.program, category, meta=meta, stats=stats)
        self.in_flight.events[-1].name = shown

    def module(self, step: int, start: Decimal) -> None:
        """The row of the program that ran from ``start`` until now."""
        stats: dict[str, Stat] = {
            "run_id": Unsigned(step + 2),
            "queue_id": Unsigned(0),
            "_ct": FLOW_TYPE,
            "_c": _flow(self.ordinal, step),
        }
        self.modules.module(self.program, start, self.at - start, stats=stats)


def _loop_step(core: _Core, step: int, start: Decimal) -> None:
    """One step of ``tpu_loop_async``; core 1 has slower kernels and therefore shorter waits."""
    core.at = start
    core.steps.event(str(step), start, 780)
    core.op("copy.20", 11, "data formatting")
    core.op("splash_attention.21", ("40", "44.99")[core.ordinal], "custom-call")
    core.op("while.25", 0, "while")
    loop = core.ops.events[-1]
    core.at += Decimal("0.5")
    for _ in range(4):
        core.op("fusion.5", 6, "loop fusion")
        gather = core.at
        core.op("all-gather-start.6", "0.05", "all-gather-start")
        core.op("fusion.7", (60, 62)[core.ordinal], "convolution fusion", MATMUL_2048_FLOPS)
        copy = core.at
        core.op("copy-start.8", "0.015", "copy-start")
        core.op("fusion.9", 20, "loop fusion")
        core.op("all-gather-done.6", (12, 10)[core.ordinal], "all-gather-done")
        core.flight("all-gather.6", "all-gather-start.6", "all-gather-done.6", gather, "all-gather-start")
        core.op("copy-done.8", 3, "copy-done")
        core.flight("async-copy", "copy-start.8", "copy-done.8", copy, "copy-start")
        core.op("fusion.10", 45, "convolution fusion", MATMUL_2048_FLOPS)
    core.at += Decimal("0.5")
    loop.duration_ps = int(core.at * 1_000_000) - loop.start_ps
    core.op("fusion.26", 6, "input fusion")
    wait = Decimal(("5", "0.01")[core.ordinal])
    core.trace_me.event("barrier-cores", core.at, wait)
    core.at += wait
    core.op("all-reduce.27", 80, "all-reduce")
    core.op("fusion.28", 31, "loop fusion")
    core.module(step, start)


def _data_parallel_step(core: _Core, step: int, start: int, matmul_us: int) -> None:
    """One step of ``tpu_two_hosts``: the slowest core's matmul takes 340 us, the others wait for it."""
    core.at = Decimal(start)
    core.steps.event(str(step), start, 800)
    core.op("fusion.1", matmul_us, "convolution fusion", MATMUL_4096_FLOPS)
    core.op("fusion.2", 100, "loop fusion")
    if matmul_us < 340:
        core.trace_me.event("barrier-cores", core.at, 340 - matmul_us)
        core.at += 340 - matmul_us
    core.op("all-reduce.3", 120, "all-reduce")
    core.op("fusion.4", 50, "loop fusion")
    core.op("all-gather.5", 80, "all-gather")
    core.op("copy.6", 10, "data formatting")
    core.module(step, Decimal(start))


def _python_thread(host: HostBuilder, program: Program, *, steps: int, first_step_us: int, period_us: int) -> None:
    """The training loop, on the host's clock: annotations, and the calls that enqueue the program."""
    main = host.add_thread("main/4242", line_id=4242)
    for step in range(steps):
        at = first_step_us + period_us * step
        main.step(step, at - 60, 90)
        main.event(f"PjitFunction({program.name.removeprefix('jit_')})", at - 55, 75)
        for ordinal in range(2):
            link: dict[str, Stat] = {"_pt": FLOW_TYPE, "_p": _flow(ordinal, step), "device_ordinal": ordinal}
            main.event("DoEnqueueProgram", at - 40 + 20 * ordinal, 12, stats=link)


def _flow(ordinal: int, step: int) -> int:
    return 1000 * (ordinal + 1) + step


def cpu_demo(directory: Path) -> None:
    """Runs the demo program on four CPU devices and keeps a small form of its capture."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        # Source paths in the HLO shall not tell where the checkout lies.
        "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": r".*/(?=tpuprof/)",
        "PYTHONPATH": str(HERE.parent),
    }
    options = ["-m", "tpuprof.capture.demo_program", "--steps", "4", "--logdir"]
    subprocess.run([sys.executable, *options, str(directory)], env=environment, check=True)
    (capture,) = directory.rglob("*.xplane.pb")
    capture.write_bytes(thinned(capture.read_bytes()))
    sidecar = capture.parent / "tpuprof.json"
    facts = json.loads(sidecar.read_text(encoding="utf-8"))
    facts |= {"command": ["python", *options, directory.name], "file_bytes": capture.stat().st_size}
    sidecar.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def thinned(data: bytes) -> bytes:
    """A CPU capture without the thread pool's instants and without the HLO of programs that did not run in it.

    Both are most of the file and say nothing about the devices' work.
    """
    space = full_messages().XSpace()
    space.ParseFromString(data)
    programs: set[int] = set()
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        program_id = next((e.key for e in plane.stat_metadata if e.value.name == b"program_id"), None)
        for line in plane.lines:
            kept = [e for e in line.events if not names[e.metadata_id].startswith(b"ThreadpoolListener::")]
            programs.update(s.int64_value for e in kept for s in e.stats if s.metadata_id == program_id)
            del line.events[:]
            line.events.extend(kept)
    for plane in space.planes:
        if plane.name == b"/host:metadata":
            ends = tuple(f"({program})".encode() for program in programs)  # keys here are not the program ids
            ran = [entry for entry in plane.event_metadata if entry.value.name.endswith(ends)]
            del plane.event_metadata[:]
            plane.event_metadata.extend(ran)
    return space.SerializeToString(deterministic=True)


HAND_BUILT: dict[str, Callable[[], TraceBuilder]] = {
    "tpu_loop_async": tpu_loop_async,
    "tpu_two_hosts": tpu_two_hosts,
}
CAPTURED: dict[str, Callable[[Path], None]] = {"cpu_demo": cpu_demo}


def main(names: list[str]) -> int:
    """Makes the named traces in this directory, each anew."""
    known = [*HAND_BUILT, *CAPTURED]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; the sample traces are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        directory = HERE / name
        shutil.rmtree(directory, ignore_errors=True)
        if name in HAND_BUILT:
            HAND_BUILT[name]().write(directory)
        else:
            CAPTURED[name](directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
