"""The comparison of two runs as a document, and its views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tpuprof.compare.rule_findings import comparison_findings
from tpuprof.compare.scopes import Delta, by_kind, by_scope, by_source
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.diff_page import diff_page
from tpuprof.report.listing import to_csv, to_jsonl
from tpuprof.report.page import page_html, page_markdown, page_text
from tpuprof.report.plain import jsonable, to_json

if TYPE_CHECKING:
    from tpuprof.compare.comparison import Diff
    from tpuprof.report.screen import Screen

GROUPINGS = ("op", "kind", "scope", "source")
GROUP_COLUMNS = (
    *("name", "depth", "kind", "change", "scope", "source", "count_base", "count_new"),
    *("base_ps", "new_ps", "delta_ps", "share"),
)
_DEEPEST = 4


def diff_document(diff: Diff, by: str = "op") -> dict[str, Any]:
    """The JSON of ``tpuprof diff`` (``schema_version`` 1): the comparison, its groups by ``by``, its findings."""
    body = jsonable(diff.to_json())
    step_ps = None if diff.explanation is None else diff.explanation.new_step_ps
    findings = comparison_findings(diff.verdict, diff.causes, step_ps or body["new"]["steps"]["mean_ps"])
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "diff",
        "run": {"name": body["new"]["name"]},
        **body,
        "by": by,
        "groups": jsonable(_groups(diff, by)),
        "findings": [jsonable(finding.to_json()) for finding in findings],
    }


def render_diff(document: dict[str, Any], form: str, screen: Screen | None = None, fail_on: str = "never") -> str:
    """The document in one of ``REPORT_FORMATS``; ``csv`` and ``jsonl`` give its groups."""
    if form == "json":
        return to_json(document)
    if form == "jsonl":
        return to_jsonl(document["groups"])
    if form == "csv":
        return to_csv(document["groups"], GROUP_COLUMNS)
    if form == "junit":
        from tpuprof.report.verdict_junit import verdict_junit

        return verdict_junit(document)
    if form == "sarif":
        from tpuprof.report.sarif import report_sarif

        return report_sarif(document)
    page = diff_page(document)
    if form == "html":
        return page_html(page)
    if form == "md":
        return page_markdown(page)
    if form == "github":
        from tpuprof.report.github import report_annotations

        return report_annotations(document) + page_markdown(page)
    from tpuprof.report.screen import Screen

    return page_text(page, screen or Screen())


def _groups(diff: Diff, by: str) -> list[dict[str, Any]]:
    """The groups that changed, the largest first; those of depth 0 sum to the difference without the residual."""
    if diff.explanation is None:
        return []
    total = diff.step_delta_ps
    if by == "kind":
        return [_row(delta, total) for delta in by_kind(diff.explanation) if delta.gross_ps or delta.delta_ps]
    if by == "scope":
        return list(_tree(by_scope(diff.explanation.rows), total))
    if by == "source":
        return [_row(delta, total) for delta in by_source(diff.explanation.rows) if delta.gross_ps]
    return [
        {
            "name": row.group,
            "depth": 0,
            "kind": row.kind,
            "change": row.change,
            "scope": row.scope,
            "source": row.source,
            "count_base": row.count_base,
            "count_new": row.count_new,
            "base_ps": row.base_ps,
            "new_ps": row.new_ps,
            "delta_ps": row.delta_ps,
            "share": _share(row.delta_ps, total),
        }
        for row in diff.explanation.changed
    ]


def _tree(deltas: Iterable[Delta], total: float | None, depth: int = 0) -> Iterable[dict[str, Any]]:
    for delta in deltas:
        yield {**_row(delta, total), "depth": depth}
        if depth < _DEEPEST:
            yield from _tree(delta.children, total, depth + 1)


def _row(delta: Delta, total: float | None) -> dict[str, Any]:
    main = delta.rows[0] if delta.rows else None
    alone = main if len(delta.rows) == 1 else None
    return {
        "name": delta.name,
        "depth": 0,
        "kind": None if main is None else main.kind,
        "change": None if main is None else main.change,
        "scope": None if main is None else main.scope,
        "source": None if main is None else main.source,
        "count_base": None if alone is None else alone.count_base,
        "count_new": None if alone is None else alone.count_new,
        "base_ps": delta.base_ps,
        "new_ps": delta.new_ps,
        "delta_ps": delta.delta_ps,
        "share": _share(delta.delta_ps, total),
    }


def _share(delta: float, total: float | None) -> float | None:
    return delta / total if total else None
