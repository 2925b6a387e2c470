"""Charts as pure functions: rows and report dictionaries in, Altair specs out; nothing is drawn on import.

    from tpuprof.charts import roofline_chart, to_svg
    drawing = roofline_chart(report["ops"], report["roofline"])
    drawing.caption                             # what is shown of how much, or why there is no chart
    if drawing.chart is not None:
        svg = to_svg(drawing.chart, "dark")     # needs no browser

They need the extra ``charts`` (altair and vl-convert-python), which is imported when a chart is made.
"""

from __future__ import annotations

from tpuprof.charts.accuracy import accuracy_chart
from tpuprof.charts.allocators import allocators_chart
from tpuprof.charts.collectives import collectives_chart
from tpuprof.charts.drawing import Drawing, charts_available
from tpuprof.charts.heat import heat_chart
from tpuprof.charts.mean_step import mean_step_chart
from tpuprof.charts.memory import memory_curve_chart, memory_needs_chart
from tpuprof.charts.opsteps import op_steps_chart
from tpuprof.charts.partition import device_parts_chart, step_parts_chart
from tpuprof.charts.plan_bars import plan_memory_chart, plan_steps_chart
from tpuprof.charts.plan_map import mesh_map_chart
from tpuprof.charts.plan_scaling import scaling_chart
from tpuprof.charts.plan_serving import load_chart, pareto_chart
from tpuprof.charts.roofline import roofline_chart
from tpuprof.charts.steptime import op_time_chart, step_time_chart
from tpuprof.charts.svg import to_svg
from tpuprof.charts.themes import THEMES, Theme, themed
from tpuprof.charts.trend import trend_chart
from tpuprof.charts.waiting import collective_split_chart, idle_causes_chart, skew_chart
from tpuprof.charts.waterfall import delta_chart, ladder_chart

__all__ = [
    "THEMES",
    "Drawing",
    "Theme",
    "accuracy_chart",
    "allocators_chart",
    "charts_available",
    "collective_split_chart",
    "collectives_chart",
    "delta_chart",
    "device_parts_chart",
    "heat_chart",
    "idle_causes_chart",
    "ladder_chart",
    "load_chart",
    "mean_step_chart",
    "memory_curve_chart",
    "memory_needs_chart",
    "mesh_map_chart",
    "op_steps_chart",
    "op_time_chart",
    "pareto_chart",
    "plan_memory_chart",
    "plan_steps_chart",
    "roofline_chart",
    "scaling_chart",
    "skew_chart",
    "step_parts_chart",
    "step_time_chart",
    "themed",
    "to_svg",
    "trend_chart",
]
