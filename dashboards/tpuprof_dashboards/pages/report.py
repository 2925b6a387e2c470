"""Page Report: the whole analysis to read, and to take along in every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from tpuprof.report import render_report
from tpuprof.text import plural
from tpuprof_dashboards.document import show_document
from tpuprof_dashboards.page import Page

if TYPE_CHECKING:
    from tpuprof.redact import Redactor

MOST_EVENTS = 1_000_000
"""Events in a timeline for other programs at most; as of ``tpuprof export``."""
_LONGEST = 60_000

Preview = Literal["html", "markdown", "json", "text"]


@dataclass(frozen=True, slots=True)
class Form:
    """One format: its name for people, what the file is called, its type, and how it is previewed."""

    label: str
    ending: str
    mime: str
    preview: Preview


FORMS: Mapping[str, Form] = {
    "html": Form("HTML", "html", "text/html", "html"),
    "md": Form("Markdown", "md", "text/markdown", "markdown"),
    "json": Form("JSON", "json", "application/json", "json"),
    "table": Form("Terminal", "txt", "text/plain", "text"),
    "csv": Form("CSV", "csv", "text/csv", "text"),
    "junit": Form("JUnit", "junit.xml", "application/xml", "text"),
    "sarif": Form("SARIF", "sarif", "application/sarif+json", "json"),
    "github": Form("GitHub", "github.md", "text/markdown", "text"),
}


def render(page: Page) -> None:
    """Draws the page."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = page.choice("format", "Format", {name: form.label for name, form in FORMS.items()})
        redact = page.switch(
            "redact",
            "Redact",
            help="Take out paths (base names stay), host and user names, addresses and command lines. Names of "
            "programs, ops, scopes and source files stay: look before you share.",
        )
    form = FORMS[chosen]
    with st.spinner("Analysing the run", show_time=True):
        text = page.selection.derived(("report.text", chosen, redact), lambda: _text(page, chosen, redact))
    name = _file_name(page)
    with st.container(horizontal=True):
        st.download_button(
            f"Download {form.label}", text, f"{name}.{form.ending}", form.mime, key="report.download",
            on_click="ignore", type="primary", icon=":material/download:",
        )  # fmt: skip
        _timelines(page, name, redact)
    _preview(form, text)


def _text(page: Page, form: str, redact: bool) -> str:
    report = page.report
    if redact:
        report = _redactor(page).json(report)
    return render_report(report, form)


def _redactor(page: Page) -> Redactor:
    from tpuprof.export.redaction import redactor_for

    return redactor_for(page.trace)


def _timelines(page: Page, name: str, redact: bool) -> None:
    """Files for other programs; made when they are asked for, since they are large."""
    st.download_button(
        "For ui.perfetto.dev", _made(page, _perfetto, redact), f"{name}.perfetto.json.gz", "application/gzip",
        key="report.perfetto", on_click="ignore", icon=":material/view_timeline:",
        help=f"The timeline, at most {MOST_EVENTS:,} events; the shortest host events are left out first.",
    )  # fmt: skip
    st.download_button(
        "For speedscope", _made(page, _speedscope, redact), f"{name}.speedscope.json", "application/json",
        key="report.speedscope", on_click="ignore", icon=":material/local_fire_department:",
        help="Flame graphs of the name scopes, for speedscope.app.",
    )  # fmt: skip


def _made(page: Page, make: Callable[[Page, Redactor | None], bytes], redact: bool) -> Callable[[], bytes]:
    return lambda: make(page, _redactor(page) if redact else None)


def _perfetto(page: Page, redactor: Redactor | None) -> bytes:
    from tpuprof.export.perfetto import compressed, perfetto_json
    from tpuprof.export.timeline import timeline

    return compressed(perfetto_json(page.trace, timeline(page.trace, MOST_EVENTS), redactor))


def _speedscope(page: Page, redactor: Redactor | None) -> bytes:
    from tpuprof.export.speedscope import speedscope_document

    return json.dumps(speedscope_document(page.trace, MOST_EVENTS, redactor)).encode()


def _preview(form: Form, text: str) -> None:
    if form.preview == "html":
        show_document(text, "Report of the run", "report.preview")
        return
    shown = text[:_LONGEST]
    if len(text) > len(shown):
        st.caption(f"The beginning of {plural(len(text), 'character')}; the download has all.")
    language: Any = {"markdown": "markdown", "json": "json"}.get(form.preview)
    st.code(shown, language=language, height=720)


def _file_name(page: Page) -> str:
    """A name for files that any system takes."""
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in page.trace.name)[:80].strip(".")
    return f"tpuprof-{kept or 'run'}"
