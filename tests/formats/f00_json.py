"""The clean run F00 as trace-event JSON, and a tiny writer of that format for tests."""

from __future__ import annotations

import gzip
import json
from typing import Any

EPOCH_PS = 1_700_000_000_000_000_000 * 1000
PROGRAM = "jit_train_step(1234567890)"
OPS = (
    ("fusion.1", "loop fusion", 0, 400),
    ("fusion.2", "convolution fusion", 400, 300),
    ("all-reduce.3", "all-reduce", 700, 200),
    ("copy.4", "copy", 900, 50),
)
Event = dict[str, Any]


def us(ps: int) -> str:
    """Picoseconds as decimal microseconds."""
    sign = "-" if ps < 0 else ""
    whole, part = divmod(abs(ps), 1_000_000)
    return f"{sign}{whole}" + (f".{part:06d}".rstrip("0") if part else "")


def name_event(pid: int, tid: int | None, name: str) -> str:
    """An ``M`` event that names a process or a thread."""
    thread = "" if tid is None else f'"tid":{tid},'
    kind = "process_name" if tid is None else "thread_name"
    return f'{{"ph":"M","pid":{pid},{thread}"name":"{kind}","args":{{"name":{json.dumps(name)}}}}}'


def span_event(pid: int, tid: int, start_ps: int, duration_ps: int, name: str, args: dict[str, str]) -> str:
    """An ``X`` event; all arguments are text, as the converter writes them."""
    tail = f',"args":{json.dumps(args, separators=(",", ":"))}' if args else ""
    return (
        f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{us(start_ps)},"dur":{us(duration_ps)},'
        f'"name":{json.dumps(name)}{tail}}}'
    )


def document(events: list[str]) -> bytes:
    """The whole text, with the empty object at the end."""
    listed = ",".join([*events, "{}"])
    text = f'{{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[{listed}]}}'
    return text.encode()


def f00_events() -> list[str]:
    """5 names and the 21 spans of F00: 3 steps, 3 modules, 12 ops, 3 host calls."""
    micro = 1_000_000
    events = [
        name_event(3, None, "/device:TPU:0"),
        name_event(3, 1, "Steps"),
        name_event(3, 2, "XLA Modules"),
        name_event(3, 3, "XLA Ops"),
        name_event(3, 4, "Async XLA Ops"),
        name_event(701, None, "/host:CPU"),
        name_event(701, 7, "python"),
    ]
    for step in range(3):
        start = EPOCH_PS + step * 1000 * micro
        run = {"run_id": str(step + 1)}
        events.append(span_event(3, 1, start, 1000 * micro, str(step), {}))
        events.append(span_event(3, 2, start, 950 * micro, PROGRAM, run))
        for name, category, offset, duration in OPS:
            args = {"hlo_category": category, "long_name": f"%{name} = bf16[4096,1024]{{1,0}} op(%x)"}
            events.append(span_event(3, 3, start + offset * micro, duration * micro, name, args))
        call = EPOCH_PS - 1000 * micro + (900 + 1000 * step) * micro
        events.append(span_event(701, 7, call, 80 * micro, "train_step", {"step_num": str(step)}))
    return events


def f00_json() -> bytes:
    """F00 as it would be in a ``.trace.json``."""
    return document(f00_events())


def f00_json_gz() -> bytes:
    """F00 as it would be in a ``.trace.json.gz``."""
    return gzip.compress(f00_json(), mtime=0)
