"""What measured collectives add to their physical bound, as data: a share of the bandwidth and a fixed time."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Calibration:
    """``seconds = t0 + bound / c`` for collectives of one chip.

    Args:
        c: share of the bound's bandwidth that was reached.
        t0_s: fixed part, seconds.
        source: what was measured, or why nothing was.
        fits: ``measured`` for this kind on this way, ``similar`` for another one on the same chip, ``guess``.
        note: what else a reader should know.
    """

    c: float
    t0_s: float
    source: str
    fits: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class CoreLink:
    """The link between the cores of one chip: B/s in one direction, and who says so."""

    bandwidth: float
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    chip: str
    kind: str
    way: str
    c: float
    t0_s: float
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Constants:
    measured: tuple[_Entry, ...]
    guess: Calibration
    core_links: dict[str, CoreLink]


def calibration(chip: str, kind: str, way: str) -> Calibration:
    """The constants for a collective: measured on the chip as closely as possible, else a guess that says so.

    Args:
        chip: name of the chip, such as ``v6e``.
        kind: such as ``all_reduce``.
        way: ``ring``, ``line``, ``on_chip``, ``dcn``, ``switch`` and the like.
    """
    known = _constants()
    same_way = [entry for entry in known.measured if entry.chip == chip and entry.way == way]
    if not same_way:
        return known.guess
    exact = [entry for entry in same_way if entry.kind == kind]
    best = (exact or same_way)[0]
    return Calibration(best.c, best.t0_s, best.source, "measured" if exact else "similar", best.note)


def core_link(chip: str) -> CoreLink | None:
    """The link between the cores of a chip that are devices of their own; null if no figure is known."""
    return _constants().core_links.get(chip)


@lru_cache(maxsize=1)
def _constants() -> _Constants:
    table = tomllib.loads(files("tpuprof.perfmodel").joinpath("collective_constants.toml").read_text("utf-8"))
    guess = table["guess"]
    return _Constants(
        tuple(_Entry(**entry) for entry in table["measured"]),
        Calibration(guess["c"], guess["t0_s"], guess["source"], "guess"),
        {name: CoreLink(**link) for name, link in table["on_chip"].items()},
    )
