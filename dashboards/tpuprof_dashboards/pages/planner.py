"""Page Planner: how to train or serve a model on a slice, and any single number on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.charts import (
    Drawing,
    load_chart,
    mesh_map_chart,
    pareto_chart,
    plan_memory_chart,
    plan_steps_chart,
    scaling_chart,
)
from tpuprof.cli.calc import SUBCOMMANDS
from tpuprof.errors import TpuprofError
from tpuprof.report.plain import rows_of, table_of
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty, show_error
from tpuprof_dashboards.memo import Memo
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.planner.commands import arguments_of, calculator, plan_serve, plan_train, run, shown_command
from tpuprof_dashboards.planner.forms import Field, fields_of, show_form
from tpuprof_dashboards.text import plain

if TYPE_CHECKING:
    import click

_ASKED = {"train": "Train", "serve": "Serve", "calc": "Calculate one number"}
_TRAIN_FIRST = (
    "model_name", "chip_name", "topology", "chips", "slices", "batch_tokens", "sequence", "budget", "dtype",
)  # fmt: skip
_TRAIN_START = {
    "model_name": "llama3-8b", "chip_name": "v5p", "topology": "4x4x4", "batch_tokens": "1048576",
    "sequence": "4096", "budget": "15T",
}  # fmt: skip
_SERVE_FIRST = (
    "model", "chip", "topology", "chips", "prompt", "generate", "sla_ttft", "sla_tpot", "weights", "cache",
)  # fmt: skip
_SERVE_START = {"model": "llama3-70b", "chip": "v5e", "topology": "4x4,4x8", "prompt": "2048", "generate": "256"}
_CHART_CANDIDATES = 8

_MEASURES = (
    Shown("step_time_s", "step", "seconds", help="Time of a step."),
    Shown("mfu", "MFU", "percent", help="Model FLOP/s utilisation, attention counted causally."),
    Shown(
        "exposed_fraction",
        "exposed comm.",
        "percent",
        help="Share of the step in which nothing but communication runs.",
    ),
    Shown("tokens_per_s_per_chip", "tokens/s/chip", "count", help="Throughput of one chip."),
)
_TRAIN_COLUMNS = (
    Shown("rank", "rank", "number", width="small"),
    Shown("layout", "layout", pinned=True, help="Degrees of parallelism; what is not named is 1."),
    *_MEASURES,
    Shown("memory_total_bytes", "memory", "bytes", help="What the fullest device holds at its peak."),
    Shown("headroom_bytes", "headroom", "bytes", help="Memory that is left on the fullest device."),
    Shown("remat", "remat", help="Policy of rematerialisation."),
    Shown("days", "days", "number", help="For the token budget."),
    Shown("cost_usd", "USD", "count", help="At list price, for the token budget."),
    Shown("bound_by", "bound by"),
    Shown("why", "why", help="Why it is first, or why it loses."),
)
_SERVE_COLUMNS = (
    Shown("rank", "rank", "number", width="small"),
    Shown("slice", "slice", pinned=True),
    Shown("split", "split", help="How weights and KV cache are divided."),
    Shown("batch", "batch", "count", help="Sequences at a time."),
    Shown("ttft_s", "TTFT", "seconds", help="Time to the first token, without queueing."),
    Shown("tpot_s", "TPOT", "seconds", help="Time per further token."),
    Shown("tokens_per_s_per_chip", "tokens/s/chip", "count", help="Throughput of one chip."),
    Shown("cost_usd_per_mtoken", "USD/M tokens", "number", help="At list price."),
    Shown("memory_total_bytes", "memory", "bytes", help="What a device holds."),
    Shown("bound_by", "bound by"),
    Shown("why", "why", help="Why it is first, or why it loses."),
)
_REJECTED = (
    Shown("layout", "layout", pinned=True),
    Shown("split", "split"),
    Shown("slice", "slice"),
    Shown("why", "why not"),
    Shown("more", "others like it", "count", help="Layouts that are impossible for the same reason."),
)


def render(page: Page) -> None:
    """Draws the page."""
    asked = page.choice("plan", "Plan", _ASKED)
    {"train": _train, "serve": _serve, "calc": _calculate}[asked](page)


def _train(page: Page) -> None:
    fields = fields_of(plan_train(), _TRAIN_FIRST, _TRAIN_START, _known())
    hidden = ("rank", "scaling", "top")
    values = show_form(page, "train", [field for field in fields if field.name not in hidden], "Plan")
    document = _answer(plan_train(), {**values, "top": "50"}, "plan train")
    if document is None:
        return
    candidates = document["candidates"]
    _summary(document, f"{document['fitting']:,} of {document['tried']:,} layouts fit {document['hardware']['slice']}.")
    if candidates:
        show_table([_flat(row) for row in candidates], _TRAIN_COLUMNS, "planner.candidates")
        shown = candidates[:_CHART_CANDIDATES]
        tabs = st.tabs(
            ["Step time", "Memory", "Mesh shapes", "Scaling", "Derivation"], key="planner.train.tab", on_change="rerun"
        )
        charts: list[Callable[[], Drawing]] = [
            lambda: plan_steps_chart(shown),
            lambda: plan_memory_chart(shown),
            lambda: mesh_map_chart(document["mesh_map"]),
        ]
        for at, chart in enumerate(charts):
            with tabs[at]:
                if tabs[at].open:
                    show_chart(page, chart(), f"planner.train.{at}")
        with tabs[3]:
            if tabs[3].open:
                _scaling(page, values)
        with tabs[4]:
            if tabs[4].open:
                _derivation(plan_train(), {**values, "rank": "1"}, "plan train")
    _rejected(document)
    _take_along(plan_train(), values, "plan train")


def _scaling(page: Page, values: dict[str, str]) -> None:
    curve = _answer(plan_train(), {**values, "mesh": "", "scaling": "1"}, "plan train")
    if curve is not None:
        show_chart(page, scaling_chart(curve["points"]), "planner.scaling")


def _serve(page: Page) -> None:
    fields = fields_of(plan_serve(), _SERVE_FIRST, _SERVE_START, _known())
    hidden = ("explained", "candidate", "load_curve", "top")
    values = show_form(page, "serve", [field for field in fields if field.name not in hidden], "Plan")
    document = _answer(plan_serve(), {**values, "top": "50"}, "plan serve")
    if document is None:
        return
    smallest = table_of(document["smallest_slice"])
    text = f"Smallest slice: {smallest['slice']}." if smallest else document["smallest_slice_reason"]
    _summary(document, text)
    if document["candidates"]:
        show_table([_flat(row) for row in document["candidates"]], _SERVE_COLUMNS, "planner.candidates")
        work = document["workload"]
        pareto, load, derivation = st.tabs(
            ["Latency and throughput", "Load", "Derivation"], key="planner.serve.tab", on_change="rerun"
        )
        with pareto:
            by_token = all(row["tpot_s"] is not None for row in document["pareto"])
            limit = work["sla_tpot_s"] if by_token else work["sla_ttft_s"]
            show_chart(page, pareto_chart(document["pareto"], document["candidates"], limit), "planner.pareto")
        with load:
            curve = _answer(plan_serve(), {**values, "load_curve": "1"}, "plan serve") if load.open else None
            if curve is not None:
                drawing = load_chart(curve["load_curve"], work["sla_ttft_s"], work["sla_tpot_s"])
                show_chart(page, drawing, "planner.load")
        with derivation:
            if derivation.open:
                _derivation(plan_serve(), {**values, "explained": "1"}, "plan serve")
    _rejected(document)
    _take_along(plan_serve(), values, "plan serve")


def _calculate(page: Page) -> None:
    name = page.pick(
        "calc", "Calculator", list(SUBCOMMANDS), show=lambda key: f"{key}: {SUBCOMMANDS[key][1]}", default="matmul"
    )
    command = calculator(name)
    start = _CALC_START.get(name, {})
    values = show_form(page, f"calc_{name.replace('-', '_')}"[:32], _calc_fields(command, start), "Calculate")
    st.code(shown_command(f"calc {name}", command, values), language="bash")
    if not any(values.values()):
        show_empty("Fill in what is known.", "Fields that the calculator needs say so when they are missing.")
        return
    text = _text(command, values, "md")
    if text is not None:
        st.markdown(text)


def _calc_fields(command: click.Command, start: dict[str, str]) -> list[Field]:
    """All parameters; the options of hardware, which most leave alone, behind the others."""
    names = [p.name or "" for p in command.params]
    first = [name for name in names if name not in ("edition", "ask", "link", "peak", "bandwidth")]
    return fields_of(command, first, start, _known())


_CALC_START = {
    "matmul": {"lhs": "bf16[4096,8192]", "rhs": "bf16[8192,28672]", "chip": "v5e"},
    "params": {"model_name": "llama3-70b"},
}


def _known() -> dict[str, tuple[str, ...]]:
    """What may be chosen for a model or a chip, whatever a command calls it: names only, for a path would be one of the
    server's.
    """
    from tpuprof.hardware import chips
    from tpuprof.plan.zoo import models

    names, tpus = tuple(config.name for config in models()), tuple(chip.name for chip in chips())
    return {"model": names, "model_name": names, "chip": tpus, "chip_name": tpus}


@st.cache_resource(show_spinner=False)
def _kept() -> Memo:
    return Memo(128)


def _answer(command: click.Command, values: dict[str, str], what: str) -> dict[str, Any] | None:
    """The document of a plan; null where the command refuses, and the page says why."""
    text = _text(command, values, "json", what)
    return None if text is None else json.loads(text)


def _text(command: click.Command, values: dict[str, str], form: str, what: str = "calc") -> str | None:
    arguments = tuple(arguments_of(command, values))
    try:
        with st.spinner("Planning" if what != "calc" else "Calculating", show_time=True):
            return _kept().get((what, command.name, arguments, form), lambda: run(command, arguments, form))
    except TpuprofError as error:
        show_error(error)
        return None


def _summary(document: dict[str, Any], text: str) -> None:
    best = next(iter(document["candidates"]), None)
    if best is None:
        st.warning(f"No layout is possible. {plain(text)}")
    else:
        st.success(f"**{plain(best.get('layout') or best['split'])}**: {plain(best['why'].rstrip('.'))}. {plain(text)}")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "memory_total_bytes": row["memory_bytes"]["total"]}


def _rejected(document: dict[str, Any]) -> None:
    rows = rows_of(document["rejected"])
    if rows:
        with st.expander(f"Why other layouts are impossible ({len(rows)} reasons)"):
            show_table(rows, _REJECTED, "planner.rejected")


def _derivation(command: click.Command, values: dict[str, str], what: str) -> None:
    text = _text(command, values, "md", what)
    if text is not None:
        st.markdown(text)


def _take_along(command: click.Command, values: dict[str, str], what: str) -> None:
    """The same as a command, and as a document."""
    st.code(shown_command(what, command, values), language="bash")
    arguments = tuple(arguments_of(command, values))
    st.download_button(
        "Download as HTML", lambda: _kept().get((what, arguments, "html"), lambda: run(command, arguments, "html")),
        f"tpuprof-{what.replace(' ', '-')}.html", "text/html", on_click="ignore", icon=":material/download:",
    )  # fmt: skip
