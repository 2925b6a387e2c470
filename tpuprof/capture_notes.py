"""Whether a recording holds what its capture was asked for, by the notes beside the trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tpuprof.quality import Quality
from tpuprof.tables.build import Built
from tpuprof.text import plural
from tpuprof.units import PS_PER_S, format_ps

COVERED = 0.95
"""Device work that covers this share of the time that was asked for covers it."""

# How captures by schedule, from the launcher and from outside note what they were asked for.
_STEPS = re.compile(r"(?:launcher: )?steps (\d{1,12}):(\d{1,12})\Z")
_SECONDS = re.compile(r"(?:launcher: |grab: )(\d{1,6}(?:\.\d{1,9})?) s of time\Z")


def not_covered(notes: Mapping[str, Any], built: Built) -> list[Quality]:
    """A quality entry if the trace holds fewer steps, or less time with device work, than the capture asked for.

    Steps are compared where they come from marks, which is what a capture counts.
    """
    trigger = str(notes.get("trigger", ""))
    steps, seconds = _STEPS.match(trigger), _SECONDS.match(trigger)
    if not built.cores or notes.get("complete") is False:
        return []  # told as a missing device plane, and as an incomplete capture
    begin, stop, wanted = (notes.get(key) for key in ("first_step", "stop_step", "stop_step_wanted"))
    if type(begin) is int and type(stop) is int and type(wanted) is int and stop < wanted:
        return []  # the budget had no room for more, and the sidecar says so
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
