"""A run, or a part of it, as XPlane files that tpuprof, XProf and TensorBoard open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpuprof._version import __version__
from tpuprof.errors import UsageError
from tpuprof.export.redaction import redact_recording
from tpuprof.export.trim import trim
from tpuprof.formats.recording import Recording
from tpuprof.formats.xplane_writer import write_xplane
from tpuprof.redact import Redactor

if TYPE_CHECKING:
    from tpuprof.trace import Trace

SUFFIX = ".xplane.pb"
SIDECAR = "tpuprof.json"
_LONGEST_NAME = 150
_UNSAFE = re.compile(r"[^\w.#-]+")


def exported_recordings(
    trace: Trace, max_events: int | None = None, redactor: Redactor | None = None
) -> tuple[Recording, ...]:
    """The recordings of the chosen steps and devices, redacted if asked for.

    Raises:
        UsageError: they hold more than ``max_events`` events, or nothing was chosen.
    """
    kept = trim(trace)
    if not kept:
        raise UsageError("Nothing is left to export.", hint="Choose other --steps or --devices.")
    count = sum(recording.space.count_events() for recording in kept)
    if max_events is not None and count > max_events:
        raise UsageError(
            f"The run has {count} events, more than --max-events {max_events}.",
            hint="Choose fewer steps with --steps or fewer cores with --devices, or allow more events.",
        )
    # The reader takes the host's name from the space, so that it survives whatever the file is called.
    named = tuple(replace(r, space=replace(r.space, hostnames=(r.host, *r.space.hostnames[1:]))) for r in kept)
    return named if redactor is None else tuple(redact_recording(recording, redactor) for recording in named)


def session_files(
    trace: Trace, recordings: tuple[Recording, ...], redactor: Redactor | None = None
) -> Iterator[tuple[str, bytes]]:
    """File names and contents of a session directory: ``HOST.xplane.pb`` of every host, and the sidecar."""
    taken: set[str] = set()
    for number, recording in enumerate(recordings, 1):
        name = _UNSAFE.sub("_", recording.host)[:_LONGEST_NAME] or "host"
        name = f"{name}-{number}" if name.lower() in taken else name
        taken.add(name.lower())
        yield f"{name}{SUFFIX}", write_xplane(recording.space)
    sidecar: dict[str, Any] = dict(trace.metadata)
    if redactor is not None:
        sidecar = redactor.json(sidecar)
    steps = None if trace.selected_steps is None else sorted(trace.selected_steps)
    sidecar["exported"] = {"tool": f"tpuprof {__version__}", "steps": steps, "redacted": redactor is not None}
    yield SIDECAR, (json.dumps(sidecar, indent=1) + "\n").encode()
