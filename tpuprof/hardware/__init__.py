"""Hardware as data: peaks, memories and networks of TPUs and GPUs, each number with its source."""

from __future__ import annotations

from tpuprof.hardware.chip import Chip, Fact, Figure, Ici
from tpuprof.hardware.dtypes import MatmulPeak, matmul_peak, peak_class
from tpuprof.hardware.lookup import EDITIONS, chip, chips, find_chip
from tpuprof.hardware.mesh import MeshMapping, map_mesh
from tpuprof.hardware.slices import make_slice, parse_slice
from tpuprof.hardware.topology import Slice

__all__ = [
    "EDITIONS",
    "Chip",
    "Fact",
    "Figure",
    "Ici",
    "MatmulPeak",
    "MeshMapping",
    "Slice",
    "chip",
    "chips",
    "find_chip",
    "make_slice",
    "map_mesh",
    "matmul_peak",
    "parse_slice",
    "peak_class",
]
