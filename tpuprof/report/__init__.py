"""Reports: a plain dictionary made from a trace, and its views.

    report = build_report(trace)              # the JSON of `tpuprof report --json`
    text = render_report(report, "html")      # also table, md, csv, jsonl, junit, sarif, github

Every view is a function of the dictionary alone.
"""

from __future__ import annotations

from tpuprof.report.build import SCHEMA_VERSION, build_report
from tpuprof.report.render import REPORT_FORMATS, TABLE_FORMATS, render_report

__all__ = ["REPORT_FORMATS", "SCHEMA_VERSION", "TABLE_FORMATS", "build_report", "render_report"]
