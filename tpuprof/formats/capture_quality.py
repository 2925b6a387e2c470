"""What the captures of a run knew to be wrong, or did to the program, as quality entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tpuprof.quality import Quality, Severity
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps

OVERHEAD_LIMIT = 0.05  # a step that is longer by more than this was disturbed by being recorded
OVERHEAD_FLOOR_NS = 20_000  # marks around nothing but the launch of work take as long today and otherwise tomorrow
_FEWEST_STEPS = 3
_TOLD = 8
_COMPARED_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


@dataclass(frozen=True)
class Process:
    """One process of a run: its name for people, and the content of its sidecar."""

    label: str
    sidecar: Mapping[str, Any]


def run_quality(processes: Sequence[Process], missing: Sequence[int], expected: int) -> list[Quality]:
    """The quality entries of a run.

    Args:
        processes: those with a sidecar, in the order of their indices.
        missing: indices of those that were to record and left no trace.
        expected: how many were to record.
    """
    entries = [entry for process in processes for entry in _incomplete(process)]
    if missing:
        entries.append(_hosts_missing(processes, missing, expected))
    entries += _first_of(processes, _options)
    overheads = [found for process in processes if (found := _overhead(process)) is not None]
    if overheads:
        entries.append(max(overheads, key=lambda found: found[0])[1])
    entries += _compiled(processes)
    entries += _differences(processes)
    return entries


def _incomplete(process: Process) -> Iterator[Quality]:
    if process.sidecar.get("complete") is not False:
        return
    errors = [str(error) for error in _list(process.sidecar.get("errors"))]
    because = f" ({'; '.join(errors)[:500].rstrip('.')})" if errors else ""
    because = because or " (the program ended or was stopped inside the window)"
    message = f"The capture ended before its window did{because}. The last step may be cut."
    yield Quality("capture_incomplete", "warning", message, None, {"errors": errors})


def _hosts_missing(processes: Sequence[Process], missing: Sequence[int], expected: int) -> Quality:
    names: dict[str, str] = {}
    for process in processes:
        seen = _mapping(_mapping(process.sidecar.get("run")).get("seen"))
        names.update({str(index): str(host)[:200] for index, host in seen.items()})
    told = [f"{index} ({names[str(index)]})" if str(index) in names else str(index) for index in missing[:_TOLD]]
    more = f" and {len(missing) - _TOLD} more" if len(missing) > _TOLD else ""
    return Quality(
        "hosts_missing",
        "warning",
        f"{len(missing)} of {expected} processes that were to record this run left no trace here: {', '.join(told)}"
        f"{more}. Copy their files into the session, or look at their logs. Until then means are over "
        "the others, and late cores may hide among the missing ones.",
        len(missing),
        {"processes": list(missing[:1000])},
    )


def _options(process: Process) -> Iterator[Quality]:
    """Options that leave out what analyses need, or that change what they measure."""
    options = _mapping(process.sidecar.get("options"))
    if _is(options.get("host_tracer_level"), 0):
        yield _option(
            "host_tracer_level", 0, "warning", "the host's side: step marks and causes of idle time are unknown"
        )
    if _is(options.get("python_tracer_level"), 1):
        text = (
            "Every Python call was recorded (python_tracer_level=1): the host was slower than usual, so that idle time "
            "is too long, and Python events may have crowded out others."
        )
        yield Quality("capture_options", "info", text, None, {"option": "python_tracer_level", "value": 1})
    if options.get("enable_hlo_proto") is False:
        yield _option("enable_hlo_proto", False, "info", "the HLO: costs, shapes and scopes may be unknown")
    if options.get("tpu_trace_mode") == "TRACE_ONLY_HOST":
        yield _option("tpu_trace_mode", "TRACE_ONLY_HOST", "warning", "the devices: there is no device time to divide")
    chips = options.get("tpu_num_chips_to_profile_per_task", options.get("gpu_num_chips_to_profile_per_task"))
    local = len(_chips(process.sidecar))
    if type(chips) is int and 0 < chips < local:
        name = "tpu" if "tpu_num_chips_to_profile_per_task" in options else "gpu"
        what = f"{local - chips} of {local} chips of each host: nothing is scaled up from those that were traced"
        yield _option(f"{name}_num_chips_to_profile_per_task", chips, "info", what)


def _option(name: str, value: Any, severity: Severity, lost: str) -> Quality:
    message = f"The capture left out {lost} ({name}={value})."
    return Quality("capture_options", severity, message, None, {"option": name, "value": value})


def _overhead(process: Process) -> tuple[float, Quality] | None:
    times = _mapping(process.sidecar.get("step_time"))
    during = _count(times.get("during_ns"))
    for when in ("before", "after"):
        usual, steps = _count(times.get(f"{when}_ns")), _count(times.get(f"{when}_steps"))
        if usual and steps >= _FEWEST_STEPS:
            break
    else:
        return None
    longer = during / usual - 1
    if longer <= OVERHEAD_LIMIT or during - usual <= OVERHEAD_FLOOR_NS:
        return None
    message = (
        f"Steps took {format_percent(longer)} longer while they were recorded: {format_ps(during * 1000)} instead of "
        f"{format_ps(usual * 1000)} {when} (medians on {process.label}). Compare captures with captures, and take "
        "throughput from steps that were not recorded."
    )
    scope = {"during_ns": during, f"{when}_ns": usual, "host": str(process.sidecar.get("host"))}
    return longer, Quality("capture_overhead", "warning", message, None, scope)


def _compiled(processes: Sequence[Process]) -> list[Quality]:
    found = [(process, _mapping(process.sidecar.get("compiles"))) for process in processes]
    if not found:
        return []
    process, compiles = max(found, key=lambda pair: _count(pair[1].get("in_window")))
    count = _count(compiles.get("in_window"))
    if not count:
        return []
    seconds = compiles.get("seconds_in_window")
    took = f" in {format_ps(float(seconds) * 1e12)}" if isinstance(seconds, int | float) and 0 <= seconds < 1e6 else ""
    events = [_mapping(event) for event in _list(compiles.get("events"))]
    names = [
        str(event["function"])[:100]
        for event in events
        if event.get("event") == "backend_compile" and "function" in event
    ]
    told = ", ".join(dict.fromkeys(names[:_TOLD]))
    message = (
        f"{plural(count, 'program')} {'was' if count == 1 else 'were'} compiled inside the window{took} on "
        f"{process.label}{f': {told}' if told else ''}. Steps with a compilation are not like the others; capture "
        "later, or find out why the shapes change."
    )
    return [Quality("compiled_in_window", "warning", message, count, {"functions": names[:100]})]


def _differences(processes: Sequence[Process]) -> list[Quality]:
    """What should be the same in all processes of one program and is not."""
    entries: list[Quality] = []
    for what, values in _comparable(processes).items():
        groups: dict[str, list[str]] = {}
        for process, value in zip(processes, values, strict=True):
            groups.setdefault(repr(value), []).append(process.label)
        if len(groups) < 2:
            continue
        ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
        told = [
            f"{value[:200]} on {labels[0] if len(labels) == 1 else f'{len(labels)} processes'}"
            for value, labels in ranked
        ]
        message = f"The processes differ in {what}: {'; '.join(told[:4])}. Their times are hard to compare."
        entries.append(Quality("hosts_differ", "warning", message, len(groups), {"what": what}))
    return entries


def _comparable(processes: Sequence[Process]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    sidecars = [process.sidecar for process in processes]
    versions = [_mapping(sidecar.get("versions")) for sidecar in sidecars]
    for name in dict.fromkeys(name for one in versions for name in one):
        found[f"the version of {str(name)[:50]}"] = [one.get(name) for one in versions]
    found["the device kind"] = [sorted(map(str, _mapping(sidecar.get("device_kinds")))) for sidecar in sidecars]
    commits = [_mapping(sidecar.get("git")).get("commit") for sidecar in sidecars]
    if all(commit is not None for commit in commits):  # a host without git says nothing
        found["the git commit"] = commits
    variables = [_mapping(sidecar.get("environment")) for sidecar in sidecars]
    for name in _COMPARED_VARIABLES:
        found[name] = [one.get(name) for one in variables]
    return found


def _first_of(processes: Sequence[Process], find: Any) -> list[Quality]:
    """Entries of all processes, equal ones once."""
    entries: dict[str, Quality] = {}
    for process in processes:
        for entry in find(process):
            entries.setdefault(entry.message, entry)
    return list(entries.values())


def _chips(sidecar: Mapping[str, Any]) -> set[str]:
    """Chips of the host: devices by their coordinates, as some chips are two devices."""
    devices = [_mapping(device) for device in _list(sidecar.get("devices"))]
    return {repr(device.get("coords", device.get("id"))) for device in devices}


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is(value: Any, number: int) -> bool:
    return type(value) is int and value == number


def _count(value: Any) -> int:
    """A number of things or ns that can be true; else 0."""
    return value if type(value) is int and 0 < value < 1 << 62 else 0
