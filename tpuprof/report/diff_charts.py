"""The charts of a comparison, where the extra ``charts`` is installed."""

from __future__ import annotations

from typing import Any

from tpuprof.charts import charts_available
from tpuprof.report.html_charts import figure
from tpuprof.report.plain import rows_of, table_of
from tpuprof.text import clean


def delta_rows(document: dict[str, Any]) -> tuple[list[dict[str, Any]], float | None]:
    """The rows of the waterfall from the mean step of the base to the new one, and the former; no rows without one."""
    rows = [row for row in rows_of(document["groups"]) if row["depth"] == 0 and row["delta_ps"]]
    if not rows:
        return [], None
    parts = table_of(document["parts"]).values()
    base_ps = sum(part["base"] for part in parts)
    deltas = [{"label": _label(row, document["by"]), "delta_ps": row["delta_ps"]} for row in rows]
    residual = document["residual_ps"]
    deltas += [{"label": "residual", "delta_ps": residual}] if residual else []
    return deltas, base_ps or None


def delta_figure(document: dict[str, Any]) -> str:
    """The difference as a waterfall; empty without one."""
    rows, base_ps = delta_rows(document)
    if not rows or not charts_available():
        return ""
    from tpuprof.charts import delta_chart

    return figure(delta_chart(rows, base_ps, ("base", "new")), "The difference of the mean steps, by part")


def steps_figures(document: dict[str, Any]) -> str:
    """The distribution of the step times of each side; empty where there are too few."""
    if not charts_available():
        return ""
    from tpuprof.charts import step_time_chart

    found: list[str] = []
    for side in ("base", "new"):
        times: list[float] = list(table_of(document[side]).get("step_ps") or ())
        if len(times) > 1:
            found.append(f"<p>{side}</p>\n{figure(step_time_chart(times), f'Step times, {side}')}")
    return "".join(found)


def _label(row: dict[str, Any], by: str) -> str:
    """A short name: the last part of a scope, with the op."""
    name = clean(row["name"])
    return f"{name} in {clean(row['scope'])}" if by == "op" and row["scope"] else name
