"""TPU programs: what runs on the op line and what is in flight beside it. Times are microseconds per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal

from tests.accuracy.tpu import EVAL, SESSION_START_NS, STEP, TpuCore, close, new_trace
from tests.accuracy.truth import Case
from tpuprof.testing import Program

STEPS = 4
OTHER = """\
HloModule jit_other, is_scheduled=true

%multiplied (e0: f32[64,64]) -> f32[64,64] {
  %e0 = f32[64,64]{1,0} parameter(0)
  ROOT %multiply.1 = f32[64,64]{1,0} multiply(f32[64,64]{1,0} %e0, f32[64,64]{1,0} %e0)
}

%contracted (m0: f32[64,64]) -> f32[64,64] {
  %m0 = f32[64,64]{1,0} parameter(0)
  ROOT %dot.1 = f32[64,64]{1,0} dot(f32[64,64]{1,0} %m0, f32[64,64]{1,0} %m0), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}

ENTRY %main (a: f32[64,64]) -> f32[64,64] {
  %a = f32[64,64]{1,0} parameter(0)
  %fusion.1 = f32[64,64]{1,0} fusion(f32[64,64]{1,0} %a), kind=kLoop, calls=%multiplied
  ROOT %fusion.3 = f32[64,64]{1,0} fusion(f32[64,64]{1,0} %fusion.1), kind=kOutput, calls=%contracted
}
"""


def _one_core(
    name: str,
    what: str,
    body: Callable[[TpuCore], None],
    length: int,
    by_hand: Mapping[str, float],
    *,
    shift_ps: int = 0,
) -> Case:
    """Equal steps of one core, back to back."""
    trace, host = new_trace()
    core = TpuCore(host, 0, shift_ps=shift_ps)
    for step in range(STEPS):
        with core.step(step, 1000 + step * length, length):
            body(core)
    return close(name, what, trace, [core], by_hand)


def clean() -> Case:
    def body(core: TpuCore) -> None:
        core.op("matmul", 400)
        core.op("mul", 300)
        core.op("all-reduce", 200)
        core.op("copy", 50)

    truth = {"step": 1000, "matmul": 400, "compute": 750, "collective exposed": 200, "idle": 50}
    return _one_core("plain step", "Four ops, a synchronous all-reduce, nothing overlapped.", body, 1000, truth)


def loop_sync() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("while"):
            for _ in range(4):
                core.op("matmul", 100)
                core.op("all-gather", 40)
                core.op("reduce-scatter", 30)
        core.op("mul", 20)

    truth = {"step": 720, "matmul": 400, "compute": 420, "collective exposed": 280, "idle": 20}
    return _one_core(
        "synchronous collectives in a loop", "Two collectives per iteration inside a `while` row.", body, 720, truth
    )


def loop_async() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("while"):
            for _ in range(4):
                core.start("gather")
                core.op("matmul", 60)
                core.finish("gather", 25)
                core.op("mul", 40)

    truth = {"step": 520, "compute": 400, "collective exposed": 100.04, "collective hidden": 240}
    return _one_core(
        "asynchronous collective in a loop",
        "An all-gather begins, a matmul covers part of it, its done half waits; the `while` row covers all of it.",
        body, 520, truth,
    )  # fmt: skip


def straight_async() -> Case:
    def body(core: TpuCore) -> None:
        core.start("gather")
        core.op("matmul", 60)
        core.finish("gather", 25)
        core.op("mul", 40)

    truth = {"step": 150, "compute": 100, "collective exposed": 25.01, "collective hidden": 60, "idle": 24.99}
    return _one_core("asynchronous collective", "The same all-gather without any loop.", body, 150, truth)


def renumbered_halves() -> Case:
    def body(core: TpuCore) -> None:
        core.start("renumbered", 1)
        core.op("matmul", 60)
        core.gap(10)
        core.finish("renumbered", 25)

    truth = {"step": 120, "compute": 60, "collective exposed": 36, "collective hidden": 60, "idle": 24}
    return _one_core(
        "halves with different numbers", "`all-gather-start.38` is ended by `all-gather-done.39`.", body, 120, truth
    )


def loop_in_flight_without_op() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("while"):
            for _ in range(2):
                core.start("gather", 1)
                core.op("matmul", 100)
                core.gap(50)
                core.finish("gather", 9)

    truth = {"step": 340, "compute": 200, "collective exposed": 120, "collective hidden": 200, "idle": 20}
    return _one_core(
        "collective in flight, op line empty",
        "Inside a loop nothing runs while an all-gather is in flight: that is exposed, not busy and not idle.",
        body, 340, truth,
    )  # fmt: skip


def loop_gaps() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("while"):
            for _ in range(3):
                core.op("matmul", 100)
                core.gap(60)
        core.op("mul", 20)

    truth = {"step": 510, "compute": 320, "idle": 190}
    return _one_core("idle inside a loop", "The `while` row lasts, but no op runs in it.", body, 510, truth)


def nested_loops() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("while"):
            for _ in range(2):
                core.op("mul", 10)
                with core.inside("inner while"):
                    for _ in range(3):
                        core.op("matmul", 30)
                        core.gap(5)
                        core.op("all-reduce", 10)
                core.gap(15)

    truth = {"step": 320, "compute": 200, "collective exposed": 60, "idle": 60}
    return _one_core("nested loops", "A `while` in a `while`, gaps in both.", body, 320, truth)


def across_iterations() -> Case:
    def body(core: TpuCore) -> None:
        core.start("gather", 1)
        with core.inside("while"):
            for _ in range(3):
                core.op("matmul", 80)
                core.finish("gather", 10)
                core.start("gather", 1)
                core.op("mul", 20)
        core.op("matmul2", 50)
        core.finish("gather", 5)

    truth = {"step": 400, "compute": 350, "collective exposed": 39, "collective hidden": 350, "idle": 11}
    return _one_core(
        "pipelined collective",
        "The done half of one iteration belongs to the start half of the one before.", body, 400, truth,
    )  # fmt: skip


def two_in_flight() -> Case:
    def body(core: TpuCore) -> None:
        core.start("permute", 1)
        core.start("permute", 1)
        core.op("matmul", 60)
        core.finish("permute", 10)
        core.op("mul", 20)
        core.finish("permute", 8)

    truth = {"step": 110, "compute": 80, "collective exposed": 20, "collective hidden": 80, "idle": 10}
    return _one_core(
        "two of one kind in flight", "One instruction is issued again before its first transfer ends.", body, 110, truth
    )


def fused() -> Case:
    def body(core: TpuCore) -> None:
        core.start("fused", 2)
        core.op("fused matmul", 120)
        core.finish("fused", 30)
        core.op("mul", 40)

    truth = {"step": 200, "matmul": 120, "collective exposed": 32, "collective hidden": 120, "idle": 8}
    return _one_core(
        "fused asynchronous collective",
        "Start and done are fusions with custom calls inside; the matmul between them carries the all-gather.",
        body, 200, truth,
    )  # fmt: skip


def sparsecore() -> Case:
    def body(core: TpuCore) -> None:
        core.start("sparsecore", 1)
        core.op("matmul", 90)
        core.finish("sparsecore", 35)
        core.start("lookup")
        core.op("mul", 30)
        core.finish("lookup", 12)

    truth = {
        "step": 180, "compute": 120.01, "collective exposed": 36, "dma wait": 12, "idle": 11.99, "dma hidden": 30.01,
    }  # fmt: skip
    return _one_core(
        "work offloaded to the SparseCore",
        "Generic async pairs: one calls an all-gather, the other an embedding lookup.", body, 180, truth,
    )  # fmt: skip


def prefetch() -> Case:
    def body(core: TpuCore) -> None:
        core.start("prefetch")
        core.op("matmul", 50)
        core.finish("prefetch", 7)
        core.start("slice")
        core.op("matmul2", 40)
        core.finish("slice", 3)

    truth = {"step": 110, "matmul": 90, "dma wait": 10, "dma hidden": 90.02, "idle": 9.98}
    return _one_core(
        "weight prefetch into VMEM", "A copy pair and a sliced one, each partly waited for.", body, 110, truth
    )


def offload() -> Case:
    def body(core: TpuCore) -> None:
        core.start("offload")
        core.op("mul", 20)
        core.finish("offload", 770)

    truth = {"step": 800, "compute": 20.01, "dma wait": 770, "idle": 9.99}
    return _one_core("host offload", "Nearly all of the step waits for a copy from host memory.", body, 800, truth)


def feeds() -> Case:
    def body(core: TpuCore) -> None:
        core.op("infeed", 60)
        core.op("matmul", 300)
        core.op("outfeed", 15)

    truth = {"step": 400, "matmul": 300, "host transfer": 75, "idle": 25}
    return _one_core("infeed and outfeed", "The device waits for its input and writes its output.", body, 400, truth)


def host_send_recv() -> Case:
    def body(core: TpuCore) -> None:
        core.start("send", 1)
        core.op("matmul", 100)
        core.finish("send", 25)
        core.start("recv", 1)
        core.finish("recv", 40)

    truth = {"step": 180, "compute": 100, "host transfer": 67, "idle": 13}
    return _one_core("send and recv to the host", "Not collectives: `is_host_transfer` is set.", body, 180, truth)


def branches() -> Case:
    def body(core: TpuCore) -> None:
        with core.inside("conditional"):
            core.op("matmul", 70)
            core.gap(10)
            core.op("all-to-all", 20)
        with core.inside("call"):
            core.op("attention", 50)

    truth = {"step": 160, "matmul": 70, "compute": 120, "collective exposed": 20, "idle": 20}
    return _one_core("conditional and call", "Rows of a branch and of a call enclose their ops.", body, 160, truth)


def collectives_at_once() -> Case:
    def body(core: TpuCore) -> None:
        core.start("gather", 1)
        core.start("reduce", 1)
        core.op("all-to-all", 40)
        core.op("matmul", 50)
        core.finish("gather", 10)
        core.finish("reduce", 6)

    truth = {"step": 120, "compute": 50, "collective exposed": 58, "collective hidden": 50, "idle": 12}
    return _one_core(
        "collectives under collectives",
        "Two are in flight while a third runs: communication does not hide communication.", body, 120, truth,
    )  # fmt: skip


def async_line_only() -> Case:
    def body(core: TpuCore) -> None:
        start = core.at
        core.op("matmul", 400)
        core.gap(200)
        core.op("mul", 300)
        core.flight("all-gather.8", "all-gather.8", "all-gather", start + 100, start + 700, "collective")

    truth = {"step": 1000, "compute": 700, "collective exposed": 200, "collective hidden": 400, "idle": 100}
    return _one_core("collective on the async line only", "Its halves are not on the op line.", body, 1000, truth)


def overrun() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 500, 500):
            core.op("matmul", 200)
            if step == 1:
                core.ops.events[-1].duration_ps *= 40  # the file says 8 ms; the next op says 200 us
            core.op("mul", 250)
    truth = {"step": 500, "matmul": 200, "compute": 450, "idle": 50}
    return close(
        "impossible duration", "One op is recorded forty times as long as it can have been.", trace, [core], truth
    )


def barrier_skew() -> Case:
    return _skew("barrier skew", "Core 0 is early at the all-reduce and waits for core 1.", (0, 0))


def skew_on_shifted_clocks() -> Case:
    return _skew(
        "barrier skew on shifted clocks",
        "The same, but rows of steps, programs and barriers are on the host's clock, 43 and 42 ms ahead.",
        (43_012_500_000, 41_987_500_000),
    )


def _skew(name: str, what: str, shifts_ps: tuple[int, int]) -> Case:
    trace, host = new_trace()
    cores = [TpuCore(host, ordinal, shift_ps=shift) for ordinal, shift in enumerate(shifts_ps)]
    for step in range(STEPS):
        for core, work in zip(cores, (300, 360), strict=True):
            with core.step(step, 1000 + step * 500, 500):
                core.op("matmul", work)
                core.barrier(365 - work)
                core.op("all-reduce", 90)
    truth = {"step": 500, "matmul": 330, "collective exposed": 90, "barrier wait": 35, "idle": 45}
    return close(name, what, trace, cores, truth)


def barrier_first() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0, steps_line=False)
    core.plane.host_minus_device_ps = lambda device_ps: 50_000_000 if device_ps < 1_390_000_000 else 10_000_000
    for step, wait in enumerate((5, 25, 45, 10)):
        with core.step(step, 1000 + step * 200, 200):
            core.barrier(wait)
            core.op("matmul", 100)
            core.op("all-reduce", 30)
    truth = {"step": 200, "matmul": 100, "collective exposed": 30, "barrier wait": 25, "idle": 45}
    return close(
        "programs that begin with a barrier",
        "No step marks: a step begins with the wait before its first op. Waits are on the host's clock, which is set "
        "back by 40 us before one of them.",
        trace,
        [core],
        truth,
        counted=slice(0, -1),
    )


def barrier_under_a_collective() -> Case:
    def body(core: TpuCore) -> None:
        core.start("gather", 1)
        core.op("matmul", 60)
        core.barrier(30)
        core.finish("gather", 10)
        core.barrier(15)
        core.op("all-reduce", 20)

    truth = {"step": 150, "matmul": 60, "collective exposed": 61, "barrier wait": 15, "idle": 14}
    return _one_core(
        "barrier while a collective is in flight",
        "The first wait for peers passes under an all-gather that nothing hides; the second one does not.",
        body,
        150,
        truth,
    )


def shifted_clock() -> Case:
    """Ops are on the device's clock; the rows of programs are on the host's, whose shift jumps within the capture."""
    trace, host = new_trace()
    core = TpuCore(host, 0, steps_line=False)
    core.plane.host_minus_device_ps = lambda device_ps: (
        14_616_973_000 + (230_000_000 if device_ps > 3_000_000_000 else 0)
    )
    for step in range(6):
        with core.step(step, 1000 + step * 800, 800):
            core.op("matmul", 500)
            core.start("offload")
            core.finish("offload", "289.99")
    truth = {"step": 800, "matmul": 500, "dma wait": 289.99, "idle": 10}
    return close(
        "device clock against a shifted host clock",
        "No step marks; program rows are mapped to the host's clock, which jumps by 230 us within the capture.",
        trace, [core], truth, counted=slice(0, -1),
    )  # fmt: skip


def capture_edges() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0, steps_line=False)
    for step in range(6):
        with core.step(step, 1000 + step * 400, 400):
            if step > 0:  # the capture began in the middle of the first run
                core.op("matmul", 200)
            else:
                core.gap(200)
            core.op("mul", 100)
            core.op("all-reduce", 50)
    first = core.modules.events[0]
    first.start_ps, first.duration_ps = first.start_ps + 200_000_000, first.duration_ps - 200_000_000
    truth = {"step": 400, "matmul": 200, "compute": 300, "collective exposed": 50, "idle": 50}
    return close(
        "cut at the edge of the capture", "The first run lacks its first op, the last one has no end mark.",
        trace, [core], truth, counted=slice(1, -1),
    )  # fmt: skip


def several_programs() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 600, 600):
            core.op("matmul", 300)
            core.op("all-reduce", 60)
        core.gap(40)
        with core.run(EVAL):
            core.row("fusion.9", "loop fusion", 80, "elementwise", EVAL)
    core.gap(1000)
    with core.run(EVAL):  # an evaluation after the last step belongs to no step
        core.row("fusion.9", "loop fusion", 500, "elementwise", EVAL)
    truth = {"step": 600, "matmul": 300, "compute": 380, "collective exposed": 60, "idle": 160}
    return close(
        "several programs in a step",
        "A second program runs in every step, and once more after the last one.", trace, [core], truth,
    )  # fmt: skip


def across_steps() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 300, 300):
            core.op("matmul", 100)
            if step > 0:
                core.finish("gather", 20)
            core.op("mul", 50)
            if step < STEPS - 1:
                core.start("gather", 1)
    # First step: 1 idle before the first op, then start 1 and tail 148 in flight. Two steps: lead-in 1, done 20,
    # start 1, tail 128. Last step: lead-in 1 and done 20, then 129 of idle tail.
    truth = {"step": 300, "compute": 150, "collective exposed": 117.5, "collective hidden": 75, "idle": 32.5}
    return close(
        "in flight over the end of a step",
        "The all-gather of one step is waited for in the next: each step has its part of it.",
        trace,
        [core],
        truth,
    )


def cut_pairs() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 200, 200):
            if step == 0:  # its start half was before the capture
                core.row("all-reduce-done.21", "all-reduce-done", 15, "collective")
            core.op("matmul", 100)
            core.op("mul", 40)
            if step == STEPS - 1:  # its done half is after the capture
                core.row("collective-permute-start.22", "collective-permute-start", 2, "collective")
    truth = {"step": 200, "compute": 140, "collective exposed": 4.25, "idle": 55.75}
    return close(
        "halves without the other half",
        "The capture begins and ends while collectives are in flight: what was not recorded is not made up.",
        trace, [core], truth, unknowable=("each exposed", "each hidden"),
    )  # fmt: skip


def doubled_on_the_async_line() -> Case:
    """The async line shows the same transfers again, on the host's clock, one of them far off."""
    trace, host = new_trace()
    core = TpuCore(host, 0)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 400, 400):
            begin = core.at
            core.start("prefetch", 1)
            core.start("gather", 1)
            core.op("matmul", 200)
            core.finish("gather", 30)
            core.finish("prefetch", 10)
            off = 150 if step == 2 else 3
            core.flight(
                "all-gather-start.20", "all-gather.20", "all-gather-start", begin + off, core.at + off, "collective"
            )
            core.flights.events[-1].stats["hlo_op"] = "all-gather-done.20"
            core.flight("copy-start.26", "async-copy", "copy-start", begin + off, core.at + off, "dma")
            core.flights.events[-1].stats["hlo_op"] = "copy-done.26"
            del core.flying[-2:]  # no other transfers: the halves tell when these were in flight
    truth = {"step": 400, "compute": 201, "collective exposed": 31, "dma wait": 10, "dma hidden": 201, "idle": 158}
    return close(
        "transfers shown twice", "The async line repeats, on another clock, what start and done halves show.",
        trace, [core], truth,
    )  # fmt: skip


def marks_inside_ops() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0, steps_line=False)
    marks = core.plane.add_line("Steps", line_id=1, clock="mapped")
    core.at = Decimal(1000)
    with core.run():
        for _ in range(STEPS):
            core.op("matmul", 200)
            core.op("all-reduce", 100)
            core.gap(20)
    for step in range(3):
        begin = 1100 + step * 320  # in the middle of the matmul
        marks.event(str(step), begin, 320)
        core.windows.append((begin * 1_000_000, (begin + 320) * 1_000_000))
    truth = {"step": 320, "matmul": 200, "collective exposed": 100, "idle": 20}
    case = close(
        "steps that begin within an op", "An op over the end of a step belongs to both, in parts.", trace, [core], truth
    )
    return replace(case, occasions=STEPS)  # executions: what sums over the whole file are divided by


def same_names() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    other = Program("jit_other", 4243, OTHER)
    host.add_program(other)
    for step in range(STEPS):
        with core.step(step, 1000 + step * 300, 300):
            core.op("matmul", 100)
        core.gap(10)
        with core.run(other):
            core.row("fusion.1", "loop fusion", 50, "elementwise", other)
            core.row("fusion.3", "convolution fusion", 80, "matmul", other)
    truth = {"step": 300, "matmul": 180, "compute": 230, "idle": 70}
    return close(
        "equal names in two programs", "`fusion.1` is a matmul in one and a loop fusion in the other.",
        trace, [core], truth,
    )  # fmt: skip


def other_planes() -> Case:
    trace, host = new_trace()
    core = TpuCore(host, 0)
    sparse = host.add_plane("/device:TPU:0 SparseCore 0", plane_id=77)
    busy = sparse.add_line("Sparse Core Ops", line_id=3)
    custom = host.add_plane("/device:CUSTOM:runtime", plane_id=78).add_line("queue", line_id=1)
    counters = core.plane.add_line("_counters_", line_id=9)
    counters.event("power", 1, 0)  # long before the first program
    for step in range(STEPS):
        at = 1000 + step * 200
        with core.step(step, at, 200):
            core.op("matmul", 100)
            core.gap(60)
            core.op("all-reduce", 20)
        busy.event("gather.9", at + 90, 80)
        custom.event("work", at, 200)
    truth = {"step": 200, "compute": 100, "collective exposed": 20, "idle": 80}
    return close(
        "planes that are no cores",
        "A SparseCore and a custom plane are busy meanwhile; a counter lies long before.", trace, [core], truth,
    )  # fmt: skip


def one_core_late() -> Case:
    trace, host = new_trace()
    cores = [TpuCore(host, ordinal, steps_line=False) for ordinal in range(2)]
    for step, work in enumerate((100, 110, 130, 160, 200, 105)):
        for core in cores:
            if core.ordinal == 1 and step == 0:
                continue  # its capture began later
            with core.step(step, 1000 + step * 300, 300):
                core.op("matmul", work)
                core.op("all-reduce", 50)
    truth = {"step": 300, "matmul": 150, "collective exposed": 50, "idle": 100}
    case = close(
        "one core begins a step later",
        "No step marks: which executions are the same step is told by the ends of their collectives.",
        trace,
        cores,
        truth,
        counted=slice(0, -1),
    )
    first, second = case.windows.values()
    return replace(case, windows=dict(zip(case.windows, (first[1:], second), strict=True)))


def two_hosts() -> Case:
    trace, host = new_trace()
    second = trace.add_host("host1")
    second.add_task_environment(SESSION_START_NS + 7_000_000, SESSION_START_NS + 60_000_000_000)
    second.add_program(STEP)
    cores = [TpuCore(host, 0), TpuCore(second, 0)]
    for step in range(STEPS):
        for core, work in zip(cores, (100, 140), strict=True):
            with core.step(step, 1000 + step * 300, 300):
                core.op("matmul", work)
                core.op("all-reduce", 200 - work)
    truth = {"step": 300, "matmul": 120, "collective exposed": 80, "idle": 100}
    return close("two hosts", "Two files whose sessions begin at different times.", trace, cores, truth)


CASES = (
    clean,
    straight_async,
    loop_sync,
    loop_async,
    renumbered_halves,
    loop_in_flight_without_op,
    loop_gaps,
    nested_loops,
    across_iterations,
    two_in_flight,
    fused,
    sparsecore,
    prefetch,
    offload,
    feeds,
    host_send_recv,
    branches,
    collectives_at_once,
    async_line_only,
    overrun,
    barrier_skew,
    skew_on_shifted_clocks,
    barrier_first,
    barrier_under_a_collective,
    shifted_clock,
    capture_edges,
    several_programs,
    across_steps,
    cut_pairs,
    doubled_on_the_async_line,
    marks_inside_ops,
    same_names,
    other_planes,
    one_core_late,
    two_hosts,
)
