"""What ``tpuprof capture`` noted beside a trace, and what it says of the recording."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from tpuprof.errors import InputError
from tpuprof.quality import Quality
from tpuprof.tables.build import Built
from tpuprof.text import plural
from tpuprof.units import PS_PER_S, format_ps

SIDECAR = "tpuprof.json"
MAX_SIDECAR_BYTES = 16 << 20
COVERED = 0.95
"""Device work that covers this share of the time that was asked for covers it."""

# How the launcher notes what it was asked for.
_STEPS = re.compile(r"launcher: steps (\d{1,12}):(\d{1,12})\Z")
_SECONDS = re.compile(r"launcher: (\d{1,6}(?:\.\d{1,9})?) s of time\Z")


def capture_notes(path: str) -> tuple[dict[str, Any], list[Quality]]:
    """What the capture wrote beside the trace (versions, options, window; empty if nothing), and what to tell of it."""
    from tpuprof.formats.files import open_bytes

    base = path.rstrip("/")
    candidates = [f"{base}/{SIDECAR}"]
    if base.endswith((".pb", ".gz", ".json")) and "/" in base:
        candidates = [f"{base.rsplit('/', 1)[0]}/{SIDECAR}"]
    for candidate in candidates:
        try:
            data = bytes(open_bytes(candidate))
        except InputError:
            continue
        try:
            if len(data) > MAX_SIDECAR_BYTES:
                raise ValueError("it is too large")
            loaded: Any = json.loads(data)
            if not isinstance(loaded, dict):
                raise ValueError("it is no JSON object")
        except (ValueError, RecursionError) as error:
            message = f"{candidate} cannot be read ({error}); versions and capture options are unknown."
            return {}, [Quality("sidecar_unreadable", "warning", message)]
        sidecar = cast("dict[str, Any]", loaded)
        return sidecar, _capture_quality(sidecar)
    return {}, []


def not_covered(notes: Mapping[str, Any], built: Built) -> list[Quality]:
    """A quality entry if the trace holds fewer steps, or less time with device work, than the capture asked for.

    Steps are compared where they come from marks, which is what a capture counts.
    """
    trigger = str(notes.get("trigger", ""))
    steps, seconds = _STEPS.match(trigger), _SECONDS.match(trigger)
    if not built.cores or notes.get("complete") is False:
        return []  # told as a missing device plane, and as an incomplete capture
    if steps is not None and built.steps.source in ("steps_line", "host_annotation"):
        asked, found = int(steps[2]) - int(steps[1]), max(len(core.steps) for core in built.cores)
        if found < asked:
            message = f"The capture was asked for {plural(asked, 'step')}; the trace holds {found}."
            return [_entry(message, {"asked_steps": asked, "steps": found})]
    if seconds is not None:
        asked_ps = round(float(seconds[1]) * PS_PER_S)
        # By core: clocks of hosts may not be comparable.
        found_ps = max(int(core.record.ops.end.max()) - int(core.record.ops.start.min()) for core in built.cores)
        if found_ps < COVERED * asked_ps:
            message = (
                f"The capture was asked for {format_ps(asked_ps)}; device work covers {format_ps(found_ps)} from its "
                "first op to its last."
            )
            return [_entry(message, {"asked_ps": asked_ps, "covered_ps": found_ps})]
    return []


def _entry(message: str, scope: dict[str, Any]) -> Quality:
    what = "Data may have been dropped, or the program did something else meanwhile."
    return Quality("window_not_covered", "warning", f"{message} {what}", None, scope)


def _capture_quality(sidecar: Mapping[str, Any]) -> list[Quality]:
    """What the capture itself knew to be wrong."""
    if sidecar.get("complete") is not False:
        return []
    listed = sidecar.get("errors")
    errors = [str(error) for error in cast("list[Any]", listed)] if isinstance(listed, list) else []
    because = f" ({'; '.join(errors)[:500].rstrip('.')})" if errors else ""
    because = because or " (the program ended or was stopped inside the window)"
    message = f"The capture ended before its window did{because}. The last step may be cut."
    return [Quality("capture_incomplete", "warning", message, None, {"errors": errors})]
