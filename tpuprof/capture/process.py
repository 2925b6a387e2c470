"""What is known of the process that is captured, apart from jax: machine, command, variables, state of the code.

Git is asked in a thread as soon as it is known that there will be a capture, because a large checkout on a network
drive takes its time; the answer is picked up when the sidecar is written. ``TPUPROF_GIT=0`` leaves it out.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuprof.masking import mask_arguments, mask_text

GIT_VARIABLE = "TPUPROF_GIT"
GIT_TIMEOUT_S = 5.0
_PREFIXES = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "MEGASCALE_", "NCCL_", "TF_GPU_", "SLURM_JOB_ID", "SLURM_STEP_ID")
_PEERS = re.compile(r"HOST|ADDR|_IP")  # names of machines: they say nothing of the program
_MOST_VARIABLES = 200
_LONGEST = 50_000  # characters of the command line, and of one variable
_MOST_ARGUMENTS = 1000


def command_line() -> list[str]:
    """The arguments of this program, secrets masked, bounded."""
    arguments = [str(argument) for argument in getattr(sys, "argv", [])]
    shown: list[str] = []
    room = _LONGEST
    for argument in arguments[:_MOST_ARGUMENTS]:
        if room <= 0:
            break
        shown.append(argument[:room])
        room -= len(argument)
    more = len(arguments) - len(shown)
    return [*mask_arguments(shown), *([f"… {more} more"] if more > 0 else [])]


def variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables that change what jax, XLA and the runtime do, secrets masked, bounded."""
    given = os.environ if environment is None else environment
    names = sorted(name for name in given if name.startswith(_PREFIXES) and not _PEERS.search(name))
    found: dict[str, str] = {}
    room = 4 * _LONGEST
    for name in names[:_MOST_VARIABLES]:
        found[name] = _variable(name, given[name][: min(room, _LONGEST)])
        room -= len(found[name])
    return found


def machine() -> dict[str, Any]:
    """The machine: system, processors, memory in bytes; null where the system does not say."""
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": _memory_bytes(),
    }


class GitLook:
    """The commit of the code that runs; asked in the background, once per process and directory.

    Args:
        directory: where to look; by default the folder of the running script, else the working directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._found: dict[str, Any] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to look, unless the user does not want it or it has begun already."""
        if self._thread is None and os.environ.get(GIT_VARIABLE, "1") not in ("0", "off", "no", "false"):
            self._thread = threading.Thread(target=self._look, name="tpuprof-git", daemon=True)
            self._thread.start()

    def result(self) -> dict[str, Any] | None:
        """``commit`` and ``dirty`` (null if git took too long); None where there is no checkout, or git."""
        thread = self._thread
        if thread is None or os.environ.get(GIT_VARIABLE, "1") in ("0", "off", "no", "false"):
            return None
        thread.join(GIT_TIMEOUT_S)
        return self._found

    def _look(self) -> None:
        directory = self._directory or _code_directory()
        commit = _git(directory, "rev-parse", "--verify", "HEAD")
        if not commit:
            return
        self._found = {"commit": commit.strip()[:64], "dirty": None}
        status = _git(directory, "status", "--porcelain", "--untracked-files=no")
        self._found = {**self._found, "dirty": None if status is None else bool(status.strip())}


git_look = GitLook()


def _variable(name: str, value: str) -> str:
    masked = mask_text(value)
    (whole,) = mask_arguments([f"{name}={masked}"])  # the name itself may say that the value is a secret
    return whole.partition("=")[2]


def _git(directory: Path, *arguments: str) -> str | None:
    command: Sequence[str] = ("git", "--no-optional-locks", "-C", str(directory), *arguments)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None


def _code_directory() -> Path:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        return Path(script).absolute().parent if isinstance(script, str) else Path.cwd()
    except OSError:
        return Path()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
