"""The capture's state machine over a fake profiler: whatever fails, the program goes on and nothing stays locked."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.support import FakeProfiler, child_environment
from tpuprof.capture import CaptureState, capture, read_sidecars
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.recorder import Capture
from tpuprof.errors import (
    CaptureActiveError,
    CaptureError,
    MissingDependencyError,
    ProfilerBusyError,
    UsageError,
)


def sidecar(made: Capture) -> dict:
    return json.loads((made.path / "tpuprof.json").read_text())


def test_the_calls_come_in_the_order_that_the_profiler_needs(new_capture):
    with new_capture() as made:
        made.profiler.calls.append("body")
    assert made.profiler.calls == ["prepare", "drain", "start", "body", "drain", "stop"]
    assert made.state is CaptureState.DONE
    assert made.error is None


def test_the_trace_lies_where_tensorboard_looks(new_capture, tmp_path):
    with new_capture(tmp_path / "log") as made:
        assert made.path is None
    assert made.path.parent == tmp_path / "log" / "plugins" / "profile"
    (trace,) = made.path.glob("*.xplane.pb")
    assert trace.read_bytes() == b"xspace"
    assert {path.name for path in made.path.iterdir()} == {trace.name, "tpuprof.json"}


def test_a_second_start_is_refused_and_the_first_goes_on(new_capture):
    first, second = new_capture(), new_capture()
    first.start()
    second.start()
    assert isinstance(second.error, CaptureActiveError)
    assert "already running. Leave its with block" in str(second.error)
    strict = new_capture(strict=True)
    with pytest.raises(CaptureActiveError, match="already running"):
        strict.start()
    assert (first.state, second.state, strict.state) == (CaptureState.RECORDING, *2 * [CaptureState.FAILED])
    first.stop()
    assert first.path is not None
    assert second.profiler.calls == strict.profiler.calls == []
    with new_capture() as third:
        pass
    assert third.error is None


def test_the_body_of_a_nested_capture_runs_all_the_same(new_capture):
    ran = []
    with new_capture() as outer:
        with new_capture() as inner:
            ran.append(outer.state)
        ran.append(outer.state)
    assert ran == 2 * [CaptureState.RECORDING]
    assert (outer.error, type(inner.error), inner.path) == (None, CaptureActiveError, None)


def test_a_busy_profiler_lets_the_body_run(new_capture, process, caplog):
    process.holder = "somebody else"
    ran = []
    with caplog.at_level(logging.WARNING, "tpuprof"), new_capture() as made:
        ran.append(True)
    assert ran == [True]
    assert isinstance(made.error, ProfilerBusyError)
    assert "Likely holder" in str(made.error)
    assert made.path is None
    assert process.holder == "somebody else"
    assert len(caplog.records) == 1
    process.holder = None
    with new_capture() as after:
        pass
    assert after.error is None


def test_strict_raises_what_is_otherwise_recorded(new_capture, process):
    process.holder = "somebody else"
    with pytest.raises(ProfilerBusyError), new_capture(strict=True):
        pytest.fail("the body must not run")
    process.holder = None
    broken = failing(new_capture, "stop", RuntimeError("lost"))
    with pytest.raises(CaptureError, match=r"The profiler failed. RuntimeError: lost"), broken(strict=True):
        pass


def failing(new_capture, call, error):
    def make(**kwargs):
        made = new_capture(**kwargs)
        made.profiler.failures[call] = error
        return made

    return make


def test_the_exception_of_the_body_wins_and_the_profiler_is_stopped(new_capture, process):
    made = new_capture()
    with pytest.raises(ZeroDivisionError), made:
        1 / 0  # noqa: B018
    assert process.holder is None
    assert made.path is not None
    assert sidecar(made)["complete"] is False
    assert sidecar(made)["errors"] == ["The captured code raised ZeroDivisionError."]
    with new_capture() as after:
        pass
    assert after.error is None


def test_the_exception_of_the_body_wins_over_a_strict_capture(new_capture):
    made = failing(new_capture, "stop", RuntimeError("lost"))(strict=True)
    with pytest.raises(KeyError), made:
        raise KeyError("mine")
    assert isinstance(made.error, CaptureError)


@pytest.mark.parametrize("call", ["prepare", "drain", "start"])
@pytest.mark.parametrize("error", [RuntimeError("boom"), OSError("boom"), CaptureError("boom")])
def test_a_profiler_that_fails_to_start_is_recorded_once(new_capture, caplog, call, error, process):
    made = failing(new_capture, call, error)()
    with made:
        assert made.state is CaptureState.FAILED
    assert isinstance(made.error, CaptureError)
    assert "boom" in str(made.error)
    assert [record.name for record in caplog.records] == ["tpuprof"]
    assert process.holder is None
    with new_capture() as after:
        pass
    assert after.error is None


def test_a_profiler_that_fails_to_stop_leaves_no_run(new_capture, tmp_path):
    with failing(new_capture, "stop", RuntimeError("boom"))() as made:
        pass
    assert made.state is CaptureState.FAILED
    assert made.path is None
    assert [path.name for path in (tmp_path / "log").rglob("*.*")] == ["capture_failures.jsonl"]
    (line,) = (tmp_path / "log" / "capture_failures.jsonl").read_text().splitlines()
    assert "boom" in json.loads(line)["message"]
    with pytest.raises(CaptureError, match="boom"):
        _ = made.trace


def test_failing_devices_do_not_cost_the_trace(new_capture):
    made = new_capture()
    with made:
        made.profiler.failures["drain"] = RuntimeError("device on fire")
    assert made.error is None
    content = sidecar(made)
    assert content["complete"] is False
    assert content["errors"] == ["Waiting for the devices failed: RuntimeError: device on fire"]


def test_devices_that_the_profiler_broke_are_said_and_the_trace_is_kept(new_capture):
    made = failing(new_capture, "check_devices", CaptureError("The devices fail."))()
    with made:
        pass
    assert (made.state, str(made.error)) == (CaptureState.DONE, "The devices fail.")
    assert made.path is not None
    hurried = failing(new_capture, "check_devices", CaptureError("The devices fail."))()
    hurried.start()
    hurried.stop(drain=False)  # nobody knows whether they worked before
    assert hurried.error is None


def test_an_interrupt_during_the_start_passes_and_frees_the_profiler(new_capture):
    made = failing(new_capture, "drain", KeyboardInterrupt())()
    with pytest.raises(KeyboardInterrupt), made:
        pytest.fail("the body must not run")
    with new_capture() as after:
        pass
    assert after.error is None


def test_an_interrupt_while_stopping_passes_and_frees_the_profiler(new_capture, process):
    made = new_capture()
    made.start()
    made.profiler.failures["drain"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        made.stop()
    assert process.holder is None
    with new_capture() as after:
        pass
    assert after.error is None


def test_an_unwritable_directory_fails_before_the_profiler_starts(new_capture, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with new_capture(tmp_path / "file" / "log") as made:
        pass
    assert isinstance(made.error, CaptureError)
    assert str(made.error).startswith(str(tmp_path / "file" / "log"))
    assert "cannot be written" in str(made.error)
    assert "Choose another log directory" in str(made.error)
    assert made.profiler.calls == []
    with new_capture(tmp_path / "good") as after:
        pass
    assert after.error is None


def test_a_directory_that_vanishes_is_recorded_at_the_end(new_capture, tmp_path, process):
    with new_capture() as made:
        root = tmp_path / "log" / "plugins" / "profile"
        root.rmdir()
        root.write_text("in the way")
    assert "The trace cannot be written." in str(made.error)
    assert process.holder is None


def test_stop_without_start_is_a_typed_error_and_stopping_twice_is_none(new_capture):
    made = new_capture()
    with pytest.raises(CaptureError, match="never started"):
        made.stop()
    made.start()
    made.stop()
    calls = list(made.profiler.calls)
    made.stop()
    assert made.profiler.calls == calls


def test_a_capture_is_used_once(new_capture):
    with new_capture() as made:
        pass
    with pytest.raises(CaptureError, match="only once"):
        made.start()


def test_a_capture_that_gives_way_is_ended_first(new_capture):
    first = new_capture(on_preempt=lambda: first.stop(complete=False, reason="gave way"))
    first.start()
    with new_capture() as second:
        assert first.state is CaptureState.DONE
    assert second.error is None
    assert sidecar(first)["errors"] == ["gave way"]
    assert first.path != second.path


def test_two_captures_in_one_second_are_two_runs(new_capture):
    paths = []
    for _ in range(3):
        with new_capture() as made:
            pass
        paths.append(made.path)
    assert len(set(paths)) == 3


def test_processes_of_one_program_share_a_run_and_overwrite_nothing(new_capture, process):
    for index in range(3):
        fake = FakeProfiler(process, data=f"process {index}".encode(), process_count=3, index=index)
        with new_capture(profiler=fake, name="shared") as made:
            pass
        assert made.error is None
    files = {path.name: path.read_bytes() for path in made.path.glob("*.xplane.pb")}
    assert sorted(files.values()) == [b"process 0", b"process 1", b"process 2"]
    sidecars = read_sidecars(made.path)
    assert {name: f"process {content['process_index']}".encode() for name, content in sidecars.items()} == files


def test_the_sidecar_says_how_it_was_captured(new_capture, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--api-key=sesame", "TOKEN=sesame", "--lr=3"])
    monkeypatch.setenv("XLA_FLAGS", "--xla_foo=1")
    with new_capture() as made:
        pass
    content = sidecar(made)
    assert content["schema_version"] == 1
    assert content["complete"] is True
    assert content["trigger"] == "context manager"
    assert content["versions"]["jax"] == "1.2.3"
    assert content["versions"]["libtpu"] is None
    assert content["device_kinds"] == {"Fake v1": 4}
    assert (content["device_count"], content["process_index"], content["process_count"]) == (8, 0, 1)
    assert content["environment"]["XLA_FLAGS"] == "--xla_foo=1"
    assert content["command"] == ["train.py", "--api-key=***", "TOKEN=***", "--lr=3"]
    assert content["options"] == {"host_tracer_level": 2, "python_tracer_level": 0, "enable_hlo_proto": True}
    assert content["errors"] == []
    assert content["start_ns"] < content["stop_ns"]
    assert content["started_at"].endswith("+00:00")
    assert set(content["seconds"]) == {"start", "drain", "stop", "write"}
    assert content["file_bytes"] == 6
    assert (made.path / content["file"]).is_file()


def test_a_sidecar_that_cannot_be_written_leaves_the_trace(new_capture, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tpuprof.capture.recorder.write_sidecar", fail)
    with new_capture() as made:
        pass
    assert made.path is not None
    assert "The sidecar cannot be written" in str(made.error)


def test_zero_reaches_the_profiler_as_zero(process, tmp_path):
    fake = FakeProfiler(process)
    made = capture(tmp_path, python_tracer_level=0, host_tracer_level=0)
    made._profiler = fake
    with made:
        pass
    assert (fake.options.python_tracer_level, fake.options.host_tracer_level) == (0, 0)
    assert capture(tmp_path)._options == CaptureOptions()
    assert CaptureOptions().python_tracer_level == 0


def test_wrong_usage_is_an_error_before_anything_starts(tmp_path):
    with pytest.raises(UsageError, match=r"'python_trace_level' is not a capture option. Did you mean python_trac"):
        capture(tmp_path, python_trace_level=1)
    with pytest.raises(UsageError, match="strict='yes' is not of type bool"):
        capture(tmp_path, strict="yes")
    with pytest.raises(UsageError, match="cannot name a run"):
        capture(tmp_path, name="../elsewhere")
    with pytest.raises(UsageError, match="'gs://bucket/log' is not a local directory"):
        capture("gs://bucket/log")
    assert list(tmp_path.iterdir()) == []


def test_without_a_logdir_the_run_is_kept_in_a_temporary_place(process, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Capture(None, CaptureOptions(), profiler=FakeProfiler(process))
    with made:
        pass
    assert made.path.is_relative_to(tmp_path)
    assert made.path.parents[2].name.startswith("tpuprof-")


def test_the_trace_is_loaded_once_from_the_path(new_capture, monkeypatch):
    loads = []
    monkeypatch.setattr("importlib.import_module", lambda name: type("M", (), {"load": loads.append}))
    with new_capture() as made:
        pass
    made._trace = None
    _ = made.trace
    assert loads == [made.path]


def test_a_trace_is_not_there_before_the_end(new_capture):
    with pytest.raises(CaptureError, match="no trace yet"):
        _ = new_capture().trace


def test_a_child_made_by_fork_is_free_to_capture(tmp_path):
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.capture.support import FakeProfiler, Process\n"
        "from tpuprof.capture.options import CaptureOptions\n"
        "from tpuprof.capture.recorder import Capture\n"
        "new = lambda: Capture(Path(sys.argv[1]), CaptureOptions(), profiler=FakeProfiler(Process()))\n"
        "with new() as outer:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with new() as made: pass\n"
        "        os._exit(0 if made.path else 1)\n"
        "    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "sys.exit(code or (outer.path is None))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=child_environment(), check=True)


def test_without_jax_the_error_names_the_extra(tmp_path):
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "import tpuprof.capture\n"
        "try:\n    with tpuprof.capture(sys.argv[1]): pass\n"
        "except tpuprof.capture.recorder.MissingDependencyError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=child_environment(), check=True
    )
    assert 'pip install "tpuprof[capture]"' in done.stdout
    assert issubclass(MissingDependencyError, ImportError)


def test_importing_the_package_imports_nothing_heavy_and_it_can_be_called(tmp_path: Path):
    code = (
        "import sys, tpuprof.capture, tpuprof.capture.stepmarks, tpuprof.capture.recorder\n"
        "heavy = {'jax', 'numpy', 'pandas', 'google.protobuf', 'click', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert isinstance(tpuprof.capture('.'), tpuprof.capture.Capture)\n"
        "assert tpuprof.capture.step is tpuprof.capture.stepmarks.step\n"
        "assert callable(tpuprof.capture.steps)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), cwd=tmp_path, check=True)
