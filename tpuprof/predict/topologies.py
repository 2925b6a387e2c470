"""Slices under the names that the TPU compiler knows."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice

_KNOWN = ("v2", "v3", "v5e", "v5p", "v6e", "tpu7x")
_USUAL_HOST = (2, 2, 1)


@dataclass(frozen=True, slots=True)
class Topology:
    """What the compiler is asked for.

    Args:
        name: such as ``v5e:4x4``.
        slices: of that shape.
        chips_per_host: bounds of the chips behind one host; null for the usual 2x2x1.
    """

    name: str
    slices: int = 1
    chips_per_host: tuple[int, ...] | None = None


def compiler_topology(where: Slice) -> Topology:
    """The slice as the compiler names it.

    Raises:
        UsageError: the compiler does not know the chip, or takes it for another one.
    """
    chip = where.chip.name
    if chip == "v4":
        raise UsageError(
            "The TPU compiler has no v4 as it is.",
            why="It compiles for two devices of half the memory a chip, where a real v4 is one device.",
            hint="Compile for v5p instead.",
        )
    if chip not in _KNOWN:
        raise UsageError(f"The TPU compiler does not know {chip}.", hint=f"Chips: {', '.join(_KNOWN)}.")
    twist = "_twisted" if where.twisted else ""
    shape = "x".join(map(str, where.shape))
    # A slice smaller than the usual host of 2x2 chips needs hosts that small.
    small = tuple(min(size, usual) for size, usual in zip((*where.shape, 1, 1)[:3], _USUAL_HOST, strict=True))
    return Topology(f"{chip}:{shape}{twist}", where.slices, None if small == _USUAL_HOST else small)
