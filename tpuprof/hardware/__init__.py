"""Hardware as data: peaks, memories and networks of TPUs and GPUs, each number with its source."""

from __future__ import annotations

from tpuprof.hardware.chip import Chip, Fact, Figure, Ici
from tpuprof.hardware.dtypes import MatmulPeak, matmul_peak, peak_class
from tpuprof.hardware.lookup import EDITIONS, chip, chips, find_chip
from tpuprof.hardware.mesh import MeshMapping, map_mesh
from tpuprof.hardware.peaks import Peaks, parse_peaks, unknown_device
from tpuprof.hardware.ridge import PATHS, Ridge, path_bandwidth, ridges
from tpuprof.hardware.slices import make_slice, parse_slice
from tpuprof.hardware.topology import Slice

__all__ = [
    "EDITIONS",
    "PATHS",
    "Chip",
    "Fact",
    "Figure",
    "Ici",
    "MatmulPeak",
    "MeshMapping",
    "Peaks",
    "Ridge",
    "Slice",
    "chip",
    "chips",
    "find_chip",
    "make_slice",
    "map_mesh",
    "matmul_peak",
    "parse_peaks",
    "parse_slice",
    "path_bandwidth",
    "peak_class",
    "ridges",
    "unknown_device",
]
