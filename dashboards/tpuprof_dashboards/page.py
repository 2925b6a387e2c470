"""What a page gets and may use: the run and its selection, what the URL says, and widgets that keep their value there.

A page is a function of a :class:`Page`, in a module of its own under ``tpuprof_dashboards.pages``:

    def render(page: Page) -> None:
        by = page.choice("by", "Group by", {"op": "Op", "kind": "Kind"})
        kept = page.selection.derived(("groups", by), lambda: groups(page.report, by))
        show_table(kept, ...)

Whatever takes longer than a few milliseconds goes through ``selection.derived``, so that it happens once per run and
not once per click. Nothing else is kept between reruns: what a person chose is in the URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from tpuprof_dashboards.runs import Library, OpenRun, Selection
from tpuprof_dashboards.settings import Settings
from tpuprof_dashboards.view import View

if TYPE_CHECKING:
    from tpuprof.formats.recording import RunFiles
    from tpuprof.roofline import HardwareOptions, Roofline
    from tpuprof.trace import Trace

_VIEW = "tpuprof.view"


def current_view() -> View:
    """The view of this session: what the URL says, else what it said on the page before."""
    params = {name: st.query_params.get_all(name) for name in st.query_params}
    view = View.parse(params) if params else st.session_state.get(_VIEW, View())
    keep(view)
    return view


def keep(view: View) -> None:
    """Makes it the session's view, and the URL say so."""
    st.session_state[_VIEW] = view
    wanted = view.params()
    if {name: st.query_params[name] for name in st.query_params} != wanted:
        st.query_params.from_dict(wanted)


def update(**changes: str | None) -> None:
    """Changes picks or filters of the session's view; for callbacks of widgets."""
    keep(st.session_state.get(_VIEW, View()).changed(**changes))


@dataclass(frozen=True)
class Page:
    """One rerun of one page for one person.

    Args:
        slug: the page's name in URLs.
        settings: what the dashboard was started with.
        view: what the URL says.
        library: the runs.
        runs: the runs that are there, newest first.
        theme: ``light`` or ``dark``.
        run, base: the open runs; null on pages that need none, ``base`` also where none is picked.
        base_selection: the base with the same picks, where they fit.
    """

    slug: str
    settings: Settings
    view: View
    library: Library
    runs: Sequence[RunFiles]
    theme: Literal["light", "dark"] = "light"
    run: OpenRun | None = None
    base: OpenRun | None = None
    picked: Selection | None = field(default=None, repr=False)
    base_picked: Selection | None = field(default=None, repr=False)

    @property
    def selection(self) -> Selection:
        """The run with the steps and devices that were picked; only for pages that need a run."""
        if self.picked is None:
            raise RuntimeError(f"page {self.slug} did not ask for a run")
        return self.picked

    @property
    def trace(self) -> Trace:
        """The trace of the selection."""
        return self.selection.trace

    @property
    def report(self) -> dict[str, Any]:
        """The report of the selection; shared, so not to be changed."""
        return self.selection.report_on(self.hardware)

    @cached_property
    def hardware(self) -> HardwareOptions | None:
        """The hardware that the URL names; null for what the trace names, and where the URL names none that fits."""
        from tpuprof_dashboards.hardware import hardware_of

        return hardware_of(self.view, self.trace.devices)[0]

    @property
    def roofline(self) -> Roofline:
        """The roofline of the selection."""
        return self.selection.context(self.hardware).roofline

    def report_or_wait(self) -> dict[str, Any]:
        """The report, with a sentence and a clock while it is made."""
        with st.spinner("Analysing the run", show_time=True):
            return self.report

    def get(self, name: str, default: str = "") -> str:
        """A filter of the URL."""
        return self.view.get(name, default)

    def link(self, slug: str, label: str, icon: str | None = None, help: str | None = None, **changes: str) -> None:  # noqa: A002
        """A link to another page with the same picks and other filters."""
        from tpuprof_dashboards.app import page_of

        target = self.view.changed(**changes)
        st.page_link(page_of(slug), label=label, icon=icon, help=help, query_params=target.params())

    def choice(self, name: str, label: str, options: Mapping[str, str], help: str | None = None) -> str:  # noqa: A002
        """One of a few, as buttons side by side; the first is the default, and what the URL has wrong becomes it."""
        first = next(iter(options))
        key = self._bound(name, first, lambda value: value if value in options else first)
        chosen = st.segmented_control(
            label,
            list(options),
            format_func=lambda option: options[option],
            key=key,
            help=help,
            required=True,
            on_change=_store,
            args=(key, name, first),
        )
        return chosen or first

    def pick(
        self,
        name: str,
        label: str,
        options: Sequence[str],
        show: Callable[[str], str] = str,
        default: str = "",
        help: str | None = None,  # noqa: A002
    ) -> str:
        """One of many, as a list that can be searched; ``default`` is taken where the URL names none of them."""
        default = default or (options[0] if options else "")
        key = self._bound(name, default, lambda value: value if value in options else default)
        chosen = st.selectbox(
            label, list(options), format_func=show, key=key, help=help, on_change=_store, args=(key, name, default)
        )
        return chosen or default

    def text(self, name: str, label: str, placeholder: str = "", help: str | None = None, default: str = "") -> str:  # noqa: A002
        """A line of text, such as a search."""
        key = self._bound(name, default, lambda value: value)
        return (
            st.text_input(
                label, key=key, placeholder=placeholder, help=help, on_change=_store, args=(key, name, default)
            )
            or ""
        )

    def switch(self, name: str, label: str, default: bool = False, help: str | None = None) -> bool:  # noqa: A002
        """On or off."""
        key = self._bound(name, "1" if default else "0", lambda value: value == "1")
        return st.toggle(label, key=key, help=help, on_change=_store, args=(key, name, "1" if default else "0"))

    def _bound(self, name: str, default: str, parsed: Callable[[str], Any]) -> str:
        """The key of a widget whose value is what the URL says."""
        key = f"{self.slug}.{name}"
        st.session_state[key] = parsed(self.view.get(name, default))
        return key


def _store(key: str, name: str, default: str) -> None:
    """Keeps what a widget was set to; the default needs no place in the URL."""
    value: Any = st.session_state.get(key)
    text = ("1" if value else "0") if isinstance(value, bool) else str(value or "")
    update(**{name: "" if text == default else text})
