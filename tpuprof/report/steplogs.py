"""The step-time logs that captures keep, as a table: what every step took, which were slow, which were captured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tpuprof.capture.slowsteps import SlowStepDetector, SlowSteps
from tpuprof.capture.steplog import StepTimes
from tpuprof.report.listing import Field, Listing, Result, show_text
from tpuprof.text import plural
from tpuprof.units import PS_PER_NS, UNKNOWN, format_ps

SCHEMA_VERSION = 1
COLUMNS = ("process", "step", "start_ps", "duration_ps", "ratio", "state", "trigger")
_FIELDS = (
    Field("process", "process", rank=1, role="name"),
    Field("step", "step", right=True),
    Field("duration_ps", "time", format_ps, right=True),
    Field("ratio", "medians", lambda ratio: UNKNOWN if ratio is None else f"{ratio:.2f}", right=True),
    Field("state", "state"),
    Field("trigger", "why", lambda why: show_text(why) if why else "", rank=2, role="name"),
)


def step_times_result(
    logs: Sequence[StepTimes], shown: int, bounds: tuple[int | None, int | None] = (None, None)
) -> Result:
    """One row per process and step. The listing has the slow and the captured ones, or the last if there are none.

    Args:
        logs: the logs that were read.
        shown: how many rows the listing has at most.
        bounds: the first step, and the one before which the rows end; None for no bound.
    """
    processes = [_process(log) for log in logs]
    first, stop = bounds
    rows = [
        row
        for log, process in zip(logs, processes, strict=True)
        for row in _rows(log, process)
        if (first is None or row["step"] >= first) and (stop is None or row["step"] < stop)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "steps",
        "source": "step_times",
        "processes": processes,
        "total": len(rows),
        "steps": rows,
    }
    return Result(document, "steps", COLUMNS, (_listing(document, shown),))


def _process(log: StepTimes) -> dict[str, Any]:
    durations = sorted(duration for _, _, duration in log.steps)
    return {
        "name": f"{log.facts.get('host', UNKNOWN)}:{log.facts.get('pid', UNKNOWN)}",
        "file": str(log.path),
        "started_ns": log.facts.get("started_ns"),
        "steps": len(durations),
        "median_ps": int(median(durations)) * PS_PER_NS if durations else None,
        "p95_ps": durations[(len(durations) * 95 - 1) // 100] * PS_PER_NS if durations else None,
        "damaged_lines": log.damaged,
        "captures": _captures(log.events),
    }


def _warm_ups(events: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """First and stop of the steps that were recorded to be thrown away, and took longer for it."""
    found: list[tuple[int, int]] = []
    first = stop = None
    for event in events:
        if event["event"] == "capture_started":
            first, stop = _number(event.get("step")), _number(event.get("stop"))
        elif event["event"] == "warm_up" and first is not None and stop is not None:
            found.append((first, stop))
    return found


def _captures(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The captures of one process in their order: steps, trigger, what became of them."""
    found: list[dict[str, Any]] = []
    for event in events:
        if event["event"] == "capture_started":
            found.append(
                {
                    "first_step": _number(event.get("step")),
                    "stop_step": None,  # the process was killed, if it stays so
                    "trigger": str(event.get("trigger")),
                    "path": None,
                    "error": "The process ended without a word while it was being recorded.",
                    "step_time_ps": {"before": None, "during": None, "after": None},
                }
            )
        elif event["event"] == "warm_up" and found:
            found.pop()
        elif event["event"] == "capture_ended":
            if not found or found[-1]["stop_step"] is not None:  # it failed before it was being recorded
                found.append({"first_step": _number(event.get("step")), "trigger": None, "step_time_ps": {}})
            times = {key: _ps(event.get(f"{key}_ns")) for key in ("before", "during")}
            found[-1] |= {
                "stop_step": _number(event.get("step")),
                "path": event.get("path"),
                "error": event.get("error") or event.get("reason"),
                "step_time_ps": {**times, "after": None},
            }
        elif event["event"] == "overhead" and found:
            found[-1]["step_time_ps"]["after"] = _ps(event.get("after_ns"))
    return found


def _rows(log: StepTimes, process: dict[str, Any]) -> list[dict[str, Any]]:
    slow = {event.get("step") for event in log.events if event["event"] == "slow_step"}
    warm_ups = _warm_ups(log.events)
    detector = SlowStepDetector(SlowSteps())
    middle = process["median_ps"]
    rows: list[dict[str, Any]] = []
    for number, begin, duration in log.steps:
        capture = _covering(process["captures"], number)
        warms_up = any(first <= number < stop for first, stop in warm_ups)
        is_slow = number in slow or (capture is None and not warms_up and detector.add(duration))
        ps = duration * PS_PER_NS
        rows.append(
            {
                "process": process["name"],
                "step": number,
                "start_ps": begin * PS_PER_NS,
                "duration_ps": ps,
                "ratio": ps / middle if middle else None,
                "state": "captured" if capture else "slow" if is_slow else "warm-up" if warms_up else "",
                "trigger": None if capture is None else capture["trigger"],
            }
        )
    return rows


def _covering(captures: Sequence[dict[str, Any]], step: int) -> dict[str, Any] | None:
    for capture in captures:
        first, stop = capture["first_step"], capture["stop_step"]
        if first is not None and first <= step and (stop is None or step < stop):
            return capture
    return None


def _listing(document: dict[str, Any], shown: int) -> Listing:
    rows: list[dict[str, Any]] = document["steps"]
    notable = [row for row in rows if row["state"]]
    kept = notable[:shown] if notable else rows[-shown:]
    title = "Step times: the slow and the captured steps" if notable else "Step times: the last steps"
    notes: list[str] = []
    for process in document["processes"]:
        notes.append(
            f"{process['name']}: {plural(process['steps'], 'step')}, median {format_ps(process['median_ps'])}, "
            f"95 % within {format_ps(process['p95_ps'])}."
        )
        notes += [_capture_note(capture) for capture in process["captures"]]
        if process["damaged_lines"]:
            notes.append(f"{plural(process['damaged_lines'], 'line')} of {process['file']} could not be understood.")
    return Listing(title, "step", _FIELDS, kept, len(rows), tuple(notes))


def _capture_note(capture: dict[str, Any]) -> str:
    times = capture["step_time_ps"]
    measured = ", ".join(f"{key} {format_ps(value)}" for key, value in times.items() if value is not None)
    told = f" Median step: {measured}." if measured else ""
    where = capture["path"] or "no run"
    why = f" {capture['error']}" if capture["error"] else ""
    return f"Capture at step {capture['first_step']} ({capture['trigger'] or 'not started'}): {where}.{why}{told}"


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def _ps(value: Any) -> int | None:
    return value * PS_PER_NS if type(value) is int else None


def read_logs(place: Path) -> list[StepTimes]:
    """The logs at a place, oldest first.

    Raises:
        TraceNotFoundError: there are none.
        NotATraceError: one is no step-time log.
    """
    from tpuprof.capture.steplog import FOLDER, find_step_logs, read_step_log
    from tpuprof.errors import TraceNotFoundError

    found = find_step_logs(place)
    if not found:
        raise TraceNotFoundError(
            "There is no step-time log here.",
            where=str(place),
            why=f"Captures write them into LOGDIR/{FOLDER} when the program marks steps.",
        )
    return [read_step_log(path) for path in found]
