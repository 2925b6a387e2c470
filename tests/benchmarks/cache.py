"""What the cache brings and costs: a report of a large run without it, with it for the first time, and the second time.

    python tests/benchmarks/cache.py [--dir DIR] [--events 1200000 3000000 5000000] [--repeat 3]

Runs of one host with two cores are written once and kept in DIR; the cache is a directory of its own, emptied before
every first time. Commands are fresh processes, the best of several; ``load`` and ``build_report`` are timed in a
process that has them imported, as a dashboard has. The last lines hold what the same arrays cost as Parquet, which was
the alternative.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analyzers"), str(Path(__file__).parent)]

from pods import host_file  # noqa: E402

_INSIDE = """
import sys, time, pathlib
import tpuprof
from tpuprof.cache import CacheDir, finish_writing
from tpuprof.report.build import build_report
run, place = sys.argv[1:]
small = tpuprof.load(sys.argv[1], cache=CacheDir(pathlib.Path(place)))  # everything is imported and compiled
build_report(small)
finish_writing()
for cache in (False, CacheDir(pathlib.Path(place))):
    best = [9e9] * 6
    for _ in range(3):
        times = [(time.perf_counter(), time.process_time())]
        trace = tpuprof.load(run, cache=cache)
        times.append((time.perf_counter(), time.process_time()))
        build_report(trace)
        times.append((time.perf_counter(), time.process_time()))
        trace.segments
        times.append((time.perf_counter(), time.process_time()))
        finish_writing()
        spent = [b - a for one, other in zip(times, times[1:]) for a, b in zip(one, other)]
        best = list(map(min, best, spent))
        del trace
    print(*best)
"""


_STAGES = (("load", 0), ("build_report", 2), ("segments", 4))


def main() -> None:
    """Prints one line per size and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench" / "cache")
    parser.add_argument("--events", type=int, nargs="+", default=[1_200_000, 3_000_000, 5_000_000])
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    for events in arguments.events:
        measure(arguments.dir / str(events), events, arguments.repeat)


def measure(folder: Path, events: int, repeat: int) -> None:
    """Measures one size."""
    run = folder / "plugins" / "profile" / "2026_01_01_00_00_00"
    file = run / "host0.xplane.pb"
    if not file.exists():
        run.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".new").write_bytes(host_file(0, events))
        file.with_suffix(".new").replace(file)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        cache = Path(place) / "cache"
        report(run, cache, "--no-cache")  # compiles the loops where that was not done before
        found: dict[str, list[tuple[float, float]]] = {"without": [], "first": [], "second": []}
        for _ in range(repeat):  # in turn, so that what else the machine does meets all alike
            found["without"].append(report(run, cache, "--no-cache"))
            shutil.rmtree(cache, ignore_errors=True)
            found["first"].append(report(run, cache))
            found["second"].append(report(run, cache))
        (entry,) = cache.glob("*.run")
        print(
            f"{events:,} events, {file.stat().st_size / 1e6:.0f} MB, {entry.stat().st_size / 1e6:.0f} MB in the cache"
        )
        for name, times in found.items():
            wall, processor = (min(column) for column in zip(*times, strict=True))
            print(f"    tpuprof report, {name:<8} {wall:.2f} s, {processor:.2f} s of processors")
        done = subprocess.run(
            [sys.executable, "-c", _INSIDE, str(run), str(cache)],
            env=environment(cache),
            check=True,
            capture_output=True,
            text=True,
        )
        ways = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
        for name, times in zip(("without", "with"), ways, strict=True):
            parts = [f"{what} {times[at]:.2f} s ({times[at + 1]:.2f} s)" for what, at in _STAGES]
            print(f"    in a running process, {name} the cache, wall (processors): {', '.join(parts)}")
        as_parquet(entry, Path(place))


def report(run: Path, cache: Path, *options: str) -> tuple[float, float]:
    """Wall and processor seconds of one ``tpuprof report``."""
    before = os.times()
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tpuprof", "report", str(run), "--json", *options],
        env=environment(cache),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds, after = time.perf_counter() - began, os.times()
    return seconds, sum(after[2:4]) - sum(before[2:4])


def environment(cache: Path) -> dict[str, str]:
    """The environment of a process that uses this cache."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2]), "TPUPROF_CACHE_DIR": str(cache)}


def as_parquet(entry: Path, folder: Path) -> None:
    """The arrays of an entry as Parquet files, one for each length, which is what tables would be."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tpuprof.cache.container import read_container

    began = time.perf_counter()
    with entry.open("rb") as stream:
        _, parts = read_container(stream)
    mapped = time.perf_counter() - began
    tables: dict[int, dict[str, np.ndarray]] = {}
    for number, part in enumerate(parts):
        if isinstance(part, np.ndarray) and part.ndim == 1:
            tables.setdefault(len(part), {})[str(number)] = part
    for codec in ("none", "zstd"):
        began = time.perf_counter()
        for length, columns in tables.items():
            pq.write_table(pa.table(columns), folder / f"{length}.parquet", compression=codec)
        written = time.perf_counter() - began
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        began = time.perf_counter()
        for path in folder.glob("*.parquet"):
            for column in pq.read_table(path).columns:
                column.to_numpy()
        print(
            f"    as Parquet ({codec}): {written:.2f} s to write, {size / 1e6:.0f} MB, "
            f"{time.perf_counter() - began:.2f} s to read; the cache's file is mapped and checked in {mapped:.2f} s"
        )


if __name__ == "__main__":
    main()
