"""Ridge points: the operational intensity from which on a chip's arithmetic, not a memory or network, is the limit."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.hardware.chip import Chip, Figure

PATHS = ("hbm", "vmem", "ici", "scale_up", "scale_out", "dcn", "pcie")
"""What bytes can pass: memories, one axis of the torus (both directions), GPU networks (one way), DCN, PCIe."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """One ridge point.

    Args:
        dtype: the class of dtypes of the peak.
        path: one of `PATHS`.
        flops_per_byte: peak / bandwidth. Whole chips and runtime devices have the same.
        peak: FLOP/s of the chip.
        bandwidth: B/s of the chip.
    """

    dtype: str
    path: str
    flops_per_byte: float
    peak: Figure
    bandwidth: Figure


def path_bandwidth(chip: Chip, path: str) -> Figure | None:
    """Bandwidth of a chip on one of `PATHS`, B/s; null if not known. ICI is of one axis, both directions."""
    return {
        "hbm": chip.hbm_bandwidth,
        "vmem": chip.vmem_bandwidth,
        "ici": None if chip.ici is None else chip.ici.axis_bandwidth,
        "scale_up": chip.scale_up_bandwidth,
        "scale_out": chip.scale_out_bandwidth,
        "dcn": chip.dcn_bandwidth,
        "pcie": chip.pcie_bandwidth,
    }[path]


def ridges(chip: Chip) -> tuple[Ridge, ...]:
    """The ridge points of all known peaks against all known bandwidths (C/W of the scaling book, "Rooflines")."""
    return tuple(
        Ridge(dtype, path, peak.value / bandwidth.value, peak, bandwidth)
        for dtype, peak in chip.peak.items()
        for path in PATHS
        if (bandwidth := path_bandwidth(chip, path)) is not None
    )
