"""The report as JUnit XML: one test case per quality entry and finding."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tpuprof.quality import SEVERITIES
from tpuprof.report import facts


def report_junit(report: dict[str, Any], fail_on: str) -> str:
    """JUnit XML. A case fails if its severity is ``error`` or reaches ``fail_on``; others pass and carry their text."""
    threshold = min(SEVERITIES.index("error"), SEVERITIES.index(fail_on) if fail_on in SEVERITIES else len(SEVERITIES))
    suites = [("quality", facts.quality_notices(report)), ("findings", facts.finding_notices(report))]
    body: list[str] = []
    totals = [0, 0]
    for name, notices in suites:
        cases = [_case(report, name, notice, threshold) for notice in notices]
        failures = sum("<failure" in case for case in cases)
        if not cases:
            cases = [f'    <testcase classname="tpuprof.{name}" name={_attr(f"no {name} entries")} time="0"/>']
        totals = [totals[0] + len(cases), totals[1] + failures]
        body.append(
            f'  <testsuite name="tpuprof.{name}" tests="{len(cases)}" failures="{failures}" errors="0" skipped="0">'
        )
        body += [*cases, "  </testsuite>"]
    head = f'<testsuites name={_attr(f"tpuprof {facts.run_name(report)}")} tests="{totals[0]}" failures="{totals[1]}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *body, "</testsuites>", ""])


def _case(report: dict[str, Any], suite: str, notice: facts.Notice, threshold: int) -> str:
    start = f'    <testcase classname="tpuprof.{suite}" name={_attr(f"{notice.id}: {notice.title}")} time="0">'
    text = f"{notice.message} {notice.suggestion}".strip()
    if SEVERITIES.index(notice.severity) >= threshold:
        detail = escape(f"{facts.run_name(report)}: {text}")
        inner = f"<failure type={_attr(notice.severity)} message={_attr(notice.message)}>{detail}</failure>"
    else:
        inner = f"<system-out>{escape(f'{notice.severity}: {text}')}</system-out>"
    return f"{start}\n      {inner}\n    </testcase>"


def _attr(text: str) -> str:
    return quoteattr(text)
