"""Which steps and devices a person means by a short text: ``10:13``, ``TPU:0,TPU:1``, ``hostA/*``."""

from __future__ import annotations

import fnmatch
import re

from tpuprof.errors import UsageError

_STEPS = re.compile(r"(?P<first>\d*)(?P<colon>:?)(?P<stop>\d*)\Z", re.ASCII)


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """``10:13`` is (10, 13), ``10:`` is (10, None), ``7`` is (7, 8).

    Raises:
        UsageError: the text is no range, or an empty one.
    """
    match = _STEPS.match(text.strip())
    if match is None or not (match["first"] or match["stop"]):
        raise UsageError(
            f"--steps {text!r} is no range of steps.", hint="Write A:B, A:, :B or one number, such as 10:13."
        )
    first = int(match["first"]) if match["first"] else None
    if not match["colon"]:
        return first, int(match["first"]) + 1
    stop = int(match["stop"]) if match["stop"] else None
    if first is not None and stop is not None and first >= stop:
        raise UsageError(f"--steps {text!r} holds no step.", hint="B is the first step that is left out.")
    return first, stop


def match_steps(bounds: tuple[int | None, int | None], numbers: list[int]) -> list[int]:
    """The step numbers of the run within the bounds.

    Raises:
        UsageError: there are none.
    """
    first, stop = bounds
    found = [n for n in numbers if (first is None or n >= first) and (stop is None or n < stop)]
    if not found:
        have = f"It has the steps {numbers[0]} to {numbers[-1]}." if numbers else "It has no steps."
        raise UsageError("No step of the run lies in --steps.", hint=have)
    return found


def match_devices(text: str, ids: list[str]) -> list[str]:
    """The ids that the comma-separated list names: whole ids, their last parts, their numbers, or patterns.

    Raises:
        UsageError: an item names none of them.
    """
    chosen: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = [
            name
            for name in ids
            if item in (name, name.rpartition("/")[2], name.rpartition(":")[2]) or fnmatch.fnmatchcase(name, item)
        ]
        if not found:
            known = ", ".join(ids[:20]) + (" …" if len(ids) > 20 else "")
            raise UsageError(f"--devices: no core is called {item!r}.", hint=f"The run has {known or 'no cores'}.")
        chosen.update(found)
    if not chosen:
        raise UsageError("--devices names no core.", hint="Write ids, numbers or patterns, separated by commas.")
    return [name for name in ids if name in chosen]
