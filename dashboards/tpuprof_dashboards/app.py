"""The app: which pages there are, what stands above each of them, and what happens if one fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.errors import TpuprofError
from tpuprof_dashboards.failure import show_error, show_failure
from tpuprof_dashboards.page import Page, current_view
from tpuprof_dashboards.pages import PAGES, Entry
from tpuprof_dashboards.pickers import header
from tpuprof_dashboards.runs import library_of
from tpuprof_dashboards.settings import Settings

if TYPE_CHECKING:
    from streamlit.navigation.page import Page as StreamlitPage


_HERE = Path(__file__).parent  # pictures are files of ours: named icons of tabs would be fetched from elsewhere


def main() -> None:
    """The script: runs once for every look and every click."""
    st.set_page_config(page_title="tpuprof", page_icon=str(_HERE / "icon.svg"), layout="wide")
    st.logo(str(_HERE / "logo.svg"), size="large")
    st.html(_HERE / "style.css")
    settings = Settings.of_arguments(sys.argv[1:])
    sections: dict[str, list[Any]] = {}
    for entry in PAGES.values():
        sections.setdefault(entry.section, []).append(page_of(entry.slug, settings))
    st.navigation(sections, expanded=True).run()


def page_of(slug: str, settings: Settings | None = None) -> StreamlitPage:
    """The page as streamlit knows it, for navigation and links."""
    entry = PAGES[slug]
    return st.Page(
        _script(entry, settings or Settings()),
        title=entry.title,
        icon=entry.icon,
        url_path=slug,
        default=entry.default,
        help=entry.summary,
    )


def _script(entry: Entry, settings: Settings) -> Callable[[], None]:
    def run() -> None:
        show(entry.slug, settings)

    run.__name__ = entry.slug
    return run


def show(slug: str, settings: Settings) -> None:
    """Draws one page: header, then what the page's module draws. Failures become sentences."""
    entry = PAGES[slug]
    try:
        page = header(entry, settings, current_view(), library_of(settings.logdir))
        if page is not None:
            module = import_module(f"tpuprof_dashboards.pages.{entry.module}")
            render: Callable[[Page], None] = module.render
            render(page)
    except TpuprofError as error:
        show_error(error)
    except Exception as error:  # a mistake of ours: the rest of the dashboard goes on
        show_failure(error)
