"""The stand-in trace has no recordings, which analyzers may want to see: reports of it are made without any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.fake import without_analyzers


@pytest.fixture(autouse=True, scope="module")
def _no_analyzers() -> Iterator[None]:
    yield from without_analyzers()
