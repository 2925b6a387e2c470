"""TPU programs that wait for their host: why the device is idle. Times are microseconds per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.accuracy.tpu import FLOW_TYPE, TpuCore, close, new_trace
from tests.accuracy.truth import Case
from tests.tables.oracle import Span
from tpuprof.testing import HostBuilder, LineBuilder

STEPS = 4
Happening = tuple[str, str, float, float]  # cause, name of the event, start within the step, duration
# The call that hands a step's program to the device; it returns before the program starts.
ENQUEUE = ("dispatch", "DoEnqueueProgram", -8, 5)


def _loop(
    name: str, what: str, length: int, device: Callable[[TpuCore], None], happenings: Sequence[Happening],
    by_hand: Mapping[str, float], *, every: int = 1, enqueue: Happening = ENQUEUE, ahead: float = 0,
) -> Case:  # fmt: skip
    """A loop on one core and a host.

    Things other than the enqueue call happen in every ``every``-th step. Times of happenings are those of the device's
    clock; the host's clock is ``ahead`` of it.
    """
    trace, host = new_trace()
    core = TpuCore(host, 0)
    thread, others = host.add_thread("main/77"), host.add_thread("worker/78")
    noted: list[Span] = []
    for step in range(STEPS):
        at = 1000 + step * length
        with core.step(step, at, length, link=step + 1):
            device(core)
        _happen(thread, noted, at, (enqueue,), ahead, link=step + 1)
        if step % every == 0:
            _happen(others, noted, at, happenings, ahead)
    _annotate(host, length, ahead)
    return close(name, what, trace, [core], by_hand, host=tuple(noted), causes=True)


def _happen(
    thread: LineBuilder, noted: list[Span], at: float, happenings: Sequence[Happening], ahead: float,
    link: int | None = None,
) -> None:  # fmt: skip
    for cause, name, start, duration in happenings:
        stats = {"_pt": FLOW_TYPE, "_p": link} if link is not None else None
        thread.event(name, at + start + ahead, duration, stats=stats)
        begin = round((at + start) * 1_000_000)
        noted.append(Span(begin, begin + round(duration * 1_000_000), cause))


def _annotate(host: HostBuilder, length: int, ahead: float) -> None:
    marks = host.add_thread("marks/79")
    for step in range(STEPS):
        marks.step(step, 1000 + step * length - 9 + ahead, length - 10)


def _work(core: TpuCore) -> None:
    core.op("matmul", 500)
    core.op("all-reduce", 100)


def input_stall() -> Case:
    truth = {"step": 1000, "compute": 500, "collective exposed": 100, "idle": 400, "idle: input": 349,
             "idle: dispatch": 3.75, "idle: unexplained": 47.25}  # fmt: skip
    happenings = (("input", "data_loader.get_batch", 580, 370),)  # its first 21 us are under device work
    return _loop(
        "input pipeline too slow",
        "The device is done and the next batch is not there; loading under device work costs nothing.",
        1000, _work, happenings, truth,
    )  # fmt: skip


def device_clock_behind() -> Case:
    """Each program starts the moment it is enqueued, so that the offset of the clocks can be found exactly."""
    truth = {"step": 1000, "idle": 400, "idle: input": 349, "idle: dispatch": 1, "idle: unexplained": 50}
    return _loop(
        "device clock behind the host's",
        "Programs seem to start 500 us before they were enqueued: the host's work must be moved, too.",
        1000, _work, (("input", "data_loader.get_batch", 580, 370),), truth,
        enqueue=("dispatch", "DoEnqueueProgram", 0, 5), ahead=500,
    )  # fmt: skip


def checkpoint_stall() -> Case:
    truth = {"step": 1000, "idle": 400, "idle: checkpoint": 87.25}
    happenings = (("checkpoint", "checkpoint.save", 550, 400), ("host_sync", "block_until_ready", 590, 120))
    return _loop(
        "checkpoint every fourth step", "Saving lasts longer than a step's gap and includes a blocking fetch.",
        1000, _work, happenings, truth, every=4,
    )  # fmt: skip


def sync_every_step() -> Case:
    truth = {"step": 800, "idle": 200, "idle: host_sync": 79, "idle: host_python": 60}
    happenings = (
        ("host_sync", "np.asarray(jax.Array)", 400, 280),
        ("host_python", "$train.py:30 log", 650, 90),
    )
    return _loop(
        "the loss is read in every step", "A blocking fetch spans the end of the step, then python runs.",
        800, _work, happenings, truth,
    )  # fmt: skip


def compile_in_a_step() -> Case:
    truth = {"step": 1000, "idle": 400, "idle: compile": 155}
    happenings = (("compile", "PjRtClient::Compile", 610, 310), ("input", "data_loader.get_batch", 600, 60))
    return _loop(
        "a program is compiled again", "Compilation and loading overlap: an instant has one cause.",
        1000, _work, happenings, truth, every=2,
    )  # fmt: skip


def copy_in_flight() -> Case:
    def device(core: TpuCore) -> None:
        core.op("matmul", 300)
        start = core.at
        core.gap(150)
        core.op("mul", 100)
        core.flight("copy-start.26", "async-copy", "copy-start", start - 100, start + 120, "dma")

    truth = {"step": 600, "compute": 400, "dma hidden": 100, "idle": 200, "idle: dma_in_flight": 120,
             "idle: intra_program": 30}  # fmt: skip
    return _loop("idle while a copy is in flight", "No op waits for the copy on the op line.", 600, device, (), truth)


CASES = (input_stall, device_clock_behind, checkpoint_stall, sync_every_step, compile_in_a_step, copy_in_flight)
