"""The report as SARIF 2.1.0, the format of static-analysis results that code-scanning services read."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from tpuprof._version import __version__
from tpuprof.report import facts

_LEVELS = {"info": "note", "warning": "warning", "error": "error"}
_SOURCE = re.compile(r"(?P<file>.+):(?P<line>[1-9][0-9]{0,8})\Z")


def report_sarif(report: dict[str, Any]) -> str:
    """SARIF JSON: a rule per quality id and finding rule, a result per entry.

    A finding that names a source line points to it; other results point to the run by its logical name.
    """
    notices = [*facts.quality_notices(report), *facts.finding_notices(report)]
    ids = list(dict.fromkeys(notice.id for notice in notices))
    titles = {notice.id: notice.title for notice in reversed(notices)}
    rules = [{"id": rule, "name": rule, "shortDescription": {"text": titles[rule] or rule}} for rule in ids]
    run = {
        "tool": {"driver": {"name": "tpuprof", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"tpuprof/{facts.run_name(report)}/"},
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(report, notice, ids.index(notice.id)) for notice in notices],
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _result(report: dict[str, Any], notice: facts.Notice, index: int) -> dict[str, Any]:
    text = f"{notice.message} {notice.suggestion}".strip()
    return {
        "ruleId": notice.id,
        "ruleIndex": index,
        "level": _LEVELS[notice.severity],
        "message": {"text": text or notice.title},
        "locations": [_location(report, notice)],
        "properties": {"kind": notice.what},
    }


def _location(report: dict[str, Any], notice: facts.Notice) -> dict[str, Any]:
    logical = [{"fullyQualifiedName": facts.run_name(report), "kind": "module"}]
    match = _SOURCE.match(notice.source or "")
    if match is None:
        return {"logicalLocations": logical}
    place = {
        "artifactLocation": {"uri": quote(match["file"].lstrip("/"))},
        "region": {"startLine": int(match["line"])},
    }
    return {"physicalLocation": place, "logicalLocations": logical}
