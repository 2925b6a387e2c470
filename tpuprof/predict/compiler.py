"""Compiles a JAX program for a TPU topology in a process of its own.

A process of its own, because libtpu is loaded for good, reads its settings once, ends the process at an unknown flag
and takes gigabytes for a large program; and because no program that uses a TPU may be disturbed.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from tpuprof.errors import CompilerError, UsageError
from tpuprof.predict.installed import INSTALL, Installed, compiler_versions
from tpuprof.predict.refusals import Refused, refused
from tpuprof.predict.topologies import Topology

TIMEOUT_S = 600.0
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from tpuprof.predict.child import main; sys.exit(main())"
)  # fmt: skip
_SETTINGS = {
    "JAX_PLATFORMS": "cpu",  # the topology comes from libtpu all the same, and no device is looked for
    "TPU_SKIP_MDS_QUERY": "1",  # on cloud machines asking the metadata server takes long
    "TPU_LOG_DIR": "disabled",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",  # any valid one; without it libtpu warns
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # a TPU job of this machine may hold libtpu's lock file
}
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Program:
    """A function that lowers a JAX program for given devices.

    Args:
        function: ``FILE.py:NAME`` or ``MODULE:NAME``. It is called with the list of the topology's devices and with
            ``arguments`` by name, and returns a ``jax.stages.Lowered``.
        arguments: what JSON can say.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        where, _, name = self.function.rpartition(":")
        if not where or not name.isidentifier():
            raise UsageError(
                f"{self.function[:200]!r} names no function.", hint="Give FILE.py:FUNCTION or MODULE:FUNCTION."
            )


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program that the compiler took.

    Args:
        memory: bytes per device. ``hbm`` is what the compiler lays out in HBM, arguments and temporaries with the gaps
            between them: this has to fit. Then what jax states: ``arguments``, ``outputs`` (those that share memory
            with arguments included), ``aliased`` (those that do), ``temporaries`` (of all memories), ``code``,
            ``host`` (all that is in the host's memory), ``peak`` (the most that is alive at once, in VMEM too; left
            out if the program uses the host's memory, which it then is). What is not known is left out.
        device_kind: as jax names the chip.
        devices: of the topology.
        seconds: lowering and compiling.
        versions: of what compiled.
    """

    memory: Mapping[str, int]
    device_kind: str
    devices: int
    seconds: float
    versions: Installed


def compile_program(
    program: Program, topology: Topology, *, options: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Compiled | Refused:
    """What the compiler makes of a program, or why it refuses it.

    Args:
        options: of the compiler, such as ``{"xla_tpu_scoped_vmem_limit_kib": "65536"}``.
        timeout_s: after which the compiler is ended.

    Raises:
        MissingDependencyError: jax or libtpu is not installed.
        UsageError: the topology is not possible, or the function cannot be found or fails.
        CompilerError: the compiler broke down or took too long.
    """
    if not 0 < timeout_s < math.inf:
        raise UsageError(f"A time limit of {timeout_s} s is not possible.", hint="Give a number above 0.")
    versions = compiler_versions()
    question = {
        "function": program.function, "arguments": dict(program.arguments), "topology": topology.name,
        "slices": topology.slices, "chips_per_host": topology.chips_per_host, "options": dict(options or {}),
    }  # fmt: skip
    try:
        text = json.dumps(question)
    except (TypeError, ValueError) as error:
        raise UsageError("The arguments of a program must be what JSON can say.", why=f"{error}.") from error
    answer = _ask(text, timeout_s, program, versions)
    match answer["outcome"]:
        case "compiled":
            return Compiled(
                answer["memory"], str(answer["device_kind"]), int(answer["devices"]), float(answer["seconds"]), versions
            )
        case "refused":
            return refused(str(answer["message"]))
        case "topology":
            raise UsageError(
                f"The TPU compiler has no topology {topology.name}.", why=str(answer["message"])[:_TAIL],
                hint="Shapes must be divisible by the chips of a host, such as v5e:4x4 or v5p:2x2x1.",
            )  # fmt: skip
        case _:
            raise UsageError(
                f"The program failed before it was compiled: {answer['message']}", where=program.function,
                hint="It must return jax.jit(...).lower(...), called with the devices it is given.",
            )  # fmt: skip


def _ask(text: str, timeout_s: float, program: Program, versions: Installed) -> dict[str, Any]:
    """The child's answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XLA_FLAGS")}
    # A program that runs on TPUs is set up by these for its own chips, which are not those of the topology.
    environment = {name: value for name, value in environment.items() if not name.startswith("TPU_")} | _SETTINGS
    watched, lifeline = os.pipe()  # the child ends itself when this process no longer holds its end
    with tempfile.TemporaryFile() as errors, open(lifeline, "wb"):
        with open(watched, "rb"):
            child = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), str(watched)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True, pass_fds=(watched,),
            )  # fmt: skip
        try:
            raw, _ = child.communicate(text.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise CompilerError(
                f"The TPU compiler gave no answer within {timeout_s:g} s.", where=program.function,
                hint="Give it more time, or compile fewer layers.",
            ) from error  # fmt: skip
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        try:
            answer: Any = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            errors.seek(0, os.SEEK_END)
            errors.seek(max(0, errors.tell() - _TAIL))
            said = errors.read(_TAIL).decode(errors="replace").strip()
            raise CompilerError(
                f"The TPU compiler ended without an answer (exit code {child.returncode}).", where=program.function,
                why=said or "It said nothing.", hint=_advice(versions),
            )  # fmt: skip
        return cast("dict[str, Any]", answer)


def _advice(versions: Installed) -> str:
    if versions.matched is False:
        return f"jax {versions.jax} wants libtpu {versions.wanted}, and {versions.libtpu} is installed: {INSTALL}"
    return "Unknown flags in LIBTPU_INIT_ARGS and too little memory end it like this."
