"""A browser for tests, driven by Playwright. ``python -m tests.services.browser`` says whether there is one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIRED = "TPUPROF_TEST_BROWSER"
"""The environment variable that makes a missing browser a failure, as in CI: its tests must not go unseen."""

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """The path of the browser; null if there is none."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def missing() -> str | None:
    """What tests in a browser lack here; null if nothing."""
    if find() is None:
        return "chromium is not installed"
    try:
        import playwright.sync_api  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return "playwright is not installed"
    return None


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser, without a window; it ends with the block.

    Raises:
        RuntimeError: there is none.
    """
    lack = missing()
    if lack is not None:
        raise RuntimeError(lack)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(0 if find() else 1)
