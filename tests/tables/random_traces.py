"""Random small traces together with the truth from which they were built."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from tests.tables.oracle import Core, Span
from tpuprof.testing import LineBuilder, PlaneBuilder, Program, Ps, Ref, Stat, TraceBuilder, Unsigned

ZOO = Program("jit_zoo", 77, Path(__file__).with_name("zoo.hlo.txt").read_text())
SESSION_START_NS = 1_700_000_000_000_000_000

Leaves = tuple[tuple[str, str, str], ...]
# name, category, kind: the instructions of the zoo that run synchronously
LEAVES: Leaves = (
    ("fusion.1", "convolution fusion", "matmul"),
    ("my_kernel.3", "custom-call", "custom_kernel"),
    ("reduce.5", "reduce", "reduction"),
    ("fusion.6", "loop fusion", "elementwise"),
    ("copy.8", "copy", "data_movement"),
    ("all-reduce.10", "all-reduce", "collective"),
    ("infeed.11", "infeed", "host_transfer"),
    # Their category alone does not say what these are: only with the program's HLO.
    ("flash_attention.2", "custom-call", "attention"),
    ("convolution.4", "convolution", "convolution"),
    ("gather.7", "gather", "gather_scatter"),
    ("sort.9", "sort", "other_compute"),
)
LEAVES_BY_CATEGORY = LEAVES[:7]
WAITS = LEAVES[5:7]
CPU_LEAVES = tuple(leaf for leaf in LEAVES if leaf[2] != "host_transfer")
# start half, done half, kind of the start half, kind of the done half, kind in flight
PAIRS = (
    ("all-gather-start.21", "all-gather-done.21", "collective", "collective", "collective"),
    ("copy-start.22", "copy-done.22", "data_movement", "dma_wait", "dma"),
    ("collective-permute-start.23", "collective-permute-done.23", "collective", "collective", "collective"),
)
NCCL = "ncclDevKernel_AllGather_RING_LL"
HOST_STEP_PS = 1_000
KERNELS = (("fusion.1", "matmul"), ("fusion.6", "elementwise"), ("copy.8", "data_movement"))


Windows = dict[int, tuple[int, int]]


@dataclass(repr=False)
class Truth:
    """A trace and, per device id, what its core did and the windows of its steps."""

    trace: TraceBuilder
    cores: dict[str, Core] = field(default_factory=dict[str, Core])
    windows: dict[str, Windows] = field(default_factory=dict[str, Windows])

    def __repr__(self) -> str:
        """What a failing example is read from: the rows of every line, and the windows."""
        lines = [
            f"{plane.name} {line.name}: {', '.join(f'{e.name!s} [{e.start_ps}, {e.end_ps})' for e in line)}"
            for plane in self.trace.hosts[0]
            for line in plane
        ]
        return "\n".join([*lines, f"windows: {self.windows}"])


_length = st.sampled_from([0, 1, 999, 5_000, 12_345, 30_000])


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    """A trace of 1-3 cores, TPU or GPU, with 1-4 steps each."""
    truth = Truth(TraceBuilder())
    host = truth.trace.add_host("h")
    with_hlo = draw(st.booleans())
    gpu = draw(st.integers(0, 3)) == 0
    steps = draw(st.integers(1, 4))
    python = host.add_thread("python")
    if gpu:
        for step in range(steps):
            python.step(step, Ps(HOST_STEP_PS * step), Ps(HOST_STEP_PS // 2))
    for ordinal in range(draw(st.integers(1, 3))):
        if gpu:
            plane, device = host.add_gpu(ordinal), f"h/GPU:{ordinal}"
            truth.cores[device], truth.windows[device] = draw(_gpu_cores(plane, python, steps))
        else:
            plane, device = host.add_tpu(ordinal), f"h/TPU:{ordinal}"
            plane.host_minus_device_ps = draw(st.sampled_from([0, 0, 14_616_973_000, -3_000_017]))
            truth.cores[device] = draw(_tpu_cores(plane, with_hlo))
            truth.windows[device] = draw(_step_lines(plane, truth.cores[device], steps))
    if with_hlo or gpu:
        host.add_program(ZOO)
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 1_000_000_000)
    return truth


@st.composite
def cpu_truths(draw: st.DrawFn) -> Truth:
    """A trace of the CPU backend: 1-3 devices whose ops run on several threads, launched inside annotations."""
    truth = Truth(TraceBuilder())
    host = truth.trace.add_host("h")
    python = host.add_thread("python")
    threads = [host.add_thread(f"tf_XLAEigen/{n}") for n in range(draw(st.integers(2, 4)))]
    devices = [f"h/CPU:{n}" for n in range(draw(st.integers(1, 3)))]
    steps = draw(st.integers(1, 4))
    ops: dict[str, list[Span]] = {device: [] for device in devices}
    starts: dict[str, list[int]] = {device: [] for device in devices}
    at = 1_000_000
    for step in range(steps):
        python.step(step, Ps(at), Ps(10_000))
        python.event("TfrtCpuExecutable::Execute", Ps(at + 10), Ps(50), stats={"run_id": step + 1})
        free = dict.fromkeys(range(len(threads)), at + 5_000)
        for ordinal, device in enumerate(devices):
            mine = draw(st.lists(st.sampled_from(range(len(threads))), min_size=1, max_size=6))
            written: list[Span] = []
            for number in mine:
                name, _, kind = draw(st.sampled_from(CPU_LEAVES))
                begin = free[number] + draw(st.sampled_from([0, 1, 7_000]))
                duration = draw(_length)
                threads[number].cpu_op(name, Ps(begin), Ps(duration), ZOO, run_id=step + 1, device_ordinal=ordinal)
                written.append(Span(begin, begin + duration, kind))
                if duration > 10 and draw(st.booleans()):  # a thread that waits in one op may run another meanwhile
                    name, _, kind = draw(st.sampled_from(CPU_LEAVES))
                    left, right = begin + duration // 3, begin + duration // 2
                    threads[number].cpu_op(
                        name, Ps(left), Ps(right - left), ZOO, run_id=step + 1, device_ordinal=ordinal
                    )
                    written.append(Span(left, right, kind))
                free[number] = begin + duration + 1  # so that rows of one thread never share a start
            ops[device] += written
            starts[device].append(min(op.start for op in written))
        at = max(free.values()) + 20_000
    for device in devices:
        truth.cores[device] = Core(tuple(ops[device]))
        ends = [*starts[device][1:], max(op.end for op in ops[device])]
        # The last step ends with its own last op.
        truth.windows[device] = {k: (a, b) for k, (a, b) in enumerate(zip(starts[device], ends, strict=True))}
    host.add_program(ZOO)
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 1_000_000_000)
    return truth


class _OpLine:
    """The op line of a TPU while it is written from left to right."""

    def __init__(self, line: LineBuilder, *, with_hlo: bool, at: int) -> None:
        self.line = line
        self.choice = LEAVES if with_hlo else LEAVES_BY_CATEGORY
        self.at = at
        self.ops: list[Span] = []
        self.in_flight: list[Span] = []
        self.open: dict[int, int] = {}

    def op(self, name: str, category: str, duration: int, kind: str) -> None:
        self.line.op(name, Ps(self.at), Ps(duration), ZOO, category)
        self.ops.append(Span(self.at, self.at + duration, kind))

    def items(self, draw: st.DrawFn, depth: int, count: int) -> None:
        for _ in range(count):
            self.at += draw(st.sampled_from([0, 0, 1, 7_000, 20_000]))
            forms = ["leaf", "leaf", "twins", "pair", "pair", "waits", "loop" if depth < 2 else "leaf"]
            match draw(st.sampled_from(forms)):
                case "loop":
                    self.loop(draw, depth)
                case "pair":
                    self.half(draw)
                case "waits":
                    self.waits(draw)
                case form:
                    self.leaves(draw, 2 if form == "twins" else 1)

    def leaves(self, draw: st.DrawFn, count: int, choice: Leaves | None = None) -> None:
        """Ops with one start: one after the other in the file, and no overrun of each other."""
        end = self.at
        for _ in range(count):
            name, category, kind = draw(st.sampled_from(choice or self.choice))
            duration = draw(_length)
            self.op(name, category, duration, kind)
            end = max(end, self.at + duration)
        self.at = end

    def loop(self, draw: st.DrawFn, depth: int) -> None:
        self.line.op("while.12", Ps(self.at), Ps(0), ZOO, "while")
        event = self.line.events[-1]
        self.items(draw, depth + 1, draw(st.integers(0, 3)))
        self.at += draw(st.sampled_from([0, 0, 3_000]))
        event.duration_ps = self.at - event.start_ps

    def half(self, draw: st.DrawFn) -> None:
        """The start half of a pair, or the done half of one that is under way."""
        under_way = sorted(self.open)
        chosen = under_way if under_way and draw(st.booleans()) else range(len(PAIRS))
        self.write_half(draw(st.sampled_from(chosen)), draw(_length))

    def waits(self, draw: st.DrawFn) -> None:
        """The done half of a pair and another wait at once, so that their order of precedence is decided."""
        number = draw(st.sampled_from(range(len(PAIRS))))
        if number not in self.open:
            self.write_half(number, 5)
        start, longest = self.at, draw(_length)
        self.write_half(number, longest)
        self.at = start
        self.leaves(draw, 1, WAITS)
        self.at = max(self.at, start + longest)

    def write_half(self, number: int, duration: int) -> None:
        start, done, start_kind, done_kind, flying = PAIRS[number]
        if number in self.open:
            self.op(done, done.split(".")[0], duration, done_kind)
            self.in_flight.append(Span(self.open.pop(number), self.at + duration, flying))
        else:
            self.open[number] = self.at
            self.op(start, start.split(".")[0], duration, start_kind)
        self.at += duration

    def close(self) -> None:
        for number in sorted(self.open):
            self.write_half(number, 1_000)


@st.composite
def _tpu_cores(draw: st.DrawFn, plane: PlaneBuilder, with_hlo: bool) -> Core:
    begin = draw(st.integers(0, 100_000))
    module = plane.add_line("XLA Modules", line_id=2, clock="mapped")
    op_line = _OpLine(plane.add_line("XLA Ops", line_id=3, clock="device"), with_hlo=with_hlo, at=begin)
    op_line.items(draw, 0, draw(st.integers(4, 10)))
    op_line.leaves(draw, 1)
    op_line.close()
    module.module(ZOO, Ps(begin), Ps(op_line.at - begin))
    flying = _async_line(draw, plane, begin, op_line.at)
    barriers = [Span(a, b, "barrier") for a, b in draw(_intervals(begin, op_line.at, most=2))]
    trace_me = plane.add_line("XLA TraceMe", line_id=6, clock="mapped")
    for span in barriers:
        trace_me.event("barrier-cores", Ps(span.start), Ps(span.end - span.start))
    return Core(tuple(op_line.ops), (*op_line.in_flight, *flying), tuple(barriers))


def _async_line(draw: st.DrawFn, plane: PlaneBuilder, begin: int, end: int) -> list[Span]:
    """Asynchronous work that shows only on its own line, where rows may overlap."""
    line = plane.add_line("Async XLA Ops", line_id=4, clock="mapped")
    spans: list[Span] = []
    for left, right in draw(_intervals(begin, end, most=3)):
        if draw(st.booleans()):
            line.op("all-gather.20", Ps(left), Ps(right - left), ZOO, "all-gather")
            spans.append(Span(left, right, "collective"))
        else:
            line.op(
                "copy-start.24",
                Ps(left),
                Ps(right - left),
                ZOO,
                "copy-start",
                stats={"hlo_op": "copy-done.24"},
            )
            line.events[-1].name = "async-copy"
            spans.append(Span(left, right, "dma"))
    line.events.sort(key=lambda event: event.start_ps)
    return spans


@st.composite
def _gpu_cores(draw: st.DrawFn, plane: PlaneBuilder, host: LineBuilder, steps: int) -> tuple[Core, Windows]:
    """Kernels on 1-3 streams, each launched by a call inside the host's annotation of its step.

    Streams run side by side within a step; a step begins after the one before has ended.
    """
    ops: list[Span] = []
    starts: list[int] = []
    streams = [plane.add_line(f"Stream #{n}(Kernel)", line_id=10 + n) for n in range(draw(st.integers(1, 3)))]
    at = 1_000_000
    for step in range(steps):
        first = len(ops)
        for number, stream in enumerate(streams):
            free = at
            for _ in range(draw(st.integers(1 if number == 0 else 0, 4))):
                free += draw(st.sampled_from([0, 1, 7_000]))
                duration = draw(_length)
                name, kind = draw(st.sampled_from([*KERNELS, (NCCL, "collective")]))
                launch = 1 + len(ops) + 1_000_000 * int(plane.name[-1])
                facts: dict[str, Stat] = {"correlation_id": Unsigned(launch)}
                if kind != "collective":
                    facts |= {"program_id": ZOO.id, "hlo_module": Ref(ZOO.name), "hlo_op": Ref(name)}
                stream.event(name, Ps(free), Ps(duration), stats=facts)
                call = {"correlation_id": Unsigned(launch)}
                host.event("cuLaunchKernel", Ps(HOST_STEP_PS * step + len(ops)), Ps(1), stats=call)
                ops.append(Span(free, free + duration, kind))
                free += duration
        starts.append(min(op.start for op in ops[first:]))
        at = max(op.end for op in ops[first:]) + 1
    ends = [*starts[1:], max(op.end for op in ops)]
    return Core(tuple(ops)), {k: (start, end) for k, (start, end) in enumerate(zip(starts, ends, strict=True))}


@st.composite
def _step_lines(draw: st.DrawFn, plane: PlaneBuilder, core: Core, count: int) -> Windows:
    """Rows of a line ``Steps`` around the ops; gaps between rows belong to the step before."""
    first = min(op.start for op in core.ops)
    last = max(op.end for op in core.ops) + 10 * count
    times = st.integers(max(0, first - 5_000), last + 5_000)
    starts = sorted(draw(st.lists(times, min_size=count + 1, max_size=count + 1, unique=True)))
    line = plane.add_line("Steps", line_id=1, clock="mapped")
    windows: Windows = {}
    for k in range(count):
        row_end = starts[k + 1] if k == count - 1 else draw(st.integers(starts[k], starts[k + 1]))
        line.event(str(k), Ps(starts[k]), Ps(row_end - starts[k]))
        windows[k] = (starts[k], starts[k + 1])
    return windows


def _intervals(begin: int, end: int, most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    times = st.integers(begin, max(begin, end))
    return st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), max_size=most)
