"""Page History: a metric over the runs of the store, and where its level changed."""

from __future__ import annotations

from typing import Any

import streamlit as st

from tpuprof.charts.trend import trend_chart
from tpuprof.errors import StoreError, StoreNotFoundError, StoreVersionError
from tpuprof.history import Store
from tpuprof.history.metrics import METRICS
from tpuprof.history.series import trends
from tpuprof.report.history import list_result, show_metric
from tpuprof.report.trend import change_sentences, series_title, trend_result
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty, show_error
from tpuprof_dashboards.memo import Memo
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.text import code, plain

_RUNS = (
    Shown("id", "number", "number", help="Its number in the store."),
    Shown("name", "run", pinned=True),
    Shown("time", "captured (UTC)"),
    Shown("step_p50_ps", "step p50", help="Median of the step times."),
    Shown("n_steps", "steps", "count", help="Steps that count."),
    Shown("device_kind", "hardware"),
    Shown("n_devices", "devices", "number", help="Cores with work on them."),
    Shown("program_name", "program"),
    Shown("branch", "branch"),
    Shown("commit", "commit"),
    Shown("worst_quality", "data quality"),
)
_TONES = {"regressed": st.error, "improved": st.success, "changed": st.info, "steady": st.success}
_LAST = {"": "all runs", "30": "last 30", "100": "last 100"}


def render(page: Page) -> None:
    """Draws the page."""
    store = _open(page.settings.store)
    if store is None:
        return
    runs = store.runs()
    if not runs:
        show_empty(f"The run store {code(store.place)} is empty.", _HOW_TO_ADD)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        metric = page.pick(
            "metric", "Metric", list(METRICS), default="step_p50_ps", help="What is looked at over runs."
        )
        last = page.choice("last", "Runs", _LAST, help="Only so many of the newest runs of each series.")
    st.caption(f"{plain(METRICS[metric].meaning)} Store: {code(store.place)}")
    stamp = (store.place, metric, last, len(runs), max(run.id for run in runs))
    with st.spinner("Looking for changes", show_time=True):
        found = _kept().get(stamp, lambda: trends(store, metric, last=int(last) if last else None))
    series = trend_result(store.place, metric, found, 0).document["series"]
    if not found:
        show_empty(
            "No run of the store belongs to a series.",
            "A series is one program on one kind of hardware and branch; these runs do not say which.",
        )
    titles = {str(at): series_title(trend) for at, trend in enumerate(found)}
    if titles:
        chosen = int(page.pick("series", "Series", list(titles), show=lambda at: titles[at]))
        names = {run.id: run.name for run in runs}
        for value in series[chosen]["values"]:
            value["name"] = names.get(value["run"])
        verdict = series[chosen]["verdict"]
        sentences = [text[:1].upper() + text[1:] for text in reversed(change_sentences(found[chosen]))]  # newest first
        _TONES.get(verdict, st.warning)(
            f"**{verdict.replace('_', ' ').capitalize()}.** " + "  \n".join(plain(text) for text in sentences)
        )
        show_chart(page, trend_chart(series[chosen]), "history.trend")
        last_value = found[chosen].values[-1] if found[chosen].values else None
        st.caption(f"The newest run has {show_metric(metric, last_value)}.")
    st.subheader("Runs", anchor=False)
    rows = list_result(store.place, runs, store.metrics(runs), len(runs)).document["runs"]
    show_table([_row(row) for row in rows], _RUNS, "history.runs")


def _open(url: str) -> Store | None:
    """The store, read only; null where there is none yet or it cannot be read, and the page says so."""
    try:
        return Store.open(url or None, read_only=True)
    except StoreNotFoundError as error:
        show_empty(f"There is no run store yet: {code(error.where)}", _HOW_TO_ADD)
    except StoreVersionError:
        show_empty(
            "The run store is of another version.",
            "The dashboard only reads. `tpuprof history list` brings an older store up to date.",
        )
    except StoreError as error:
        show_error(error)
    return None


@st.cache_resource(show_spinner=False)
def _kept() -> Memo:
    return Memo(64)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    from tpuprof.report.history import show_time

    tags = row["tags"]
    when = row["captured_ns"] or row["added_ns"]
    return {**row, "time": show_time(when), "branch": tags.get("branch"), "commit": tags.get("commit")}


_HOW_TO_ADD = (
    "Keep what runs measure: `tpuprof history add LOGDIR --branch main --commit SHA` after each job, such as in CI. "
    "`--store` names another store, a file or a PostgreSQL database."
)
