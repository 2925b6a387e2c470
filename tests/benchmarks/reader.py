"""How fast XPlane files are read, next to the other readers there are. One command, one table:

    python tests/benchmarks/reader.py [--dir DIR] [--file FILE] [--synthetic EVENTS]

Without a file it records a trace of more than a million events with jax on 8 virtual CPU devices, once, and keeps it in
DIR. Every reader runs in a process of its own: once to warm up, during which the growth of the resident memory over
the imports is taken, and once for the time. The growth contains the file itself, whether read or mapped.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
XPROF_OVERVIEW = "xprof overview_page"
STEPS = 400  # 3000 events each
TIMEOUT_S = 1800


def main() -> None:
    """Record or make the file if there is none, measure every reader, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench")
    parser.add_argument("--file", type=Path, help="measure this XPlane file")
    parser.add_argument("--synthetic", type=int, metavar="EVENTS", help="measure a written file of this many events")
    parser.add_argument("--only", help="comma-separated names of the readers to run")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    parser.add_argument("--role", help=argparse.SUPPRESS)  # what a child process does
    arguments = parser.parse_args()
    if arguments.role:
        run_role(arguments.role, arguments.file)
        return
    file = (arguments.file or prepared(arguments.dir, arguments.synthetic)).resolve()
    names = arguments.only.split(",") if arguments.only else list(READERS)
    rows = [measure(name, file) for name in names]
    if arguments.json:
        print(json.dumps({"file_bytes": file.stat().st_size, "readers": rows}, indent=1))
    else:
        print_table(file, rows)


def prepared(folder: Path, synthetic: int | None) -> Path:
    """The file to measure, made if it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (f"synthetic-{synthetic}.xplane.pb" if synthetic else "cpu.xplane.pb")
    if not file.exists():
        child(f"synthetic:{synthetic}" if synthetic else "record", file)
    return file


def child(role: str, file: Path) -> str:
    """Run this script in a fresh process; its last line of output."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    done = subprocess.run(
        [sys.executable, __file__, "--role", role, "--file", str(file)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{role} failed:\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()[-1] if done.stdout else ""


def run_role(role: str, file: Path) -> None:
    """What a child process does: record, write a synthetic file, or measure a reader."""
    if role == "record":
        record(file)
    elif role.startswith("synthetic:"):
        write_synthetic(file, int(role.partition(":")[2]))
    else:
        print(json.dumps(timed(role, file)))


def measure(name: str, file: Path) -> dict[str, object]:
    """The measurement of one reader, or why there is none."""
    return {"reader": name, **json.loads(child(name, file))}


# --- files ------------------------------------------------------------------------------------------------------------


def record(file: Path) -> None:
    """Trace a sharded program of many small ops on 8 virtual devices. Tracing needs some GB of memory."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax._src.lib import _profiler  # stop_trace() would also convert to JSON, which takes minutes for this file
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))

    def step(x: jax.Array) -> jax.Array:
        for i in range(40):
            x = jnp.sort(x + jnp.flip(jnp.sin(x) @ jnp.ones((16, 16)), 1) * 0.1, axis=1)
            if i % 8 == 0:
                x = x + jnp.sum(x)
        return x

    run = jax.jit(step, out_shardings=sharding)
    x = jax.device_put(jnp.ones((64, 16)), sharding)
    run(x).block_until_ready()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    for i in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            x = run(x)
            x.block_until_ready()
    file.write_bytes(session.stop())


def write_synthetic(file: Path, n_events: int) -> None:
    """A file shaped like a CPU trace: 8 threads, op events with six stats, and as many instants without."""
    import numpy as np

    from tpuprof.formats.xplane_writer import write_xplane
    from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, Space, StatKind

    rng = np.random.default_rng(1)
    keys = ("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "_c")
    names = [f"fusion.{i}" for i in range(300)]
    stat_names = (*keys, *names)
    kinds = np.array([StatKind.REF, StatKind.REF, *[StatKind.INT64] * 4], np.uint8)
    per_line = n_events // 8
    lines: list[Line] = []
    for thread in range(8):
        is_op = np.arange(per_line) % 2 == 0
        n_ops = int(is_op.sum())
        meta = np.where(is_op, rng.integers(0, 300, per_line), 300).astype(np.int32)
        bits = np.empty((n_ops, 6), np.int64)
        bits[:, 0] = meta[is_op] + len(keys)
        bits[:, 1:] = [len(keys), 17, thread + 1, thread, 123_456_789]
        events = Events(
            meta=meta,
            offset_ps=np.cumsum(rng.integers(1_000, 2_000_000, per_line)),
            duration_ps=np.where(is_op, rng.integers(1_000, 900_000, per_line), 0),
            occurrences=None,
            stat_ptr=np.concatenate([[0], np.cumsum(np.where(is_op, 6, 0))]),
            stat_key=np.tile(np.arange(6, dtype=np.int32), n_ops),
            stat_kind=np.tile(kinds, n_ops),
            stat_bits=bits.reshape(-1),
        )
        lines.append(Line(thread + 1, f"tf_XLAEigen/{thread}", 1_000, events))
    metas = tuple(EventMeta(i + 1, name, "", {}) for i, name in enumerate([*names, "ThreadpoolListener::Record"]))
    file.write_bytes(write_xplane(Space((Plane(0, "/host:CPU", tuple(lines), metas, stat_names),))))


# --- readers ----------------------------------------------------------------------------------------------------------
# Each is a function that imports what it needs and gives another one, which reads the file and counts its events.

Reader = Callable[[Path], int]


class Missing(Exception):
    """The reader cannot run here; the text says why."""


def tpuprof_reader() -> Reader:
    """``read_xplane`` on a memory map, all stats kept."""
    from tpuprof.formats.xplane_reader import read_xplane

    def read(file: Path) -> int:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return read_xplane(data).space.count_events()

    return read


def protobuf_reader() -> Reader:
    """protobuf with the whole schema, every event and stat visited."""
    from tpuprof.formats.xplane_schema import full_messages

    message = full_messages().XSpace

    def read(file: Path) -> int:
        return sum(1 for _ in visit(message.FromString(file.read_bytes())))

    def visit(space: object) -> Iterator[object]:
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    for stat in event.stats:
                        yielded = getattr(stat, stat.WhichOneof("value"))
                        del yielded
                    yield event.metadata_id, event.offset_ps, event.duration_ps

    return read


def profile_data_reader() -> Reader:
    """``jax.profiler.ProfileData``, every event and stat visited."""
    try:
        from jax.profiler import ProfileData
    except ImportError as error:
        raise Missing(f"jax is not installed ({error})") from error

    def read(file: Path) -> int:
        count = 0
        for plane in ProfileData.from_file(str(file)).planes:
            for line in plane.lines:
                for event in line.events:
                    _ = event.name, event.start_ns, event.duration_ns, list(event.stats)
                    count += 1
        return count

    return read


def xprof_reader(tool: str) -> Callable[[], Reader]:
    """A conversion of XProf; it does not say how many events it read."""

    def load() -> Reader:
        try:
            from xprof.convert.raw_to_tool_data import xspace_to_tool_data
        except ImportError as error:
            raise Missing(f"xprof is not installed ({error})") from error

        def read(file: Path) -> int:
            # It saves what it computed beside the file and would only load that the second time.
            with tempfile.TemporaryDirectory() as folder:
                link = Path(folder) / file.name
                link.symlink_to(file)
                result = xspace_to_tool_data([str(link)], tool, {})
            if not result or not result[0]:
                raise Missing(f"xprof gave no data for {tool}")
            return 0

        return read

    return load


def report_process() -> Reader:
    """``tpuprof report`` as a user calls it: start, imports, reading, tables and JSON."""

    def read(file: Path) -> int:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tpuprof", "report", str(file), "--no-cache", "--quiet"]
            command += ["-o", f"{folder}/report.json"]
            subprocess.run(command, check=True, timeout=TIMEOUT_S)
        return 0

    return read


def report_here() -> Reader:
    """The same report in a process that has imported what it needs."""
    import tpuprof.tables.frames  # noqa: F401 # pandas, which is imported late
    from tpuprof.report.build import build_report
    from tpuprof.trace import load

    def read(file: Path) -> int:
        return 0 * len(build_report(load(file)))

    return read


READERS: dict[str, Callable[[], Reader]] = {
    "tpuprof": tpuprof_reader,
    "tpuprof report (process)": report_process,
    "tpuprof report (in process)": report_here,
    "protobuf": protobuf_reader,
    "jax ProfileData": profile_data_reader,
    "xprof hlo_stats": xprof_reader("hlo_stats"),
    XPROF_OVERVIEW: xprof_reader("overview_page"),
}


def timed(name: str, file: Path) -> dict[str, object]:
    """Seconds of a warm read, its events, and the growth of the peak resident memory during the first read."""
    started = time.perf_counter()
    try:
        read = READERS[name]()
        load_s = time.perf_counter() - started
        base = resident("VmRSS")
        reset_peak()
        read(file)
        growth = resident("VmHWM") - base
        used = sum(os.times()[:4])  # of this process and its children, user and system
        started = time.perf_counter()
        events = read(file)
        seconds = time.perf_counter() - started
        cpu_s = sum(os.times()[:4]) - used
    except Missing as reason:
        return {"skipped": str(reason)}
    return {"seconds": seconds, "cpu_s": cpu_s, "load_s": load_s, "events": events, "growth_bytes": growth}


def resident(which: str) -> int:
    """A figure of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) * 1024
    raise Missing(f"this system does not state {which}")


def reset_peak() -> None:
    """Let VmHWM start again from the present."""
    Path("/proc/self/clear_refs").write_text("5")


def print_table(file: Path, rows: list[dict[str, object]]) -> None:
    """One line per reader, with ratios to the first."""
    size = file.stat().st_size
    events = max((int(str(row.get("events", 0))) for row in rows), default=0)
    print(f"{file}: {size / 1e6:.1f} MB, {events:,} events, {os.cpu_count()} cores")
    print(
        f"{'reader':<28}{'seconds':>9}{'CPU s':>8}{'M events/s':>12}{'ratio':>8}"
        f"{'memory MB':>11}{'x file':>8}{'import s':>10}"
    )
    first = next((row for row in rows if "seconds" in row), {})
    for row in rows:
        if "skipped" in row:
            print(f"{row['reader']:<28} skipped: {row['skipped']}")
            continue
        seconds, growth = float(str(row["seconds"])), float(str(row["growth_bytes"]))
        ratio = seconds / float(str(first["seconds"]))
        print(
            f"{row['reader']:<28}{seconds:>9.3f}{float(str(row['cpu_s'])):>8.2f}"
            f"{events / seconds / 1e6:>12.2f}{ratio:>7.1f}x{growth / 1e6:>11.0f}"
            f"{growth / size:>8.2f}{float(str(row['load_s'])):>10.2f}"
        )
    measured = {str(row["reader"]): row for row in rows if "seconds" in row}
    for name, row in measured.items():
        if name.startswith("tpuprof report") and XPROF_OVERVIEW in measured:
            print_against_xprof(name, row, measured[XPROF_OVERVIEW])


def print_against_xprof(name: str, report: dict[str, object], overview: dict[str, object]) -> None:
    """How many times as long XProf takes for its overview, which holds less than a report.

    Processor time is the fairer one on a machine that is shared.
    """
    seconds, cpu_s = (float(str(overview[key])) / float(str(report[key])) for key in ("seconds", "cpu_s"))
    print(f"{XPROF_OVERVIEW} takes {seconds:.1f}x the time of {name}, {cpu_s:.1f}x its processor time")


if __name__ == "__main__":
    main()
