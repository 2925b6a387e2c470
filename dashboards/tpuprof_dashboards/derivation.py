"""How a number was come by, on a page: formula, inputs with their sources, steps, and what is assumed."""

from __future__ import annotations

import streamlit as st

from tpuprof.perfmodel.derivation import Derivation
from tpuprof.report.derivations import show_quantity
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.text import code, plain

_INPUTS = (
    Shown("name", "input", "text", help="What goes into the formula."),
    Shown("value", "value", "text", help="Its value."),
    Shown("source", "source", "text", help="Where a figure of the hardware comes from."),
)

_STEPS = (
    Shown("what", "step", "text", help="An intermediate result."),
    Shown("formula", "formula", "text", help="In the inputs and earlier steps."),
    Shown("value", "value", "text", help="Its value."),
)


def show_derivation(answer: Derivation, name: str, key: str) -> None:
    """Draws the derivation of a number.

    Args:
        answer: the number.
        name: what it is, in a few words of ours.
        key: of the widgets.
    """
    regime = f" · {plain(answer.regime)}" if answer.regime else ""
    value = f"**{plain(show_quantity(answer.value, answer.unit))}**"
    st.markdown(f"{plain(name)}: {value} = {code(answer.formula)}{regime}")
    rows = [
        {"name": symbol, "value": show_quantity(given.value, given.unit), "source": given.source or "counted"}
        for symbol, given in answer.inputs.items()
    ]
    if rows:
        show_table(rows, _INPUTS, f"{key}.inputs", height="content")
    steps = [
        {"what": step.what, "formula": step.formula, "value": show_quantity(step.value, step.unit)}
        for step in answer.steps
    ]
    if steps:
        show_table(steps, _STEPS, f"{key}.steps", height="content")
    for sentence in answer.assumptions:
        st.caption(f"Assumed: {plain(sentence)}")
