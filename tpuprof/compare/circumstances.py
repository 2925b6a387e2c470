"""What two captures say of their circumstances: versions, flags, settings, meshes, code, hosts, hardware."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tpuprof.trace import Trace

MOST_TEXT = 300
_FLAG = re.compile(r"\A--?(?P<name>[\w.\-]+)(?:=(?P<value>.*))?\Z", re.DOTALL)
_FLAG_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "TPU_LIBRARY_FLAGS")
_RATES = re.compile(r"peak|clock|bandwidth|core_count|memory_size|megacore|compute_cap")
# Sections of a sidecar that are compared key by key, and what a difference there is called.
_SECTIONS = (("versions", "version"), ("settings", "setting"), ("options", "option"), ("machine", "machine"))
_SINGLE = (
    ("platform", "hardware"),
    ("platform_version", "version"),
    ("device_count", "cores"),
    ("process_count", "host"),
    ("command", "command"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same on both sides, and may be why a step takes another time.

    Args:
        kind: version, flag, environment, setting, option, machine, code, command, mesh, hardware, host, cores, steps,
            shape, dtype, layout, fusion, collective, algorithm or recomputation.
        what: of what, such as the name of a flag.
        base: the base's value as text; null where it has none.
        new: the new run's.
        weight_ps: how much the ops concerned changed, in ps per step; null where no ops are concerned.
        related: groups of the explanation that it concerns.
    """

    kind: str
    what: str
    base: str | None
    new: str | None
    weight_ps: float | None = None
    related: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The difference as JSON data."""
        return {
            "kind": self.kind,
            "what": self.what,
            "base": self.base,
            "new": self.new,
            "weight_ps": self.weight_ps,
            "related": list(self.related),
        }


def circumstances(base: Trace, new: Trace) -> list[Difference]:
    """What differs around the programs. What only one side recorded is no difference, except single flags."""
    found: list[Difference] = []
    ours, theirs = base.metadata, new.metadata
    for section, kind in _SECTIONS:
        one, other = _object(ours.get(section)), _object(theirs.get(section))
        if one and other:
            found.extend(_by_key(kind, one, other))
    for name, kind in _SINGLE:
        if ours.get(name) is not None and theirs.get(name) is not None:
            found.extend(_by_key(kind, {name: ours[name]}, {name: theirs[name]}))
    if "environment" in ours and "environment" in theirs:
        found.extend(_environment(_object(ours["environment"]), _object(theirs["environment"])))
    found.extend(_code(_object(ours.get("git")), _object(theirs.get("git"))))
    if "meshes" in ours and "meshes" in theirs:
        found.extend(_compared("mesh", "live arrays", _meshes(ours["meshes"]), _meshes(theirs["meshes"])))
    return [*found, *_hardware(base, new)]


def comparability(base: Trace, new: Trace) -> list[str]:
    """Why the step times of two traces cannot be held against each other, as sentences; empty if they can.

    A difference between other devices, other numbers of them, or other kinds of steps says nothing about the program.
    A device whose kind one trace does not state is taken for the same if the platform is.
    """
    reasons: list[str] = []
    if not base.devices or not new.devices:
        return [
            "Neither run has device work." if not base.devices and not new.devices else "One run has no device work."
        ]
    platforms = _listed(_platforms(base)), _listed(_platforms(new))
    kinds = _listed(_kinds(base)), _listed(_kinds(new))
    if platforms[0] != platforms[1]:
        reasons.append(f"The devices differ: {platforms[0]} and {platforms[1]}.")
    elif kinds[0] != kinds[1] and kinds[0] and kinds[1]:
        reasons.append(f"The devices differ: {kinds[0]} and {kinds[1]}.")
    counts = len(base.devices), len(new.devices)
    if counts[0] != counts[1]:
        reasons.append(f"The number of cores differs: {counts[0]} and {counts[1]}.")
    devices = _program_devices(base), _program_devices(new)
    if None not in devices and devices[0] != devices[1]:
        reasons.append(f"The programs ran on {devices[0]} and {devices[1]} devices.")
    if (base.step_source == "none") != (new.step_source == "none"):
        reasons.append("One run has no steps, so that its whole time stands against one step of the other.")
    return reasons


def _hardware(base: Trace, new: Trace) -> Iterator[Difference]:
    if not base.devices or not new.devices:
        return
    kinds = _listed(_kinds(base)), _listed(_kinds(new))
    if kinds[0] and kinds[1]:
        yield from _compared("hardware", "device kind", *kinds)
    yield from _compared("hardware", "platform", _listed(_platforms(base)), _listed(_platforms(new)))
    yield from _compared("cores", "traced cores", str(len(base.devices)), str(len(new.devices)))
    yield from _compared("host", "number of hosts", str(len(base.hosts)), str(len(new.hosts)))
    if len(base.hosts) == len(new.hosts):
        yield from _compared("host", "host names", _some(base.hosts), _some(new.hosts))
    yield from _compared("steps", "where steps come from", base.step_source, new.step_source)
    yield from _by_key("hardware", _rates(base), _rates(new), both=True)


def _rates(trace: Trace) -> dict[str, Any]:
    """What the trace states of the first device's speed."""
    return {name: value for name, value in trace.devices[0].stats.items() if _RATES.search(name)}


def _environment(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*one, *other}):
        if name in _FLAG_VARIABLES:
            old, fresh = flags(str(one.get(name, ""))), flags(str(other.get(name, "")))
            yield from (
                Difference("flag", f"{name} {flag}", old.get(flag), fresh.get(flag))
                for flag in sorted({*old, *fresh})
                if old.get(flag) != fresh.get(flag)
            )
        else:
            yield from _compared("environment", name, _value(one.get(name)), _value(other.get(name)))


def flags(text: str) -> dict[str, str]:
    """The flags of a command line by name, without their dashes; of a flag that repeats the last one."""
    found: dict[str, str] = {}
    for word in text.split():
        match = _FLAG.match(word)
        if match is not None:
            value = match["value"]
            found[match["name"]] = _short("true" if value is None else value)
    return found


def _code(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    if one.get("commit") and other.get("commit"):
        yield from _compared("code", "commit", _commit(one), _commit(other))


def _commit(git: Mapping[str, Any]) -> str:
    return _short(f"{git['commit']}{' with changes' if git.get('dirty') else ''}")


def _meshes(value: object) -> str:
    meshes = cast("list[Any]", value) if isinstance(value, list) else []
    texts: list[str] = []
    for mesh in meshes[:8]:
        axes = _object(_object(mesh).get("axes"))
        texts.append(", ".join(f"{name}={size}" for name, size in axes.items()))
    return _short("; ".join(texts)) if texts else "none"


def _by_key(kind: str, one: Mapping[str, Any], other: Mapping[str, Any], *, both: bool = False) -> Iterator[Difference]:
    for name in sorted({*one, *other}):
        if both and not (name in one and name in other):
            continue
        yield from _compared(kind, str(name), _value(one.get(name)), _value(other.get(name)))


def _compared(kind: str, what: str, one: str | None, other: str | None) -> Iterator[Difference]:
    if one != other:
        yield Difference(kind, _short(what), one, other)


def _value(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        return _short(" ".join(map(str, cast("list[Any]", value))))
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _kinds(trace: Trace) -> set[str]:
    return {device.kind for device in trace.devices if device.kind}


def _platforms(trace: Trace) -> set[str]:
    return {device.platform for device in trace.devices}


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _some(names: Sequence[str]) -> str:
    return _short(", ".join(names[:8]) + (" …" if len(names) > 8 else ""))


def _program_devices(trace: Trace) -> int | None:
    """Devices of the whole program, as the capture noted or the HLO of the largest program that ran says."""
    stated = trace.metadata.get("device_count")
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    sizes = {
        info.program.num_partitions * info.program.replica_count
        for info in trace.built.infos
        if info.program is not None
    }
    return max(sizes) if sizes else None
