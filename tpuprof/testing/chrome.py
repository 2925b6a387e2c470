"""A built host as the trace viewer's JSON, with the losses of the real conversion.

Lost are the flops and program ids of ops, the stats of planes, HLO protos and all asynchronous events; all
arguments become text. Times are decimal microseconds with up to six decimals, from the earliest line of the
host.
"""

from __future__ import annotations

import json

from tpuprof.testing.builder import Event, HostBuilder, LineBuilder, PlaneBuilder
from tpuprof.testing.values import Ref, Stat, Unsigned, as_text

_LOST_STATS = frozenset({"flops", "program_id", "symbol_id", "_r", "_c", "_ct", "_p", "_pt", "_a"})
_LOST_LINES = frozenset({"Async XLA Ops"})
_FIRST_DEVICE_PID = 3
_FIRST_HOST_PID = 701


def trace_json(host: HostBuilder) -> str:
    """The JSON text: an object whose ``traceEvents`` holds names, then events, then an empty object."""
    planes = [plane for plane in host.planes if plane.lines]
    pids = _pids(planes)
    origin_ns = min((line.timestamp_ns for plane in planes for line in plane if line.events), default=0)
    names = [text for plane in planes for text in _name_records(plane, pids[plane.name])]
    events = [
        _event_record(plane, line, event, pids[plane.name], origin_ns)
        for plane in planes
        for line in plane
        if line.name not in _LOST_LINES
        for event in line
    ]
    body = ",".join([*names, *events, "{}"])
    return f'{{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[{body}]}}'


def _pids(planes: list[PlaneBuilder]) -> dict[str, int]:
    devices = [plane.name for plane in planes if plane.name.startswith("/device:")]
    others = [plane.name for plane in planes if not plane.name.startswith("/device:")]
    return {
        **{name: _FIRST_DEVICE_PID + n for n, name in enumerate(devices)},
        **{name: _FIRST_HOST_PID + n for n, name in enumerate(others)},
    }


def _name_records(plane: PlaneBuilder, pid: int) -> list[str]:
    records: list[dict[str, object]] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}},
        {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}},
    ]
    for line in plane:
        tid = {"ph": "M", "pid": pid, "tid": line.id}
        records.append({**tid, "name": "thread_name", "args": {"name": line.display_name or line.name}})
        records.append({**tid, "name": "thread_sort_index", "args": {"sort_index": line.id}})
    return [_dump(record) for record in records]


def _event_record(plane: PlaneBuilder, line: LineBuilder, event: Event, pid: int, origin_ns: int) -> str:
    shift = 0 if line.clock == "plain" else plane.shift_at(event.start_ps)
    start_ps = (line.timestamp_ns - origin_ns) * 1000 + event.start_ps + shift
    args: dict[str, str] = {} if event.text is None else {"long_name": as_text(event.text)}
    if line.clock == "device":
        args |= {"device_offset_ps": str(event.start_ps), "device_duration_ps": str(event.duration_ps)}
    args |= {k: _argument(v) for k, v in {**event.meta, **event.stats}.items() if k not in _LOST_STATS}
    tail = f',"args":{_dump(args)}' if args else ""
    # The numbers are printed from integers: a float would lose digits late in a long session.
    return (
        f'{{"ph":"X","pid":{pid},"tid":{line.id},"ts":{_microseconds(start_ps)},'
        f'"dur":{_microseconds(event.duration_ps)},"name":{_dump(as_text(event.name))}{tail}}}'
    )


def _argument(value: Stat) -> str:
    match value:
        case bytes():
            return "<opaque bytes>"
        case Ref(text):
            return text
        case Unsigned(number):
            return str(number)
        case _:
            return str(value)


def _microseconds(ps: int) -> str:
    whole, rest = divmod(abs(ps), 1_000_000)
    decimals = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{'-' if ps < 0 else ''}{whole}{decimals}"


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
