"""What the TPU compiler says when it refuses a program, as data.

The messages are those of libtpu 0.0.42 and 0.0.50; what is not recognised keeps its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["hbm", "vmem", "option", "other"]
_MOST_TEXT = 2_000
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"([\d.]+)\s*([KMGT]?)i?B?"
_HBM = (
    re.compile(rf"Ran out of memory on HBM.{{0,200}}?\({_SIZE}\) exceeds available HBM \({_SIZE}\)", re.DOTALL),
    re.compile(
        rf"Ran out of memory in memory space hbm\b.{{0,200}}?Used {_SIZE} of {_SIZE}", re.DOTALL | re.IGNORECASE
    ),
)
_VMEM = re.compile(
    rf"memory space vmem.*?Scoped allocation with size {_SIZE} and limit {_SIZE}", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(r"No such compile option: '([^'\n]{1,200})'")


@dataclass(frozen=True, slots=True)
class Refused:
    """A program that the compiler does not take.

    Args:
        kind: ``hbm`` or ``vmem`` if it needs more of that memory than there is, ``option`` if an option is not known,
            else ``other``.
        needed_bytes, available_bytes: of the memory that is short; null if not said.
        option: the one that is not known.
        message: the compiler's words, at most 2,000 characters of them.
    """

    kind: Kind
    message: str
    needed_bytes: float | None = None
    available_bytes: float | None = None
    option: str | None = None


def refused(message: str) -> Refused:
    """What the compiler's message says."""
    text = message[:_MOST_TEXT]
    for pattern in _HBM:
        if found := pattern.search(message):
            return Refused("hbm", text, _bytes(found[1], found[2]), _bytes(found[3], found[4]))
    if found := _VMEM.search(message):
        return Refused("vmem", text, _bytes(found[1], found[2]), _bytes(found[3], found[4]))
    if found := _OPTION.search(message):
        return Refused("option", text, option=found[1])
    return Refused("hbm" if "CompileTimeHbmOom" in message else "other", text)


def _bytes(number: str, unit: str) -> float | None:
    try:
        return float(number) * _UNITS[unit]
    except ValueError:  # such as 1.2.3
        return None
