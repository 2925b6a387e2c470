"""The sidecar `tpuprof.json`: what each of its fields means, shared by those who write it and those who read it.

A sidecar describes how one process was captured. It is JSON, versioned, and additive: readers ignore what they do
not know, and take what is missing for unknown. `problems` says where a content contradicts this description.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

SIDECAR_NAME = "tpuprof.json"
SCHEMA_VERSION = 1

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
    "any": (object,),
}


@dataclass(frozen=True, slots=True)
class SidecarField:
    """One field.

    Args:
        path: its place; ``a.b`` is a field of an object, ``a[].b`` one of the objects of a list, ``a.*`` any key.
        kind: text, integer, number, boolean, list, object or any.
        meaning: a sentence; units are in it or in the name.
        nullable: whether it may be null.
        optional: whether it may be missing.
    """

    path: str
    kind: str
    meaning: str
    nullable: bool = False
    optional: bool = False


def _field(path: str, kind: str, meaning: str, *flags: str) -> SidecarField:
    return SidecarField(path, kind, meaning, "null" in flags, "optional" in flags)


FIELDS: tuple[SidecarField, ...] = (
    _field("schema_version", "integer", "Version of this description; 1."),
    _field("tool", "text", "`tpuprof`."),
    _field("complete", "boolean", "Whether the window came to its planned end."),
    _field("trigger", "text", "What began the capture: a schedule, a span of time, a with block, a signal …"),
    _field("file", "text", "The trace that is described, beside the sidecar."),
    _field("file_bytes", "integer", "Its size."),
    _field("host", "text", "Name of the machine."),
    _field("pid", "integer", "Number of the process."),
    _field("process_index", "integer", "Index of the process in the jax program."),
    _field("process_count", "integer", "Processes of the jax program."),
    _field("run", "object", "The run that the processes share."),
    _field("run.name", "text", "The session directory."),
    _field("run.agreed_by", "text", "How its name was found: name, environment, coordinator, scheduler or time."),
    _field("run.expected_processes", "list", "Indices of the processes that were to record it."),
    _field("run.seen", "object", "Host names by process index of those that had begun; empty if unknown."),
    _field("versions", "object", "Versions by name: tpuprof, python, jax, jaxlib, libtpu."),
    _field("versions.*", "text", "A version; null where it is not installed.", "null"),
    _field("platform", "text", "tpu, gpu, cpu …", "null"),
    _field("platform_version", "text", "What the runtime says of itself, such as its build.", "null"),
    _field("device_kinds", "object", "Number of local devices by kind."),
    _field("device_count", "integer", "Devices of the whole program.", "null"),
    _field("devices", "list", "The local devices, at most 256."),
    _field("devices[].id", "integer", "Number of the device in the program."),
    _field("devices[].kind", "text", "Its kind, as the runtime calls it."),
    _field("devices[].coords", "list", "Place of the chip in the slice.", "optional"),
    _field("devices[].core_on_chip", "integer", "Which core of the chip.", "optional", "null"),
    _field("devices[].slice_index", "integer", "Which slice.", "optional", "null"),
    _field("devices[].process_index", "integer", "The process that owns it.", "optional"),
    _field("devices[].local_hardware_id", "integer", "Its number on the machine.", "optional", "null"),
    _field("devices[].memory_bytes", "integer", "Memory that programs may use.", "optional"),
    _field("meshes", "list", "Meshes that live arrays were laid out on when the capture began, at most 8."),
    _field("meshes[].axes", "object", "Size by axis name, in order."),
    _field("meshes[].axis_types", "list", "Auto, Explicit or Manual, per axis."),
    _field("meshes[].device_ids", "list", "Device ids in the order of the mesh (the assignment).", "null"),
    _field("meshes[].arrays", "integer", "Live arrays laid out on it."),
    _field("meshes[].bytes", "integer", "Their bytes, each array counted once as a whole."),
    _field("settings", "object", "Settings of jax that change programs or their speed."),
    _field("environment", "object", "Environment variables of jax, XLA and the runtime, secrets masked."),
    _field("environment.*", "text", "A value."),
    _field("command", "list", "The command line, secrets masked."),
    _field("machine", "object", "system, cpus, usable_cpus, memory_bytes; null where unknown."),
    _field("git", "object", "Commit of the code; null without a checkout, or with `TPUPROF_GIT=0`.", "null"),
    _field("git.commit", "text", "The commit."),
    _field("git.dirty", "boolean", "Whether tracked files differed from it; null if git took too long.", "null"),
    _field("started_at", "text", "Begin of the window, UTC."),
    _field("stopped_at", "text", "End of the window, UTC."),
    _field("start_ns", "integer", "Begin of the window in ns since the epoch, by this host's clock."),
    _field("stop_ns", "integer", "End of the window, likewise."),
    _field("seconds", "object", "What the capture itself took: start, drain, stop, write, in seconds."),
    _field("seconds.*", "number", "Seconds."),
    _field("options", "object", "Options of the profiler."),
    _field("budget", "object", "The limits of the capture.", "optional"),
    _field("earlier_failures", "list", "Captures of the process that failed before this one.", "optional"),
    _field("plan", "object", "When to capture, as it was asked for.", "optional"),
    _field("first_step", "integer", "The first captured step, counting marks from 0.", "optional", "null"),
    _field("stop_step", "integer", "The step before which it was to end.", "optional", "null"),
    _field("stop_step_wanted", "integer", "The same without the budget.", "optional", "null"),
    _field("estimate", "object", "What a step costs, from the warm-up.", "optional", "null"),
    _field("late", "text", "That the profiler delivered the trace late.", "optional"),
    _field("step_time", "object", "Medians of the step times around the capture.", "optional"),
    _field("step_time.before_ns", "integer", "Of the steps before the window.", "null"),
    _field("step_time.before_steps", "integer", "How many they are."),
    _field("step_time.during_ns", "integer", "Of the steps in the window.", "null"),
    _field("step_time.during_steps", "integer", "How many they are."),
    _field("step_time.after_ns", "integer", "Of the steps after it; missing while they have not ended.", "optional"),
    _field("step_time.after_steps", "integer", "How many they are.", "optional"),
    _field("compiles", "object", "Compilations that jax reported; null if it reports none.", "null"),
    _field("compiles.watched_since_ns", "integer", "Since when they were counted, in ns since the epoch."),
    _field("compiles.count", "integer", "Compilations since then."),
    _field("compiles.seconds", "number", "Their seconds."),
    _field("compiles.in_window", "integer", "Compilations that ended inside the window."),
    _field("compiles.seconds_in_window", "number", "Their seconds."),
    _field("compiles.events", "list", "The reports of the window: event, function, end_ns, seconds."),
    _field("programs", "list", "Programs described on request (`note_program`)."),
    _field("programs[].name", "text", "Name of the program."),
    _field("programs[].file", "text", "Its optimised HLO, below the session; null if it was not written.", "null"),
    _field("programs[].memory", "object", "Bytes per device by purpose, as the compiler planned.", "null"),
    _field("programs[].error", "text", "Why something of it is missing.", "optional"),
    _field("errors", "list", "What went wrong, in sentences."),
    _field("grabbed", "object", "Of `tpuprof grab`: what was asked for from outside the job.", "optional"),
    _field("grabbed.addresses", "list", "The profiler servers."),
    _field("grabbed.files", "list", "The traces that came."),
    _field("grabbed.for_s", "number", "Length of the window in seconds."),
)


def problems(content: object) -> list[str]:
    """Where a sidecar contradicts its description; empty if nowhere. Fields that are not described are fine.

    What only the job itself knows may be missing where the trace was taken from outside.
    """
    if not isinstance(content, dict):
        return ["it is no JSON object"]
    found: list[str] = []
    for field in FIELDS:
        for where, value in _values(cast("dict[str, Any]", content), field.path.split("."), ""):
            if value is _MISSING:
                if not field.optional and "grabbed" not in content:
                    found.append(f"{where} is missing")
            elif value is None:
                if not field.nullable:
                    found.append(f"{where} is null")
            elif not _is(value, field.kind):
                found.append(f"{where} is not of kind {field.kind}")
    return found


_MISSING = object()


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool) and kind in ("integer", "number"):
        return False
    return isinstance(value, _KINDS[kind])


def _values(content: object, path: list[str], where: str) -> Iterator[tuple[str, object]]:
    """The values at a path with their places; nothing below what is null, missing or of another kind."""
    if not path:
        yield where, content
        return
    if not isinstance(content, dict):
        return
    inside = cast("Mapping[str, Any]", content)
    name, rest = path[0], path[1:]
    if name == "*":
        for key, value in inside.items():
            yield from _values(value, rest, f"{where}.{key}")
        return
    in_list = name.endswith("[]")
    name = name.removesuffix("[]")
    place = f"{where}.{name}" if where else name
    value = inside.get(name, _MISSING)
    if not rest:
        yield place, value
    elif in_list and isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _values(item, rest, f"{place}[{number}]")
    elif not in_list:
        yield from _values(value, rest, place)
