"""Which steps a schedule captures, against a walk through all steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.capture.schedule import Schedule, StepWindow
from tpuprof.errors import UsageError

SMALL = st.integers(0, 5)


def walked(schedule: Schedule, count: int) -> list[str]:
    """What happens in each of the first steps, step by step, from the words of the documentation."""
    doing = ["rest"] * count
    if schedule.at_steps:
        for first in schedule.at_steps:
            for step in range(max(first - schedule.warmup, 0), min(first + schedule.active, count)):
                doing[step] = "active" if step >= first else "warmup"
        return doing
    before = ["wait"] * schedule.wait + ["warmup"] * schedule.warmup + ["active"] * schedule.active
    cycle = before + ["rest"] * ((schedule.every or len(before)) - len(before))
    for step in range(schedule.skip_first, count):
        turn, place = divmod(step - schedule.skip_first, len(cycle))
        if not schedule.repeat or turn < schedule.repeat:
            doing[step] = "rest" if cycle[place] == "wait" else cycle[place]
    return doing


def followed(schedule: Schedule, count: int) -> list[str]:
    """The same from the windows, asked for one after the other as a loop does."""
    doing = ["rest"] * count
    step = 0
    while (window := schedule.next_window(step)) is not None and window.begin < count:
        for n in range(window.begin, min(window.stop, count)):
            doing[n] = "active" if n >= window.first else "warmup"
        step = window.stop
    return doing


@given(st.builds(Schedule, skip_first=SMALL, wait=SMALL, warmup=SMALL, active=st.integers(1, 5), repeat=SMALL))
def test_cycles(schedule):
    assert followed(schedule, 100) == walked(schedule, 100)


@given(SMALL, SMALL, st.integers(1, 5), SMALL, st.integers(0, 9))
def test_every(skip_first, warmup, active, repeat, more):
    every = warmup + active + more
    schedule = Schedule(skip_first=skip_first, warmup=warmup, active=active, repeat=repeat, every=every)
    assert followed(schedule, 100) == walked(schedule, 100)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), SMALL, st.integers(1, 4))
def test_numbered_steps(numbers, warmup, active):
    try:
        schedule = Schedule(at_steps=tuple(numbers), warmup=warmup, active=active)
    except UsageError as error:
        assert "overlap" in str(error)  # noqa: PT017
        return
    assert followed(schedule, 100) == walked(schedule, 100)


@given(st.builds(Schedule, skip_first=SMALL, wait=SMALL, warmup=SMALL, repeat=SMALL), st.integers(0, 60))
def test_the_next_window_does_not_lie_behind(schedule, step):
    window = schedule.next_window(step)
    assert window is None or step <= window.begin <= window.first < window.stop


def test_the_default_is_ten_to_twelve_once():
    assert Schedule().next_window(0) == StepWindow(9, 10, 13)
    assert Schedule().next_window(10) is None
    assert str(Schedule()) == "steps 10:13"


def test_in_words():
    assert str(Schedule(at_steps=[500, 10])) == "steps 10:13, 500:503"
    assert str(Schedule(every=1000, repeat=0)) == "steps 10:13 and every 1000 steps from there"
    assert str(Schedule(wait=6, repeat=2)) == "steps 16:19 and every 10 steps from there, 2 times"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"active": 0}, "active=0 is not a whole number of at least 1"),
        ({"warmup": -1}, "warmup=-1 is not a whole number of at least 0"),
        ({"skip_first": 1.5}, "skip_first=1.5 is not a whole number"),
        ({"repeat": True}, "repeat=True is not a whole number"),
        ({"every": 0}, "every=0 is not a whole number of at least 1"),
        ({"every": 3}, "every=3 is shorter than warmup=1 and active=3 together. Take at least 4"),
        ({"every": 9, "wait": 2}, "every and wait contradict each other"),
        ({"at_steps": 5}, r"at_steps=5 is not a list of step numbers. Write at_steps=\[100, 5000\]"),
        ({"at_steps": "12"}, "at_steps='12' is not a list"),
        ({"at_steps": [-1]}, "at_steps=-1 is not a whole number"),
        ({"at_steps": [10, 12]}, "at_steps 10 and 12 overlap with active=3 and warmup=1. Leave at least 4"),
        ({"at_steps": [10], "every": 100}, "at_steps cannot be combined with every"),
        ({"at_steps": [10], "wait": 1, "repeat": 2}, "at_steps cannot be combined with wait and repeat"),
    ],
)
def test_what_is_no_schedule(arguments, message):
    with pytest.raises(UsageError, match=message):
        Schedule(**arguments)


def test_an_unknown_word_is_an_error():
    with pytest.raises(TypeError, match="skip_frist"):
        Schedule(skip_frist=3)
