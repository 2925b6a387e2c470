"""The outcome of the gate as a document, and its views."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpuprof.compare.capture import side_json
from tpuprof.compare.comparison import not_compared
from tpuprof.gate.check import budget_findings
from tpuprof.gate.judging import show
from tpuprof.report.diff import diff_document, render_diff
from tpuprof.report.diff_page import diff_page, sentence, sides_listing
from tpuprof.report.facts import quality_notices
from tpuprof.report.listing import Field, Listing, to_csv, to_jsonl
from tpuprof.report.page import Page, Section, page_html, page_markdown, page_text
from tpuprof.report.plain import jsonable
from tpuprof.text import clean
from tpuprof.units import UNKNOWN, format_ps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuprof.gate.check import Check
    from tpuprof.report.screen import Screen

ROW_COLUMNS = ("name", "status", "run", "value", "unit", "warn", "fail", "message")
_WORDS = {"pass": "passed", "warn": "passed with warnings", "fail": "failed", "cannot_tell": "cannot tell"}
_SEVERITIES = {"pass": "good", "warn": "warning", "fail": "error", "cannot_tell": "warning"}
_STATUS = {"pass": "kept", "warn": "warning", "fail": "EXCEEDED", "unknown": "unknown"}
_UNJUDGED = ("base", "step_delta_ps", "p_value", "samples", "steps_needed", "captures_needed", "residual_ps")


def check_document(check: Check, parts: Mapping[str, tuple[float, float]] | None = None) -> dict[str, Any]:
    """The JSON of ``tpuprof check``: that of ``diff`` (verdict null without anything to compare with), and the gate's.

    Args:
        check: the outcome.
        parts: by part of the step (baseline, this run) in ps, where the store knows them.
    """
    if check.diff is not None:
        document = diff_document(check.diff)
    else:
        traces = [capture.trace or capture.samples for capture in check.captures]
        document = diff_document(not_compared(traces, "nothing was given to compare with"))
        document |= {**dict.fromkeys(_UNJUDGED), "verdict": None, "reason": None, "findings": [], "evidence": []}
        document["new"] = jsonable(side_json(check.captures, check.captures[0]))
        document["run"] = {"name": document["new"]["name"]}
    known = {
        f"{part}_ps": {"base": old, "new": fresh, "delta": fresh - old} for part, (old, fresh) in (parts or {}).items()
    }
    return {
        **document,
        "command": "check",
        "parts": jsonable(known) if known else document["parts"],
        "notes": [*document["notes"], *check.notes],
        "against": check.against or None,
        "outcome": check.outcome,
        "exit_code": check.exit_code,
        "budgets": [jsonable(kept.to_json()) for kept in check.budgets],
        "findings": [*document["findings"], *(jsonable(f.to_json()) for f in budget_findings(check.budgets))],
    }


def render_check(document: dict[str, Any], form: str, screen: Screen | None = None, fail_on: str = "never") -> str:
    """The document in one of ``REPORT_FORMATS``; ``csv`` and ``jsonl`` give the verdict and each budget as a row."""
    if form in ("json", "junit", "sarif"):
        return render_diff(document, form, screen, fail_on)
    if form in ("csv", "jsonl"):
        rows = _rows(document)
        return to_csv(rows, ROW_COLUMNS) if form == "csv" else to_jsonl(rows)
    page = check_page(document)
    if form == "html":
        return page_html(page)
    if form == "md":
        return page_markdown(page)
    if form == "github":
        from tpuprof.report.github import report_annotations

        return report_annotations(document) + page_markdown(page)
    from tpuprof.report.screen import Screen

    return page_text(page, screen or Screen())


def check_page(document: dict[str, Any]) -> Page:
    """The page of a check: the outcome, the budgets, then what there is of a comparison."""
    sections: tuple[Section, ...] = ()
    if document["budgets"]:
        sections = (Section("Budgets", (), (), _budgets(document)),)
    if document["explanation_reason"] and document["parts"]:
        sections += (Section("Parts of the mean step", (), (), _parts(document)),)
    name = clean(document["run"]["name"] or "(unnamed run)")
    title = f"{name} against {clean(document['against'])}" if document["against"] else name
    if document["verdict"] is not None:
        below = diff_page(document)
        sections += below.sections
    else:
        sections += (Section("Step times", (), (), sides_listing(document)),)
        notices = tuple(quality_notices(document))
        sections += (Section("Quality of the recording", (), notices),) if notices else ()
    return replace(
        Page("tpuprof check", title, _WORDS[document["outcome"]], _SEVERITIES[document["outcome"]], "", sections),
        lead=lead(document),
    )


def lead(document: dict[str, Any]) -> str:
    """The outcome in one sentence."""
    parts: list[str] = []
    if document["verdict"] is not None:
        parts.append(sentence(document))
    off = [clean(budget["message"]) for budget in document["budgets"] if budget["status"] != "pass"]
    kept = sum(budget["status"] == "pass" for budget in document["budgets"])
    parts += off
    if document["budgets"] and not off:
        parts.append("The budget is kept." if kept == 1 else f"All {kept} budgets are kept.")
    return f"{_WORDS[document['outcome']]}: {' '.join(parts)}"


def _rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if document["verdict"] is not None:
        rows.append(
            {
                "name": "step time",
                "status": document["verdict"],
                "run": document["run"]["name"],
                "value": document["effect"]["relative"],
                "unit": "relative change",
                "warn": None,
                "fail": document["thresholds"]["relative"],
                "message": document["reason"],
            }
        )
    return rows + [{column: budget[column] for column in ROW_COLUMNS} for budget in document["budgets"]]


def _budgets(document: dict[str, Any]) -> Listing:
    rows = [
        {
            **budget,
            "status": _STATUS[budget["status"]],
            **{key: _show(budget, key) for key in ("value", "warn", "fail")},
        }
        for budget in document["budgets"]
    ]
    return Listing("Budgets", "budget", _BUDGET_FIELDS, rows, len(rows))


def _show(budget: dict[str, Any], key: str) -> str:
    return "" if budget[key] is None else show(budget[key], budget["unit"])


def _parts(document: dict[str, Any]) -> Listing:
    rows = [
        {"part": key.removesuffix("_ps").replace("_", " "), **values}
        for key, values in document["parts"].items()
        if values["base"] or values["new"]
    ]
    rows.sort(key=lambda row: -abs(row["delta"]))
    return Listing(
        "Parts of the mean step, the baseline's as a mean over its runs", "part", _PART_FIELDS, rows, len(rows)
    )


def _show_signed(ps: float | None) -> str:
    return UNKNOWN if ps is None else f"{'+' if ps > 0 else ''}{format_ps(ps)}"


_BUDGET_FIELDS = (
    Field("name", "budget"),
    Field("status", "status"),
    Field("value", "value", right=True),
    Field("warn", "warn", right=True),
    Field("fail", "fail", right=True),
    Field("run", "run", rank=1, role="name"),
    Field("reason", "why unknown", lambda value: "" if value is None else clean(value), rank=2, role="name"),
)
_PART_FIELDS = (
    Field("part", "part"),
    Field("base", "baseline", format_ps, right=True),
    Field("new", "this run", format_ps, right=True),
    Field("delta", "difference", _show_signed, right=True),
)
