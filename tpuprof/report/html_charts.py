"""The charts of the HTML report, where the extra ``charts`` is installed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tpuprof.charts import charts_available
from tpuprof.report.plain import rows_of, table_of
from tpuprof.report.roofline import ladder_rows

if TYPE_CHECKING:
    from tpuprof.charts import Drawing

HINT = 'Charts of the ladder, the roofline and the collectives are drawn after: pip install "tpuprof[charts]"'


def roofline_figure(report: dict[str, Any]) -> str:
    """The roofline; empty without known hardware, which the section says already."""
    section = table_of(report["roofline"])
    if section.get("chip") is None:
        return ""
    if not charts_available():
        return f'<p class="soft">{escape(HINT)}</p>\n'
    from tpuprof.charts import roofline_chart

    return figure(roofline_chart(report["ops"], section), "Roofline: achieved FLOP/s over operational intensity")


def ladder_figure(report: dict[str, Any]) -> str:
    """The ideal ladder as a waterfall; empty without one."""
    rows = ladder_rows(report)
    if not rows or not charts_available():
        return ""
    from tpuprof.charts import ladder_chart

    return figure(ladder_chart(rows), "Ideal ladder of the mean step, as a waterfall")


def collectives_figure(report: dict[str, Any]) -> str:
    """Collectives against their bounds; empty where no hardware is known or none ran."""
    rows = rows_of(report["collectives"])
    if not rows or table_of(report["roofline"]).get("chip") is None or not charts_available():
        return ""
    from tpuprof.charts import collectives_chart

    return figure(collectives_chart(rows), "Collectives: measured times and what the links allow")


def figure(drawing: Drawing, label: str) -> str:
    """A chart with its caption, or the sentence on why there is none."""
    if drawing.chart is None:
        return f'<p class="soft">{escape(drawing.caption)}</p>\n'
    from tpuprof.charts import to_svg

    svg = to_svg(drawing.chart, "page", label)
    return f'<figure><div class="wide">{svg}</div><figcaption>{escape(drawing.caption)}</figcaption></figure>\n'
