"""A browser for tests, driven by Playwright. ``python -m tests.services.browser`` says whether there is one."""

from __future__ import annotations

import shutil
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """The path of the browser; null if there is none."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


if __name__ == "__main__":
    sys.exit(0 if find() else 1)
