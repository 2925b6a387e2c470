"""The page of ``app.py`` in a real browser."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
START_S = 60


@contextmanager
def served() -> Iterator[str]:
    """The address of a running server; it ends with the block."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    paths = [str(ROOT), str(ROOT / "analyzers"), str(ROOT / "dashboards")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    options = {
        "server.port": port, "server.address": "127.0.0.1", "server.headless": "true",
        "server.fileWatcherType": "none", "browser.gatherUsageStats": "false",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(ROOT / "tests" / "timeline" / "app.py")]
        + [text for name, value in options.items() for text in (f"--{name}", str(value))],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/_stcore/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise AssertionError(f"the server did not come up within {START_S} s (exit code {process.poll()})")


@contextmanager
def browser_at(path: Path) -> Iterator[Browser]:
    """A running Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(path), args=["--no-sandbox"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def page_at(browser: Browser, server: str, *, dark: bool = False, ratio: float = 1, **query: str) -> Iterator[Page]:
    """A page with its timeline drawn; that it reports no error is checked at the end."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 1000}, color_scheme="dark" if dark else "light", device_scale_factor=ratio
    )
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: errors.append(f"a dialog opened: {dialog.message}"))
    try:
        page.goto(f"{server}/?{urlencode(query)}")
        page.locator(".timeline[data-redraws]").first.wait_for(timeout=60_000)
        yield page
        assert errors == []
    finally:
        context.close()


@contextmanager
def opened(chromium: Path, **query: str) -> Iterator[Page]:
    """Server, browser and page at once."""
    with served() as server, browser_at(chromium) as browser, page_at(browser, server, **query) as page:
        yield page
