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
    axes: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Constants:
    measured: tuple[_Entry, ...]
    guess: Calibration
    core_links: dict[str, CoreLink]


def calibration(chip: str, kind: str, way: str, axes: int = 0) -> Calibration:
    """The constants for a collective: measured on the chip as closely as possible, else a guess that says so.

    What counts as close is the network used: for ICI links the number of torus axes at work at once, because several
    are harder to keep busy than one; for the rest (``on_chip``, ``dcn``, ``switch``, ``tree``) the network itself.

    Args:
        chip: name of the chip, such as ``v6e``.
        kind: such as ``all_reduce``.
        way: ``ring``, ``line``, ``ring and line``, ``on_chip``, ``dcn``, ``switch`` and the like.
        axes: torus axes in use; 0 for other networks.
    """
    known = _constants()
    near = [entry for entry in known.measured if entry.chip == chip and entry.axes == axes]
    if not axes:
        near = [entry for entry in near if entry.way == way]
    if not near:
        return known.guess
    best = max(near, key=lambda entry: (entry.way == way, entry.kind == kind))
    fits = "measured" if (best.way, best.kind) == (way, kind) else "similar"
    return Calibration(best.c, best.t0_s, best.source, fits, best.note)


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
