"""The launcher's capture inside one process, driven by hand over a fake profiler."""

import json
import threading
from pathlib import Path

import jax
import pytest

from tests.capture.support import FakeProfiler, StepRecorder
from tpuprof.capture.controller import Controller
from tpuprof.capture.director import Phase
from tpuprof.capture.marks import MarkPatch
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.options_of_command import CommandOptions, plan_of
from tpuprof.capture.plan import Spec
from tpuprof.capture.recorder import Capture
from tpuprof.capture.status import Status, read_statuses
from tpuprof.capture.stepmarks import leave_steps, observe_steps, step


@pytest.fixture
def make(tmp_path, process):
    controllers = []

    def build(steps=None, after=None, duration=None):
        profiler = FakeProfiler(process)
        warmup = 0 if after is duration is None else None
        plan = plan_of(CommandOptions(steps=steps, after=after, duration=duration, warmup=warmup))
        spec = Spec(plan, str(tmp_path / "log"), str(tmp_path))

        def make_capture(trigger, on_preempt):
            return Capture(
                Path(spec.logdir),
                CaptureOptions(),
                trigger=f"launcher: {trigger}",
                profiler=profiler,
                managed=True,
                on_preempt=on_preempt,
                report=lambda error: controller._status.problem(str(error)),
            )

        controller = Controller(spec, Status(spec.status_dir), make_capture=make_capture)
        controller.profiler = profiler
        observe_steps(controller.director)
        controllers.append(controller)
        return controller

    yield build
    for controller in controllers:
        leave_steps(controller.director)
        controller.director.finish()


def run_steps(controller, count):
    """The state of the recording as the body of each step sees it."""
    seen = []
    for _ in range(count):
        with step():
            seen.append(controller.director.phase)
    return seen


def status(tmp_path):
    (content,) = read_statuses(tmp_path)
    return content


def test_exactly_the_steps_of_the_window_are_recorded(make, tmp_path):
    controller = make("2:4")
    seen = run_steps(controller, 6)
    assert [phase is Phase.RECORDING for phase in seen] == [False, False, True, True, False, False]
    assert controller.profiler.calls == ["prepare", "drain", "start", "drain", "stop"]
    session = Path(status(tmp_path)["path"])
    content = json.loads((session / "tpuprof.json").read_text())
    assert content["complete"] is True
    assert content["trigger"] == "launcher: steps 2:4"


def test_the_first_step_can_be_recorded(make):
    assert run_steps(make("0:1"), 2) == [Phase.RECORDING, Phase.OVER]


def test_nested_marks_are_one_step(make):
    controller = make("1:2")
    seen = []
    for _ in range(3):
        with step(), step():
            seen.append(controller.director.phase)
    assert seen == [Phase.WAITING, Phase.RECORDING, Phase.OVER]


def test_marks_of_two_threads_are_each_counted(make):
    controller = make("4:5")
    threads = [threading.Thread(target=run_steps, args=(controller, 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert controller.director.steps == 4
    assert run_steps(controller, 1) == [Phase.RECORDING]


def test_the_end_of_the_program_inside_the_window_keeps_what_there_is(make, tmp_path):
    controller = make("1:9")
    run_steps(controller, 3)
    controller.at_exit()
    reported = status(tmp_path)
    assert reported["reason"] == "The program ended inside the window."
    assert (reported["steps"], reported["exited"]) == (3, True)
    assert json.loads((Path(reported["path"]) / "tpuprof.json").read_text())["complete"] is False
    controller.at_exit()
    assert controller.profiler.calls.count("stop") == 1


def test_an_incomplete_run_is_told_although_a_complete_one_follows(make, tmp_path):
    controller = make("1:9")
    controller._changed("done", path="/a", reason="cut")
    controller._changed("done", path="/b", reason=None)
    assert (status(tmp_path)["paths"], status(tmp_path)["reason"]) == (["/a", "/b"], "cut")


def test_the_end_before_the_window_reports_the_steps(make, tmp_path):
    controller = make("5:6")
    run_steps(controller, 3)
    controller.at_exit()
    reported = status(tmp_path)
    assert (reported["steps"], reported["exited"], "path" in reported) == (3, True, False)
    assert controller.profiler.calls == []


def test_termination_does_not_wait_for_the_devices(make):
    controller = make("0:9")
    run_steps(controller, 1)
    controller.terminated()
    assert controller.profiler.calls == ["prepare", "drain", "start", "stop"]


@pytest.mark.parametrize("call", ["prepare", "drain", "start", "stop"])
@pytest.mark.parametrize("error", [RuntimeError("boom"), ImportError("boom")])
def test_a_failing_profiler_is_said_once_and_the_steps_go_on(make, tmp_path, capfd, call, error):
    controller = make("1:3")
    controller.profiler.failures[call] = error
    run_steps(controller, 5)
    controller.at_exit()
    lines = capfd.readouterr().err.splitlines()
    if call == "drain":
        assert controller.profiler.calls == ["prepare", "drain"]
    assert len(lines) == 1
    assert lines[0].startswith("tpuprof: ")
    assert "boom" in lines[0]
    assert "boom" in status(tmp_path)["error"]
    assert controller.director.phase is Phase.OVER


def test_a_busy_profiler_is_said_and_the_steps_go_on(make, process, capfd):
    process.holder = "somebody"
    controller = make("0:2")
    run_steps(controller, 4)
    assert "tpuprof: The profiler is held. Likely holder: somebody." in capfd.readouterr().err
    assert process.holder == "somebody"


def test_a_window_that_another_capture_occupies_is_given_up(make, new_capture, capfd):
    controller = make("0:2")
    with new_capture() as mine:
        run_steps(controller, 3)
    assert mine.error is None
    assert "already running" in capfd.readouterr().err
    assert controller.director.phase is Phase.OVER


def test_a_capture_of_the_program_ends_ours(make, new_capture, tmp_path):
    controller = make("0:9")
    run_steps(controller, 1)
    with new_capture(tmp_path / "mine") as mine:
        assert controller.director.phase is Phase.OVER
    assert mine.error is None
    assert status(tmp_path)["reason"] == "The program started a profile of its own."


@pytest.mark.parametrize(
    ("options", "steps", "backend_s", "now_s", "expected"),
    [
        ((None, "5s", "1s"), 0, 2.0, 4.9, False),
        ((None, "5s", "1s"), 0, 2.0, 5.0, True),
        ((None, "5s", "1s"), 7, 2.0, 5.0, True),
        ((None, "5s", "1s"), 0, 9.0, 9.0, True),
        ((None, "5s", "1s"), 0, None, 9.0, False),
        (("1:2", None, None), 0, 2.0, 99.0, False),
        ((None, None, None), 0, 2.0, 31.9, False),
        ((None, None, None), 0, 2.0, 32.0, True),
        ((None, None, None), 1, 2.0, 99.0, False),
    ],
)
def test_when_the_time_has_come(make, monkeypatch, options, steps, backend_s, now_s, expected):
    controller = make(*options)
    controller.director.steps = steps
    monkeypatch.setattr("tpuprof.capture.controller.backend_is_up", lambda: backend_s is not None)
    now = [backend_s or 0.0]
    monkeypatch.setattr(Status, "elapsed_s", property(lambda _: now[0]))
    controller._time_has_come()
    now[0] = now_s
    assert controller._time_has_come() is expected


def test_a_span_of_time_is_recorded_by_the_watching_thread(make, monkeypatch, tmp_path):
    monkeypatch.setattr("tpuprof.capture.controller.backend_is_up", lambda: True)
    controller = make(None, "0s", "0.1s")
    watcher = threading.Thread(target=controller.lifeline._watch)
    watcher.start()
    watcher.join(20)
    assert not watcher.is_alive()
    assert controller.profiler.calls == ["prepare", "drain", "start", "drain", "stop"]
    content = json.loads((Path(status(tmp_path)["path"]) / "tpuprof.json").read_text())
    assert content["complete"] is True
    assert content["trigger"] == "launcher: 0.1 s of time"
    assert 0.1 <= (content["stop_ns"] - content["start_ns"]) / 1e9 < 5


def test_jax_marks_are_followed_in_place_and_given_back(monkeypatch):
    cls = jax.profiler.StepTraceAnnotation
    start, stop = jax.profiler.start_trace, jax.profiler.stop_trace
    before = dict(vars(cls))
    counter, given_way, ours = StepRecorder(), [], [True]
    patch = MarkPatch(counter, lambda: given_way.append(True), lambda: ours[0])
    try:
        patch.apply()
        assert jax.profiler.StepTraceAnnotation is cls
        with cls("train", step_num=1):
            counter.events.append("body")
        with pytest.raises(KeyError), cls("eval"):
            raise KeyError
        assert counter.events == ["before", "enter", "body", "exit", "before", "enter", "exit"]
        with step(1):  # ours is counted by itself
            pass
        assert len(counter.events) == 7
        with pytest.raises(TypeError):
            jax.profiler.start_trace()
        with pytest.raises(TypeError), jax.profiler.trace():
            pass
        assert given_way == [True]
        before_us = "No profile started"
        monkeypatch.setattr(jax._src.profiler._profile_state, "profile_session", object())  # ours
        with pytest.raises(RuntimeError, match=before_us):
            jax.profiler.stop_trace()
        assert jax._src.profiler.stop_trace is jax.profiler.stop_trace is not stop
        ours[0] = False
        monkeypatch.setattr(jax._src.profiler._profile_state, "profile_session", None)
        with pytest.raises(RuntimeError, match=before_us):  # by jax itself
            jax.profiler.stop_trace()
    finally:
        patch.restore()
        restored = jax.profiler.start_trace is jax._src.profiler.start_trace is start and (
            jax.profiler.stop_trace is jax._src.profiler.stop_trace is stop
        )
        jax.profiler.start_trace = jax._src.profiler.start_trace = start
        jax.profiler.stop_trace = jax._src.profiler.stop_trace = stop
    assert restored
    assert {name: vars(cls).get(name) for name in before} == before
    with cls("train", step_num=2):
        pass
    assert len(counter.events) == 7


def test_unreadable_reports_are_left_out(tmp_path):
    (tmp_path / "1.json").write_text("{")
    (tmp_path / "2.json").write_text("[]")
    Status(str(tmp_path)).update(stage="jax")
    Status(str(tmp_path / "missing")).update(stage="jax")
    assert [content["stage"] for content in read_statuses(tmp_path)] == ["jax"]
