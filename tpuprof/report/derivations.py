"""A derivation for people: the answer first, then everything needed to check it by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.perfmodel.derivation import Derivation, Quantity, Value
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import md
from tpuprof.text import clean, plural
from tpuprof.units import PS_PER_S, UNKNOWN, format_percent, format_ps, format_si

_SCALED = ("B/s", "FLOP/s", "FLOP", "B", "Hz")
_DIGITS = 6


def show_quantity(value: Value, unit: str = "") -> str:
    """A value with its unit, scaled where the unit is one that people scale: ``240.244 FLOP/B``, ``197 TFLOP/s``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _show_number(value, unit)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{clean(name)}={_part(part)}" for name, part in value.items()) or "none"
    return ", ".join(map(_part, value)) or "none"


def derivation_text(answer: Derivation, name: str, also: Mapping[str, Derivation] | None = None) -> str:
    """Lines of text with a label each.

    Args:
        name: what was asked for.
        also: further answers of the same calculation, shown on one line each.
    """
    rows = [("" if n else clean(name), text) for n, text in enumerate(_lines(answer.value, answer.unit))]
    rows += [("regime", clean(answer.regime))] if answer.regime else []
    rows.append(("formula", answer.formula))
    rows += [("" if n else "inputs", text) for n, text in enumerate(_inputs(answer.inputs))]
    rows += [
        ("" if n else "steps", f"{clean(step.what)}: {clean(step.formula)}{_equals(step.value, step.unit)}")
        for n, step in enumerate(answer.steps)
    ]
    rows += [("" if n else "assumes", clean(sentence)) for n, sentence in enumerate(answer.assumptions)]
    if answer.source:
        rows.append(("source", answer.source))
    others = [f"{other} {_short(d)}" for other, d in (also or {}).items()]
    rows += [("" if n else "also", text) for n, text in enumerate(others)]
    width = max(len(label) for label, _ in rows)
    return "".join(f"{label:<{width}}  {text}".rstrip() + "\n" for label, text in rows)


def derivation_markdown(answer: Derivation, name: str, also: Mapping[str, Derivation] | None = None) -> str:
    """The same as Markdown."""
    lines = [f"### {md(name)}: {md(show_quantity(answer.value, answer.unit))}", "", f"`{answer.formula}`", ""]
    if answer.regime:
        lines += [f"Regime: {md(answer.regime)}", ""]
    lines += ["| input | value | source |", "|---|---|---|"]
    for symbol, quantity in answer.inputs.items():
        value = md(show_quantity(quantity.value, quantity.unit))
        lines.append(f"| {md(symbol)} | {value} | {md(quantity.source)} |")
    lines.append("")
    for step in answer.steps:
        lines.append(f"1. {md(step.what)}: `{step.formula}`{md(_equals(step.value, step.unit))}")
    lines += [""] if answer.steps else []
    lines += [f"- assumes: {md(sentence)}" for sentence in answer.assumptions]
    lines += [f"- also: {md(other)} {md(_short(d))}" for other, d in (also or {}).items()]
    if answer.source:
        lines.append(f"- source: {md(answer.source)}")
    return "\n".join(lines).rstrip("\n") + "\n"


def derivation_document(
    answer: Derivation, command: str, name: str, also: Mapping[str, Derivation] | None = None
) -> dict[str, Any]:
    """The JSON document: the keys of the contract, and under ``also`` the further answers."""
    others = {other: d.to_json()["answer"] for other, d in (also or {}).items()}
    head = {"schema_version": SCHEMA_VERSION, "command": command, "asked": name}
    return {**head, **answer.to_json(), "also": others}


def _part(value: Value) -> str:
    """An entry of a list: nested ones in brackets, and no separators in numbers, which commas part already."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return str(value) if isinstance(value, int) else f"{value:.{_DIGITS}g}"
    return f"({show_quantity(value)})" if _is_list(value) else show_quantity(value)


def _show_number(value: float, unit: str) -> str:
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if unit == "s" and abs(value) < 1000:
        return format_ps(value * PS_PER_S, _DIGITS)
    if unit == "fraction":
        return format_percent(value)
    if unit in _SCALED and 0 < abs(value) < 1e21:
        return format_si(value, unit, _DIGITS)
    whole = float(value).is_integer() and abs(value) < 1e15
    text = f"{int(value):,}" if whole else f"{value:.{_DIGITS}g}"
    return text if unit == "ratio" else f"{text} {unit}".rstrip()


def _lines(value: Value, unit: str) -> list[str]:
    """A line per row of a table, else one line."""
    rows = _rows(value)
    return [show_quantity(row) for row in rows] if rows else [show_quantity(value, unit)]


def _short(answer: Derivation) -> str:
    """What fits on a line; tables are counted."""
    rows = _rows(answer.value)
    return f"({plural(len(rows), 'row')}, see --ask)" if rows else show_quantity(answer.value, answer.unit)


def _inputs(inputs: Mapping[str, Quantity]) -> list[str]:
    shown: list[str] = []
    for symbol, quantity in inputs.items():
        source = f"  ({clean(quantity.source)})" if quantity.source else ""
        shown.append(f"{clean(symbol)} = {show_quantity(quantity.value, quantity.unit)}{source}")
    return shown


def _equals(value: Value, unit: str) -> str:
    return "" if value is None else f" = {show_quantity(value, unit)}"


def _rows(value: Value) -> list[Value]:
    """The rows of a list of named groups; empty if it is something else."""
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(row, Mapping) for row in value):
        return list(value)
    return []


def _is_list(value: Value) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str))
