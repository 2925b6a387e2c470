"""What an op is: the kinds, and the answer of the classifier."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tpuprof.tables.schemas import OP_KINDS

KINDS = OP_KINDS

Source = Literal["hlo", "category", "name", "none"]
Phase = Literal["sync", "start", "update", "done"]
AsyncClass = Literal["collective", "dma", "host_transfer"]

RANK = {kind: rank for rank, kind in enumerate(KINDS)}
_PHASE = re.compile(r"(.+?)-(start|update|done)\Z")


@dataclass(frozen=True, slots=True)
class OpClass:
    """What an op is.

    Args:
        kind: one of `KINDS`.
        source: what decided it.
        detail: more on it: the other memory space of a copy (``host_memory``, ``vmem``), ``sparsecore``,
            ``async_unknown`` for a generic asynchronous pair of which nothing is known, ``async_collective_fusion``
            for compute that carries a part of a collective.
        collective: of a collective its opcode kind (``all_gather`` …), null if that is not known or it is none.
        phase: which half of an asynchronous pair this is; ``sync`` for everything else.
        async_class: what the pair does; null for what is no half of a pair.
    """

    kind: str
    source: Source
    detail: str = ""
    collective: str | None = None
    phase: Phase = "sync"
    async_class: AsyncClass | None = None


def split_phase(opcode: str) -> tuple[str, Phase]:
    """An opcode without its half, and which half it is: ``copy-start`` is (``copy``, ``start``)."""
    match = _PHASE.match(opcode)
    if match is None:
        return opcode, "sync"
    phases: dict[str, Phase] = {"start": "start", "update": "update", "done": "done"}
    return match[1], phases[match[2]]


def pair_class(what: AsyncClass, phase: Phase) -> AsyncClass | None:
    """The asynchronous class of what may be a half: null if it is none."""
    return None if phase == "sync" else what
