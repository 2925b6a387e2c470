"""What was captured: the result of ``tpuprof info``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.build import run_facts
from tpuprof.report.capture_facts import capture_listings
from tpuprof.report.documents import head
from tpuprof.report.facts import headline
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.report.plain import jsonable, records
from tpuprof.text import clean
from tpuprof.units import format_bytes, format_ps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

ROWS_SHOWN = 40
"""The listings for people show at most this many planes and programs; JSON has all."""

_LINE_KEYS = ("host", "plane", "line", "events")
_SOURCE_FIELDS = (
    Field("path", "file", role="tail"),
    Field("format", "format", rank=1),
    Field("size_bytes", "size", format_bytes, right=True),
)
_PLANE_FIELDS = (
    Field("host", "host", rank=1, role="name"),
    Field("plane", "plane", role="name"),
    Field("lines", "lines", show_count, right=True),
    Field("events", "events", show_count, right=True),
)
_PROGRAM_FIELDS = (
    Field("module", "program", role="name"),
    Field("executions", "executions", show_count, right=True, rank=1),
    Field("total_ps", "time over all cores", format_ps, right=True),
    Field("hlo", "HLO", lambda known: "in the trace" if known else "missing"),
)


def info_result(trace: Trace) -> Result:
    """Hosts, devices, window, versions, files, planes and programs. Its rows (CSV, JSON lines) are the lines.

    ``capture`` is the sidecar (empty without one), with ``processes`` where there are several.
    ``programs[].hlo`` says whether the program's HLO is known; ``lines[].line`` is null for a plane without lines.
    """
    lines, programs = _lines(trace), _programs(trace)
    sources = [{"path": s.path, "format": s.format, "size_bytes": s.size_bytes} for s in trace.sources]
    document: dict[str, Any] = {
        **head(trace, "info"),
        "run": run_facts(trace),
        "path": trace.path,
        "origin_ns": trace.origin_ns,
        "capture": jsonable(dict(trace.metadata)),
        "sources": sources,
        "programs": programs,
        "lines": lines,
    }
    listings = (
        *capture_listings(trace.metadata),
        Listing("Files", "file", _SOURCE_FIELDS, sources, len(sources)),
        _bounded("Planes", "plane", _PLANE_FIELDS, _planes(lines)),
        _bounded("Programs that ran", "program", _PROGRAM_FIELDS, programs),
    )
    return Result(document, "lines", _LINE_KEYS, listings)


def info_facts(document: dict[str, Any]) -> list[str]:
    """The run's facts in words: those of the report's head, then hosts and path."""
    hosts = document["run"]["hosts"]
    shown = ", ".join(clean(host) for host in hosts[:8]) + (f" and {len(hosts) - 8} more" if len(hosts) > 8 else "")
    return [*headline(document), *([f"hosts: {shown}"] if hosts else []), f"path: {clean(document['path'])}"]


def _lines(trace: Trace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for recording in trace.recordings:
        for plane in recording.space.planes:
            place = {"host": recording.host, "plane": plane.name}
            rows.extend({**place, "line": line.label, "events": len(line.events)} for line in plane.lines)
            if not plane.lines:
                rows.append({**place, "line": None, "events": 0})
    return rows


def _planes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    planes: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        key = (line["host"], line["plane"])
        plane = planes.setdefault(key, {"host": key[0], "plane": key[1], "lines": 0, "events": 0})
        plane["lines"] += line["line"] is not None
        plane["events"] += line["events"]
    return list(planes.values())


def _programs(trace: Trace) -> list[dict[str, Any]]:
    frame = trace.modules
    groups = frame.groupby("module", observed=True, sort=False)["duration_ps"].agg(["size", "sum"]).reset_index()
    rows = [
        {
            "module": row["module"],
            "executions": row["size"],
            "total_ps": row["sum"],
            "hlo": _program_id(row["module"]) in trace.programs,
        }
        for row in records(groups)
    ]
    return sorted(rows, key=lambda row: -row["total_ps"])


def _program_id(module: str) -> int | None:
    """The id in ``name(id)``, modulo 2^64; null where there is none."""
    text = module.rpartition("(")[2].removesuffix(")")
    return int(text) & 0xFFFF_FFFF_FFFF_FFFF if text.lstrip("-").isdecimal() else None


def _bounded(title: str, noun: str, fields: tuple[Field, ...], rows: list[dict[str, Any]]) -> Listing:
    return Listing(title, noun, fields, rows[:ROWS_SHOWN], len(rows))
