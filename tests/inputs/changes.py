"""F00 with one change each. A function writes its input below a directory and returns what to open."""

from __future__ import annotations

from pathlib import Path

from tests.inputs.clean import (
    DEVICE_NS,
    HOST_NS,
    STEP_US,
    STEPS,
    TPU,
    TRAIN_STEP,
    add_f00_host,
    f00_trace,
    step_of,
    tpu_of,
    write_altered,
)
from tpuprof.testing import Event, LineBuilder, Program, Ref, TraceBuilder

INT64_MIN = -(1 << 63)
WHILE_TEXT = "%while.9 = (bf16[4096,1024]{1,0}) while((bf16[4096,1024]{1,0}) %tuple.8), condition=%cond, body=%body"
EVAL = Program(
    "jit_eval",
    99,
    """\
HloModule jit_eval, is_scheduled=true, num_partitions=1

%fused_computation.1 (p0: f32[1024]) -> f32[1024] {
  %p0 = f32[1024]{0} parameter(0)
  ROOT %add.1 = f32[1024]{0} add(f32[1024]{0} %p0, f32[1024]{0} %p0)
}

ENTRY %main.1 (a: f32[1024]) -> f32[1024] {
  %a = f32[1024]{0} parameter(0)
  ROOT %fusion.1 = f32[1024]{0} fusion(f32[1024]{0} %a), kind=kLoop, calls=%fused_computation.1
}
""",
)
CPU_PROGRAM = Program(
    "jit_load",
    7,
    """\
HloModule jit_load, is_scheduled=true

ENTRY %main.1 (a: f32[16]) -> f32[16] {
  %a = f32[16]{0} parameter(0)
  ROOT %negate.1 = f32[16]{0} negate(f32[16]{0} %a)
}
""",
)


def f01(directory: Path) -> Path:
    """Step 1 has neither ops nor a module row."""

    def change(trace: TraceBuilder) -> None:
        for line in ("XLA Ops", "XLA Modules"):
            tpu_of(trace)[line].keep(lambda event: step_of(event.start_ps) != 1)

    return write_altered(directory, change)


def f02(directory: Path) -> Path:
    """No device plane; the collector says that it failed."""

    def change(trace: TraceBuilder) -> None:
        trace["hostA"].drop_plane(TPU).errors.append("collector failed")

    return write_altered(directory, change)


def f03(directory: Path) -> Path:
    """An empty xplane beside a good JSON."""
    session = f00_trace().write_json(directory)
    (session / "hostA.xplane.pb").write_bytes(b"")
    return directory


def f03_riegeli(directory: Path) -> Path:
    """Only a container that is not supported; returns the log root."""
    (f00_trace().session_dir(directory) / "hostA.xplane.riegeli").write_bytes(b"any bytes")
    return directory


def f04a(directory: Path) -> Path:
    """The file cut after 60 % of its bytes."""
    data = f00_trace().to_bytes()
    (f00_trace().session_dir(directory) / "hostA.xplane.pb").write_bytes(data[: len(data) * 6 // 10])
    return directory


def f04c(directory: Path) -> Path:
    """Two cores of a job of eight."""
    trace = f00_trace(program=_partitions(8))
    second = trace.copy()["hostA"][TPU]
    second.name, second.id = "/device:TPU:1", 10
    trace["hostA"].planes.insert(1, second)
    trace.write(directory)
    return directory


def f08(directory: Path) -> Path:
    """The name of copy.4 is not UTF-8."""

    def change(trace: TraceBuilder) -> None:
        broken = b"\xff\xfe\x80A"
        for event in tpu_of(trace)["XLA Ops"].named("copy.4"):
            assert isinstance(event.text, str)
            event.name = broken + b".4"
            event.text = event.text.encode().replace(b"%copy.4", b"%" + broken + b".4")

    return write_altered(directory, change)


def two_hosts_trace() -> TraceBuilder:
    """F09: hostA as F00, hostB with a longer first fusion; both hold /device:TPU:0."""
    program = _partitions(2)
    trace = f00_trace(program=program)
    ops = add_f00_host(trace, "hostB", list(STEPS), program)[TPU]["XLA Ops"]
    for name, start, end in (("fusion.1", 0, 500), ("fusion.2", 500, 800), ("all-reduce.3", 800, 900)):
        for k, event in enumerate(ops.named(name)):
            event.start_ps = (STEP_US * k + start) * 1_000_000
            event.duration_ps = (end - start) * 1_000_000
    return trace


def f09(directory: Path) -> Path:
    """Two hosts in one session."""
    two_hosts_trace().write(directory)
    return directory


def f10(directory: Path) -> Path:
    """The two hosts of F09 in session directories that differ by two seconds; returns the log root."""
    for host, session in (("hostA", "2026_01_01_00_47_36"), ("hostB", "2026_01_01_00_47_38")):
        trace = two_hosts_trace()
        trace.session = session
        trace.hosts = [trace[host]]
        trace.write(directory)
    return directory


def f11(directory: Path) -> Path:
    """The two hosts of F09, the clock of hostB 250 ms ahead."""
    _f11_trace().write(directory)
    return directory


def f11_no_collective(directory: Path) -> Path:
    """The same without the only collective."""
    trace = _f11_trace()
    for host in trace:
        host[TPU]["XLA Ops"].keep(lambda event: event.name != "all-reduce.3")
    trace.write(directory)
    return directory


def _f11_trace() -> TraceBuilder:
    trace = two_hosts_trace()
    trace["hostB"].shift(250_000_000)
    return trace


def f12(directory: Path) -> Path:
    """The device's clock is 3 ms behind the host's."""
    return write_altered(
        directory, lambda trace: trace["hostA"].shift(-3_000_000, lambda plane: plane.name.startswith("/device:"))
    )


def f12_kernel(directory: Path, *, on_device: bool) -> Path:
    """A host row of the name of a kernel, nine times as long; with the kernel itself or without any device work."""
    trace = TraceBuilder("2026_01_01_00_00_00")
    host = trace.add_host("hostA")
    host.add_thread("python", timestamp_ns=HOST_NS).event("my_kernel", 0, 9000)
    if on_device:
        host.add_tpu(0).add_line("XLA Ops", timestamp_ns=DEVICE_NS).event("my_kernel", 0, 1000)
    trace.write(directory)
    return directory


def f13(directory: Path) -> Path:
    """An op of step 1 claims to last 3.4 s."""

    def change(trace: TraceBuilder) -> None:
        tpu_of(trace)["XLA Ops"].named("fusion.1")[1].duration_ps = 3_400_000 * 1_000_000

    return write_altered(directory, change)


def f13_control(directory: Path) -> Path:
    """A loop around the first three ops of every step is nesting, no overrun."""
    return write_altered(directory, lambda trace: _add_while(tpu_of(trace)["XLA Ops"]))


def f14(directory: Path) -> Path:
    """A loop around three ops, and a second line that repeats its spans."""

    def change(trace: TraceBuilder) -> None:
        tpu = tpu_of(trace)
        _add_while(tpu["XLA Ops"])
        scopes = tpu.add_line("Framework Name Scope", timestamp_ns=DEVICE_NS)
        for k in STEPS:
            scopes.event("mlp", STEP_US * k, 900)

    return write_altered(directory, change)


def f17(directory: Path) -> Path:
    """Two durations that cannot be true."""

    def change(trace: TraceBuilder) -> None:
        copies = tpu_of(trace)["XLA Ops"].named("copy.4")
        copies[0].duration_ps, copies[1].duration_ps = -5, INT64_MIN

    return write_altered(directory, change)


def f17_json(directory: Path) -> Path:
    """A JSON, alone, in which one copy.4 has a duration of -1."""
    trace = f00_trace()
    tpu_of(trace)["XLA Ops"].named("copy.4")[0].duration_ps = -1_000_000
    trace.write_json(directory)
    return directory


F19_PROGRAM = TRAIN_STEP.with_text(
    "  ROOT %copy.4",
    """\
  %all-gather.5 = bf16[8192,1024]{1,0} all-gather(bf16[4096,1024]{1,0} %a), replica_groups={}, dimensions={0}
  %copy-start.5 = (bf16[64]{0:S(1)}, bf16[64]{0}, u32[]) copy-start(bf16[64]{0} %bias)
  %copy-done.5 = bf16[64]{0:S(1)} copy-done((bf16[64]{0:S(1)}, bf16[64]{0}, u32[]) %copy-start.5)
  %fusion.6 = bf16[4096,1024]{1,0} fusion(bf16[4096,1024]{1,0} %a), kind=kLoop, calls=%fused_computation.1
  ROOT %copy.4""",
).with_text(
    "  %fusion.1 =",
    "  %bias = bf16[64]{0} parameter(2)\n  %fusion.1 =",
)


def f19_trace() -> TraceBuilder:
    """F19: one step; an all-gather in flight at [100, 700), of which the ops cover all but [400, 600)."""
    trace = f00_trace(steps=[0], program=F19_PROGRAM)
    tpu = tpu_of(trace)
    tpu["XLA Ops"].events.clear()
    tpu["XLA Ops"].op("fusion.1", 0, 400, F19_PROGRAM, "loop fusion")
    tpu["XLA Ops"].op("fusion.6", 600, 300, F19_PROGRAM, "loop fusion")
    tpu["Async XLA Ops"].op("all-gather.5", 100, 600, F19_PROGRAM, "all-gather")
    return trace


def f19(directory: Path) -> Path:
    """An asynchronous collective, partly hidden."""
    f19_trace().write(directory)
    return directory


def f19_dma(directory: Path) -> Path:
    """The same with a copy in flight, whose done half does not occupy the op line."""
    _f19_with_copy(duration_us=600).write(directory)
    return directory


def f19_done(directory: Path) -> Path:
    """The same with a shorter copy whose done half occupies the op line at [400, 450)."""
    trace = _f19_with_copy(duration_us=350)
    ops = tpu_of(trace)["XLA Ops"]
    ops.op("copy-done.5", 400, 50, F19_PROGRAM, "copy-done")
    ops.events.sort(key=lambda event: event.start_ps)
    trace.write(directory)
    return directory


def _f19_with_copy(duration_us: int) -> TraceBuilder:
    trace = f19_trace()
    line = tpu_of(trace)["Async XLA Ops"]
    line.events.clear()
    line.op("copy-start.5", 100, duration_us, F19_PROGRAM, "copy-start", stats={"hlo_op": "copy-done.5"})
    line.events[0].name = "async-copy"
    return trace


def f21(directory: Path, form: str) -> Path:
    """fusion.2 is a custom call. Forms: ``no_cost``, ``estimate`` (in its backend config), ``cublas``."""
    return _f21_trace(form).write(directory)


def _f21_trace(form: str) -> TraceBuilder:
    attributes = {
        "no_cost": 'custom_call_target="tpu_custom_call"',
        "estimate": 'custom_call_target="tpu_custom_call", backend_config={"custom_call_config":'
        '{"cost_estimate":{"flops":"12000000000","bytes_accessed":"45088768"}}}',
        "cublas": 'custom_call_target="__cublas$gemm"',
    }[form]
    program = TRAIN_STEP.with_text(
        "bf16[4096,3584]{1,0} fusion(bf16[4096,1024]{1,0} %fusion.1, bf16[1024,3584]{1,0} %w), "
        "kind=kOutput, calls=%fused_computation.2",
        "bf16[4096,3584]{1,0} custom-call(bf16[4096,1024]{1,0} %fusion.1, bf16[1024,3584]{1,0} %w), " + attributes,
    )
    trace = f00_trace(program=program)
    for event in tpu_of(trace)["XLA Ops"].named("fusion.2"):
        del event.meta["flops"]
        event.meta["hlo_category"] = "custom-call"
    return trace


def _without_steps(trace: TraceBuilder, host_annotations: bool) -> None:
    tpu_of(trace).drop_line("Steps")
    if not host_annotations:
        trace["hostA"]["/host:CPU"]["python"].events.clear()


def f23a(directory: Path) -> Path:
    """Steps from host annotations, module rows remain."""
    return write_altered(directory, lambda trace: _without_steps(trace, host_annotations=True))


def f23b(directory: Path) -> Path:
    """The GPU form: compute and NCCL on two streams, host annotations, no module rows."""

    def change(trace: TraceBuilder) -> None:
        host = trace["hostA"].drop_plane(TPU)
        gpu = host.add_gpu(0)
        compute = gpu.add_line("Stream #0(compute)", line_id=0, timestamp_ns=DEVICE_NS)
        nccl = gpu.add_line("Stream #1(nccl)", line_id=1, timestamp_ns=DEVICE_NS)
        for k in STEPS:
            at = STEP_US * k
            for name, start, duration in (("fusion.1", 0, 400), ("fusion.2", 400, 300), ("copy.4", 900, 50)):
                facts = {
                    "hlo_op": Ref(name),
                    "hlo_module": Ref(TRAIN_STEP.name),
                    "program_id": TRAIN_STEP.id,
                }
                compute.event(name, at + start, duration, stats=facts)
            nccl.event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at + 700, 200)
        host.planes.insert(0, host.planes.pop())

    return write_altered(directory, change)


def f23c(directory: Path) -> Path:
    """Steps from three module rows."""
    return write_altered(directory, lambda trace: _without_steps(trace, host_annotations=False))


def f23d(directory: Path) -> Path:
    """Steps from the only module row."""
    trace = f00_trace(steps=[0])
    _without_steps(trace, host_annotations=False)
    trace.write(directory)
    return directory


def f24(directory: Path) -> Path:
    """A second program after the steps, with an op of the same name."""

    def change(trace: TraceBuilder) -> None:
        tpu = tpu_of(trace)
        tpu["XLA Modules"].module(EVAL, 3000, 100)
        tpu["XLA Ops"].op("fusion.1", 3000, 70, EVAL, "loop fusion")
        trace["hostA"].add_program(EVAL, name=EVAL.name)

    return write_altered(directory, change)


def f30(directory: Path) -> Path:
    """The HLO of the program is missing; only that of a CPU program is there."""

    def change(trace: TraceBuilder) -> None:
        trace["hostA"]["/host:metadata"].entries.clear()
        trace["hostA"].add_program(CPU_PROGRAM, name=CPU_PROGRAM.name)

    return write_altered(directory, change)


def _partitions(count: int) -> Program:
    return TRAIN_STEP.with_text("num_partitions=1", f"num_partitions={count}")


def _add_while(ops: LineBuilder) -> None:
    """``while.9`` at [0, 900) of every step, in front of the ops that it encloses."""
    for k in reversed(STEPS):
        loop = Event("while.9", STEP_US * k * 1_000_000, 900 * 1_000_000, WHILE_TEXT, {"hlo_category": "while"})
        loop.meta["program_id"] = TRAIN_STEP.id
        first = next(i for i, event in enumerate(ops) if event.start_ps == loop.start_ps)
        ops.events.insert(first, loop)
