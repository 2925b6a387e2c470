"""The flame graph of name scopes: a component of our own, drawn by ``assets/flame.js``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from tpuprof.palette import LOOKS, kind_label, part_of_kind
from tpuprof.tables.scopes import SCOPE_KINDS
from tpuprof.text import clean
from tpuprof.units import UNKNOWN, format_percent, format_ps
from tpuprof_dashboards.ui import component

MOST_NODES = 700
_LONGEST = 300
_ASSETS = Path(__file__).parent / "assets"
_KINDS_TOLD = 4
_SMALLEST_SHARE = 0.01
_NAME = "tpuprof.flame"


def flame_data(nodes: Sequence[dict[str, Any]], theme: Literal["light", "dark"]) -> dict[str, Any]:
    """What the browser gets: plain texts and numbers, times already as people read them.

    Args:
        nodes: as from :func:`tpuprof.report.scopes.flame_nodes`.
        theme: whose colours.
    """
    kinds = [kind for kind in SCOPE_KINDS if any(node["kind"] == kind or _share(node, kind) for node in nodes)]
    return {
        "nodes": [_node(node, kinds) for node in nodes],
        "kinds": [
            {"name": kind_label(kind), "color": getattr(LOOKS[part_of_kind(kind)], theme)} for kind in kinds
        ],
    }  # fmt: skip


def show_flame(data: dict[str, Any], focus: str, query: str, key: str, on_change: Callable[[str, str], None]) -> None:
    """Draws the flame graph.

    Args:
        data: as from :func:`flame_data`.
        focus: the path of the scope that fills the width; empty for the whole.
        query: what is searched for.
        key: of the component.
        on_change: called with ``scope`` or ``q`` and its new value when a person zooms or searches.
    """

    def on_scope() -> None:
        _call(key, "scope", "scope", on_change)

    def on_query() -> None:
        _call(key, "query", "q", on_change)

    _component()(
        key=key,
        data={**data, "focus": focus, "query": query},
        on_scope_change=on_scope,
        on_query_change=on_query,
    )


def _call(key: str, name: str, told: str, on_change: Callable[[str, str], None]) -> None:
    value = getattr(st.session_state.get(key), name, None)
    if isinstance(value, str):
        on_change(told, value)


@cache
def _component() -> Any:
    text = {name: (_ASSETS / f"flame.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    return component(_NAME, **text)


def _share(node: dict[str, Any], kind: str) -> float:
    """The share of a kind in the time of a node; 0 where it is too small to be drawn."""
    share = node[f"{kind}_ps"] / node["total_ps"] if node["total_ps"] else 0.0
    return round(share, 3) if share >= _SMALLEST_SHARE else 0.0


def _node(node: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    total = node["total_ps"]
    parts = sorted(((node[f"{kind}_ps"], kind) for kind in SCOPE_KINDS if node[f"{kind}_ps"]), reverse=True)
    more = [
        ("own time", format_ps(node["self_ps"])),
        ("of the step", format_percent(node["step_fraction"], 1)),
        ("occurrences", f"{node['occurrences']:,}"),
        *((name, f"{format_percent(node[key] / total, 0)}") for name, key in
          (("backward", "backward_ps"), ("recomputed", "recomputed_ps")) if node[key] and total),
        *((kind_label(kind), format_percent(ps / total, 0)) for ps, kind in parts[:_KINDS_TOLD] if total),
    ]  # fmt: skip
    return {
        "path": node["path"],
        "name": clean(node["name"])[:_LONGEST] or "all",
        "above": node["above"],
        "total": total,
        "time": format_ps(total),
        "kind": kinds.index(node["kind"]) if node["kind"] in kinds else -1,
        "parts": [(at, share) for at, kind in enumerate(kinds) if (share := _share(node, kind))],
        "more": [(name, value) for name, value in more if value != UNKNOWN],
    }
