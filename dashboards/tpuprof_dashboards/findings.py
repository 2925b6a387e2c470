"""Findings on pages: what was found, what it costs, the evidence behind it, and where to look further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from tpuprof.report.listing import show_count
from tpuprof.text import clean
from tpuprof.units import format_percent, format_ps, format_si
from tpuprof_dashboards.columns import Shown, scale_of, show_table
from tpuprof_dashboards.definitions import meaning
from tpuprof_dashboards.text import plain, shortened
from tpuprof_dashboards.tiles import write_notice

if TYPE_CHECKING:
    from tpuprof_dashboards.page import Page

_ROWS = 20
_COLUMNS = 12
_NAMES = ("op", "name", "device", "step", "kind", "part", "cause", "memory_space")
_PAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("TPU301", "TPU302", "TPU303", "TPU305", "TPU306"), "collectives"),
    (("TPU304", "TPU31", "TPU44"), "steps"),
    (("TPU4",), "idle"),
    (("TPU211", "TPU212", "TPU213", "TPU214", "TPU22"), "roofline"),
    (("TPU231",), "scopes"),
    (("TPU51",), "memory"),
    (("TPU2", "TPU50"), "ops"),
)
_OF_OP = {"op": "op", "of": "module"}
_FILTERS: dict[str, Mapping[str, str]] = {
    "collectives": _OF_OP,
    "steps": {"device": "device", "step": "step"},
    "idle": {"device": "device", "step": "step"},
    "ops": _OF_OP,
    "roofline": _OF_OP,
    "scopes": {"scope": "scope"},
    "memory": {"module": "module"},
}
"""What of a finding's scope a page can be narrowed down to, by the name that the filter has in URLs."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding can be looked at: a page and its filters."""

    slug: str
    filters: Mapping[str, str]


def place_of(finding: Mapping[str, Any]) -> Place | None:
    """The page that shows what a finding is about; null for rules of other packages without an op.

    Of what the finding names only that becomes a filter which the page honours.
    """
    rule = str(finding.get("rule", ""))
    slug = next((slug for starts, slug in _PAGES if rule.startswith(starts)), None)
    scope: Mapping[str, Any] = finding.get("scope") or {}
    if slug is None and scope.get("op") is not None:
        slug = "ops"
    if slug is None:
        return None
    found = {name: str(scope[key]) for name, key in _FILTERS[slug].items() if scope.get(key) is not None}
    if "op" not in found:
        found.pop("of", None)
    return Place(slug, found)


def show_findings(page: Page, findings: Sequence[Mapping[str, Any]]) -> None:
    """The findings that concern a page, at its end; nothing where there are none."""
    if not findings:
        return
    st.subheader("What to do about it", anchor=False)
    for at, finding in enumerate(findings):
        show_finding(page, finding, at)


def show_finding(page: Page, finding: Mapping[str, Any], at: int) -> None:
    """One finding with its evidence folded away and links to what it is about.

    Args:
        page: the page.
        finding: as in the report.
        at: its number on the page, for keys.
    """
    from tpuprof_dashboards.pages import PAGES

    evidence: Mapping[str, Any] = finding.get("evidence") or {}
    place = place_of(finding)
    with st.container(border=True, gap="xsmall", key=f"{page.slug}.finding.{at}"):
        write_notice(
            finding["severity"], f"{finding['rule']} {finding['title']}", finding["message"], finding["suggestion"],
            finding["impact_ps"], finding["impact_fraction"], page.trace.step_source != "none",
        )  # fmt: skip
        if place is not None and place.slug != page.slug:
            entry = PAGES[place.slug]
            what = next((place.filters[name] for name in ("op", "scope", "device") if name in place.filters), "")
            label = f"{entry.title}: {plain(shortened(what, 40))}" if what else entry.title
            page.link(place.slug, label, entry.icon, **place.filters)
        if evidence:
            with st.expander(f"Evidence · {finding['confidence']} confidence"):
                show_evidence(evidence, f"{page.slug}.evidence.{at}")


def show_evidence(evidence: Mapping[str, Any], key: str) -> None:
    """Figures as a list, small tables as tables."""
    figures: list[str] = []
    for name, value in evidence.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in cast("list[Any]", value)):
            continue
        figures.append(f"- {plain(_words(name))}: {plain(_figure(name, value))}")
    if figures:
        st.markdown("\n".join(figures))
    for name, value in evidence.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in cast("list[Any]", value)):
            rows = cast("list[Mapping[str, Any]]", value)
            st.caption(plain(_words(name).capitalize()))
            present = dict.fromkeys(str(column) for row in rows[:_ROWS] for column in row)
            names = sorted(present, key=lambda column: _order(column, rows))[:_COLUMNS]
            columns = [Shown(column, _words(column), _scale(column, rows), meaning(column)) for column in names]
            show_table(rows[:_ROWS], columns, f"{key}.{name}", total=len(rows))


def _order(column: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """What a row is comes first, then its figures, then where it is from, which is long."""
    if column in _NAMES:
        return 0
    return 1 if _scale(column, rows) != "text" else 2


def _scale(column: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    scale = scale_of(column)
    values = [row.get(column) for row in rows]
    numeric = all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)
    if numeric:
        return "number" if scale == "text" else scale
    return "text"


def _words(name: str) -> str:
    return clean(name).removesuffix("_ps").replace("_", " ")


def _figure(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        # Times by kind or axis: the name of the whole says nothing of its unit, and all of ours are times.
        return ", ".join(f"{clean(key)} {format_ps(item) if _is_number(item) else clean(item)}" for key, item in items)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return ", ".join(clean(item) for item in items[:_ROWS]) + (" …" if len(items) > _ROWS else "")
    if not _is_number(value):
        return clean(value)
    scale = scale_of(name)
    if scale == "time":
        return format_ps(value)
    if scale == "percent":
        return format_percent(value)
    if scale in ("bytes", "byte_rate", "flops", "flop_rate"):
        unit = {"bytes": "B", "byte_rate": "B/s", "flops": "FLOP", "flop_rate": "FLOP/s"}[scale]
        return format_si(value, unit)
    return show_count(value) if isinstance(value, int) else f"{value:.4g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
