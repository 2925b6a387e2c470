"""Data quality: what is known to be lost, repaired or doubtful in what was captured.

A quality entry has a stable ``id`` (``truncated``, ``hlo_missing``, …). Entries are found by readers and by the
table builders, travel with the trace, and stand at the head of every result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Quality:
    """One finding about the data itself.

    Args:
        id: stable identifier.
        severity: info, warning or error.
        message: a sentence for people, with the numbers in it and what to do.
        count: how many events, files, cores … are concerned; null where counting makes no sense.
        scope: plain data that names what is concerned, e.g. ``{"host": "hostA", "program_id": 7}``.
    """

    id: str
    severity: Severity
    message: str
    count: int | None = None
    scope: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """The entry as the contract's JSON object."""
        return {
            "id": self.id,
            "severity": self.severity,
            "message": self.message,
            "count": self.count,
            "scope": self.scope,
        }


def worst(entries: Iterable[Quality]) -> Severity | None:
    """The highest severity among the entries, null if there are none."""
    found = [SEVERITIES.index(entry.severity) for entry in entries]
    return SEVERITIES[max(found)] if found else None


def ordered(entries: Iterable[Quality]) -> tuple[Quality, ...]:
    """Errors first; equal entries once."""
    seen: dict[str, Quality] = {}
    for entry in entries:
        seen.setdefault(f"{entry.id}\0{entry.message}", entry)
    return tuple(sorted(seen.values(), key=lambda entry: -SEVERITIES.index(entry.severity)))
