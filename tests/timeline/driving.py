"""The page of ``app.py`` in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.dashboards import harness
from tests.dashboards.harness import ROOT
from tests.services import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def served() -> Iterator[str]:
    """The address of a running server; it ends with the block."""
    options = {
        "server.address": "127.0.0.1", "server.headless": "true", "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }  # fmt: skip
    run = ["-m", "streamlit", "run", str(ROOT / "tests" / "timeline" / "app.py")]
    run += [text for name, value in options.items() for text in (f"--{name}", value)]
    with harness.served(lambda port: [*run, "--server.port", str(port)]) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def page_at(chromium: Browser, server: str, *, dark: bool = False, ratio: float = 1, **query: str) -> Iterator[Page]:
    """A page with its timeline drawn; that it reports no error is checked at the end."""
    context = chromium.new_context(
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
def opened(**query: str) -> Iterator[Page]:
    """Server, browser and page at once."""
    with served() as server, browser.launched() as chromium, page_at(chromium, server, **query) as page:
        yield page
