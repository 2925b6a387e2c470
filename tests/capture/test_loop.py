"""`Profiler` around loops, over a fake profiler."""

import asyncio
import json
import logging
import signal
import sys
import threading
import time

import jax
import pytest

from tests.capture.support import FakeProfiler
from tests.capture.test_budget import space
from tpuprof.capture import Budget, CaptureState, OnRequest, Profiler, Schedule, SlowSteps, read_sidecars, step, steps
from tpuprof.capture.requests import ask_by_file
from tpuprof.capture.steplog import read_step_log
from tpuprof.errors import CaptureError, UsageError


@pytest.fixture
def fakes(monkeypatch, process):
    """The fake profilers in the order of the captures that made them; the data of new ones is that of `data`."""
    made = []

    class Fakes(list):
        data = space([[30]])
        failures: dict = {}  # noqa: RUF012

    made = Fakes()

    def make():
        fake = FakeProfiler(process, data=made.data)
        fake.failures = dict(made.failures)
        made.append(fake)
        return fake

    monkeypatch.setattr("tpuprof.capture.recorder.JaxProfiler", make)
    return made


def loop(profiler, count, body=lambda n: None):
    """Runs a loop of marked steps; for every step, whether a capture recorded it."""
    seen = []
    with profiler:
        for n in range(count):
            profiler.step()
            seen.append(any(one.state is CaptureState.RECORDING for one in profiler.captures))
            body(n)
    return [n for n, recorded in enumerate(seen) if recorded]


def sidecar(made):
    (content,) = read_sidecars(made.path).values()
    return content


def test_the_schedule_s_steps_are_captured_and_its_warm_up_is_thrown_away(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=4, warmup=2, active=3))
    assert loop(profiler, 12) == [6, 7, 8]
    assert [fake.calls for fake in fakes] == 2 * [["prepare", "drain", "start", "drain", "stop"]]
    (made,) = profiler.captures
    content = sidecar(made)
    assert content["complete"] is True
    assert content["trigger"] == "steps 6:9"
    assert content["plan"]["schedule"] == {"warmup": 2, "active": 3, "skip_first": 4, "repeat": 1, "wait": 0}
    assert (content["first_step"], content["stop_step"], content["stop_step_wanted"]) == (6, 9, 9)
    assert content["estimate"]["step_events"] == 15
    assert content["step_time"]["before_steps"] == 4
    assert content["step_time"]["during_steps"] == 3
    assert content["budget"]["max_events"] == 1_000_000
    assert len(list((tmp_path / "plugins" / "profile").iterdir())) == 1


def test_threads_that_run_ahead_during_the_warm_up_do_not_cost_the_window(fakes, tmp_path):
    together = threading.Barrier(6)

    def work():
        for _ in range(3):
            together.wait(20)
            with step():
                together.wait(20)  # six steps begin before the first of them ends

    workers = [threading.Thread(target=work) for _ in range(6)]
    with Profiler(tmp_path, Schedule(skip_first=2, warmup=1, active=2)) as profiler:
        for _ in range(2):
            with step():
                pass
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    (made,) = profiler.captures
    assert (made.state, made.error, made.ended_early) == (CaptureState.DONE, None, None)
    assert [fake.calls for fake in fakes] == 2 * [["prepare", "drain", "start", "drain", "stop"]]
    content = sidecar(made)
    assert (content["first_step"], content["stop_step"], content["stop_step_wanted"]) == (8, 10, 10)
    assert content["trigger"] == "steps 3:5"  # as planned: the name by which the processes of a program agree


def test_step_times_of_many_threads_are_compared_without_harm(fakes, tmp_path):
    interval = sys.getswitchinterval()

    def work():
        for _ in range(2000):
            with step():
                pass

    workers = [threading.Thread(target=work) for _ in range(6)]
    with Profiler(tmp_path, on_slow=SlowSteps(ratio=1e9)) as profiler:
        try:
            sys.setswitchinterval(1e-6)
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            sys.setswitchinterval(interval)
    log = read_step_log(profiler.log.path)
    assert [event for event in log.events if event["event"] == "given_up"] == []
    assert len(log.steps) == 6 * 2000


@pytest.mark.parametrize(
    ("schedule", "captured"),
    [
        (Schedule(skip_first=0, warmup=0, active=2), [0, 1]),
        (Schedule(skip_first=1, wait=2, warmup=1, active=1, repeat=2), [4, 8]),
        (Schedule(skip_first=1, warmup=0, active=2, every=5, repeat=0), [1, 2, 6, 7, 11, 12, 16, 17]),
        (Schedule(at_steps=[3, 10], active=2), [3, 4, 10, 11]),
        (Schedule(skip_first=50), []),
    ],
)
def test_other_schedules(fakes, tmp_path, schedule, captured):
    assert loop(Profiler(tmp_path, schedule), 18) == captured


def test_all_ways_to_mark_steps_are_followed(fakes, tmp_path):
    def run(name, body):
        with Profiler(tmp_path / name, Schedule(skip_first=2, warmup=0, active=2)) as profiler:
            body(profiler)
        return sidecar(profiler.captures[0])["step_time"]["during_steps"], len(read_step_log(profiler.log.path).steps)

    def by_step(_):
        for n in range(6):
            with step(n):
                pass

    def by_jax(_):
        for n in range(6):
            with jax.profiler.StepTraceAnnotation("train", step_num=n):
                pass

    def entered(profiler):
        for _ in range(6):
            with profiler.step():
                pass

    def by_profiler(profiler):
        assert list(profiler.steps("abcdef")) == list("abcdef")

    def by_steps(_):
        for _ in steps(range(6)):
            pass

    for body in (by_step, by_jax, entered, by_profiler, by_steps):
        assert run(body.__name__, body) == (2, 6), body


def test_steps_with_a_log_directory_captures(fakes, tmp_path):
    schedule = Schedule(skip_first=1, warmup=0, active=1)
    assert list(steps("abc", logdir=tmp_path, schedule=schedule)) == ["a", "b", "c"]
    assert len(fakes) == 1
    with pytest.raises(UsageError, match="schedule= needs a log directory"):
        steps("abc", schedule=schedule)


def test_a_decorated_function_is_a_step_in_every_call(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=0, active=2))

    @profiler
    def train_step(x):
        """Doc."""
        return 2 * x

    assert [train_step(n) for n in range(5)] == [0, 2, 4, 6, 8]
    assert (train_step.__name__, train_step.__doc__) == ("train_step", "Doc.")
    profiler.stop()
    assert sidecar(profiler.captures[0])["step_time"]["during_steps"] == 2
    with pytest.raises(UsageError, match="is not a function"):
        profiler(Profiler)
    with pytest.raises(UsageError, match="is a generator: calling it runs nothing"):
        profiler(loop_of_three)


def loop_of_three():
    yield from range(3)


def test_calls_of_a_decorated_function_overlap_in_threads(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=10**6))
    together = threading.Barrier(4)

    @profiler
    def train_step():
        together.wait(20)

    workers = [threading.Thread(target=lambda: [train_step() for _ in range(3)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    profiler.stop()
    assert sorted(number for number, _, _ in read_step_log(profiler.log.path).steps) == list(range(12))


def test_a_decorated_coroutine_is_a_step_until_it_ends(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=10**6))

    @profiler
    async def train_step():
        await asyncio.sleep(0.02)
        return 5

    assert asyncio.run(train_step()) == 5
    profiler.stop()
    ((_, _, duration_ns),) = read_step_log(profiler.log.path).steps
    assert duration_ns >= 20_000_000


def test_the_exception_of_the_loop_passes_and_the_run_is_marked(fakes, tmp_path, process):
    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=0, active=9))
    with pytest.raises(ZeroDivisionError):
        loop(profiler, 5, lambda n: 1 / (3 - n))
    content = sidecar(profiler.captures[0])
    assert (content["complete"], content["errors"]) == (False, ["The captured code raised ZeroDivisionError."])
    assert process.holder is None


def test_a_loop_that_ends_inside_its_window(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=3, warmup=0))
    assert loop(profiler, 5) == [3, 4]
    assert sidecar(profiler.captures[0])["errors"] == ["The loop ended inside the window."]


def test_a_loop_that_ends_inside_its_warm_up_keeps_that(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=3, warmup=9))
    loop(profiler, 5)
    assert sidecar(profiler.captures[0])["complete"] is False


# The budget


def test_a_window_is_shortened_to_the_budget(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=1, active=9), budget=Budget(max_events=100))
    assert loop(profiler, 15) == [2, 3, 4]
    content = sidecar(profiler.captures[0])
    assert (content["stop_step"], content["stop_step_wanted"]) == (5, 11)


def test_a_step_above_the_budget_is_not_captured(fakes, tmp_path, caplog):
    profiler = Profiler(tmp_path, Schedule(skip_first=1, active=9), budget=Budget(max_events=10))
    assert loop(profiler, 15) == []
    (record,) = caplog.records
    assert "One step has about 30 events" in record.message
    assert "Raise max_events and max_bytes" in record.message
    (line,) = (tmp_path / "capture_failures.jsonl").read_text().splitlines()
    assert "One step has about 30 events" in json.loads(line)["message"]
    with pytest.raises(CaptureError, match=r"Nothing was captured in 15 steps. The plan was: steps 2:11"):
        _ = profiler.trace


def test_the_number_and_the_size_of_all_captures_are_bounded(fakes, tmp_path):
    schedule = Schedule(skip_first=0, warmup=0, active=1, every=2, repeat=0)
    assert len(loop(Profiler(tmp_path / "a", schedule, max_captures=4), 30)) == 4
    total = 3 * len(fakes.data) - 1
    assert len(loop(Profiler(tmp_path / "b", schedule, budget=Budget(max_total_bytes=total)), 30)) == 3


def test_memory_and_time_end_a_recording(fakes, tmp_path, monkeypatch):
    grown = iter([0] + 1000 * [5000])
    monkeypatch.setattr("tpuprof.capture.recorder.resident_bytes", lambda: next(grown))
    monkeypatch.setattr("tpuprof.capture.loop.LOOK_S", 0.01)

    def wait(n):
        limit = time.monotonic() + 10
        while n == 2 and profiler.captures[0].state is CaptureState.RECORDING and time.monotonic() < limit:
            time.sleep(0.005)

    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=0, active=9), budget=Budget(max_memory_bytes=4000))
    assert loop(profiler, 6, wait) == [1, 2]
    content = sidecar(profiler.captures[0])
    assert content["complete"] is False
    assert "the process had grown by" in content["errors"][0]


# Triggers


def test_a_slow_step_is_followed_by_exactly_one_capture(fakes, tmp_path, monkeypatch):
    now = [0]
    monkeypatch.setattr("tpuprof.capture.director.time.perf_counter_ns", lambda: now[0])

    def work(n):
        now[0] += 400_000_000 if n == 37 else 100_000_000 + n % 3 * 1_000_000

    profiler = Profiler(tmp_path, on_slow=SlowSteps(active=2))
    assert loop(profiler, 60, work) == [38, 39]
    (made,) = profiler.captures
    assert sidecar(made)["trigger"] == "slow step 37: 3.96 medians"
    (told,) = [event for event in read_step_log(profiler.log.path).events if event["event"] == "slow_step"]
    assert (told["step"], told["duration_ns"]) == (37, 400_000_000)


def test_after_a_capture_slow_steps_are_left_alone_for_a_while(fakes, tmp_path, monkeypatch):
    now = [0]
    monkeypatch.setattr("tpuprof.capture.director.time.perf_counter_ns", lambda: now[0])

    def work(n):
        now[0] += 500 if n in (30, 40, 70) else 100

    profiler = Profiler(tmp_path, on_slow=SlowSteps(active=2, cooldown=20))
    assert loop(profiler, 90, work) == [31, 32, 71, 72]


def test_a_capture_on_request_of_the_program(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=100))
    assert loop(profiler, 12, lambda n: n == 5 and profiler.capture_now(2)) == [6, 7]
    assert sidecar(profiler.captures[0])["trigger"] == "capture_now"
    with pytest.raises(UsageError, match="active=0"):
        profiler.capture_now(0)


def test_a_request_across_a_window_costs_that_window_only(fakes, tmp_path):
    profiler = Profiler(tmp_path, Schedule(skip_first=5, warmup=0, active=2, every=10, repeat=0))
    assert loop(profiler, 20, lambda n: n == 3 and profiler.capture_now(3)) == [4, 5, 6, 15, 16]


def test_a_capture_by_signal(fakes, tmp_path):
    before = signal.getsignal(signal.SIGUSR2)
    profiler = Profiler(tmp_path, on_request=OnRequest(active=2))
    try:
        recorded = loop(profiler, 10, lambda n: n == 4 and signal.raise_signal(signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert recorded == [5, 6]
    assert sidecar(profiler.captures[0])["trigger"] == "signal SIGUSR2"


def test_a_capture_by_file(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr("tpuprof.capture.loop.LOOK_S", 0.01)

    def ask(n):
        if n == 4:
            ask_by_file(tmp_path)
            limit = time.monotonic() + 10
            while profiler._director.asked is None and time.monotonic() < limit:
                time.sleep(0.005)

    profiler = Profiler(tmp_path, on_request=OnRequest(None, active=2))
    assert loop(profiler, 10, ask) == [5, 6]


def test_a_span_is_recorded_where_no_step_begins(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr("tpuprof.capture.loop.LOOK_S", 0.01)
    with Profiler(tmp_path, on_request=OnRequest(None, for_s=0.05)) as profiler:
        ask_by_file(tmp_path)
        limit = time.monotonic() + 10
        while not any(one.path for one in profiler.captures) and time.monotonic() < limit:
            time.sleep(0.005)
    content = sidecar(profiler.captures[0])
    assert (content["complete"], content["first_step"]) == (True, None)
    assert content["stop_ns"] - content["start_ns"] >= 50_000_000


# Failures


@pytest.mark.parametrize("call", ["prepare", "drain", "start", "stop"])
@pytest.mark.parametrize("warmup", [0, 1])
def test_a_failing_profiler_does_not_reach_the_loop(fakes, tmp_path, caplog, call, warmup):
    fakes.failures[call] = RuntimeError("boom")
    ran = []
    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=warmup, active=2))
    loop(profiler, 8, ran.append)
    assert ran == list(range(8))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "boom" in record.message
    events = read_step_log(profiler.log.path).events
    assert "boom" in events[-1]["error"]
    with pytest.raises(CaptureError, match="boom"):
        _ = profiler.trace


def test_a_busy_profiler_is_tried_again_in_the_next_cycle(fakes, tmp_path, process, caplog):
    process.holder = "somebody"

    def free(n):
        if n == 4:
            process.holder = None

    profiler = Profiler(tmp_path, Schedule(skip_first=1, wait=0, warmup=0, active=2, every=6, repeat=2))
    assert loop(profiler, 15, free) == [7, 8]
    assert len(caplog.records) == 1
    content = sidecar(profiler.captures[1])
    assert content["earlier_failures"][-1].startswith("The profiler is held.")


def test_a_fault_of_ours_ends_the_captures_and_not_the_loop(fakes, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("tpuprof.capture.director.estimate", lambda *_: 1 / 0)
    profiler = Profiler(tmp_path, Schedule(skip_first=1))
    assert loop(profiler, 8) == []
    assert "ZeroDivisionError" in caplog.records[0].message


def test_wrong_use_is_said_before_the_loop(tmp_path):
    for arguments, message in [
        ({"schedule": {"active": 3}}, "is not of type Schedule. Write schedule=tpuprof.Schedule"),
        ({"on_slow": 1.5}, "on_slow=1.5 is not of type SlowSteps"),
        ({"on_request": "SIGUSR1"}, "on_request='SIGUSR1' is not of type OnRequest"),
        ({"budget": 3}, "budget=3 is not of type Budget"),
        ({"max_captures": 0}, "max_captures=0 is not a whole number"),
        ({"python_trace_level": 1}, "'python_trace_level' is not a capture option"),
        ({"name": "../x"}, "cannot name a run"),
    ]:
        with pytest.raises(UsageError, match=message):
            Profiler(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_profiler_is_used_once_and_stopping_twice_is_nothing(fakes, tmp_path):
    profiler = Profiler(tmp_path)
    profiler.start()
    profiler.stop()
    profiler.stop()
    with pytest.raises(CaptureError, match="A Profiler can be started only once"):
        profiler.start()
    with profiler.step():  # a loop that goes on is not disturbed
        pass
    assert fakes == []


def test_marks_of_jax_are_given_back(fakes, tmp_path):
    before = dict(vars(jax.profiler.StepTraceAnnotation))
    start = jax.profiler.start_trace
    with Profiler(tmp_path):
        assert dict(vars(jax.profiler.StepTraceAnnotation)) != before
        assert jax.profiler.start_trace is not start
    assert {name: vars(jax.profiler.StepTraceAnnotation).get(name) for name in before} == before
    assert jax.profiler.start_trace is start
    assert jax._src.profiler.start_trace is start


def test_breaking_out_of_steps_ends_the_profiler(fakes, tmp_path):
    for n in steps(range(10), logdir=tmp_path, schedule=Schedule(skip_first=1, warmup=0, active=9)):
        if n == 4:
            break
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    (content,) = read_sidecars(session).values()
    assert content["errors"] == ["The loop ended inside the window."]


def test_another_capture_costs_one_window_and_not_the_next(fakes, tmp_path, new_capture, caplog):
    other = new_capture(tmp_path / "other")
    actions = {1: other.start, 5: other.stop}
    profiler = Profiler(tmp_path, Schedule(skip_first=3, warmup=0, active=1, every=6, repeat=2))
    assert loop(profiler, 14, lambda n: actions.get(n, int)()) == [9]
    assert "already running" in caplog.records[0].message
    assert other.error is None


def test_an_estimate_that_the_disk_has_no_room_for_starts_nothing(fakes, tmp_path, monkeypatch):
    room = {}
    monkeypatch.setattr("tpuprof.capture.recorder.check_disk", lambda _, __, size=0: room.setdefault(len(room), size))
    profiler = Profiler(tmp_path, Schedule(skip_first=1, warmup=1, active=4))
    loop(profiler, 8)
    one = len(fakes.data)
    assert room[0] == 0
    assert one < room[1] < 5 * one
