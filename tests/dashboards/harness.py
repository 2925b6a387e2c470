"""What tests of the dashboard drive it by: one page without a browser, and a server for a real one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from streamlit.testing.v1 import AppTest

import tpuprof
from tests.compare.models import built, layers
from tpuprof.report import build_report

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_traces"
RUNS = {
    "tpu_loop_async": "2025_11_24_16_00_00", "tpu_two_hosts": "2025_11_24_17_00_00", "cpu_demo": "2026_11_29_17_08_27",
}  # fmt: skip
"""The sample traces, with the names of their runs."""


@cache
def sample(name: str) -> tpuprof.Trace:
    """A sample trace; read once for all tests."""
    return tpuprof.load(SAMPLES, run=RUNS[name])


@cache
def sample_report(name: str) -> dict[str, Any]:
    """The report on a sample trace; made once for all tests, so not to be changed."""
    return build_report(sample(name))


def page_test(slug: str, logdir: Path | str, settings: dict[str, str] | None = None, **params: str) -> AppTest:
    """One page as a person with this query string sees it; it ran once. All sample traces are in one log directory."""
    if Path(logdir).parent == SAMPLES:
        logdir, params = SAMPLES, {"run": RUNS[Path(logdir).name], **params}
    test = AppTest.from_function(_script, args=(slug, {"logdir": str(logdir), **(settings or {})}), default_timeout=60)
    for name, value in params.items():
        test.query_params[name] = value
    return test.run()


def _script(slug: str, settings: dict[str, str]) -> None:
    # Runs by itself, as streamlit takes the source of this function.
    from tpuprof_dashboards.app import show
    from tpuprof_dashboards.settings import Settings

    show(slug, Settings(**settings))


def texts(test: AppTest) -> str:
    """All that the page says in words, for searching."""
    kinds = ("title", "header", "subheader", "markdown", "caption", "info", "success", "warning", "error", "metric")
    elements = [element for kind in kinds for element in getattr(test, kind)]
    return "\n".join(f"{getattr(element, 'label', '')} {element.value}" for element in elements)


def charts(test: AppTest) -> list[str]:
    """The specs of the page's charts with their data, as texts for searching."""
    return [json.dumps(json.loads(element.proto.spec), ensure_ascii=False) for element in test.get("vega_lite_chart")]


def problems(test: AppTest) -> list[str]:
    """Exceptions, and errors that the page showed instead of its content."""
    return [str(e.value) for e in (*test.exception, *test.error)]


@dataclass(frozen=True)
class Dashboard:
    """A running dashboard."""

    port: int

    def url(self, slug: str = "", **params: str) -> str:
        """The address of a page."""
        return f"http://127.0.0.1:{self.port}/{slug}" + (f"?{urlencode(params)}" if params else "")


@contextmanager
def dashboard(logdir: Path | str, *options: str, log: Path | None = None) -> Iterator[Dashboard]:
    """A dashboard on loopback, by the command that people use; ended afterwards."""
    command = "import sys; from tpuprof_dashboards.command import command; command(sys.argv[1:])"
    arguments = ["-c", command, str(logdir), "--no-open", *options, "--port"]
    with served(lambda port: [*arguments, str(port)], log) as port:
        yield Dashboard(port)


@contextmanager
def served(arguments: Callable[[int], list[str]], log: Path | None = None) -> Iterator[int]:
    """The port of a streamlit server that Python runs with the arguments for it; ended afterwards."""
    port = _free_port()
    paths = [str(ROOT / name) for name in ("", "analyzers", "dashboards")]
    with open(log or os.devnull, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments(port)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(20)


def _wait(port: int, process: subprocess.Popen[Any]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"the dashboard ended with {process.returncode}")
        try:
            with urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the dashboard did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def settled(page: Any) -> None:
    """Waits until streamlit drew everything: no script runs, nothing spins."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=30_000)
    page.wait_for_function(
        '() => !document.querySelector(\'[data-testid="stSpinner"], [data-testid="stSkeleton"]\')', timeout=30_000
    )


def pair(logdir: Path, *, slower: float = 2.0, steps: int = 20) -> tuple[str, str]:
    """Writes two runs into a log directory, the second with a slower first op; their names, the base first."""
    ops = layers(2, ps=100_000_000)
    changed = [replace(ops[0], ps=round(ops[0].ps * slower)), *ops[1:]]
    names = ("2026_01_01_00_00_00", "2026_01_02_00_00_00")
    for name, run in zip(names, (ops, changed), strict=True):
        trace = built(run, steps=steps, cores=2)
        trace.session = name
        trace.write(logdir)
    return names
