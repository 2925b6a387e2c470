"""How a run was captured, from its sidecar, as rows for people: what ran, on what, and what the capture cost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tpuprof.report.listing import Field, Listing
from tpuprof.units import format_bytes, format_percent, format_ps

PROCESSES_SHOWN = 40
_LONGEST = 2000
_PS_PER_NS = 1000
_OPTION_DEFAULTS = {"host_tracer_level": 2, "python_tracer_level": 0, "enable_hlo_proto": True}

_FIELDS = (Field("what", "what"), Field("value", "value", role="name"))
_PROCESS_FIELDS = (
    Field("process_index", "process", right=True),
    Field("host", "host", role="name"),
    Field("devices", "devices", right=True, rank=1),
    Field("begin", "begins", right=True),
    Field("window", "window", right=True),
    Field("size", "size", right=True, rank=2),
    Field("state", "state"),
)


def capture_listings(metadata: Mapping[str, Any]) -> tuple[Listing, ...]:
    """The capture as a table of facts, and its processes where there are several; none without a sidecar."""
    rows = [{"what": what, "value": value[:_LONGEST]} for what, value in _facts(metadata) if value]
    listings = [Listing("Capture", "fact", _FIELDS, rows, len(rows))] if rows else []
    processes = [_mapping(process) for process in _list(metadata.get("processes"))]
    if processes:
        first = min((start for one in processes if (start := _integer(one.get("start_ns"))) is not None), default=0)
        shown = [_process_row(process, first) for process in processes[:PROCESSES_SHOWN]]
        listings.append(Listing("Processes", "process", _PROCESS_FIELDS, shown, len(processes)))
    return tuple(listings)


def _facts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    command = [str(argument) for argument in _list(metadata.get("command"))]
    yield "command", shlex.join(command)
    git = _mapping(metadata.get("git"))
    if isinstance(git.get("commit"), str):
        yield "commit", f"{git['commit'][:12]}{' with changes' if git.get('dirty') else ''}"
    yield "begun", _text(metadata.get("started_at"))
    yield "by", _text(metadata.get("trigger"))
    yield (
        "options",
        ", ".join(
            f"{name}={value}"
            for name, value in _mapping(metadata.get("options")).items()
            if name not in _OPTION_DEFAULTS or value != _OPTION_DEFAULTS[name]
        ),
    )
    yield "runtime", _text(metadata.get("platform_version"))
    for mesh in _list(metadata.get("meshes")):
        axes = _mapping(_mapping(mesh).get("axes"))
        size = _integer(_mapping(mesh).get("bytes"))
        yield "mesh", " x ".join(f"{axis} {length}" for axis, length in axes.items()) + _of_arrays(size)
    for name, value in _mapping(metadata.get("environment")).items():
        yield str(name), _text(value)
    yield "step time", _step_time(_mapping(metadata.get("step_time")))
    yield "compilations", _compilations(_mapping(metadata.get("compiles")))
    yield "cost of the capture", _cost(_mapping(metadata.get("seconds")))
    for program in _list(metadata.get("programs")):
        yield "program", _program(_mapping(program))
    yield "machine", _machine(_mapping(metadata.get("machine")))


def _of_arrays(size: int | None) -> str:
    return "" if not size else f" ({format_bytes(size)} of arrays)"


def _step_time(times: Mapping[str, Any]) -> str:
    told = {when: _integer(times.get(f"{when}_ns")) for when in ("before", "during", "after")}
    parts = [f"{format_ps(ns * _PS_PER_NS)} {when}" for when, ns in told.items() if ns]
    usual, during = told["before"] or told["after"], told["during"]
    if not usual or not during:
        return ", ".join(parts)
    change = during / usual - 1
    return f"{', '.join(parts)} ({format_percent(abs(change))} {'longer' if change >= 0 else 'shorter'})"


def _compilations(compiles: Mapping[str, Any]) -> str:
    count, inside = _integer(compiles.get("count")), _integer(compiles.get("in_window"))
    return "" if count is None or inside is None else f"{inside} in the window, {count} since tpuprof looks"


def _cost(seconds: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {format_ps(value * 1e12)}"
        for name, value in seconds.items()
        if isinstance(value, int | float) and 0 <= value < 1e6
    )


def _program(program: Mapping[str, Any]) -> str:
    memory = _mapping(program.get("memory"))
    sizes = [
        f"{name.removesuffix('_bytes')} {format_bytes(size)}"
        for name, value in memory.items()
        if (size := _integer(value)) is not None
    ]
    return " · ".join([_text(program.get("name")), *([", ".join(sizes)] if sizes else []), _text(program.get("file"))])


def _machine(machine: Mapping[str, Any]) -> str:
    memory, cpus = _integer(machine.get("memory_bytes")), _integer(machine.get("cpus"))
    parts = [_text(machine.get("system")), f"{cpus} CPUs" if cpus else "", format_bytes(memory) if memory else ""]
    return ", ".join(part for part in parts if part)


def _process_row(process: Mapping[str, Any], first: int) -> dict[str, Any]:
    start, stop = _integer(process.get("start_ns")), _integer(process.get("stop_ns"))
    size = _integer(process.get("file_bytes"))
    return {
        "process_index": _integer(process.get("process_index")),
        "host": _text(process.get("host")),
        "devices": sum(count for value in _mapping(process.get("device_kinds")).values() if (count := _integer(value))),
        "begin": None if start is None else f"+{format_ps((start - first) * _PS_PER_NS)}",
        "window": None if start is None or stop is None else format_ps((stop - start) * _PS_PER_NS),
        "size": None if size is None else format_bytes(size),
        "state": "complete" if process.get("complete") is True else "ended early",
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _integer(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
