"""The charts of plans, where the extra ``charts`` is installed; without it one sentence on how to get them."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from tpuprof.charts import charts_available
from tpuprof.report.html_charts import figure

if TYPE_CHECKING:
    from tpuprof.charts import Drawing

HINT = 'Charts are drawn after: pip install "tpuprof[charts]"'
_SHOWN = 8


def steps_figure(document: dict[str, Any]) -> str:
    """The step of the first candidates; the first figure of a page, which says how to get charts if there are none."""
    if not charts_available():
        return f'<p class="soft">{escape(HINT)}</p>\n'

    def draw() -> Drawing:
        from tpuprof.charts import plan_steps_chart

        return plan_steps_chart(document["candidates"][:_SHOWN])

    return _figure(draw, "Where the step of each of the first candidates goes, as stacked bars")


def memory_figure(document: dict[str, Any]) -> str:
    """What the fullest device holds."""

    def draw() -> Drawing:
        from tpuprof.charts import plan_memory_chart

        return plan_memory_chart(document["candidates"][:_SHOWN])

    return _figure(draw, "Memory of a device of each of the first candidates, as stacked bars")


def map_figure(document: dict[str, Any]) -> str:
    """Exposed communication by mesh shape."""

    def draw() -> Drawing:
        from tpuprof.charts import mesh_map_chart

        return mesh_map_chart(document["mesh_map"])

    return _figure(draw, "Exposed communication by tensor parallelism and devices that share the batch")


def scaling_figure(document: dict[str, Any]) -> str:
    """Throughput and utilisation against chips."""
    if not charts_available():
        return f'<p class="soft">{escape(HINT)}</p>\n'

    def draw() -> Drawing:
        from tpuprof.charts import scaling_chart

        return scaling_chart(document["points"])

    return _figure(draw, "Strong scaling: throughput, utilisation and exposed communication against chips")


def pareto_figure(document: dict[str, Any]) -> str:
    """Latency against throughput, with the limit."""

    def draw() -> Drawing:
        from tpuprof.charts import pareto_chart

        work = document["workload"]
        by_token = all(row["tpot_s"] is not None for row in document["pareto"])
        limit = work["sla_tpot_s"] if by_token else work["sla_ttft_s"]
        return pareto_chart(document["pareto"], document["candidates"], limit)

    return _figure(draw, "Throughput per chip against the time per token")


def load_figure(document: dict[str, Any]) -> str:
    """Times to the first token and per token against load."""

    def draw() -> Drawing:
        from tpuprof.charts import load_chart

        work = document["workload"]
        return load_chart(document["load_curve"], work["sla_ttft_s"], work["sla_tpot_s"])

    return _figure(draw, "Times to the first token and per token against load")


def _figure(draw: Callable[[], Drawing], label: str) -> str:
    return figure(draw(), label) if charts_available() else ""
