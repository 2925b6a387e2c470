"""The report for GitHub Actions: annotations as workflow commands, and Markdown for the step summary."""

from __future__ import annotations

from typing import Any

from tpuprof.quality import SEVERITIES
from tpuprof.report import facts
from tpuprof.report.markdown import report_markdown

PER_SEVERITY = 10
"""GitHub keeps ten annotations of each severity per step; what goes beyond is in the summary only."""

_COMMANDS = {"info": "notice", "warning": "warning", "error": "error"}


def report_annotations(report: dict[str, Any]) -> str:
    """One workflow command per quality entry and finding, worst first; nothing in a name can end or forge one."""
    notices = [*facts.finding_notices(report), *facts.quality_notices(report)]
    lines: list[str] = []
    for severity in reversed(SEVERITIES):
        found = [notice for notice in notices if notice.severity == severity]
        for notice in found[:PER_SEVERITY]:
            title = f"tpuprof {notice.id}" if notice.title == notice.id else f"tpuprof {notice.id}: {notice.title}"
            message = f"{notice.message} {notice.suggestion}".strip()
            lines.append(f"::{_COMMANDS[severity]} title={_property(title)}::{_data(message)}\n")
    return "".join(lines)


def report_summary(report: dict[str, Any], top: int) -> str:
    """Markdown for ``$GITHUB_STEP_SUMMARY``."""
    return report_markdown(report, top)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
