"""The window options of the launcher."""

import pytest

from tpuprof.capture.window import Spec, Window, parse_window
from tpuprof.errors import UsageError


@pytest.mark.parametrize(
    ("options", "window", "text"),
    [
        (("10:13", None, None), Window(10, 13, None, None), "steps 10:13"),
        (("0:1", None, None), Window(0, 1, None, None), "steps 0:1"),
        ((None, "500ms", "2s"), Window(None, None, 0.5, 2.0), "2 s after 0.5 s"),
        ((None, "0s", None), Window(None, None, 0.0, 3.0), "3 s after 0 s"),
        ((None, None, "1.5"), Window(None, None, 30.0, 1.5), "1.5 s after 30 s"),
        ((None, None, None), Window(10, 13, 30.0, 3.0), "steps 10:13, else 3 s after 30 s"),
    ],
)
def test_windows(options, window, text):
    assert parse_window(*options) == window
    assert str(window) == text
    spec = Spec(window, "/log dir", "/status", "name")
    assert Spec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("steps", ["10", "10:", ":13", "13:10", "10:10", "a:b", "-1:3", "1:2:3", "1:2\n", ""])
def test_what_is_no_range_of_steps(steps):
    with pytest.raises(UsageError, match=r"is not a range of steps. Write FIRST:STOP, such as 10:13"):
        parse_window(steps, None, None)


@pytest.mark.parametrize("duration", ["0s", "601s", "1h"])
def test_what_is_no_length(duration):
    with pytest.raises(UsageError, match=f"--for {duration} is not above 0 and at most 600 s"):
        parse_window(None, None, duration)


def test_steps_and_times_exclude_each_other():
    with pytest.raises(UsageError, match="--steps cannot be combined"):
        parse_window("1:2", "3s", None)
    with pytest.raises(UsageError, match="'soon' is not a duration"):
        parse_window(None, "soon", None)


def test_a_spec_of_another_version_is_refused():
    with pytest.raises(ValueError, match="another version"):
        Spec.from_json('{"version": 99}')
