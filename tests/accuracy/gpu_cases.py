"""GPU programs: streams side by side. Times are microseconds per step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.accuracy.truth import Case
from tests.tables.oracle import Core, Span
from tests.tables.random_traces import NCCL
from tpuprof.testing import HostBuilder, LineBuilder, PlaneBuilder, Program, Ref, Stat, TraceBuilder, Unsigned

SESSION_START_NS = 1_764_000_000_000_000_000
STEPS = 8
GPU: dict[str, Stat] = {
    "clock_rate": 1_980_000,
    "core_count": 132,
    "memory_bandwidth": 3_350_000_000_000,
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
    "device_vendor": "Nvidia",
}
PROGRAM = Program("jit_train", 31, Path(__file__).with_name("gpu.hlo.txt").read_text(encoding="utf-8"))
# What a case calls it: the kernel, the HLO op, what it is.
KERNELS = {
    "matmul": ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "dot.1", "matmul"),
    "mul": ("loop_multiply_fusion", "loop_multiply_fusion", "elementwise"),
    "nccl": ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all-reduce.1", "collective"),
    "gather": (NCCL, "", "collective"),
    "h2d": ("MemcpyH2D", "", "host_transfer"),
    "d2h": ("MemcpyD2H", "", "host_transfer"),
    "htod": ("MemcpyHtoD", "", "host_transfer"),
    "dtoh": ("MemcpyDtoH", "", "host_transfer"),
    "dtod": ("MemcpyDtoD", "", "data_movement"),
    "d2d": ("MemcpyD2D", "", "data_movement"),
    "amd gemm": ("Cijk_Alik_Bljk_BBS_BH_MT256x256x64.kd", "dot.1", "matmul"),
    "amd h2d": ("__amd_rocclr_copyBuffer.kd", "", "host_transfer"),
    "amd d2d": ("__amd_rocclr_copyBufferAligned.kd", "", "data_movement"),
}
CALLS = {"amd h2d": "hipMemcpyHtoDAsync", "amd d2d": "hipMemcpyDtoDAsync"}


class Gpu:
    """The streams of one GPU, with the calls that launched their kernels."""

    def __init__(self, host: HostBuilder, thread: LineBuilder, ordinal: int, streams: tuple[str, ...]) -> None:
        self.plane: PlaneBuilder = host.add_gpu(ordinal, GPU)
        self.streams = [self.plane.add_line(f"Stream #{n + 10}({s})", line_id=n + 10) for n, s in enumerate(streams)]
        self.thread = thread
        self.device = f"{host.name}/GPU:{ordinal}"
        self.ordinal = ordinal
        self.done: list[Span] = []

    def run(self, stream: int, name: str, start: int, duration: int, launch: int) -> None:
        """A kernel on a stream, and the call at host time ``launch``."""
        kernel, op, kind = KERNELS[name]
        link = Unsigned(1 + len(self.done) + 100_000 * self.ordinal)
        facts: dict[str, Stat] = {"correlation_id": link}
        if op:
            facts |= {"hlo_op": Ref(op), "hlo_module": Ref(PROGRAM.name), "program_id": PROGRAM.id}
        self.streams[stream].event(kernel, start, duration, stats=facts)
        # One thread calls one after the other; what lies between two calls does not matter here.
        self.thread.event(
            CALLS.get(name, "cuLaunchKernel"),
            f"{launch}.{len(self.done) % 1000:03d}",
            0,
            stats={"correlation_id": link},
        )
        self.done.append(Span(start * 1_000_000, (start + duration) * 1_000_000, kind))


Work = tuple[int, str, int, int]  # stream, kernel, start within the step, duration


def _gpus(
    name: str, what: str, length: int, works: tuple[tuple[Work, ...], ...], streams: tuple[str, ...],
    by_hand: Mapping[str, float],
) -> Case:  # fmt: skip
    """Equal steps; the first kernel of a step starts with it, and the host is one step ahead."""
    trace = TraceBuilder("2025_11_24_16_00_00")
    host = trace.add_host("host0")
    thread = host.add_thread("python")
    gpus = [Gpu(host, thread, ordinal, streams) for ordinal in range(len(works))]
    for step in range(STEPS):
        at = 10_000 + step * length
        thread.step(step, 1_000 + step * length, length - 10)
        for gpu, work in zip(gpus, works, strict=True):
            for stream, kernel, start, duration in work:
                gpu.run(stream, kernel, at + start, duration, 1_010 + step * length)
    thread.events.sort(key=lambda event: event.start_ps)
    host.add_program(PROGRAM)
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 60_000_000_000)
    # The last step has no end but its last op, so that it does not count.
    starts = [(10_000 + step * length) * 1_000_000 for step in range(STEPS - 1)]
    windows = tuple((start, start + length * 1_000_000) for start in starts)
    return Case(
        name, what, trace, {gpu.device: Core(tuple(gpu.done)) for gpu in gpus},
        {gpu.device: windows for gpu in gpus}, by_hand, occasions=STEPS * len(works),
    )  # fmt: skip


def nccl_overlap() -> Case:
    work = ((0, "matmul", 0, 300), (1, "nccl", 200, 250), (0, "mul", 300, 50), (0, "mul", 480, 100))
    truth = {
        "step": 600,
        "matmul": 300,
        "compute": 450,
        "collective exposed": 100,
        "collective hidden": 150,
        "idle": 50,
    }
    return _gpus(
        "NCCL on its own stream", "An all-reduce partly under compute of another stream.", 600, (work,),
        ("Kernel", "Kernel,NCCL"), truth,
    )  # fmt: skip


def concurrent_streams() -> Case:
    work = ((0, "matmul", 0, 200), (1, "mul", 50, 200), (2, "gather", 150, 150))
    truth = {
        "step": 400,
        "matmul": 200,
        "compute": 250,
        "collective exposed": 50,
        "collective hidden": 100,
        "idle": 100,
    }
    return _gpus(
        "three streams at once", "Kernels of two streams overlap: their times must not be added.", 400, (work,),
        ("Kernel", "Kernel", "Kernel"), truth,
    )  # fmt: skip


def copies() -> Case:
    work = ((0, "matmul", 0, 200), (1, "h2d", 100, 180), (0, "d2d", 300, 20), (1, "d2h", 320, 40))
    truth = {"step": 400, "matmul": 200, "compute": 220, "host transfer": 120, "idle": 60}
    return _gpus(
        "copies from and to the host", "A copy to the device runs on under no compute; one on the device is compute.",
        400, (work,), ("Kernel", "Memcpy"), truth,
    )  # fmt: skip


def copies_long_names() -> Case:
    work = ((0, "matmul", 0, 200), (1, "htod", 100, 180), (0, "dtod", 300, 20), (1, "dtoh", 320, 40))
    truth = {"step": 400, "matmul": 200, "compute": 220, "host transfer": 120, "idle": 60}
    return _gpus(
        "copies under their other names", "The same with the names that some runtimes write, as `MemcpyHtoD`.",
        400, (work,), ("Kernel", "Memcpy"), truth,
    )  # fmt: skip


def precedence() -> Case:
    work = ((0, "matmul", 0, 50), (1, "nccl", 60, 100), (2, "gather", 120, 60), (0, "h2d", 150, 50))
    truth = {"step": 250, "compute": 50, "collective exposed": 120, "host transfer": 20, "idle": 60}
    return _gpus(
        "collective, collective and copy at once", "Two collectives and a copy overlap without any compute.", 250,
        (work,), ("Memcpy", "Kernel", "Kernel"), truth,
    )  # fmt: skip


def amd() -> Case:
    work = ((0, "amd gemm", 0, 200), (1, "amd h2d", 150, 100), (1, "amd d2d", 260, 30))
    truth = {"step": 350, "matmul": 200, "compute": 230, "host transfer": 50, "idle": 70}
    return _gpus(
        "copy kernels of AMD", "The kernel does not say where it copies to; the call that launched it does.", 350,
        (work,), ("Kernel", "Kernel"), truth,
    )  # fmt: skip


def two_gpus() -> Case:
    works: tuple[tuple[Work, ...], ...] = (
        ((0, "matmul", 0, 100), (1, "nccl", 100, 200)),
        ((0, "matmul", 0, 250), (1, "nccl", 250, 50)),
    )
    truth = {"step": 350, "matmul": 175, "collective exposed": 125, "collective hidden": 0, "idle": 50}
    return _gpus(
        "two GPUs, one late", "One GPU waits in the all-reduce while the other still computes.", 350, works,
        ("Kernel", "Kernel"), truth,
    )  # fmt: skip


CASES = (nccl_overlap, concurrent_streams, copies, copies_long_names, precedence, amd, two_gpus)
