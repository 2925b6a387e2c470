"""The command ``tpuprof demo``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

_DEVICES_FLAG = "--xla_force_host_platform_device_count"


@click.command("demo")
@click.option("--logdir", help="Log directory that receives the run; by default a new temporary one.")
@click.option("--steps", type=click.IntRange(1, 1000), default=10, show_default=True, help="Captured steps.")
@click.option("--devices", type=click.IntRange(2, 64), default=8, show_default=True, help="Simulated devices.")
@click.option("--report/--no-report", default=True, show_default=True, help="Print the report of the run.")
def command(logdir: str | None, steps: int, devices: int, report: bool) -> None:
    """Train a small sharded Transformer on simulated CPU devices, capture it, and report on it.

    Needs no accelerator, only jax. The program is tpuprof/capture/demo_program.py and meant to be read.
    """
    from tpuprof.capture.session import check_logdir
    from tpuprof.errors import MissingDependencyError, UsageError

    if devices % 2:
        raise UsageError(f"--devices {devices} is odd.", hint="The demo splits its model over two devices.")
    if importlib.util.find_spec("jax") is None:
        raise MissingDependencyError(
            "The demo needs jax, which is not installed.", hint='Install it: pip install "tpuprof[capture]".'
        )
    directory = Path(tempfile.mkdtemp(prefix="tpuprof-demo-")) if logdir is None else check_logdir(logdir)
    session = run_demo(directory, steps=steps, devices=devices)
    click.echo(f"tpuprof: The run is in {session}. Read it with: tpuprof report {session}", err=True)
    if report:
        _print_report(session)


def run_demo(logdir: Path, *, steps: int, devices: int) -> Path:
    """Runs the demo program in a child process and returns its session directory.

    Raises:
        CaptureError: the program failed, or wrote no run.
    """
    from tpuprof.errors import CaptureError

    arguments = ["--logdir", str(logdir), "--steps", str(steps)]
    with tempfile.TemporaryDirectory(prefix="tpuprof-demo-") as place:
        answer = Path(place) / "session"
        done = subprocess.run(
            [sys.executable, "-m", "tpuprof.capture.demo_program", *arguments, "--session-file", str(answer)],
            env=demo_environment(os.environ, devices),
            stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0 or not answer.is_file():
            raise CaptureError(f"The demo program ended with exit code {done.returncode} and left no run.")
        return Path(answer.read_text(encoding="utf-8"))


def demo_environment(environment: Mapping[str, str], devices: int) -> dict[str, str]:
    """The environment of the demo program: CPU devices only, and as many as asked for."""
    flags = [flag for flag in environment.get("XLA_FLAGS", "").split() if not flag.startswith(_DEVICES_FLAG)]
    package = str(Path(__file__).parents[2])
    path = environment.get("PYTHONPATH")
    return {
        **environment,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": " ".join([*flags, f"{_DEVICES_FLAG}={devices}"]),
        # The child must find this very package, also when it was found through the current directory.
        "PYTHONPATH": os.pathsep.join([package, path] if path else [package]),
    }


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _print_report(path: Path) -> None:
    """Loads the run and prints its report on stdout."""
    from tpuprof.cli.output import Output
    from tpuprof.cli.report import show_report
    from tpuprof.cli.source import RunSource

    show_report(RunSource(str(path)), Output("table"))
