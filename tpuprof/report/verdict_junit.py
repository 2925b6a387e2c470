"""A verdict and budgets as JUnit XML: one test case each. What cannot be told is an error, never a pass."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tpuprof.report.plain import rows_of
from tpuprof.text import clean


def verdict_junit(document: dict[str, Any]) -> str:
    """JUnit XML of the document of ``diff`` or ``check``."""
    name = clean(document["run"]["name"] or "(unnamed run)")
    cases: list[str] = []
    if document["verdict"] is not None:
        outcome = {"regressed": "failure", "cannot_tell": "error"}.get(document["verdict"], "")
        causes = " ".join(cause["message"] for cause in document["causes"])
        cases.append(_case(name, "step time", outcome, document["reason"], f"{document['reason']}. {causes}".strip()))
    for budget in rows_of(document.get("budgets")):
        outcome = {"fail": "failure", "unknown": "error"}.get(budget["status"], "")
        cases.append(_case(name, f"budget {budget['name']}", outcome, budget["message"], budget["message"]))
    failures, errors = (sum(f"<{tag} " in case for case in cases) for tag in ("failure", "error"))
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites name={quoteattr(f'tpuprof {name}')} {counts}>",
            f'  <testsuite name="tpuprof.{document["command"]}" {counts} skipped="0">',
            *cases,
            "  </testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _case(run: str, name: str, outcome: str, message: str, detail: str) -> str:
    start = f'    <testcase classname="tpuprof" name={quoteattr(clean(name))} time="0">'
    text = escape(f"{run}: {clean(detail)}")
    if outcome:
        inner = f"<{outcome} type={quoteattr(outcome)} message={quoteattr(clean(message))}>{text}</{outcome}>"
    else:
        inner = f"<system-out>{text}</system-out>"
    return f"{start}\n      {inner}\n    </testcase>"
