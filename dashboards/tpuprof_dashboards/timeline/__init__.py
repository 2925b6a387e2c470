"""The timeline of a run: tracks of its devices and hosts on a canvas, drawn window by window."""

from tpuprof_dashboards.timeline.build import build_timeline
from tpuprof_dashboards.timeline.component import Selection, timeline
from tpuprof_dashboards.timeline.model import TimelineModel

__all__ = ["Selection", "TimelineModel", "build_timeline", "timeline"]
