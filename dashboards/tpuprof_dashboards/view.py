"""What one person looks at: which run, which part of it, what is filtered. All of it is in the URL, and only there.

    View.parse({"run": "2026_01_01_00_00_00", "steps": "3:8", "kind": "matmul"})

Two people on one server have one each. A link is a view, so that it reproduces what was seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

PICKS = ("run", "base", "steps", "devices")
"""What the pickers set; pages may not use these names for filters."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_MOST_FILTERS = 40
_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class View:
    """What is looked at.

    Args:
        run: the run's name; empty for the newest.
        base: the run that it is compared with; empty for none.
        steps: a range such as ``3:8``; empty for all.
        devices: a list such as ``TPU:0,TPU:1``; empty for all.
        filters: what pages keep: name → value, in order of the names.
    """

    run: str = ""
    base: str = ""
    steps: str = ""
    devices: str = ""
    filters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, params: Mapping[str, str | Sequence[str]]) -> View:
        """The view of a query string. What nobody could have written by looking is left out: nothing here raises."""
        found: dict[str, str] = {}
        for name, value in params.items():
            text = value if isinstance(value, str) else (value[-1] if value else "")
            if _NAME.match(name) and 0 < len(text) <= _LONGEST:
                found[name] = text
        picks = {name: found.pop(name) for name in PICKS if name in found}
        return cls(**picks, filters=tuple(sorted(found.items())[:_MOST_FILTERS]))

    def params(self) -> dict[str, str]:
        """The query string as a dictionary; what is empty is left out."""
        picks = {name: getattr(self, name) for name in PICKS}
        return {name: value for name, value in {**picks, **dict(self.filters)}.items() if value}

    def get(self, name: str, default: str = "") -> str:
        """A filter's value."""
        return dict(self.filters).get(name, default)

    def changed(self, **changes: str | None) -> View:
        """The view with other picks or filters; an empty or null value takes a filter away.

        Raises:
            ValueError: a name that no URL of ours can hold: a mistake in a page.
        """
        filters = dict(self.filters)
        picks: dict[str, str] = {}
        for name, value in changes.items():
            if not _NAME.match(name):
                raise ValueError(f"{name!r} cannot be the name of a filter")
            text = (value or "")[:_LONGEST]
            if name in PICKS:
                picks[name] = text
            elif text:
                filters[name] = text
            else:
                filters.pop(name, None)
        return replace(self, **picks, filters=tuple(sorted(filters.items())))
