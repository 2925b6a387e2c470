"""A profiler that records its calls, and the environment of child processes."""

import os
import sys
from pathlib import Path

from tpuprof.capture.environment import Environment
from tpuprof.capture.options import CaptureOptions
from tpuprof.errors import CaptureError, ProfilerBusyError

REPOSITORY = Path(__file__).parents[2]
LAUNCH = [sys.executable, "-c", "from tpuprof.cli.capture import command; command(prog_name='tpuprof')"]


class StepRecorder:
    """An observer of step marks that remembers what it heard."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def before_step(self) -> None:
        self.events.append("before")

    def enter_step(self) -> None:
        self.events.append("enter")

    def exit_step(self) -> None:
        self.events.append("exit")


class Process:
    """The one profiler session that a process has; several fake profilers share it, as the real ones do."""

    def __init__(self) -> None:
        self.holder: object = None


class FakeProfiler:
    """A profiler that remembers what was asked of it, and fails where it is told to."""

    def __init__(self, process: Process, *, data: bytes = b"xspace", process_count: int = 1, index: int = 0) -> None:
        self.process = process
        self.data = data
        self.calls: list[str] = []
        self.options: CaptureOptions | None = None
        self.failures: dict[str, BaseException] = {}
        self.environment = Environment(
            versions={"jax": "1.2.3", "jaxlib": "1.2.3", "libtpu": None},
            platform="fake",
            device_kinds={"Fake v1": 4},
            device_count=8,
            process_index=index,
            process_count=process_count,
        )

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures[name]

    def prepare(self) -> Environment:
        self._called("prepare")
        return self.environment

    def drain(self) -> None:
        self._called("drain")

    def start(self, options: CaptureOptions, logdir: Path) -> None:
        self.options = options
        if self.process.holder is not None:
            self.calls.append("start")
            raise ProfilerBusyError("The profiler is held.", why="Likely holder: somebody.")
        self._called("start")
        self.process.holder = self

    def check_devices(self) -> None:
        if "check_devices" in self.failures:
            raise self.failures["check_devices"]

    def stop(self) -> bytes:
        assert self.process.holder is self
        self.process.holder = None
        self._called("stop")
        if not self.data:
            raise CaptureError("Empty.")
        return self.data


def child_environment(**changes: str | None) -> dict[str, str]:
    changed = {"PYTHONPATH": str(REPOSITORY), "JAX_PLATFORMS": "cpu", **changes}
    return {
        name: value
        for name, value in {**os.environ, **changed}.items()
        if value is not None and not name.startswith("TPUPROF_CAPTURE")
    }
