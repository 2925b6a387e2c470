"""Page Compare: did the step get slower from one run to another, and what makes the difference?"""

from __future__ import annotations

from typing import Any

import streamlit as st

from tpuprof.charts import delta_chart, step_time_chart
from tpuprof.compare import diff
from tpuprof.report.diff import GROUPINGS, diff_document, render_diff
from tpuprof.report.diff_charts import delta_rows
from tpuprof.report.diff_page import WORDS, evidence_listing, sentence, signed
from tpuprof.report.plain import table_of
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picking import pick_table
from tpuprof_dashboards.runs import Selection, timeline_of
from tpuprof_dashboards.text import code, plain
from tpuprof_dashboards.tiles import Tile, show_notice, show_tiles
from tpuprof_dashboards.timeline import timeline

_GROUPS = (
    Shown("name", "what", pinned=True, help="The op, kind, scope or source line that changed."),
    Shown("delta_ps", "difference", help="Time per step that this adds to the difference of the mean steps."),
    Shown("share", "share", "percent", help="Its share of the whole difference."),
    Shown("base_ps", "before", help="Time per step in the base."),
    Shown("new_ps", "after", help="Time per step in the run."),
    Shown("kind", "kind"),
    Shown("change", "change", help="Whether ops appeared, vanished, run more often, or take longer."),
    Shown("count_base", "count before", "count", help="Executions per step in the base."),
    Shown("count_new", "count after", "count", help="Executions per step in the run."),
    Shown("scope", "scope"),
    Shown("source", "source"),
)
_DIFFERENCES = (
    Shown("kind", "kind", help="Version, flag, code, hardware or environment."),
    Shown("what", "what", pinned=True, help="What differs."),
    Shown("base", "before", help="In the base."),
    Shown("new", "after", help="In the run."),
    Shown("weight_ps", "ops concerned changed by", help="By how much the ops changed that it bears on."),
)
_VERDICTS = {"regressed": st.error, "improved": st.success, "unchanged": st.success, "cannot_tell": st.warning}
_FIRST_CAUSES = 5
_LINE_HEIGHT = 380


def render(page: Page) -> None:
    """Draws the page."""
    if page.base is None or page.run is None or page.base_picked is None:
        show_empty(
            "Choose the run to compare with above.",
            "The verdict is about the run on the left: did it get slower than the one it is compared with?",
        )
        return
    by = page.choice("by", "Divide the difference by", {name: name for name in GROUPINGS})
    base = page.base_picked
    with st.spinner("Comparing the runs", show_time=True):
        made = page.selection.derived(("diff", id(base)), lambda: (base, diff(base.trace, page.trace)))[1]
        document = page.selection.derived(("diff.document", id(base), by), lambda: (base, diff_document(made, by)))[1]
    _VERDICTS[document["verdict"]](f"**{WORDS[document['verdict']].capitalize()}.** {plain(sentence(document))}")
    if document["verdict"] == "unchanged":  # the others give it in their sentence
        st.caption(f"{plain(document['reason'])}.")
    show_tiles(_tiles(document))
    _differences_of_time(page, document)
    tabs = st.tabs(["Causes", "Timelines", "Step times", "What else differs"], key="compare.tab", on_change="rerun")
    causes, lines, sides, beside = tabs
    with causes:
        _causes(document)
    with lines:
        if lines.open:
            _timelines(page, base)
    with sides:
        _sides(page, document)
    with beside:
        _beside(document)
    text = page.selection.derived(("diff.html", id(base), by), lambda: (base, render_diff(document, "html")))[1]
    st.download_button(
        "Download the comparison", text, "tpuprof-diff.html", "text/html", on_click="ignore", icon=":material/download:"
    )


def _tiles(document: dict[str, Any]) -> list[Tile]:
    effect = table_of(document["effect"])
    base, new = (document[side]["steps"] for side in ("base", "new"))
    interval = ""
    if effect.get("ci_low") is not None and effect.get("ci_high") is not None:
        interval = f"{signed(effect['ci_low'])} .. {signed(effect['ci_high'])}"
    p_value = document["p_value"]
    matched = document["coverage"]["matched_time_fraction"]
    return [
        Tile("change", "Step time", signed(effect.get("relative")), interval),
        Tile("step_p50", "Median before", format_ps(base["p50_ps"]), f"{base['count'] or 0} steps"),
        Tile("step_p50", "Median after", format_ps(new["p50_ps"]), f"{new['count'] or 0} steps"),
        Tile("step_delta", "Mean step", _signed_ps(document["step_delta_ps"]), "after less before"),
        Tile("p_value", "p-value", "n/a" if p_value is None else f"{p_value:.3g}"),
        Tile("matched", "Matched", format_percent(matched, 1), "of the ops' time"),
    ]


def _signed_ps(ps: float | None) -> str:
    return f"+{format_ps(ps)}" if ps is not None and ps > 0 else format_ps(ps)


def _differences_of_time(page: Page, document: dict[str, Any]) -> None:
    st.subheader("Where the difference is", anchor=False)
    if document["explanation_reason"]:
        st.info(plain(document["explanation_reason"]))
        return
    rows, base_ps = delta_rows(document)
    if rows:
        show_chart(page, delta_chart(rows, base_ps, ("base", "new")), "compare.waterfall")
    st.caption(
        f"The rows and a residual of {_signed_ps(document['residual_ps'])} sum to the difference of the mean steps, "
        f"{_signed_ps(document['step_delta_ps'])}."
    )
    groups = [
        {**row, "name": f"{'· ' * row['depth']}{row['name']}", "plain": row["name"]} for row in document["groups"]
    ]
    at = next((n for n, row in enumerate(groups) if row["plain"] and row["plain"] == page.get("row")), None)
    pick_table(groups, _GROUPS, "compare.groups", lambda row: {"row": row["plain"]}, picked=at, otherwise={"row": None})
    if at is not None:
        _elsewhere(page, document["by"], document["groups"][at])


def _elsewhere(page: Page, by: str, row: dict[str, Any]) -> None:
    """Links from a row to where its op or scope is seen closer, in either run."""
    target, filters = ("scopes", {"scope": row["name"]}) if by == "scope" else ("ops", {by: row["name"]})
    with st.container(horizontal=True):
        page.link(target, f"See {plain(row['name'])} in the run", ":material/arrow_forward:", **filters)
        swapped = {"run": page.view.base, "base": page.view.run}
        page.link(target, "… and in the base", ":material/arrow_forward:", **swapped, **filters)


def _causes(document: dict[str, Any]) -> None:
    if not document["causes"]:
        st.caption("No cause stands out.")
    for cause in document["causes"][:_FIRST_CAUSES]:
        severity = "warning" if cause["delta_ps"] > 0 else "info"
        show_notice(severity, cause["title"], cause["message"], cause["suggestion"], cause["delta_ps"])
    if len(document["causes"]) > _FIRST_CAUSES:
        st.caption(f"The largest {_FIRST_CAUSES} of {len(document['causes'])}; the download has all.")


def _timelines(page: Page, base: Selection) -> None:
    """Both runs, one above the other; linked, they move together from the starts of their steps."""
    for label, selection, name in (("Before", base, page.view.base), ("After", page.selection, page.view.run)):
        st.markdown(f"**{label}**: {code(name or selection.trace.name)}")
        timeline(timeline_of(selection), key=f"compare.{label}", height=_LINE_HEIGHT, sync="compare")


def _sides(page: Page, document: dict[str, Any]) -> None:
    for side, label in (("base", "Before"), ("new", "After")):
        times = list(document[side]["step_ps"] or ())
        st.markdown(f"**{label}**: {code(document[side]['name'])}")
        if len(times) > 1:
            show_chart(page, step_time_chart(times), f"compare.times.{side}")
        else:
            st.caption("One step or none: there is nothing to spread.")
    for note in document["notes"]:
        st.caption(plain(note))


def _beside(document: dict[str, Any]) -> None:
    if document["differences"]:
        show_table(document["differences"], _DIFFERENCES, "compare.differences")
    else:
        st.caption("Nothing else that was recorded differs.")
    listing = evidence_listing(document)
    st.markdown("**What it takes to look into it**")
    columns = tuple(Shown(field.key, field.heading, "text") for field in listing.fields)
    show_table(listing.rows, columns, "compare.evidence")
    for note in listing.notes:
        st.caption(plain(note))
