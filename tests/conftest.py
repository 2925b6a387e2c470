"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.services import browser as service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A busy machine is no fault of the code: times per example say nothing where others use the cores.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of real traces; tests that need it are skipped where it is not given."""
    folder = os.environ.get("TPUPROF_REAL_TRACES")
    if not folder:
        pytest.skip("TPUPROF_REAL_TRACES is not set")
    return Path(folder)


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """The main module stays what it was: streamlit puts a script in its place, and processes would start by that."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real browser, one for all tests of a worker. Where it is required, tests without it fail, else they skip."""
    lack = service.missing()
    if lack is not None:
        pytest.fail(lack) if os.environ.get(service.REQUIRED) else pytest.skip(lack)
    with service.launched() as browser:
        yield browser


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children started in the test can be interrupted, also where the tests run in the background of a shell.

    There SIGINT and others are ignored, and what is ignored is inherited.
    """
    ignored = {
        number: signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    }
    yield
    for number, action in ignored.items():
        signal.signal(number, action)
