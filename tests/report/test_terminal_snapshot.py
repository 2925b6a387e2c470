"""The terminal report at width 100, as it stands in ``report_100.txt``.

After a wanted change: ``python -m tests.report.test_terminal_snapshot`` writes it anew; look at the difference.
"""

from __future__ import annotations

from pathlib import Path

from tests.report.fake import fake_trace
from tests.report.test_views import QUALITY
from tpuprof.report import build_report, render_report
from tpuprof.report.screen import Screen

SNAPSHOT = Path(__file__).with_name("report_100.txt")


def drawn() -> str:
    """Without analyzers, as in all tests of views."""
    return render_report(build_report(fake_trace(4, quality=QUALITY), ()), "table", Screen(100))


def test_looks_as_before() -> None:
    assert drawn() == SNAPSHOT.read_text(encoding="utf-8")


if __name__ == "__main__":
    SNAPSHOT.write_text(drawn(), encoding="utf-8")
