"""A page with one timeline, or two that are linked, for tests in a browser; what it shows is in the address.

``?model=`` names a run's folder, or ``made:N`` for N made events; ``&second=1`` adds the same run once more.
"""

from __future__ import annotations

import streamlit as st
from tpuprof_dashboards.timeline import Selection, TimelineModel, build_timeline, timeline

import tpuprof
from tests.timeline.made import made_model

st.set_page_config(layout="wide")


@st.cache_resource
def model_of(name: str) -> TimelineModel:
    if name.startswith("made:"):
        return made_model(int(name.removeprefix("made:")))
    return build_timeline(tpuprof.load(name))


def picked(selection: Selection | None) -> None:
    st.session_state["picked"] = selection


def viewed(start: int, end: int) -> None:
    st.query_params["seen"] = f"{start}-{end}"


def main() -> None:
    st.session_state["runs"] = st.session_state.get("runs", 0) + 1
    name = st.query_params["model"]
    two = "second" in st.query_params
    model = model_of(name)
    seen = st.query_params.get("seen")
    start, _, end = (seen or "").partition("-")
    view = (int(start), int(end)) if seen and "view" not in st.session_state else None
    view = st.session_state.setdefault("view", view)
    timeline(model, key="first", view=view, height=560, on_select=picked, on_view=viewed, sync="pair" if two else "")
    if two:
        timeline(model, key="second", height=400, sync="pair")
    chosen: Selection | None = st.session_state.get("picked")
    told = (
        "nothing"
        if chosen is None
        else f"{chosen.name}|{chosen.kind}|{chosen.device}|{chosen.start_ps}|{chosen.duration_ps}"
    )
    st.text(f"picked: {told}")
    st.text(f"page runs: {st.session_state['runs']}")


main()
