"""`tpuprof capture` around other launchers than python itself, and while the program runs."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.capture.recorded import events_of
from tests.capture.support import LAUNCH, REPOSITORY, child_environment
from tpuprof.capture import read_sidecars
from tpuprof.capture.launcher import _summarise
from tpuprof.capture.options_of_command import CommandOptions, plan_of
from tpuprof.capture.steplog import find_step_logs, read_step_log

STEPS = """
    import os, sys, time, jax, jax.numpy as jnp
    f = jax.jit(lambda x: x @ x)
    x = jnp.ones((32, 32))
    for i in range(8):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            f(x).block_until_ready()
    print(__name__, os.getpid(), sys.argv[1:], flush=True)
"""


def runs(tmp_path: Path) -> list[tuple[dict, list[int]]]:
    """Sidecar and step numbers of every trace of every session."""
    found = []
    for session in sorted((tmp_path / "log" / "plugins" / "profile").iterdir()):
        for name, content in read_sidecars(session).items():
            numbers = [event.stats["step_num"] for event in events_of(session / name) if event.name == "train"]
            found.append((content, numbers))
    return found


def wrapper(tmp_path: Path) -> str:
    """A program that starts one worker and becomes another by fork, as launchers of distributed jobs do."""
    path = tmp_path / "spawn.py"
    path.write_text(
        "import os, runpy, subprocess, sys\n"
        "worker = subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, 'RANK': '0'})\n"
        "forked = os.fork()\n"
        "if forked == 0:\n"
        "    runpy.run_path(sys.argv[1], run_name='__main__')\n"
        "    sys.exit()\n"
        "sys.exit(max(worker.wait(), os.waitpid(forked, 0)[1]))\n"
    )
    return str(path)


@pytest.mark.parametrize("kind", ["module", "uv"])
def test_other_ways_to_start_a_program(launch, script, tmp_path, kind):
    path = script(STEPS, "prog.py")
    if kind == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    python = [sys.executable, "-m", "prog"]
    command = python if kind == "module" else ["uv", "run", "--no-project", "--python", sys.executable, path]
    done = launch("--steps", "3:5", "--option", "python_tracer_level=1", "--", *command, "a b")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split()[0] == "__main__"
    assert done.stdout.decode().rstrip().endswith("['a b']")
    ((content, steps),) = runs(tmp_path)
    assert (content["complete"], steps) == (True, [3, 4])
    assert content["options"]["python_tracer_level"] == 1


def test_two_workers_of_a_wrapper_never_overwrite_each_other_and_both_report(launch, script, tmp_path):
    done = launch("--steps", "3:5", "--", sys.executable, wrapper(tmp_path), script(STEPS))
    assert done.returncode == 0, done.stderr.decode()
    found = runs(tmp_path)
    assert [steps for _, steps in found] == [[3, 4], [3, 4]]
    assert len({content["pid"] for content, _ in found}) == 2
    sessions = len(list((tmp_path / "log" / "plugins" / "profile").iterdir()))
    assert done.stderr.decode().count("The run is in ") == sessions


@pytest.mark.slow
def test_an_unmodified_script_in_a_span_of_time(launch, script, tmp_path):
    program = """
        import sys, time, jax, jax.numpy as jnp
        f = jax.jit(lambda x: jnp.tanh(x @ x))
        x = jnp.ones((256, 256))
        limit = time.time() + 20
        print("begin", flush=True)
        while time.time() < limit:
            x = f(x).block_until_ready()
            if any(True for _ in __import__("pathlib").Path(sys.argv[1]).rglob("tpuprof.json")):
                break
        print("end")
        sys.exit(7)
    """
    begin = time.monotonic()
    done = launch("--after", "2s", "--for", "1s", "--", sys.executable, script(program), str(tmp_path / "log"))
    assert (done.returncode, done.stdout) == (7, b"begin\nend\n")
    assert time.monotonic() - begin > 3
    ((content, _),) = runs(tmp_path)
    assert content["complete"] is True
    assert 1.0 <= (content["stop_ns"] - content["start_ns"]) / 1e9 < 5
    import tpuprof

    (session,) = (tmp_path / "log" / "plugins" / "profile").iterdir()
    trace = tpuprof.load(session)
    assert not trace.ops.empty
    assert not trace.partition.empty


def test_again_and_again(launch, script, tmp_path):
    program = STEPS.replace("range(8)", "range(40)")
    done = launch("--every", "10", "--active", "1", "--max-captures", "3", "--", sys.executable, script(program))
    assert [steps for _, steps in runs(tmp_path)] == [[10], [20], [30]]
    assert done.stderr.decode().count("The run is in ") == 3
    (path,) = find_step_logs(tmp_path / "log")
    assert [step for step, _, _ in read_step_log(path).steps] == list(range(40))


def test_a_slow_step_triggers_exactly_one_capture_and_steps_shows_it(launch, script, tmp_path):
    program = """
        import time, jax, jax.numpy as jnp
        f = jax.jit(lambda x: x @ x)
        x = jnp.ones((32, 32))
        for i in range(60):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                f(x).block_until_ready()
                time.sleep(0.5 if i == 37 else 0.01)
    """
    # A machine that is busy with other things has slow steps of its own; 20 medians it hardly reaches.
    done = launch("--on-slow", "--slow-ratio", "20", "--active", "2", "--", sys.executable, script(program))
    assert done.returncode == 0
    ((content, steps),) = runs(tmp_path)
    assert steps == [38, 39]
    assert content["trigger"].startswith("launcher: slow step 37: ")
    shown = subprocess.run(
        [sys.executable, "-m", "tpuprof", "steps", str(tmp_path / "log"), "--log", "--format", "csv"],
        capture_output=True,
        text=True,
        env=child_environment(),
        cwd=REPOSITORY,
        check=True,
    ).stdout.splitlines()
    assert len(shown) == 61
    assert shown[38].split(",")[1] == "37"
    assert shown[38].split(",")[5] == "slow"
    assert [line.split(",")[1] for line in shown if ",captured," in line] == ["38", "39"]


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*LAUNCH, "--logdir", str(tmp_path / "log"), *arguments],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )


ENDLESS = """
    import os, pathlib, sys, time, jax, jax.numpy as jnp
    f = jax.jit(lambda x: x @ x)
    x = jnp.ones((32, 32))
    limit = time.time() + 30
    for i in range(10**6):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            f(x).block_until_ready()
        time.sleep(0.01)
        if i == 5:
            print(os.getpid(), flush=True)
        if time.time() > limit or any(True for _ in pathlib.Path(sys.argv[1]).rglob("tpuprof.json")):
            break
"""


@pytest.mark.parametrize("way", ["program", "file"])
def test_a_running_program_is_asked_for_a_capture(script, tmp_path, way):
    command = [sys.executable, script(ENDLESS, "prog.py"), str(tmp_path / "log")]
    with start(tmp_path, "--on-request", "--active", "2", "--", *command) as launcher:
        pid = int(launcher.stdout.readline())
        if way == "file":
            (tmp_path / "log" / "capture_request").write_text("steps=4")
        else:
            os.kill(pid, signal.SIGUSR2)
        _, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, errors
    ((content, steps),) = runs(tmp_path)
    assert (content["complete"], len(steps)) == (True, 4 if way == "file" else 2)
    asked = "request file: steps=4" if way == "file" else "signal SIGUSR2"
    assert content["trigger"] == f"launcher: {asked}"


def test_the_launcher_asks_for_its_program_whatever_lies_between(script, tmp_path):
    program = f"{sys.executable} {script(ENDLESS, 'prog.py')} {tmp_path / 'log'}"
    shell = ["sh", "-c", f"{program}; exit $?"]  # which the signal would end, if it were passed on
    with start(tmp_path, "--on-request", "--active", "1", "--", *shell) as launcher:
        launcher.stdout.readline()
        launcher.send_signal(signal.SIGUSR2)
        _, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, errors
    ((content, steps),) = runs(tmp_path)
    assert (content["trigger"], len(steps)) == ("launcher: request file", 1)


def test_a_killed_launcher_does_not_take_the_run_with_it(script, tmp_path):
    with start(tmp_path, "--steps", "30:33", "--", sys.executable, script(ENDLESS), str(tmp_path / "log")) as launcher:
        pid = int(launcher.stdout.readline())
        launcher.kill()
        launcher.communicate(timeout=60)  # the pipes close when the program ends
    assert launcher.returncode == -signal.SIGKILL
    limit = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < limit:
        time.sleep(0.05)
    ((content, steps),) = runs(tmp_path)
    assert (content["complete"], steps) == (True, [30, 31, 32])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"on_request": True, "on_slow": True},
            "ended after 8 steps; no step was slow enough, nobody asked for a capt",
        ),
        ({"on_slow": True}, "ended after 8 steps; no step was slow enough."),
        ({"on_request": True}, "ended after 8 steps; nobody asked for a capture."),
        ({"every": 100}, "ended before step 10: it ran 8 steps. Try --steps 4:8."),
        ({"every": 100, "steps run": 1}, "ended before step 10: it ran 1 step."),
        ({"steps": "1:2", "steps run": 0}, "marked no steps. Mark them with tpuprof.step or"),
    ],
)
def test_nothing_to_capture(options, told):
    options = dict(options)
    status = {"stage": "backend", "steps": options.pop("steps run", 8), "exited": True}
    (message,) = _summarise(0, [status], plan_of(CommandOptions(**options))).messages
    assert f"There is no run: the program {told}" in message


def test_a_recording_that_nobody_could_write():
    status = {"stage": "recording", "steps": 8}
    (message,) = _summarise(137, [status], plan_of(CommandOptions(steps="5:9"))).messages
    assert "There is no run: the program was killed, or left with os._exit, while it was being recorded" in message


def test_wrong_options_stop_the_start(launch):
    done = launch("--option", "python_trace_level=1", "--", "/bin/echo", "hi")
    assert done.stdout == b""
    assert "Did you mean python_tracer_level?" in done.stderr.decode()
