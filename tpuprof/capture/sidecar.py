"""The sidecar: a small JSON file beside a trace that says how, where and by what it was captured.

The first process of a session to finish writes ``tpuprof.json``, each further one
``<trace file>.tpuprof.json``, without the trace's own suffix.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tpuprof._version import __version__
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.session import XPLANE_SUFFIX, ProcessIdentity, write_new
from tpuprof.masking import mask_arguments, mask_text

SCHEMA_VERSION = 1
SIDECAR_NAME = "tpuprof.json"
_ENVIRONMENT = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_PLATFORMS")
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Environment:
    """What the profiler's process runs on."""

    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # jax, jaxlib, libtpu
    platform: str | None = None
    device_kinds: Mapping[str, int] = field(default_factory=dict[str, int])  # local devices of each kind
    device_count: int | None = None  # devices of the whole program
    process_index: int = 0
    process_count: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds of the capture itself, and its window in nanoseconds since the epoch."""

    start_ns: int
    stop_ns: int
    start_seconds: float
    drain_seconds: float
    stop_seconds: float
    write_seconds: float


def describe(
    *,
    trace_file: Path,
    trace_bytes: int,
    environment: Environment,
    identity: ProcessIdentity,
    options: CaptureOptions,
    timing: Timing,
    trigger: str,
    complete: bool,
    errors: Sequence[str],
) -> dict[str, Any]:
    """The content of a sidecar: JSON values, durations in seconds, times in UTC, secrets masked."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": "tpuprof",
        "complete": complete,
        "trigger": trigger,
        "file": trace_file.name,
        "file_bytes": trace_bytes,
        "host": identity.host,
        "pid": identity.pid,
        "process_index": identity.process_index,
        "process_count": identity.process_count,
        "versions": {"tpuprof": __version__, "python": platform.python_version(), **environment.versions},
        "platform": environment.platform,
        "device_kinds": dict(environment.device_kinds),
        "device_count": environment.device_count,
        "environment": {name: mask_text(os.environ[name]) for name in _ENVIRONMENT if name in os.environ},
        "command": mask_arguments(getattr(sys, "argv", [])),
        "started_at": _utc(timing.start_ns),
        "stopped_at": _utc(timing.stop_ns),
        "start_ns": timing.start_ns,
        "stop_ns": timing.stop_ns,
        "seconds": {
            "start": timing.start_seconds,
            "drain": timing.drain_seconds,
            "stop": timing.stop_seconds,
            "write": timing.write_seconds,
        },
        "options": options.as_dict(),
        "errors": list(errors),
    }


def write_sidecar(trace_file: Path, content: Mapping[str, Any]) -> Path:
    """Writes the sidecar of a trace file and returns its path; never replaces another one.

    Raises:
        OSError: it cannot be written.
    """
    data = (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    stem = trace_file.name.removesuffix(XPLANE_SUFFIX)
    for name in (SIDECAR_NAME, f"{stem}.{SIDECAR_NAME}"):
        path = trace_file.with_name(name)
        if write_new(path, data):
            return path
    raise FileExistsError(f"{path} exists.")


def read_sidecars(session: Path) -> dict[str, dict[str, Any]]:
    """The sidecars of a session by the name of their trace file; unreadable ones are left out."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted({session / SIDECAR_NAME, *session.glob(f"*.{SIDECAR_NAME}")}):
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
                continue
            content: Any = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            sidecar = cast("dict[str, Any]", content)
            if isinstance(sidecar.get("file"), str):
                found[sidecar["file"]] = sidecar
    return found


def _utc(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds")
