"""Hardware as data: peaks, memories and networks of TPUs and GPUs, each number with its source."""

from __future__ import annotations

from tpuprof.hardware.chip import Chip, Fact, Figure, Ici
from tpuprof.hardware.dtypes import MatmulPeak, matmul_peak, peak_class
from tpuprof.hardware.lookup import EDITIONS, chip, chips, find_chip

__all__ = [
    "EDITIONS",
    "Chip",
    "Fact",
    "Figure",
    "Ici",
    "MatmulPeak",
    "chip",
    "chips",
    "find_chip",
    "matmul_peak",
    "peak_class",
]
