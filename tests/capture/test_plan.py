"""What the options of `tpuprof capture` mean, and that every process hears the same."""

import pytest

from tpuprof.capture.budget import Budget
from tpuprof.capture.options_of_command import CommandOptions, plan_of, profiler_options
from tpuprof.capture.plan import OnRequest, Plan, Span, Spec
from tpuprof.capture.schedule import Schedule, StepWindow
from tpuprof.capture.slowsteps import SlowSteps
from tpuprof.errors import UsageError


@pytest.mark.parametrize(
    ("options", "window", "span", "text"),
    [
        ({"steps": "10:13"}, (9, 10, 13), None, "steps 10:13"),
        ({"steps": "10:13", "warmup": 0}, (10, 10, 13), None, "steps 10:13"),
        ({"steps": "0:1"}, (0, 0, 1), None, "steps 0:1"),
        ({"after": "500ms", "duration": "2s"}, None, Span(0.5, 2.0), "2 s after 0.5 s"),
        ({"after": "0s"}, None, Span(0.0, 3.0), "3 s after 0 s"),
        ({"duration": "1.5"}, None, Span(30.0, 1.5), "1.5 s after 30 s"),
        ({}, (9, 10, 13), Span(30.0, 3.0), "steps 10:13, else 3 s after 30 s"),
        ({"every": 100}, (9, 10, 13), None, "steps 10:13 and every 100 steps from there"),
        ({"on_slow": True}, None, None, "3 steps after a slow one"),
        ({"on_request": True, "active": 5}, None, None, "on request"),
        (
            {"steps": "4:6", "on_slow": True, "on_request": True},
            (3, 4, 6),
            None,
            "steps 4:6 and 3 steps after a slow one and on request",
        ),
    ],
)
def test_plans(options, window, span, text):
    plan = plan_of(CommandOptions(**options))
    assert (plan.schedule and plan.schedule.next_window(0)) == (window and StepWindow(*window))
    assert plan.span == span
    assert str(plan) == text
    spec = Spec(plan, "/log dir", "/status", "name", {"python_tracer_level": 0})
    assert Spec.from_json(spec.to_json()) == spec


def test_numbers_of_the_command_line_reach_the_plan():
    options = {"on_slow": True, "slow_ratio": 2.5, "on_request": True, "signal": "SIGHUP"}
    plan = plan_of(CommandOptions(**options, active=7, max_captures=2, max_events=99))
    assert plan.on_slow == SlowSteps(ratio=2.5, active=7)
    assert plan.on_request == OnRequest("SIGHUP", 7)
    assert (plan.max_captures, plan.budget) == (2, Budget(max_events=99))


@pytest.mark.parametrize("steps", ["10", "10:", ":13", "13:10", "10:10", "a:b", "-1:3", "1:2:3", "1:2\n", ""])
def test_what_is_no_range_of_steps(steps):
    with pytest.raises(UsageError, match=r"is not a range of steps. Write FIRST:STOP, such as 10:13"):
        plan_of(CommandOptions(steps=steps))


@pytest.mark.parametrize("duration", ["0s", "601s", "1h"])
def test_what_is_no_length(duration):
    with pytest.raises(UsageError, match=f"--for {duration} is not above 0 and at most 600 s"):
        plan_of(CommandOptions(duration=duration))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": "1:2", "after": "3s"}, "--steps cannot be combined with --after or --for. Choose one kind"),
        ({"steps": "1:2", "every": 9}, "--steps cannot be combined with --every"),
        ({"duration": "3s", "every": 9}, "--after or --for cannot be combined with --every"),
        ({"after": "soon"}, "'soon' is not a duration"),
        ({"slow_ratio": 2.0}, "--slow-ratio needs --on-slow"),
        ({"signal": "SIGUSR1"}, "--signal needs --on-request"),
        ({"after": "2s", "active": 3}, "--active and --warmup are in steps. --for says how long"),
        ({"steps": "1:2", "active": 3}, "--active cannot be combined with --steps"),
        ({"on_slow": True, "slow_ratio": 1.0}, "ratio=1.0 would call every other step slow"),
        ({"on_slow": True, "slow_ratio": float("nan")}, "ratio=nan is not a number above 0"),
        ({"on_request": True, "signal": "SIGKILL"}, "signal='SIGKILL' cannot ask for a capture. Take SIGUSR1 or"),
        ({"every": 3}, "every=3 is shorter than warmup=1 and active=3 together. Take at least 4"),
        ({"every": 0}, "every=0 is not a whole number of at least 1"),
        ({"active": 0}, "active=0 is not a whole number of at least 1"),
        ({"warmup": -1}, "warmup=-1 is not a whole number of at least 0"),
        ({"max_captures": 0}, "max_captures=0 is not a whole number of at least 1"),
        ({"max_events": 0}, "max_events=0 is not a whole number of at least 1"),
    ],
)
def test_options_that_mean_nothing(options, message):
    with pytest.raises(UsageError, match=message):
        plan_of(CommandOptions(**options))


def test_a_plan_that_captures_nothing_is_refused():
    with pytest.raises(UsageError, match=r"Nothing is to be captured. Give a schedule, on_slow or on_request"):
        Plan()


@pytest.mark.parametrize("for_s", [0.0, -1.0, 601.0, float("inf"), float("nan")])
def test_spans_have_a_length(for_s):
    with pytest.raises(UsageError):
        Span(0.0, for_s)
    with pytest.raises(UsageError):
        OnRequest(for_s=for_s)


def test_a_plan_with_every_part_survives_the_environment():
    plan = Plan(
        schedule=Schedule(at_steps=(5, 50)),
        span=Span(1.0, 2.0),
        on_slow=SlowSteps(deviations=0),
        on_request=OnRequest(None),
        max_captures=3,
        budget=Budget(min_free_disk_bytes=0),
    )
    assert Spec.from_json(Spec(plan, "l", "s").to_json()).plan == plan


def test_a_spec_of_another_version_is_refused():
    with pytest.raises(ValueError, match="another version"):
        Spec.from_json('{"version": 99}')


def test_options_for_the_profiler():
    texts = ["host_tracer_level=0", "enable_hlo_proto=False", "tpu_trace_mode=TRACE_ONLY_HOST", "x=a=b"]
    assert profiler_options(texts) == {
        "host_tracer_level": 0,
        "enable_hlo_proto": False,
        "tpu_trace_mode": "TRACE_ONLY_HOST",
        "x": "a=b",
    }
    for text in ("a", "=3", "a="):
        with pytest.raises(UsageError, match=f"--option '{text}' is not a new NAME=VALUE"):
            profiler_options([text])
    with pytest.raises(UsageError, match="--option 'a=2' is not a new"):
        profiler_options(["a=1", "a=2"])
