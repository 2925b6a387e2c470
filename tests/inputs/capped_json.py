"""F06: a session whose JSON ends at the converter's cap, with a complete XPlane beside it or alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from tests.inputs.clean import DEVICE_NS, f00_trace
from tpuprof.formats.xplane_writer import write_xplane
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, Space

US = 1_000_000
WINDOW_US = 3000
OTHER = 6  # the device rows of step 0: a step, a module, four ops


NAMES = 10_000  # Python has fewer functions than calls


def f06(directory: Path, cap: int) -> tuple[Path, Path]:
    """A JSON with exactly ``cap`` events of which only step 0 is device work, and a complete XPlane beside it.

    All but six events of the JSON are host events ``py_i`` of 2 us that span the window of three steps. Returns the
    log root, and a root of the JSON alone.
    """
    trace = f00_trace([0])
    trace["hostA"].drop_plane("/host:CPU")
    starts = host_starts_ps(cap - OTHER)
    host = ",".join(
        f'{{"ph":"X","pid":701,"tid":1,"ts":{start // US}.{start % US:06d},"dur":2,"name":"py_{i % NAMES}"}}'
        for i, start in enumerate(starts.tolist())
    )
    name = '{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}}'
    head, tail, end = trace.to_json().rpartition(",{}]")
    both, alone = directory / "both", directory / "alone"
    data = f"{head},{name},{host}{tail}{end}".encode()
    packed = gzip.compress(data, 1, mtime=0)
    for root in (both, alone):
        (trace.session_dir(root) / "hostA.trace.json.gz").write_bytes(packed)
    # Files that are put one after the other are one message: the planes of both.
    (trace.session_dir(both) / "hostA.xplane.pb").write_bytes(f00_trace().to_bytes() + _host_plane(starts))
    return both, alone


def host_starts_ps(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Starts of the host events: 3 us apart where they fit, else packed; the last one ends with the window."""
    starts = np.arange(count, dtype=np.int64) * min(3 * US, (WINDOW_US - 2) * US // (count - 1))
    starts[-1] = (WINDOW_US - 2) * US
    return starts


def _host_plane(starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
    n = len(starts)
    metas = tuple(EventMeta(i + 1, f"py_{i}", "", {}) for i in range(min(n, NAMES)))
    i64 = np.zeros(0, np.int64)
    meta = np.arange(n, dtype=np.int32) % len(metas)
    events = Events(meta, starts, np.full(n, 2 * US), None, np.zeros(n + 1, np.int64),
                    i64.astype(np.int32), i64.astype(np.uint8), i64)  # fmt: skip
    return write_xplane(Space((Plane(99, "/host:CPU", (Line(99, "py", DEVICE_NS, events),), metas, ()),)))
