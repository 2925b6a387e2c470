"""Forks of a process that waits for SIGTERM: the child must die of it, the parent must not."""

import subprocess
import sys

import pytest

from tests.capture.support import child_environment

FORKS = """
    import os, signal, sys, threading, time
    from tpuprof.capture.termination import TerminationGuard
    deaths = []
    guard = TerminationGuard(lambda: deaths.append(True))
    guard.install()
    os.register_at_fork(
        before=guard.before_fork, after_in_parent=guard.after_fork_in_parent, after_in_child=guard.after_fork_in_child
    )
    threading.Thread(target=lambda: [guard.wait(0.1) for _ in range(10**6)], daemon=True).start()
    def fork_and_kill():
        for _ in range(200):
            child = os.fork()
            if child == 0:
                if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL: os._exit(2)
                time.sleep(30)
                os._exit(1)
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
            os.write(writer, b"x")
            time.sleep(30)
        os.read(reader, 1)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_child_dies_of_a_signal_that_its_parent_survives(thread, tmp_path):
    call = "fork_and_kill()" if thread == "main" else "t = threading.Thread(target=fork_and_kill); t.start(); t.join()"
    code = "\n".join(line[4:] for line in FORKS.splitlines()) + (
        f"\n{call}\ntime.sleep(1.2)\nassert not deaths\nprint('alive', flush=True)\nos.kill(os.getpid(), 15)\n"
        "time.sleep(30)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=child_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-15, "alive\n", "")


def test_a_handler_below_python_stays(tmp_path):
    code = (
        "import ctypes, signal\n"
        "from tpuprof.capture.termination import TerminationGuard, _current_action\n"
        "guard = TerminationGuard(lambda: None)\n"
        "guard.install()\n"
        "ctypes.CDLL(None).signal(15, 1)\n"  # 1 is SIG_IGN
        "guard.before_fork(); guard.after_fork_in_parent()\n"
        "guard.remove()\n"
        "assert _current_action() == 1\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), cwd=tmp_path, check=True, timeout=60)


@pytest.mark.parametrize(
    "before",
    [
        "signal.signal(15, signal.SIG_IGN)",
        "signal.signal(15, lambda *_: None)",
        "import ctypes; ctypes.CDLL(None).signal(15, 1)",
    ],
)
def test_a_program_with_its_own_handling_is_left_alone(before, tmp_path):
    code = (
        "import signal\n"
        "from tpuprof.capture.termination import TerminationGuard\n"
        f"{before}; theirs = signal.getsignal(15)\n"
        "guard = TerminationGuard(lambda: None)\n"
        "guard.install()\n"
        "assert not guard.installed and signal.getsignal(15) == theirs and signal.set_wakeup_fd(-1) == -1\n"
        "guard.remove()\n"
        "assert signal.getsignal(15) == theirs\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), cwd=tmp_path, check=True, timeout=60)
