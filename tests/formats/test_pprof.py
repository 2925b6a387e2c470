"""Saved device memory profiles: built ones with known answers, damaged ones, and one that jax writes."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tpuprof.errors import InputTooLargeError, NotATraceError, TraceNotFoundError
from tpuprof.formats.pprof import (
    MAX_FRAMES,
    Frame,
    looks_like_profile,
    messages,
    read_memory_profile,
)

PROGRAM = """
import sys
import jax, jax.numpy as jnp

def make():
    return jnp.zeros((1000, 250), jnp.float32)

kept = [make() for _ in range(3)]
jax.block_until_ready(kept)
jax.profiler.save_device_memory_profile(sys.argv[1])
"""


def profile() -> Any:
    """Two arrays of 100 bytes in all made at m.py:7 through a library, and a program of 30 bytes."""
    message = messages().Profile(time_nanos=5)
    texts = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "executable", "device", "TPU_0"]
    texts += ["zeros", "/venv/site-packages/jax/numpy.py", "step", "m.py"]
    message.string_table.extend(text.encode() for text in texts)
    message.sample_type.add(type=1, unit=2)
    message.sample_type.add(type=3, unit=4)
    message.function.add(id=1, name=10, filename=11)
    message.function.add(id=2, name=12, filename=13)
    for number, (function, line) in enumerate([(1, 3), (2, 7)], start=1):
        message.location.add(id=number).line.add(function_id=function, line=line)
    program = message.sample.add(location_id=[1], value=[1, 30])
    program.label.add(key=5, str=7)
    arrays = message.sample.add(location_id=[1, 2], value=[2, 100])
    arrays.label.add(key=5, str=6)
    arrays.label.add(key=8, str=9)
    return message


def save(folder: Path, message: Any, compress: bool = True) -> str:
    data: bytes = message.SerializeToString()
    path = folder / "memory.prof"
    path.write_bytes(gzip.compress(data) if compress else data)
    return str(path)


@pytest.mark.parametrize("compress", [True, False])
def test_what_was_in_use_and_who_made_it(tmp_path: Path, compress: bool) -> None:
    found = read_memory_profile(save(tmp_path, profile(), compress))
    assert (found.total_bytes, found.time_ns) == (130, 5)
    arrays, program = found.allocations
    assert (arrays.kind, arrays.device, arrays.count, arrays.bytes) == ("buffer", "TPU_0", 2, 100)
    assert arrays.stack == (Frame("zeros", "/venv/site-packages/jax/numpy.py", 3), Frame("step", "m.py", 7))
    assert str(arrays.place) == "m.py:7"
    assert (program.kind, program.device, program.bytes) == ("executable", None, 30)
    assert program.place == program.stack[-1]  # nothing outside of packages: the outermost frame


def test_ids_that_point_nowhere_leave_gaps(tmp_path: Path) -> None:
    message = profile()
    message.sample[1].location_id[:] = [99, 2, 1 << 63]
    message.function[1].name = 1000
    message.sample[1].label[0].str = -4
    (arrays, _) = read_memory_profile(save(tmp_path, message)).allocations
    assert arrays.stack == (Frame("", "m.py", 7),)
    assert arrays.kind is None
    message.sample[1].location_id[:] = []
    assert read_memory_profile(save(tmp_path, message)).allocations[0].place is None


def test_stacks_are_bounded(tmp_path: Path) -> None:
    message = profile()
    message.sample[1].location_id[:] = [1, 2] * 10_000
    assert len(read_memory_profile(save(tmp_path, message)).allocations[0].stack) == MAX_FRAMES


def unlike(change: str) -> Any:
    message = profile()
    if change == "units":
        message.sample_type[0].unit = 4
    elif change == "values":
        message.sample[0].value.append(3)
    elif change == "negative":
        message.sample[0].value[1] = -1
    else:
        message.ClearField("string_table")
    return message


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("units", "It does not hold counts and bytes of allocations."),
        ("texts", "It does not hold counts and bytes of allocations."),
        ("values", "A sample has no count and size, or a negative one."),
        ("negative", "A sample has no count and size, or a negative one."),
    ],
)
def test_other_profiles_are_refused(tmp_path: Path, change: str, why: str) -> None:
    path = save(tmp_path, unlike(change))
    with pytest.raises(NotATraceError) as caught:
        read_memory_profile(path)
    assert str(caught.value) == (
        f"{path}: This is no device memory profile. {why} jax.profiler.save_device_memory_profile(FILE) writes one."
    )


def test_cut_and_wrong_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.prof"
    whole = gzip.compress(profile().SerializeToString())
    for data, why in ((whole[:-20], "ends early or is damaged"), (b"\xff" * 40, "no valid protobuf"), (b"", "counts")):
        path.write_bytes(data)
        with pytest.raises(NotATraceError, match=why):
            read_memory_profile(str(path))
    with pytest.raises(TraceNotFoundError):
        read_memory_profile(str(tmp_path / "none.prof"))


@pytest.mark.parametrize("seed", range(3))
def test_mutations_raise_nothing_else(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    whole, path = profile().SerializeToString(), tmp_path / "memory.prof"
    good = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(source.choice([1, 2, 5])):
            data[source.randrange(len(data))] = source.randrange(256)
        path.write_bytes(data)
        try:
            found = read_memory_profile(str(path))
        except NotATraceError:
            continue
        assert all(each.bytes >= 0 and each.count >= 0 for each in found.allocations)
        good += 1
    assert good > 20


def test_bombs_and_large_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.prof"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(InputTooLargeError, match="expand to more than"):
        read_memory_profile(str(path), max_bytes=1000)
    path.write_bytes(profile().SerializeToString())
    with pytest.raises(InputTooLargeError, match=r"The memory profile has \d+ bytes; the limit is 100"):
        read_memory_profile(str(path), max_bytes=100)


def test_profiles_are_told_from_traces(tmp_path: Path) -> None:
    cases = {"a.prof": b"", "b.pprof": b"", "c.pb.gz": b"\x1f\x8b", "memory": b"\x1f\x8b"}
    others = {"x.xplane.pb": b"\n\x02", "t.trace.json.gz": b"\x1f\x8b", "empty": b""}
    for name, data in {**cases, **others}.items():
        (tmp_path / name).write_bytes(data)
        assert looks_like_profile(str(tmp_path / name)) == (name in cases), name
    memory = fsspec.filesystem("memory")
    for name in ("/pprof/memory.pb.gz", "/pprof/memory"):
        memory.pipe_file(name, gzip.compress(profile().SerializeToString()))
    assert looks_like_profile("memory://pprof/memory.pb.gz")
    assert not looks_like_profile("memory://pprof/memory")  # not looked into
    assert read_memory_profile("memory://pprof/memory.pb.gz").total_bytes == 130
    assert not looks_like_profile(str(tmp_path))
    assert not looks_like_profile(str(tmp_path / "none.prof"))


def test_a_profile_that_jax_writes(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="jax writes the profile")
    script, path = tmp_path / "train.py", tmp_path / "memory.prof"
    script.write_text(PROGRAM)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, str(script), str(path)], env=environment, check=True, timeout=120)
    assert looks_like_profile(str(path))
    found = read_memory_profile(str(path))
    arrays = [each for each in found.allocations if each.kind == "buffer" and each.bytes >= 1_000_000]
    assert sum(each.count for each in arrays) == 3
    assert sum(each.bytes for each in arrays) == 3 * 1000 * 250 * 4
    assert {(each.place.function, str(each.place)) for each in arrays if each.place} == {("make", f"{script}:6")}
    assert all("cpu" in (each.device or "").lower() for each in arrays)
