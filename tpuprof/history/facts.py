"""What a store keeps of a run: taken from the trace, bounded, and without control characters and secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tpuprof._version import __version__
from tpuprof.errors import UsageError
from tpuprof.formats.files import open_bytes
from tpuprof.history.fingerprints import hardware_fingerprint, program_fingerprint
from tpuprof.history.metrics import Metric, metrics_of
from tpuprof.masking import mask_credentials, mask_text
from tpuprof.quality import worst
from tpuprof.tables.programs import split_module_name
from tpuprof.tables.stats import step_times
from tpuprof.text import clean

if TYPE_CHECKING:
    from tpuprof.trace import Trace

MAX_STEPS = 100_000
MAX_OP_GROUPS = 500
MAX_TEXT = 2000
MAX_LIST = 200
REST = "(all others)"
HARDWARE_TAG, PROGRAM_TAG, BRANCH_TAG, COMMIT_TAG = "hardware", "program", "branch", "commit"
_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}\Z")
_MAX_INTEGER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OpGroup:
    """Ops of one function, name scope and kind: occurrences, and times over all cores and the whole window."""

    module: str | None
    scope: str | None
    kind: str | None
    count: int
    total_ps: int
    self_ps: int


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run, ready to be stored.

    Args:
        key: the same for the same recording with the same choice of devices and steps, wherever its files lie.
        captured_ns: when it was recorded, since the epoch; null if the trace does not say.
        program: fingerprint of the program; null if the run does not say enough.
        structure: fingerprint of the compiled program; null without HLO.
        hardware: fingerprint of the devices; null without any.
        facts: versions, flags, quality entries and the like, as JSON data.
        steps: (number, time in ps) of the steps that count.
    """

    key: str
    name: str
    path: str
    captured_ns: int | None
    platform: str | None
    device_kind: str | None
    n_devices: int
    n_hosts: int
    step_source: str
    n_steps: int
    window_ps: int | None
    worst_quality: str | None
    program_name: str | None
    program: str | None
    program_source: str
    structure: str | None
    hardware: str | None
    hardware_source: str
    facts: Mapping[str, Any]
    steps: tuple[tuple[int, int], ...]
    metrics: tuple[Metric, ...]
    op_groups: tuple[OpGroup, ...]
    tool_version: str = __version__


def run_facts(trace: Trace, tags: Mapping[str, str] | None = None) -> RunFacts:
    """What is kept of a run.

    Args:
        trace: the run.
        tags: checked tags; ``hardware`` and ``program`` declare what the run does not say of itself.

    Raises:
        InputError: the run's files cannot be read again.
    """
    tags = tags or {}
    program = program_fingerprint(trace, tags.get(PROGRAM_TAG))
    hardware = hardware_fingerprint(trace, tags.get(HARDWARE_TAG))
    kinds = {device.kind for device in trace.devices}
    platforms = {device.platform for device in trace.devices}
    times = step_times(trace.steps) if trace.step_source != "none" else step_times(trace.steps.iloc[:0])
    numbers, values = times.index.to_numpy(np.int64), times.to_numpy(np.int64)
    window = trace.window_ps
    return RunFacts(
        key=content_key(trace),
        name=_text(trace.name),
        path=_text(mask_credentials(trace.path)),
        captured_ns=trace.origin_ns if 0 < trace.origin_ns <= _MAX_INTEGER else None,
        platform=platforms.pop() if len(platforms) == 1 else None,
        device_kind=_optional(kinds.pop() if len(kinds) == 1 else None),
        n_devices=len(trace.devices),
        n_hosts=len(trace.hosts),
        step_source=trace.step_source,
        n_steps=int(trace.n_steps),
        window_ps=None if window is None else int(window[1] - window[0]),
        worst_quality=worst(trace.quality),
        program_name=_optional(program.name),
        program=program.fingerprint.value,
        program_source=program.fingerprint.source,
        structure=program.structure,
        hardware=hardware.value,
        hardware_source=hardware.source,
        facts={
            "program": _text(program.fingerprint.text),
            "hardware": _text(hardware.text),
            "hosts": [_text(host) for host in trace.hosts[:MAX_LIST]],
            "steps_left_out": max(0, len(values) - MAX_STEPS),
            "quality": [
                {"id": _text(entry.id), "severity": entry.severity, "count": entry.count}
                for entry in trace.quality[:MAX_LIST]
            ],
            **_sidecar(trace.metadata),
        },
        steps=tuple(zip(numbers[:MAX_STEPS].tolist(), values[:MAX_STEPS].tolist(), strict=True)),
        metrics=metrics_of(trace, values),
        op_groups=op_groups(trace),
    )


def content_key(trace: Trace) -> str:
    """A hash of what was recorded: the files' bytes and which devices and steps of them were chosen.

    Raises:
        InputError: a file cannot be read again.
    """
    files = [hashlib.sha256(open_bytes(source.path)).hexdigest() for source in trace.sources]
    chosen = None if trace.selected_steps is None else sorted(trace.selected_steps)
    windows = (trace.steps[name].to_numpy(np.int64).tobytes() for name in ("step", "start_ps", "duration_ps"))
    total = hashlib.sha256("\n".join([*sorted(files), *(device.id for device in trace.devices)]).encode())
    total.update(repr((trace.step_source, chosen)).encode())
    # Steps may come from another program than the main one (`--step-program`), which is another run of the same files.
    if trace.step_source == "module":
        total.update(b"".join(windows))
    return total.hexdigest()


def op_groups(trace: Trace) -> tuple[OpGroup, ...]:
    """Ops by function, scope and kind, largest self time first; what is past ``MAX_OP_GROUPS`` is one last group."""
    stats = trace.op_stats(by="op")
    sums: dict[tuple[str | None, str | None, str | None], list[int]] = {}
    columns = [stats[name].astype(object).where(stats[name].notna(), None) for name in ("module", "scope", "kind")]
    figures = [stats[name].to_numpy(np.int64) for name in ("occurrences", "total_ps", "self_ps")]
    for module, scope, kind, *row in zip(*columns, *figures, strict=True):
        function = None if module is None else split_module_name(str(module))[0]
        group = sums.setdefault((_optional(function), _optional(scope), _optional(kind)), [0, 0, 0])
        for at, figure in enumerate(row):
            group[at] += int(figure)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][2], str(item[0])))
    groups = [OpGroup(*key, *figures) for key, figures in ordered[:MAX_OP_GROUPS]]
    rest = [figures for _, figures in ordered[MAX_OP_GROUPS:]]
    if rest:
        groups.append(OpGroup(REST, None, None, *(sum(column) for column in zip(*rest, strict=True))))
    return tuple(groups)


def check_tags(tags: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Tags as a mapping of clean texts, from one or from texts such as ``branch=main``.

    Raises:
        UsageError: a name or value cannot be a tag, or a name has two values.
    """
    found: dict[str, str] = {}
    given = cast("Mapping[str, str]", tags).items() if isinstance(tags, Mapping) else map(_split, tags)
    for name, value in given:
        text = clean(value).strip()
        if not _TAG_NAME.match(name):
            raise UsageError(
                f"{name!r} cannot name a tag.",
                hint="Use letters, digits, dots, dashes and underscores, a letter first, at most 64 characters.",
            )
        if not text or len(text) > MAX_TEXT:
            raise UsageError(f"The value of tag {name!r} is empty or too long.", hint=f"At most {MAX_TEXT} characters.")
        if found.setdefault(name, text) != text:
            raise UsageError(f"Tag {name!r} is given twice: {found[name]!r} and {text!r}.", hint="Give it once.")
    return found


def _split(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise UsageError(f"{text!r} is no tag.", hint="Write NAME=VALUE, such as branch=main.")
    return name.strip(), value


def _sidecar(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the capture wrote beside the trace, as far as it bears on speed; flags are masked once more."""
    environment = _texts(metadata.get("environment"))
    return {
        "versions": _texts(metadata.get("versions")),
        "environment": {name: mask_text(value) for name, value in environment.items()},
        "complete": metadata.get("complete") if isinstance(metadata.get("complete"), bool) else None,
    }


def _texts(values: object) -> dict[str, str]:
    """A mapping of texts; empty for what is none, since anybody can write what lies beside a trace."""
    if not isinstance(values, Mapping):
        return {}
    items = list(cast("Mapping[object, object]", values).items())[:MAX_LIST]
    return {_text(key): _text(value) for key, value in items if value is not None}


def _text(value: object) -> str:
    return clean(value)[:MAX_TEXT]


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)
