"""Captures with jax's real profiler on the CPU."""

import os

import jax
import jax.numpy as jnp
import pytest
from jax._src.lib import _profiler

from tests.capture.recorded import events_of
from tpuprof.capture import CaptureState, capture, read_sidecars, step
from tpuprof.capture import profiler as profiler_module
from tpuprof.errors import CaptureActiveError, CaptureError, ProfilerBusyError


@pytest.fixture(autouse=True)
def profiler_is_free_afterwards():
    yield
    assert jax._src.profiler._profile_state.profile_session is None
    assert not jax.profiler.TraceAnnotation.is_enabled()


def work():
    return jax.jit(lambda x: x @ x)(jnp.ones((64, 64))).block_until_ready()


def events(session):
    (path,) = session.glob("*.xplane.pb")
    return events_of(path)


def step_numbers(session):
    return [event.stats["step_num"] for event in events(session) if event.name == "train"]


def test_a_capture_holds_the_steps_and_ops_of_its_body_only(tmp_path):
    with step(1):
        work()
    with capture(tmp_path) as made:
        for i in (2, 3):
            with step(i):
                work()
    with step(4):
        work()
    assert made.error is None
    assert step_numbers(made.path) == [2, 3]
    assert any("hlo_op" in event.stats for event in events(made.path))
    assert os.listdir(made.path.parent) == [made.path.name]
    assert not list(made.path.glob("*.trace.json.gz"))
    content = read_sidecars(made.path).popitem()[1]
    assert content["versions"]["jax"] == jax.__version__
    assert content["platform"] == "cpu"
    assert content["device_kinds"] == {"cpu": jax.local_device_count()}


def test_python_calls_are_recorded_only_on_request(tmp_path):
    def calls(**options):
        with capture(tmp_path, **options) as made:
            work()
        return sum(event.name.startswith("$") for event in events(made.path))

    assert calls() == 0
    assert calls(python_tracer_level=0) == 0
    assert calls(python_tracer_level=1) > 0


def test_options_reach_jax(tmp_path, monkeypatch):
    seen = []
    start = jax.profiler.start_trace

    def spy(logdir, profiler_options):
        seen.append(profiler_options)
        return start(logdir, profiler_options=profiler_options)

    monkeypatch.setattr(jax.profiler, "start_trace", spy)
    with capture(tmp_path, host_tracer_level=1, enable_hlo_proto=False, tpu_trace_mode="TRACE_ONLY_XLA") as made:
        pass
    assert made.error is None
    (options,) = seen
    assert options.python_tracer_level == 0
    assert options.host_tracer_level == 1
    assert options.enable_hlo_proto is False
    assert options.advanced_configuration == {"tpu_trace_mode": "TRACE_ONLY_XLA"}


def test_the_first_of_two_captures_goes_on(tmp_path):
    with capture(tmp_path) as first:
        with step(1):
            work()
        with capture(tmp_path) as second, step(2):
            work()
    assert isinstance(second.error, CaptureActiveError)
    assert step_numbers(first.path) == [1, 2]


def test_after_an_exception_a_new_capture_works(tmp_path):
    with pytest.raises(ZeroDivisionError), capture(tmp_path) as broken:
        1 / 0  # noqa: B018
    assert broken.path is not None
    with capture(tmp_path) as made, step(3):
        work()
    assert step_numbers(made.path) == [3]


def test_a_trace_of_jax_itself_is_left_alone(tmp_path):
    jax.profiler.start_trace(str(tmp_path / "theirs"))
    ran = []
    with capture(tmp_path / "ours") as made, step(1):
        ran.append(work())
    jax.profiler.stop_trace()
    assert len(ran) == 1
    assert isinstance(made.error, ProfilerBusyError)
    assert f"jax.profiler.start_trace with the log directory {tmp_path / 'theirs'}" in str(made.error)
    (session,) = (tmp_path / "theirs" / "plugins" / "profile").iterdir()
    assert step_numbers(session) == [1]
    with capture(tmp_path / "ours") as after:
        pass
    assert after.error is None


def test_a_session_below_jax_is_noticed_before_the_start(tmp_path):
    theirs = _profiler.ProfilerSession(_profiler.ProfileOptions())
    with capture(tmp_path) as made:
        assert made.state is CaptureState.FAILED
    assert len(theirs.stop()) > 100
    assert isinstance(made.error, ProfilerBusyError)
    assert "JAX_ENABLE_PGLE" in str(made.error)
    assert "jax.profiler.start_server" in str(made.error)


def test_a_session_that_cannot_be_noticed_is_typed_at_the_end(tmp_path):
    options = _profiler.ProfileOptions()
    options.host_tracer_level = 0
    options.python_tracer_level = 0
    theirs = _profiler.ProfilerSession(options)
    with capture(tmp_path) as made:
        assert made.state is CaptureState.RECORDING
    theirs.stop()
    assert isinstance(made.error, ProfilerBusyError)
    assert made.path is None
    with capture(tmp_path) as after:
        pass
    assert after.error is None


def test_a_session_that_other_code_ended_is_reported(tmp_path):
    with capture(tmp_path / "ours") as made:
        work()
        jax.profiler.stop_trace()
    assert isinstance(made.error, CaptureError)
    assert "ended by other code. jax.profiler.stop_trace was called" in str(made.error)
    with capture(tmp_path) as after:
        pass
    assert after.error is None


def test_a_failing_stop_frees_the_profiler(tmp_path):
    class Broken:
        def stop(self):
            raise RuntimeError("INTERNAL: lost\nmore")

    with capture(tmp_path) as made:
        state = jax._src.profiler._profile_state
        real, state.profile_session = state.profile_session, Broken()
        made._profiler._session = state.profile_session
        real.stop()
    assert str(made.error) == "The jax profiler did not deliver a trace. RuntimeError: INTERNAL: lost."
    with capture(tmp_path) as after:
        pass
    assert after.error is None


def test_an_interrupt_while_the_session_starts_frees_the_profiler(tmp_path, monkeypatch):
    start = jax.profiler.start_trace

    def interrupted(*args, **kwargs):
        start(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(jax.profiler, "start_trace", interrupted)
    with pytest.raises(KeyboardInterrupt), capture(tmp_path):
        pytest.fail("the body must not run")
    monkeypatch.undo()
    with capture(tmp_path) as after:
        pass
    assert after.error is None


def test_a_program_that_forbids_transfers_can_be_captured(tmp_path):
    with jax.transfer_guard("disallow_explicit"), capture(tmp_path) as made:
        pass
    assert made.error is None
    (content,) = read_sidecars(made.path).values()
    assert (content["complete"], content["errors"]) == (True, [])


def test_an_empty_trace_is_an_error_that_names_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler_module.JaxProfiler, "_stop_session", lambda self: (jax.profiler.stop_trace(), b"")[1])
    with capture(tmp_path / "ours") as made:
        pass
    assert "2 GB" in str(made.error)
    assert "Capture fewer steps" in str(made.error)
    assert made.path is None


def test_a_jax_without_the_private_parts_is_used_by_its_public_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(profiler_module, "_private_state", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with capture(tmp_path / "log") as made, step(1):
        work()
    assert made.error is None
    assert step_numbers(made.path) == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    with capture(tmp_path / "log"), capture(tmp_path / "log") as second:
        pass
    assert isinstance(second.error, CaptureActiveError)
    jax.profiler.start_trace(str(tmp_path / "theirs"))
    with capture(tmp_path / "log") as busy:
        pass
    jax.profiler.stop_trace()
    assert isinstance(busy.error, ProfilerBusyError)


def test_device_work_is_finished_before_the_session_ends(tmp_path):
    call = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, y: y @ y * 1e-3, x))
    x = jnp.ones((600, 600))
    call(x).block_until_ready()
    with capture(tmp_path) as made:
        result = call(x)
        assert not result.is_ready()
    assert result.is_ready()
    assert made.error is None


def test_deleted_arrays_do_not_disturb_the_drain(tmp_path):
    x = jnp.ones(8)
    x.delete()
    with capture(tmp_path, strict=True) as made:
        pass
    assert made.path is not None


def test_a_jax_that_is_too_old_is_said(tmp_path, monkeypatch):
    monkeypatch.delattr(jax.profiler, "ProfileOptions")
    with capture(tmp_path) as made:
        pass
    assert str(made.error) == "This jax has no profiler options. Install jax 0.6.2 or newer."


def test_devices_that_fail_after_the_profiler_are_named(tmp_path, monkeypatch):
    def broken(jax):
        raise RuntimeError("INTERNAL: context is poisoned\nmore")

    with capture(tmp_path) as made:
        work()
        made._profiler.drain = lambda: monkeypatch.setattr(profiler_module, "_touch_devices", broken)
    assert made.path is not None
    assert str(made.error).startswith(
        "The devices fail since the profiler was stopped. RuntimeError: INTERNAL: context is poisoned."
    )
