"""Hardware as data: peaks, memories and networks of TPUs and GPUs, each number with its source."""

from __future__ import annotations

from tpuprof.hardware.chip import Chip, Fact, Figure, Ici
from tpuprof.hardware.dtypes import MatmulPeak, matmul_peak, peak_class
from tpuprof.hardware.lookup import EDITIONS, chip, chips, find_chip
from tpuprof.hardware.peaks import Peaks, parse_peaks, unknown_device
from tpuprof.hardware.ridge import PATHS, Ridge, path_bandwidth, ridges

__all__ = [
    "EDITIONS",
    "PATHS",
    "Chip",
    "Fact",
    "Figure",
    "Ici",
    "MatmulPeak",
    "Peaks",
    "Ridge",
    "chip",
    "chips",
    "find_chip",
    "matmul_peak",
    "parse_peaks",
    "path_bandwidth",
    "peak_class",
    "ridges",
    "unknown_device",
]
