"""A TPU core that is written from left to right, with notes of what goes on beside every event."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from tests.accuracy.truth import Case
from tests.tables.oracle import Core, Span
from tpuprof.testing import HostBuilder, LineBuilder, PlaneBuilder, Program, Stat, TraceBuilder, Unsigned, to_ps

STEP = Program("jit_step", 4242424242, Path(__file__).with_name("tpu.hlo.txt").read_text(encoding="utf-8"))
EVAL = Program("jit_eval", 99, "")
SESSION_START_NS = 1_764_000_000_000_000_000
FLOW_TYPE = 12
LEAD_IN = 1
Us = int | float | str | Decimal

# What a case calls it: the instruction, the category that libtpu gives it, what it is.
OPS = {
    "matmul": ("fusion.1", "convolution fusion", "matmul"),
    "matmul2": ("fusion.2", "convolution fusion", "matmul"),
    "mul": ("fusion.3", "loop fusion", "elementwise"),
    "reduce": ("fusion.4", "input fusion", "reduction"),
    "attention": ("splash_attention.5", "custom-call", "attention"),
    "copy": ("copy.6", "data formatting", "data_movement"),
    "all-reduce": ("all-reduce.7", "all-reduce", "collective"),
    "all-gather": ("all-gather.8", "all-gather", "collective"),
    "reduce-scatter": ("reduce-scatter.9", "reduce-scatter", "collective"),
    "all-to-all": ("all-to-all.10", "all-to-all", "collective"),
    "fused matmul": ("fusion.24", "convolution fusion", "matmul"),
    "infeed": ("infeed.31", "infeed", "host_transfer"),
    "outfeed": ("outfeed.32", "outfeed", "host_transfer"),
}
# A pair: start half, done half, their categories, their kinds, and what is in flight between them.
PAIRS = {
    "gather": ("all-gather-start.20", "all-gather-done.20", "all-gather-start", "all-gather-done", "collective"),
    "renumbered": ("all-gather-start.38", "all-gather-done.39", "all-gather-start", "all-gather-done", "collective"),
    "reduce": ("all-reduce-start.21", "all-reduce-done.21", "all-reduce-start", "all-reduce-done", "collective"),
    "permute": ("collective-permute-start.22", "collective-permute-done.22", "collective-permute-start",
                "collective-permute-done", "collective"),
    "fused": ("async-collective-start.23", "async-collective-done.23", "custom fusion", "custom fusion", "collective"),
    "sparsecore": ("all-gather.25.call-start", "all-gather.25.call-done", "async-start", "async-done", "collective"),
    "lookup": ("gather.36.call-start", "gather.36.call-done", "async-start", "async-done", "dma"),
    "prefetch": ("copy-start.26", "copy-done.26", "copy-start", "copy-done", "dma"),
    "offload": ("copy-start.27", "copy-done.27", "copy-start", "copy-done", "dma"),
    "slice": ("slice-start.28", "slice-done.28", "async-start", "async-done", "dma"),
    "send": ("send.29", "send-done.29", "host send", "host send-done", "host"),
    "recv": ("recv.30", "recv-done.30", "host recv", "host recv-done", "host"),
}  # fmt: skip
_KINDS = {"collective": ("collective", "collective"), "dma": ("data_movement", "dma_wait"),
          "host": ("host_transfer", "host_transfer")}  # fmt: skip
_CONTAINERS = {"while": "while.33", "inner while": "while.37", "conditional": "conditional.34", "call": "call.35"}


class TpuCore:
    """The lines of one core; ``at`` is the time, in microseconds of the device's clock, up to which it is written."""

    def __init__(self, host: HostBuilder, ordinal: int, *, steps_line: bool = True, shift_ps: int = 0) -> None:
        details = bytes(byte for tag in (0x10, 0x20, 0x28, 0x30) for byte in (tag, ordinal) if ordinal)
        stats: dict[str, Stat] = {
            "core_details": details,
            "peak_teraflops_per_second": 918.0,
            "peak_hbm_bw_gigabytes_per_second": 1638.0,
            "has_megacore": 0,
        }
        self.plane: PlaneBuilder = host.add_tpu(ordinal, "TPU v6 lite", stats)
        self.plane.host_minus_device_ps = shift_ps
        self.steps_line = self.plane.add_line("Steps", line_id=1, clock="mapped") if steps_line else None
        self.modules = self.plane.add_line("XLA Modules", line_id=2, clock="mapped")
        self.ops: LineBuilder = self.plane.add_line("XLA Ops", line_id=3, clock="device")
        self.flights = self.plane.add_line("Async XLA Ops", line_id=4, clock="mapped")
        self.trace_me = self.plane.add_line("XLA TraceMe", line_id=6, clock="mapped")
        self.device = f"{host.name}/TPU:{ordinal}"
        self.ordinal = ordinal
        self.at = Decimal(0)
        self.done: list[Span] = []
        self.flying: list[Span] = []
        self.barriers: list[Span] = []
        self.runs: list[Span] = []
        self.windows: list[tuple[int, int]] = []
        self._open: dict[str, list[Decimal]] = {}
        self._symbols: dict[tuple[int, str], int] = {}

    def op(self, name: str, duration: Us) -> None:
        """The next op, right behind the one before."""
        instruction, category, kind = OPS[name]
        self.row(instruction, category, duration, kind)

    def row(self, instruction: str, category: str, duration: Us, kind: str, program: Program = STEP) -> None:
        length = Decimal(str(duration))
        self.ops.op(instruction, self.at, length, program, category, meta=self._facts(instruction, program))
        self.done.append(Span(to_ps(self.at), to_ps(self.at + length), kind))
        self.at += length

    def gap(self, duration: Us) -> None:
        """Nothing runs."""
        self.at += Decimal(str(duration))

    def start(self, pair: str, duration: Us = "0.01") -> None:
        """The start half of a pair."""
        instruction, _, category, _, what = PAIRS[pair]
        self._open.setdefault(pair, []).append(self.at)
        self.row(instruction, category, duration, _KINDS[what][0])

    def finish(self, pair: str, duration: Us) -> None:
        """The done half of the pair that was started first."""
        _, instruction, _, category, what = PAIRS[pair]
        begin = self._open[pair].pop(0)
        self.row(instruction, category, duration, _KINDS[what][1])
        self.flying.append(Span(to_ps(begin), to_ps(self.at), "dma" if what == "host" else what))

    def flight(self, instruction: str, shown: str, category: str, begin: Us, end: Us, what: str) -> None:
        """Asynchronous work that shows only on its own line."""
        left, right = Decimal(str(begin)), Decimal(str(end))
        self.flights.op(instruction, left, right - left, STEP, category, meta=self._facts(instruction, STEP))
        self.flights.events[-1].name = shown
        self.flying.append(Span(to_ps(left), to_ps(right), what))

    def barrier(self, duration: Us) -> None:
        """A wait for peers."""
        length = Decimal(str(duration))
        self.trace_me.event("barrier-cores", self.at, length)
        self.barriers.append(Span(to_ps(self.at), to_ps(self.at + length), "barrier"))
        self.at += length

    @contextmanager
    def inside(self, container: str) -> Generator[None]:
        """Ops inside a loop, a branch or a call, whose row encloses theirs."""
        instruction = _CONTAINERS[container]
        category = instruction.split(".")[0]
        self.ops.op(instruction, self.at, 0, STEP, category, meta=self._facts(instruction, STEP))
        event, begin = self.ops.events[-1], self.at
        yield
        event.duration_ps = to_ps(self.at - begin)

    @contextmanager
    def run(self, program: Program = STEP, link: int | None = None) -> Generator[None]:
        """One execution of a program."""
        begin, before = self.at, len(self.done)
        yield
        stats: dict[str, Stat] = {"run_id": Unsigned(len(self.modules) + 1)}
        if link is not None:
            stats |= {"_ct": FLOW_TYPE, "_c": link}
        self.modules.module(program, begin, self.at - begin, stats=stats)
        # Its row is on the host's clock and only approximate: a run lasts from its first op to the end of its last.
        self.runs.append(Span(self.done[before].start, max(op.end for op in self.done[before:]), "run"))

    @contextmanager
    def step(self, number: int, start: Us, length: Us, link: int | None = None) -> Generator[None]:
        """A step [start, start + length) with one execution in it."""
        self.at, size = Decimal(str(start)), Decimal(str(length))
        begin = self.at
        with self.run(link=link):
            # As on real devices the first op begins a moment after its program.
            self.gap(LEAD_IN)
            yield
        if self.steps_line is not None:
            self.steps_line.event(str(number), begin, size)
        else:
            begin += LEAD_IN  # without marks, steps begin where ops do
        self.windows.append((to_ps(begin), to_ps(begin + size)))

    def truth(self) -> Core:
        """What this core did."""
        return Core(tuple(self.done), tuple(self.flying), tuple(self.barriers))

    def _facts(self, instruction: str, program: Program) -> dict[str, Stat]:
        symbol = self._symbols.setdefault((program.id, instruction), len(self._symbols) + 1)
        facts: dict[str, Stat] = {"symbol_id": symbol}
        shape, scope = program.shape(instruction), program.scope(instruction)
        if shape:
            facts["shape_with_layout"] = shape
        if scope:
            facts["tf_op"] = scope
        return facts


def new_trace() -> tuple[TraceBuilder, HostBuilder]:
    """A session of one host with the program's HLO."""
    trace = TraceBuilder("2025_11_24_16_00_00")
    host = trace.add_host("host0")
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 60_000_000_000)
    host.add_program(STEP)
    return trace, host


def close(
    name: str, what: str, trace: TraceBuilder, cores: list[TpuCore], by_hand: Mapping[str, float],
    *, host: tuple[Span, ...] = (), causes: bool = False, counted: slice = slice(None),
    unknowable: tuple[str, ...] = (),
) -> Case:  # fmt: skip
    """The case made of these cores; ``counted`` says which steps enter the means."""
    for core in cores:
        core.flights.events.sort(key=lambda event: event.start_ps)
    return Case(
        name, what, trace,
        {core.device: core.truth() for core in cores},
        {core.device: tuple(core.windows[counted]) for core in cores},
        by_hand, host,
        {core.device: tuple(core.runs) for core in cores},
        causes, sum(len(core.windows) for core in cores), unknowable,
    )  # fmt: skip
