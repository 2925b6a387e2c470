"""Programs before they run: compiled for TPU chips that need not be there.

``compile_program`` hands a lowered JAX program to the TPU compiler in a process of its own and returns what the
compiler says of its memory. It needs ``pip install "tpuprof[tpu]"`` on Linux with x86-64; no TPU.
"""

from tpuprof.predict.compiler import Compiled, Program, compile_program
from tpuprof.predict.installed import Installed, compiler_versions
from tpuprof.predict.refusals import Refused
from tpuprof.predict.topologies import Topology, compiler_topology

__all__ = [
    "Compiled",
    "Installed",
    "Program",
    "Refused",
    "Topology",
    "compile_program",
    "compiler_topology",
    "compiler_versions",
]
