"""`tpuprof capture` on programs that know nothing of it, with jax on the CPU."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.recorded import events_of
from tests.capture.support import LAUNCH, child_environment
from tpuprof.capture import read_sidecars

STEPS = """
    import sys, jax, jax.numpy as jnp
    f = jax.jit(lambda x: x @ x)
    x = jnp.ones((32, 32))
    for i in range(int(sys.argv[1])):
        with jax.profiler.StepTraceAnnotation("train", step_num=i + 100):
            f(x).block_until_ready()
    print(sys.argv[1:])
"""
WAIT_FOR_RECORDING = """
    import os, sys, threading, time, jax, jax.numpy as jnp
    from jax._src.profiler import _profile_state
    f = jax.jit(lambda x: x @ x)
    x = f(jnp.ones((32, 32))).block_until_ready()
    def watched():
        return any(thread.name == "tpuprof-capture" for thread in threading.enumerate())
    def wait_until(recording):
        limit = time.time() + 30
        while (_profile_state.profile_session is not None) != recording and watched() and time.time() < limit:
            f(x).block_until_ready()
            time.sleep(0.01)
"""


def sessions(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "log" / "plugins" / "profile").iterdir())


def only_run(tmp_path: Path) -> tuple[dict, list[int]]:
    """The sidecar of the one run, and the numbers of its steps."""
    (session,) = sessions(tmp_path)
    (sidecar,) = read_sidecars(session).values()
    events = events_of(session / sidecar["file"])
    return sidecar, [event.stats["step_num"] for event in events if event.name == "train"]


def message(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode()


def test_steps_marked_with_jax(launch, script, tmp_path):
    done = launch("--steps", "3:6", "--", sys.executable, script(STEPS), "8", "a b", "--flag=ü")
    assert done.returncode == 0
    assert done.stdout.decode() == "['8', 'a b', '--flag=ü']\n"
    sidecar, steps = only_run(tmp_path)
    assert steps == [103, 104, 105]
    assert sidecar["complete"] is True
    assert sidecar["command"][1:] == ["8", "a b", "--flag=ü"]
    session = sessions(tmp_path)[0]
    assert message(done) == f"tpuprof: The run is in {session}. Read it with: tpuprof report {session}\n"


def test_steps_marked_with_tpuprof_in_an_automatic_window(launch, script, tmp_path):
    program = """
        import jax, jax.numpy as jnp, tpuprof.capture
        f = jax.jit(lambda x: x @ x)
        for i in tpuprof.capture.steps(range(15)):
            f(jnp.ones((32, 32))).block_until_ready()
    """
    done = launch("--name", "mine", "--", sys.executable, script(program))
    assert done.returncode == 0
    assert only_run(tmp_path)[1] == [10, 11, 12]
    assert [path.name for path in sessions(tmp_path)] == ["mine"]


def test_a_span_of_time_with_the_program_s_exit_code(launch, script, tmp_path):
    program = WAIT_FOR_RECORDING + "\n    wait_until(True); wait_until(False); sys.exit(3)\n"
    done = launch("--after", "0s", "--for", "0.3s", "--", sys.executable, script(program))
    assert done.returncode == 3
    sidecar, _ = only_run(tmp_path)
    assert sidecar["complete"] is True
    assert 0.3 <= (sidecar["stop_ns"] - sidecar["start_ns"]) / 1e9 < 10


def test_standard_streams_pass_byte_for_byte(launch, script):
    data = bytes(range(256)) * 50
    program = """
        import sys, jax
        jax.devices()
        data = sys.stdin.buffer.read()
        sys.stdout.buffer.write(data)
        sys.stderr.buffer.write(data[::-1])
    """
    done = launch("--after", "60s", "--", sys.executable, script(program), stdin=data)
    assert done.stdout == data
    assert done.stderr.startswith(data[::-1])
    assert done.stderr.removeprefix(data[::-1]).count(b"\n") == 1


def test_a_program_that_ends_before_its_step(launch, script, tmp_path):
    done = launch("--steps", "10:13", "--", sys.executable, script(STEPS), "7")
    assert done.returncode == 0
    assert message(done) == (
        "tpuprof: There is no run: the program ended before step 10: it ran 7 steps. Try --steps 3:7.\n"
    )
    assert sessions(tmp_path) == []


def test_a_program_that_ends_inside_its_window(launch, script, tmp_path):
    done = launch("--steps", "5:13", "--", sys.executable, script(STEPS), "7")
    sidecar, steps = only_run(tmp_path)
    assert steps == [105, 106]
    assert sidecar["complete"] is False
    assert "tpuprof: It is not complete: The program ended inside the window.\n" in message(done)


def test_a_program_that_fails_inside_its_window(launch, script, tmp_path):
    program = STEPS + "\n        if i == 4: raise SystemExit('bad luck')\n"
    program = program.replace("            f(x).block_until_ready()\n    print(sys.argv[1:])\n", "            f(x)\n")
    done = launch("--steps", "3:13", "--", sys.executable, script(program), "9")
    assert done.returncode == 1
    assert "bad luck" in message(done)
    assert only_run(tmp_path)[0]["complete"] is False


def test_a_program_without_jax(launch, script):
    done = launch("--", sys.executable, script("import sys; print('hello'); sys.exit(5)"))
    assert (done.returncode, done.stdout) == (5, b"hello\n")
    assert message(done) == "tpuprof: There is no run: the command never imported jax.\n"


def test_a_program_that_uses_no_device(launch, script):
    done = launch("--", sys.executable, script("import jax"))
    assert message(done) == (
        "tpuprof: There is no run: the command imported jax, but no jax backend came up while it ran.\n"
    )


def test_a_program_shorter_than_the_time_says_what_to_try(launch, script):
    done = launch("--", sys.executable, script("import jax, time; jax.devices(); time.sleep(0.3)"))
    assert "before the window of 3 s that begins after 30 s. It marked no steps. Try --after" in message(done)


def test_commands_that_do_not_load_the_hook(launch):
    for command in (["/bin/echo", "hi"], [sys.executable, "-I", "-c", "print('hi')"]):
        done = launch("--", *command)
        assert (done.returncode, done.stdout) == (0, b"hi\n")
        assert "no Python process of the command loaded the capture hook" in message(done)


def test_a_command_that_does_not_exist(launch):
    done = launch("--", "no such command.py")
    assert done.returncode == 1  # the frame of the command line turns the error into its exit code, 2
    assert "The command 'no such command.py' cannot be started. No such file or directory." in message(done)
    assert "Write the interpreter, too: python train.py" in message(done)


def test_no_command_at_all(launch):
    assert "There is no command to run. Write it after two dashes" in message(launch("--steps", "1:2"))


def test_misspelt_options_are_not_taken_for_the_command(launch):
    done = launch("--stpes", "1:2", "--", "/bin/echo", "hi")
    assert done.returncode == 2
    assert done.stdout == b""


def test_an_unwritable_log_directory_is_said_before_the_start(launch, tmp_path):
    (tmp_path / "file").write_text("")
    done = launch("--logdir", str(tmp_path / "file"), "--", "/bin/echo", "hi")
    assert done.returncode != 0
    assert done.stdout == b""
    assert "The log directory cannot be written." in message(done)


def test_the_user_s_own_sitecustomize_still_runs(launch, script, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = __file__\n")
    program = """
        import sys, sitecustomize
        print(customized, sitecustomize.__file__, [p for p in sys.path if "capture/_site" in p])
    """
    python_path = os.pathsep.join([str(site), child_environment()["PYTHONPATH"]])
    done = launch("--", sys.executable, script(program), env={"PYTHONPATH": python_path})
    own = str(site / "sitecustomize.py")
    assert done.stdout.decode().split() == [own, own, "[]"]


def test_a_failing_sitecustomize_fails_as_it_would_without_us(launch, script, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    python_path = os.pathsep.join([str(tmp_path), child_environment()["PYTHONPATH"]])
    done = launch("--", sys.executable, script("print('still here')"), env={"PYTHONPATH": python_path})
    assert done.stdout == b"still here\n"
    assert "ValueError: theirs" in message(done)


def test_an_interpreter_without_tpuprof_is_lent_ours(launch, script, tmp_path):
    start = f"import sys; sys.path.insert(0, {child_environment()['PYTHONPATH']!r}); {LAUNCH[2]}"
    program = STEPS + "\n    assert not [p for p in sys.path if 'tpuprof' in p or p.endswith('/capture')]\n"
    done = subprocess.run(
        [sys.executable, "-c", start, "--logdir", "log", "--steps", "1:2", "--", sys.executable, script(program), "3"],
        env=child_environment(PYTHONPATH=None),
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, message(done)
    assert only_run(tmp_path)[1] == [101]


def test_only_the_process_with_the_devices_writes(launch, script, tmp_path):
    program = """
    import subprocess, sys
    if sys.argv[1] == "outer":
        helper = subprocess.run([sys.executable, "-c", "import jax; print('helper', jax.__name__)"])
        sys.exit(subprocess.run([sys.executable, __file__, "5"]).returncode)
    """
    done = launch("--steps", "2:4", "--", sys.executable, script(program + STEPS), "outer")
    assert done.returncode == 0
    assert b"helper jax\n" in done.stdout
    assert only_run(tmp_path)[1] == [102, 103]


def test_the_program_s_own_trace_has_precedence(launch, script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    wait_until(True)\n"
        "    with jax.profiler.trace('theirs'): f(x).block_until_ready()\n"
        "    with jax.profiler.trace('theirs'): f(x).block_until_ready()\n"
    )
    done = launch("--after", "0s", "--for", "60s", "--", sys.executable, script(program))
    assert done.returncode == 0, message(done)
    assert list((tmp_path / "theirs").rglob("*.xplane.pb"))
    sidecar, _ = only_run(tmp_path)
    assert sidecar["errors"] == ["The program started a profile of its own."]


def test_a_fork_inside_the_window_neither_writes_nor_disturbs(launch, script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    import signal, warnings\n"
        "    warnings.simplefilter('ignore')\n"
        "    wait_until(True)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(60)\n"
        "        os._exit(1)\n"
        "    os.kill(child, signal.SIGTERM)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with jax.profiler.StepTraceAnnotation('train', step_num=1): pass\n"
        "        os._exit(7)  # jax itself crashes at the ordinary exit of a fork\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    wait_until(False)\n"
    )
    done = launch("--after", "0s", "--for", "0.5s", "--", sys.executable, script(program))
    assert done.returncode == 0, message(done)
    assert done.stdout.split() == [b"-15", b"7"]
    assert only_run(tmp_path)[0]["complete"] is True


def terminate(script_path: str, tmp_path: Path, *window: str, number: int = signal.SIGTERM) -> tuple[int, bytes, str]:
    """Sends a signal to the launcher once the program has printed a line; returns how the launcher ended."""
    command = [*LAUNCH, "--logdir", str(tmp_path / "log"), *window, "--", sys.executable, script_path]
    with subprocess.Popen(
        command, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as launcher:
        line = launcher.stdout.readline()
        launcher.send_signal(number)
        rest, errors = launcher.communicate(timeout=60)
    return launcher.returncode, line + rest, errors.decode()


def test_termination_inside_the_window_keeps_what_there_is(script, tmp_path):
    program = WAIT_FOR_RECORDING + "\n    wait_until(True); print('recording', flush=True); wait_until(False)\n"
    code, _, errors = terminate(script(program), tmp_path, "--after", "0s", "--for", "60s")
    assert code == 128 + signal.SIGTERM
    sidecar, _ = only_run(tmp_path)
    assert sidecar["complete"] is False
    assert sidecar["errors"] == ["The program was terminated inside the window."]
    assert "It is not complete: The program was terminated inside the window." in errors


def test_a_hanging_program_can_be_terminated(script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    wait_until(True); print('recording', flush=True)\n"
        "    jax.jit(lambda y: jax.lax.while_loop(lambda c: c[0, 0] > 0, lambda c: jnp.sqrt(c), y))(x + 1.0)"
        ".block_until_ready()\n"
    )
    code, _, _ = terminate(script(program), tmp_path, "--after", "0s", "--for", "60s")
    assert code == 128 + signal.SIGTERM
    assert only_run(tmp_path)[0]["complete"] is False


def test_termination_before_the_window_is_as_without_us(script, tmp_path):
    program = WAIT_FOR_RECORDING + "\n    print('ready', flush=True); wait_until(True)\n"
    code, _, errors = terminate(script(program), tmp_path, "--after", "60s")
    assert code == 128 + signal.SIGTERM
    assert "There is no run: the program ended after" in errors


def test_a_program_that_handles_termination_keeps_its_handler(script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    import signal\n"
        "    def handler(*_): os.write(1, b'bye\\n'); sys.exit(4)\n"
        "    signal.signal(signal.SIGTERM, handler)\n"
        "    wait_until(True); os.write(1, b'recording\\n'); wait_until(False)\n"
    )
    code, output, _ = terminate(script(program), tmp_path, "--after", "0s", "--for", "60s")
    assert (code, output) == (4, b"recording\nbye\n")
    assert only_run(tmp_path)[0]["errors"] == ["The program ended inside the window."]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGHUP", "SIGINT"])
def test_signals_reach_the_program(script, tmp_path, name):
    program = f"""
        import os, signal, sys, time
        def handler(number, frame): os.write(1, signal.Signals(number).name.encode() + b"\\n"); sys.exit(6)
        signal.signal(signal.{name}, handler)
        os.write(1, b"ready\\n")  # print may still be at it when the signal comes, and cannot be entered twice
        time.sleep(60)
    """
    assert terminate(script(program), tmp_path, number=getattr(signal, name))[:2] == (6, f"ready\n{name}\n".encode())


def test_after_the_window_termination_has_its_default_action_again(script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    import signal\n"
        "    for i in range(3):\n"
        "        with jax.profiler.StepTraceAnnotation('train', step_num=i): f(x).block_until_ready()\n"
        "    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.set_wakeup_fd(-1), flush=True)\n"
        "    time.sleep(60)\n"
    )
    code, output, _ = terminate(script(program), tmp_path, "--steps", "1:2")
    assert (code, output) == (128 + signal.SIGTERM, b"True -1\n")
    assert json.dumps(only_run(tmp_path)[0]["complete"]) == "true"


def test_after_a_span_of_time_a_hanging_program_can_be_terminated(script, tmp_path):
    program = WAIT_FOR_RECORDING + (
        "\n    wait_until(True); wait_until(False); print('over', flush=True)\n"
        "    jax.jit(lambda y: jax.lax.while_loop(lambda c: c[0, 0] > 0, lambda c: jnp.sqrt(c), y))(x + 1.0)"
        ".block_until_ready()\n"
    )
    code, output, _ = terminate(script(program), tmp_path, "--after", "0s", "--for", "0.1s")
    assert (code, output) == (128 + signal.SIGTERM, b"over\n")
    assert only_run(tmp_path)[0]["complete"] is True
