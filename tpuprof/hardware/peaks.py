"""Figures given on the command line: ``--peak 197e12``, ``--peak bf16=197T,hbm=819GB/s``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip, Figure, Platform
from tpuprof.hardware.dtypes import CLASSES, peak_class
from tpuprof.hardware.quantity import parse_quantity

_KEYS = {
    "hbm": ("hbm_bandwidth", "B/s"),
    "vmem": ("vmem_bandwidth", "B/s"),
    "vector": ("vector_flops", "FLOP/s"),
    "dcn": ("dcn_bandwidth", "B/s"),
    "pcie": ("pcie_bandwidth", "B/s"),
    "ici": ("ici.link_bandwidth", "B/s"),
}
_OF_A_LINK = ("ici.link_bandwidth",)
_OPTION = "--peak"


@dataclass(frozen=True, slots=True)
class Peaks:
    """Figures of one runtime device that the user gives; ``ici.link_bandwidth`` is of one link.

    Args:
        figures: by key, ``peak.`` before a class of dtypes.
    """

    figures: Mapping[str, Figure]

    def over(self, chip: Chip | None, *, name: str = "unknown", platform: Platform = "tpu") -> Chip:
        """The chip with these figures in place of its own.

        Args:
            chip: null for a device that is not known; then the result has one device per chip and nothing else.
            name: of a device that is not known.
            platform: of a device that is not known.

        Raises:
            UsageError: ICI bandwidth is given for a chip whose links are not known.
        """
        base = Chip(name=name, platform=platform, edition="user") if chip is None else chip
        count = base.devices_per_chip
        whole = {
            key: figure
            if count == 1 or key in _OF_A_LINK
            else figure.times(count, f"given for one of the {count} runtime devices of a chip")
            for key, figure in self.figures.items()
        }
        changes: dict[str, Any] = {key: figure for key, figure in whole.items() if "." not in key}
        given = {key.removeprefix("peak."): figure for key, figure in whole.items() if key.startswith("peak.")}
        link = whole.get("ici.link_bandwidth")
        if link is not None:
            if base.ici is None:
                raise UsageError(
                    f"The ICI links of {base.name} are not known.",
                    where=_OPTION,
                    hint="Describe them in a TOML file, in [chips.NAME.ici], and give it with --hardware.",
                )
            changes["ici"] = replace(base.ici, link_bandwidth=link)
        return replace(base, peak={**base.peak, **given}, **changes)


def parse_peaks(texts: Iterable[str]) -> Peaks:
    """The figures that texts such as ``197e12``, ``bf16=197T`` and ``hbm=819GB/s,ici=45GB/s`` give.

    A number alone is the bf16 peak. Keys are dtypes, and hbm, vmem, vector, ici (one link, one way), dcn and pcie. All
    are of one runtime device.

    Raises:
        UsageError: a key is unknown or given twice, or a value is no such quantity.
    """
    figures: dict[str, Figure] = {}
    for part in [part.strip() for text in texts for part in text.split(",")]:
        word, equals, value = part.partition("=")
        key, unit = _key(word.strip().lower()) if equals else ("peak.bf16", "FLOP/s")
        number = parse_quantity(value if equals else word, unit, word.strip() if equals else "bf16", where=_OPTION)
        if key in figures:
            raise UsageError(f"{key.removeprefix('peak.')} is given twice.", where=_OPTION, hint="Give it once.")
        figures[key] = Figure(number, unit, f"given by {_OPTION}")
    return Peaks(figures)


def unknown_device(device_kind: str | None) -> str:
    """What to say of a device whose figures are not known."""
    what = (
        "The trace does not say which device it ran on" if not device_kind else f"{device_kind} is not a known device"
    )
    return (
        f"{what}, so its peaks are unknown. Name it with --chip (see `tpuprof hardware`), give "
        "--peak bf16=197T,hbm=819GB/s (of one device), or describe it in a TOML file and give --hardware FILE."
    )


def _key(word: str) -> tuple[str, str]:
    if word in _KEYS:
        return _KEYS[word]
    kind = peak_class(word)
    if kind is None:
        raise UsageError(
            f"{word!r} is no figure that can be given.", where=_OPTION, hint=f"Keys: {', '.join([*CLASSES, *_KEYS])}."
        )
    return f"peak.{kind}", "FLOP/s"
