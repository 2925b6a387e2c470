"""What is shown when something is missing or goes wrong: a sentence, and what to do next."""

from __future__ import annotations

import hashlib
import sys
import traceback

import streamlit as st

from tpuprof.errors import TpuprofError
from tpuprof_dashboards.text import code, plain


def show_error(error: TpuprofError) -> None:
    """An error of the kind that users can do something about."""
    lines = [f"**{plain(error.what)}**"]
    if error.where:
        lines.append(code(error.where))
    lines += [plain(text) for text in (error.why, error.hint) if text]
    st.error("  \n".join(lines), icon=":material/error:")


def show_failure(error: Exception) -> None:
    """A mistake of this program: its traceback goes to the terminal, under a number that the page shows."""
    text = "".join(traceback.format_exception(error))
    number = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    sys.stderr.write(f"tpuprof: error {number} in the dashboard:\n{text}")
    st.error(
        f"**This page could not be drawn** (error {number}). The other pages work. What went wrong is on the terminal "
        "that runs the dashboard; please report it with the kind of trace it happened for.",
        icon=":material/bug_report:",
    )


def show_empty(what: str, next_step: str = "") -> None:
    """Where there is nothing to draw: why, and what to do about it. Both are Markdown of ours, not from a trace."""
    st.info(f"**{what}**" + (f"  \n{next_step}" if next_step else ""), icon=":material/info:")
