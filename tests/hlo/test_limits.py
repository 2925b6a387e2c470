"""What loading costs: imports stay light, and a large module is read in time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpuprof.hlo import parse_proto
from tpuprof.hlo.proto_schema import messages


def test_importing_the_package_pulls_in_nothing_heavy():
    heavy = ["google.protobuf", "numpy", "pandas", "numba", "jax", "pyarrow", "fsspec", "click"]
    code = f"import sys, tpuprof.hlo; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_thirty_megabytes_of_module_are_read_in_ten_seconds(compiled: Path):
    original = messages().HloModuleProto.FromString((compiled / "remat.pb").read_bytes())
    large = messages().HloModuleProto()
    large.CopyFrom(original)
    copies = 30_000_000 // original.ByteSize()
    for number in range(1, copies):
        for computation in original.computations:
            copy = large.computations.add()
            copy.CopyFrom(computation)
            copy.name += b".copy%d" % number
            copy.id += number << 32
    data = large.SerializeToString()
    assert len(data) > 25_000_000
    start = time.process_time()
    module = parse_proto(data)
    assert time.process_time() - start < 10
    assert sum(len(c.instructions) for c in module.computations) > 100_000
