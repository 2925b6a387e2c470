"""The timeline on a page: mounts the component, answers what it asks for, and says what is selected."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.payload import layout, window_data
from tpuprof_dashboards.timeline.window import closed_at_first, first_request, numbers, parse_request, query

NAME = "tpuprof_timeline"
SCRIPTS = (
    "format.js", "layout.js", "store.js", "theme.js", "paint.js", "panels.js", "asking.js", "searching.js",
    "selecting.js", "pointing.js", "typing.js", "timeline.js", "mount.js",
)  # fmt: skip
"""In an order in which each needs only those before it."""

DEFAULT_HEIGHT = 620
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Selection:
    """The event that is selected in a timeline.

    Args:
        row: the row's number in the model.
        position: the event's position on it.
        group: the device or host, as the timeline names it.
        device: the device's id as in the tables; empty for a host's thread.
        track: the track's name.
        name: the event's name, as it came from the trace.
        kind: of an op as in table ``ops`` (``container`` for loops), else in words.
        scope: the name-scope path; empty if unknown.
        source: the source line; empty if unknown.
        module: the program; empty if unknown.
        start_ps: start on the trace's clock, as in the tables.
        duration_ps: duration; null if unknown.
        self_ps: time without children; null if unknown.
        is_op: whether it is an op of table ``ops`` (or a container of some).
    """

    row: int
    position: int
    group: str
    device: str
    track: str
    name: str
    kind: str
    scope: str
    source: str
    module: str
    start_ps: int
    duration_ps: int | None
    self_ps: int | None
    is_op: bool


def timeline(
    model: TimelineModel,
    *,
    key: str,
    height: int = DEFAULT_HEIGHT,
    view: tuple[int, int] | None = None,
    search: str = "",
    go: tuple[str, int, int] | None = None,
    sync: str = "",
    on_select: Callable[[Selection | None], None] | None = None,
    on_view: Callable[[int, int], None] | None = None,
) -> Selection | None:
    """A timeline on the page, in a fragment of its own: looking around reruns nothing else.

    Args:
        model: the run.
        key: names this timeline within the session; another run under the same key starts afresh.
        height: of the whole component, in pixels.
        view: what to show first, as (start, end) in ps on the trace's clock. Default: ``model.home``.
        search: what to search for; the user may search for something else, until the page asks for another text.
        go: (id, start, end): shows that stretch when the id changes, e.g. because another part of the page was clicked.
        sync: timelines with the same text can be linked, so that they move together from the starts of their steps.
        on_select: called when another event is selected, or none any more; the whole page runs again after it.
        on_view: called with (start, end) in ps on the trace's clock when another stretch is in view, e.g. to put it
            into the address; only the fragment runs again after it.

    Returns:
        What is selected, as of this run of the page.
    """
    import streamlit as st

    selected: list[Selection | None] = [None]

    @st.fragment
    def shown() -> None:
        selected[0] = _mount(model, key, height, view, search, go, sync, on_select, on_view)

    shown()
    return selected[0]


def selection_of(model: TimelineModel, raw: object) -> Selection | None:
    """The selected event from what the browser sent; null if it sent none, or one that does not exist."""
    if not isinstance(raw, Mapping):
        return None
    values: Mapping[Any, Any] = raw  # pyright: ignore[reportUnknownVariableType]
    row, position = values.get("row"), values.get("position")
    if type(row) is not int or type(position) is not int or not 0 <= row < len(model.rows):
        return None
    events = model.rows[row].events
    if not 0 <= position < len(events):
        return None
    place, item = model.places[row], model.items[int(events.item[position])]
    start, length = int(events.start[position]), int(events.end[position] - events.start[position])
    known = events.known is None or bool(events.known[position])
    own = length if events.self_ps is None else int(events.self_ps[position])
    return Selection(
        row,
        position,
        place.group.name,
        place.group.device,
        place.track.name,
        item.name,
        item.kind,
        item.scope,
        item.source,
        item.module,
        start,
        length if known else None,
        own if known else None,
        place.track.is_work,
    )


def seen_of(model: TimelineModel, raw: object) -> tuple[int, int] | None:
    """What a browser says is in view, on the trace's clock; null if it says nothing that makes sense."""
    if not isinstance(raw, Mapping):
        return None
    values: Mapping[Any, Any] = raw  # pyright: ignore[reportUnknownVariableType]
    bounds = numbers(values.get("seen"))
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        return None
    return model.start + bounds[0], model.start + bounds[1]


@cache
def script() -> str:
    """The component's JavaScript as one module.

    Streamlit loads a component's script from memory, where one module cannot import another. So the modules, which are
    plain ones and can be tested by themselves, are joined without their imports and exports.
    """
    texts = [_asset(name) for name in SCRIPTS]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def _asset(name: str) -> str:
    return (files("tpuprof_dashboards.timeline") / "assets" / name).read_text("utf-8")


@cache
def _renderer() -> Any:
    import streamlit as st

    components: Any = st.components
    make: Any = components.v2.component
    return make(NAME, html='<div class="timeline-host"></div>', css=_asset("timeline.css"), js=script())


def _mount(
    model: TimelineModel,
    key: str,
    height: int,
    view: tuple[int, int] | None,
    search: str,
    go: tuple[str, int, int] | None,
    sync: str,
    on_select: Callable[[Selection | None], None] | None,
    on_view: Callable[[int, int], None] | None,
) -> Selection | None:
    import streamlit as st

    if not model.rows:
        st.info("This run has no event that takes time: there is nothing to draw.")
        return None
    key = f"{key}.{model.token}"
    state: Any = st.session_state.get(key) or {}
    request = parse_request(state.get("view"), model) or first_request(model, view, search)
    data = {
        "layout": layout(model),
        "height": max(int(height), 280),
        "view": None if view is None else [view[0] - model.start, view[1] - model.start],
        "go": None if go is None else {"id": go[0], "t0": go[1] - model.start, "t1": go[2] - model.start},
        "search": search,
        "sync": sync,
        "tells": on_view is not None,
        "closed": [f"g{group}" for group in sorted(closed_at_first(model))],
        **window_data(model, query(model, request)),
    }

    def kept() -> None:
        """A state needs a callback to be kept."""

    result: Any = _renderer()(key=key, data=data, on_view_change=kept, on_selected_change=kept)
    seen = seen_of(model, state.get("view"))
    if on_view is not None and seen is not None and st.session_state.get(f"{key}.seen") != seen:
        st.session_state[f"{key}.seen"] = seen
        on_view(*seen)
    selected = selection_of(model, result.get("selected"))
    told = f"{key}.told"
    # A component that has just appeared says nothing; one whose selection was dropped says that nothing is selected.
    if on_select is not None and result.get("selected") is not None and st.session_state.get(told) != selected:
        st.session_state[told] = selected
        on_select(selected)
        st.rerun()
    return selected
