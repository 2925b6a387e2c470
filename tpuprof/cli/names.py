"""What is said to a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def unknown_name(noun: str, name: str, known: Sequence[str]) -> str:
    """``There is no command 'repot'. Did you mean report?``, or all names where none is near."""
    near = difflib.get_close_matches(name, known, n=2)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"{noun.capitalize()}s: {', '.join(known)}."
    return f"There is no {noun} {name!r}. {hint}"
