"""Step marks: counted always, annotated where jax is, and cheap."""

import subprocess
import sys
import timeit

import jax
import pytest

from tests.capture.support import StepRecorder, child_environment
from tpuprof.capture import step, step_count, steps
from tpuprof.capture.stepmarks import leave_steps, observe_steps


@pytest.fixture
def observer():
    recorder = StepRecorder()
    observe_steps(recorder)
    yield recorder
    leave_steps(recorder)


def test_an_observer_hears_of_each_step_in_order(observer):
    with step(5):
        observer.events.append("body")
    assert observer.events == ["before", "enter", "body", "exit"]


def test_an_exception_passes_and_ends_the_step(observer):
    with pytest.raises(ValueError, match="mine"), step():
        raise ValueError("mine")
    assert observer.events == ["before", "enter", "exit"]


def test_steps_yields_the_items_each_inside_a_step(observer):
    seen = [(item, observer.events.count("enter"), observer.events.count("exit")) for item in steps("abc")]
    assert seen == [("a", 1, 0), ("b", 2, 1), ("c", 3, 2)]
    assert observer.events.count("exit") == 3


def test_leaving_the_loop_early_ends_the_step(observer):
    loop = steps(range(5))
    for _ in loop:
        break
    loop.close()
    assert observer.events == ["before", "enter", "exit"]


def test_marks_are_annotations_with_their_number(monkeypatch):
    made = []

    class Annotation:
        def __init__(self, name, **kwargs):
            made.append((name, kwargs))

        def __enter__(self):
            made.append("enter")

        def __exit__(self, *error):
            made.append("exit")

    monkeypatch.setattr("tpuprof.capture.stepmarks._annotate", Annotation)
    before = step_count()
    with step(7), step():
        pass
    assert made == [
        ("train", {"_r": 1, "step_num": 7}),
        "enter",
        ("train", {"_r": 1, "step_num": before + 1}),
        "enter",
        "exit",
        "exit",
    ]
    assert step_count() == before + 2


def test_without_jax_marks_only_count():
    code = (
        "import sys\nfrom tpuprof.capture import step, step_count\n"
        "for i in range(3):\n    with step(i): pass\n"
        "assert step_count() == 3 and 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), check=True)


def test_a_mark_outside_a_capture_costs_less_than_five_microseconds():
    assert jax.__version__

    def mark():
        with step(3):
            pass

    count = 20_000
    assert min(timeit.repeat(mark, number=count, repeat=5)) / count < 5e-6
