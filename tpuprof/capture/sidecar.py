"""Writing the sidecar: a small JSON file beside a trace that says how, where and by what it was captured.

The one process of a lone program, and the first of those that record a distributed one, write ``tpuprof.json``; the
others write ``<trace file>.tpuprof.json``, without the trace's own suffix, and so does whoever finds the name
taken. What the fields mean: `tpuprof.sidecar`.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tpuprof._version import __version__
from tpuprof.capture.compiles import compile_log
from tpuprof.capture.environment import Environment
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.process import command_line, git_look, machine, variables
from tpuprof.capture.programs import describe_programs
from tpuprof.capture.runid import Membership
from tpuprof.capture.session import XPLANE_SUFFIX, ProcessIdentity, write_new
from tpuprof.sidecar import SCHEMA_VERSION, SIDECAR_NAME

_LARGEST_BYTES = 16 << 20


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
    run: Membership | None = None,
    expected: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The content of a sidecar: JSON values, durations in seconds, times in UTC, secrets masked.

    Writes the HLO of noted programs beside the trace, if the capture is complete.
    """
    member = run or Membership()
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
        "run": {
            "name": trace_file.parent.name,
            "agreed_by": member.agreed_by,
            "expected_processes": list(range(identity.process_count) if expected is None else expected),
            "seen": dict(member.seen),
        },
        "versions": {"tpuprof": __version__, "python": platform.python_version(), **environment.versions},
        "platform": environment.platform,
        "platform_version": environment.platform_version,
        "device_kinds": dict(environment.device_kinds),
        "device_count": environment.device_count,
        "devices": [dict(device) for device in environment.devices],
        "meshes": [dict(mesh) for mesh in environment.meshes],
        "settings": dict(environment.settings),
        "environment": variables(),
        "command": command_line(),
        "machine": machine(),
        "git": git_look.result(),
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
        "compiles": compile_log.report(timing.start_ns, timing.stop_ns),
        # A program that is about to be killed has no time for texts of megabytes.
        "programs": describe_programs(trace_file.parent, identity.process_index) if complete else [],
        "errors": [*errors, *([member.problem] if member.problem else [])],
    }


def write_sidecar(trace_file: Path, content: Mapping[str, Any]) -> Path:
    """Writes the sidecar of a trace file and returns its path; never replaces another one.

    Raises:
        OSError: it cannot be written.
    """
    data = _encoded(content)
    names = [SIDECAR_NAME, f"{trace_file.name.removesuffix(XPLANE_SUFFIX)}.{SIDECAR_NAME}"]
    if not _leads(content):
        # Files of several hosts are gathered into one place later, where equal names would replace each other.
        names.reverse()
    paths = [trace_file.with_name(name) for name in names]
    for path in paths:
        if write_new(path, data):
            return path
    raise FileExistsError(f"{paths[-1]} exists.")


def add_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Replaces fields of a sidecar that became known later, such as the step times after the window; atomically.

    Raises:
        OSError: it cannot be read or written.
        ValueError: it is no sidecar any more.
    """
    content: Any = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object.")
    data = _encoded({**cast("dict[str, Any]", content), **facts})
    handle, temporary = tempfile.mkstemp(prefix=".tpuprof-", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _encoded(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _leads(content: Mapping[str, Any]) -> bool:
    expected = cast("Mapping[str, Any]", content.get("run") or {}).get("expected_processes") or [0]
    return content.get("process_count", 1) == 1 or content.get("process_index") == min(expected)


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
