"""Fixtures of the dashboard's tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

from tests.dashboards.harness import SAMPLES, Dashboard, dashboard, pair
from tests.dashboards.odd import write_hostile_ops, write_odd_runs


@pytest.fixture(scope="session", autouse=True)
def no_scan() -> Iterator[None]:
    """Every ``AppTest`` looks through all that is installed for components, which takes longer than most pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", lambda *_, **__: [])
        yield


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard on the sample traces, a pair and a run of hostile names, one for all tests of a worker."""
    logdir = tmp_path_factory.mktemp("samples")
    for folder in SAMPLES.iterdir():
        shutil.copytree(folder, logdir, dirs_exist_ok=True) if folder.is_dir() else None
    pair(logdir)
    write_hostile_ops(logdir)
    with dashboard(logdir) as running:
        yield running


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with runs that are odd: see ``odd``."""
    return write_odd_runs(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="session")
def contexts(chromium: Any) -> Callable[[int, str], Any]:
    """Contexts of the browser by width and theme: shared, as each compiles streamlit's scripts anew."""

    @cache
    def opened(width: int, theme: str) -> Any:
        return chromium.new_context(viewport={"width": width, "height": 768}, color_scheme=theme)

    return opened


@pytest.fixture
def screen(contexts: Callable[[int, str], Any]) -> Iterator[Callable[..., Any]]:
    """Opens tabs of a width and a theme; the test fails if a console complains or a request leaves this machine."""
    wrong: list[str] = []
    pages: list[Any] = []

    def opened(width: int = 1366, theme: str = "light") -> Any:
        page = contexts(width, theme).new_page()
        pages.append(page)
        page.on("console", lambda message: wrong.append(message.text) if _is_wrong(message) else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"a dialog opened: {dialog.message}"))
        page.on("request", lambda request: wrong.append(request.url) if _leaves(request.url) else None)
        return page

    yield opened
    for one in {each for page in pages for each in page.context.pages}:  # tests may open more
        one.close()
    assert not wrong, wrong


@pytest.fixture
def tab(screen: Callable[..., Any]) -> Any:
    """A new tab of a laptop's size; see ``screen``."""
    return screen()


def _is_wrong(message: Any) -> bool:
    """An error, other than that streamlit looks for its server below a page's own address first; or what Vega warns of
    in a chart."""
    vega = message.type == "warning" and message.text.startswith("WARN")
    return vega or (message.type == "error" and "/_stcore/" not in message.location["url"])


def _leaves(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
