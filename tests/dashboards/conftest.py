"""Fixtures of the dashboard's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

from tests.dashboards.harness import SAMPLES, Dashboard, dashboard
from tests.dashboards.odd_runs import write_odd_runs
from tests.services import browser as service

REQUIRED = "TPUPROF_TEST_BROWSER"


@pytest.fixture(scope="session")
def samples() -> Iterator[Dashboard]:
    """A dashboard on the sample traces, one for all tests of a worker."""
    with dashboard(SAMPLES) as running:
        yield running


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with runs that are odd: see ``odd_runs``."""
    return write_odd_runs(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser."""
    path = service.find()
    if path is None:
        if os.environ.get(REQUIRED):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A new tab of a laptop's size; the test fails if its console shows an error or a request leaves this machine."""
    context = chromium.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if _is_wrong(message) else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if _leaves(request.url) else None)
    yield page
    context.close()
    assert not wrong, wrong


def _is_wrong(message: Any) -> bool:
    """An error, other than that streamlit looks for its server below a page's own address first."""
    return message.type == "error" and "/_stcore/" not in message.location["url"]


def _leaves(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
