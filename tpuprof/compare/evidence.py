"""What somebody who did not see the runs needs to look into a slowdown, and which of it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tpuprof.compare.capture import Capture, step_figures
from tpuprof.compare.explanation import Explanation
from tpuprof.masking import mask_text
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_OPS_NAMED = 5
_TEXT = 400
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "TPU_LIBRARY_FLAGS")
_CAPTURE_HINT = "Capture with tpuprof capture, which notes it beside the trace."


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing to have of both sides.

    Args:
        id: a stable name.
        what: for people.
        base: what there is of the base; null if it is missing.
        new: likewise.
        hint: how to get it.
    """

    id: str
    what: str
    base: str | None
    new: str | None
    hint: str

    @property
    def complete(self) -> bool:
        """Whether both sides have it."""
        return self.base is not None and self.new is not None

    def to_json(self) -> dict[str, Any]:
        """The slot as JSON data."""
        return {"id": self.id, "what": self.what, "base": self.base, "new": self.new, "hint": self.hint}


def evidence(
    base: Sequence[Capture],
    new: Sequence[Capture],
    explanation: Explanation | None,
    explained: tuple[Capture | None, Capture | None],
) -> tuple[Slot, ...]:
    """The slots, the same ones for every comparison."""
    traces = tuple(None if capture is None else capture.trace for capture in explained)
    grew = None if explanation is None else _grew(explanation)
    slots = (
        ("steps", "step times", (_spread(base), _spread(new)), "Record more steps."),
        ("hardware", "devices", _both(traces, _hardware), "Give traces, not step times alone."),
        ("versions", "versions", _both(traces, _versions), _CAPTURE_HINT),
        ("flags", "compiler flags", _both(traces, _flags), _CAPTURE_HINT),
        ("code", "commit of the program", _both(traces, _commit), _CAPTURE_HINT),
        ("ops", "ops that grew", (grew, grew), "Give traces, not step times alone."),
        ("hlo", "HLO", _both(traces, _hlo), "Capture anew, or give --hlo with an XLA dump."),
    )
    return tuple(Slot(name, what, old, fresh, hint) for name, what, (old, fresh), hint in slots)


def _both(traces: Sequence[Trace | None], read: Any) -> tuple[str | None, str | None]:
    old, fresh = (None if trace is None else cast("str | None", read(trace)) for trace in traces)
    return old, fresh


def _spread(captures: Sequence[Capture]) -> str | None:
    figures = step_figures([time for capture in captures for time in capture.samples.step_ps])
    if not figures["count"]:
        return None
    several = f" in {plural(len(captures), 'capture')}" if len(captures) > 1 else ""
    median = f"median {format_ps(figures['p50_ps'])}"
    spread = "" if figures["cv"] is None else f", cv {format_percent(figures['cv'])}"
    return f"{plural(int(figures['count']), 'step')}{several}, {median}{spread}"


def _hardware(trace: Trace) -> str | None:
    if not trace.devices:
        return None
    kinds = sorted({device.kind or "unknown kind" for device in trace.devices})
    return f"{len(trace.devices)} × {', '.join(kinds)}, {plural(len(trace.hosts), 'host')}"


def _versions(trace: Trace) -> str | None:
    versions = _mapping(trace.metadata.get("versions"))
    return _short(f"{name} {value}" for name, value in versions.items() if value) or None


def _flags(trace: Trace) -> str | None:
    if "environment" not in trace.metadata:
        return None
    environment = _mapping(trace.metadata.get("environment"))
    found = [f"{name}={mask_text(str(environment[name]))}" for name in _FLAGS if environment.get(name)]
    return _short(found) or "none set"


def _commit(trace: Trace) -> str | None:
    git = _mapping(trace.metadata.get("git"))
    commit = git.get("commit")
    return None if not commit else _short([f"{commit}{' with changes' if git.get('dirty') else ''}"])


def _hlo(trace: Trace) -> str | None:
    names = {info.program.name for info in trace.built.infos if info.program is not None}
    return _short(sorted(names)) or None


def _grew(explanation: Explanation) -> str | None:
    """What grew, by name; both sides have the ops wherever there is an explanation."""
    if explanation.step_delta_ps is None:
        return None
    rows = [row for row in explanation.rows if row.delta > 0 and row.count_base is not None]
    return _short(f"{row.group} +{format_ps(row.delta_ps)}" for row in rows[:_OPS_NAMED]) or "none"


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _short(parts: Iterable[str]) -> str:
    text = ", ".join(parts)
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
