"""How a pod of many host files is read: wall time, memory of all processes together, and equal results.

    python tests/benchmarks/pods.py [--dir DIR] [--hosts 64] [--events 200000] [--workers N]

Host files are written once and kept in DIR, a log root. They are shaped like those of a TPU pod: two cores per host
with steps, programs, ops with categories and the device's own clock, collectives, a host thread with step marks and
many small events, and the HLO of the program. The hosts' names are mixed, and their session directories differ by a
few seconds, as when every host starts its profiler by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tpuprof.formats.xplane_writer import write_xplane  # noqa: E402
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, Space, StatKind, StatValue  # noqa: E402

SESSIONS = ("2026_01_01_00_00_00", "2026_01_01_00_00_02", "2026_01_01_00_00_03", "2026_01_01_00_00_07")
EPOCH_NS = 1_767_225_600_000_000_000
PROGRAM_ID = 0xF123_4567_89AB_CDEF
LAYERS = 60
OPS_PER_LAYER = 10
GROUP_MISS_PS = 40_000_000
LIMIT_BYTES = 3 << 30


def main() -> None:
    """Write the files if they are not there, report on them in a process of its own, compare with a small run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench" / "pods")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--events", type=int, default=200_000, help="events per host")
    parser.add_argument("--write-only", action="store_true")
    arguments = parser.parse_args()
    folder: Path = arguments.dir / f"{arguments.hosts}x{arguments.events}"
    write_pod(folder, arguments.hosts, arguments.events)
    if arguments.write_only:
        return
    files = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    size = sum(file.stat().st_size for file in files)
    print(f"{len(files)} files, {size / 1e6:.0f} MB, {arguments.events * len(files):,} events, {os.cpu_count()} cores")
    output = folder / "report.json"
    seconds, cpu_s, peak = measured(
        [sys.executable, "-m", "tpuprof", "report", str(folder), "--json", "--no-cache", "--force", "-o", str(output)]
    )
    print(f"tpuprof report: {seconds:.1f} s, {cpu_s:.1f} s of processors ({cpu_s / seconds:.2f} busy on average), "
          f"{peak / 2**30:.2f} GiB at most over all processes")  # fmt: skip
    report = json.loads(output.read_text())
    print(f"hosts {len(report['run']['hosts'])}, cores {report['run']['n_devices']}, steps {report['run']['n_steps']}")
    if peak > LIMIT_BYTES:
        raise SystemExit(f"more than {LIMIT_BYTES >> 30} GiB")
    compare(folder, [0, arguments.hosts // 2])
    print("two hosts read in one process, with their events held, have the same tables")


def compare(folder: Path, hosts: list[int]) -> None:
    """Fails unless the cores of these hosts have the same tables in the whole run and in a run of their own.

    The first host is among them: its session began first, so that both runs have one origin.
    """
    import pandas as pd

    import tpuprof

    with tempfile.TemporaryDirectory() as small:
        for host in hosts:
            (path,) = folder.glob(f"plugins/profile/*/{host_name(host)}.xplane.pb")
            shutil.copy(path, small)
        alone = tpuprof.load(small, workers=1)
        ids = [device.id for device in alone.devices]
        whole = tpuprof.load(folder).select(devices=ids)
        for name in ("ops", "modules", "steps", "partition", "gaps", "collectives"):
            frames = [
                getattr(trace, name).sort_values(["device", "start_ps"], kind="stable") for trace in (alone, whole)
            ]
            one, other = (frame.astype(dict.fromkeys(frame.select_dtypes("category"), str)) for frame in frames)
            pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True))


def write_pod(folder: Path, hosts: int, events: int) -> None:
    """The files of all hosts that are not there yet."""
    todo: list[tuple[Path, int, int]] = []
    for host in range(hosts):
        session = SESSIONS[host * len(SESSIONS) // hosts]
        path = folder / "plugins" / "profile" / session / f"{host_name(host)}.xplane.pb"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            todo.append((path, host, events))
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(_write_host, todo):
            pass


def host_name(host: int) -> str:
    """Names as they come: of a TPU VM, of a cluster's pods, with a domain."""
    return (f"t1v-n-9eb622fc-w-{host}", f"train-job-{host}", f"host{host}.example.com")[host % 3]


def measured(command: list[str]) -> tuple[float, float, int]:
    """(wall seconds, processor seconds, greatest sum of resident bytes over the process and its descendants)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = os.times()
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, sum(_resident(pid) for pid in _tree(process.pid)))

    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    seconds = time.perf_counter() - began
    done.set()
    thread.join()
    if code != 0:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu_s, peak


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


# --- one host's file --------------------------------------------------------------------------------------------------


def _write_host(task: tuple[Path, int, int]) -> None:
    path, host, events = task
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(host_file(host, events))
    temporary.replace(path)


def host_file(host: int, n_events: int) -> bytes:
    """A file of about ``n_events`` events: six in ten of them ops of two cores, the others on the host's thread."""
    rng = np.random.default_rng(host)
    ops_per_step = LAYERS * OPS_PER_LAYER
    steps = max(n_events * 6 // 10 // (2 * ops_per_step), 2)
    planes = [_core(rng, ordinal, steps, host) for ordinal in range(2)]
    n_host = n_events - steps * 2 * (ops_per_step + 2)
    start_ns = EPOCH_NS + host * 1_300_000
    environment: dict[str, StatValue] = {"profile_start_time": start_ns, "profile_stop_time": start_ns + 10**10}
    program = EventMeta(PROGRAM_ID - 2**64, f"jit_train_step({PROGRAM_ID})", "", {"hlo_proto": program_proto()})
    space = Space(
        (
            *planes,
            _host_thread(rng, steps, max(n_host, steps)),
            Plane(90, "/host:metadata", (), (program,), ("hlo_proto",)),
            Plane(91, "Task Environment", (), (), tuple(environment), environment),
        ),
        hostnames=(host_name(host),),
    )
    return write_xplane(space)


_KINDS = (
    ("fusion", "loop fusion", 9_000_000),
    ("convolution_fusion", "convolution fusion", 60_000_000),
    ("fusion", "loop fusion", 5_000_000),
    ("copy", "data formatting", 3_000_000),
    ("all-reduce", "all-reduce", 20_000_000),
    ("convolution_fusion", "convolution fusion", 45_000_000),
    ("reduce_fusion", "input fusion", 4_000_000),
    ("gather", "gather", 2_000_000),
    ("fusion", "loop fusion", 7_000_000),
    ("fusion", "loop fusion", 1_000_000),
)


def hlo_text() -> str:
    """The program: a chain of adds and all-reduces under the names that the ops have."""
    lines = [
        "HloModule jit_train_step, is_scheduled=true, num_partitions=128",
        "",
        "%sum (a: f32[], b: f32[]) -> f32[] {",
    ]
    lines += [
        "  %a = f32[] parameter(0)",
        "  %b = f32[] parameter(1)",
        "  ROOT %s = f32[] add(f32[] %a, f32[] %b)",
        "}",
        "",
    ]
    lines += ["ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {", "  %x = f32[1024,1024]{1,0} parameter(0)"]
    last = "x"
    names = op_names()
    for at, name in enumerate(names):
        root = "ROOT " if at == len(names) - 1 else ""
        scope = f'metadata={{op_name="jit(train_step)/layer_{at // OPS_PER_LAYER}/{name}"}}'
        shape = "f32[1024,1024]{1,0}"
        body = (
            f"all-reduce({shape} %{last}), channel_id=1, replica_groups=[1,128]<=[128], to_apply=%sum, {scope}"
            if name.startswith("all-reduce")
            else f"add({shape} %{last}, {shape} %{last}), {scope}"
        )
        lines.append(f"  {root}%{name} = {shape} {body}")
        last = name
    return "\n".join([*lines, "}"]) + "\n"


def op_names() -> list[str]:
    """The ops of a step in order."""
    return [f"{_KINDS[at % OPS_PER_LAYER][0]}.{at}" for at in range(LAYERS * OPS_PER_LAYER)]


def program_proto() -> bytes:
    """The program as the profiler embeds it."""
    from tpuprof.testing.programs import hlo_proto_from_text

    return hlo_proto_from_text(hlo_text())


def _core(rng: np.random.Generator, ordinal: int, steps: int, host: int) -> Plane:
    names = op_names()
    per_step = len(names)
    typical = np.array([_KINDS[at % OPS_PER_LAYER][2] for at in range(per_step)])
    length = (typical * rng.uniform(0.95, 1.05, (steps, per_step))).astype(np.int64)
    pause = rng.integers(0, 20_000, (steps, per_step))
    pause[:, 0] = rng.integers(10_000_000, 30_000_000, steps)
    if host == 5:
        pause[steps // 2, 0] += GROUP_MISS_PS
    start = (np.cumsum(pause.reshape(-1)) + np.cumsum(length.reshape(-1)) - length.reshape(-1)).astype(np.int64)
    ahead = 14_000_000_000 + ordinal * 1_000_000  # the host's mapping of the device's clock
    stat_names = ("device_offset_ps", "device_duration_ps", "run_id", "program_id", "hlo_category", "tf_op")
    metas = [
        EventMeta(
            at + 1,
            f"%{name} = f32[1024,1024]{{1,0}} fusion(f32[1024,1024]{{1,0}} %p), kind=kLoop",
            name,
            {"program_id": PROGRAM_ID, "hlo_category": _KINDS[at % OPS_PER_LAYER][1],
             "tf_op": f"jit(train_step)/layer_{at // OPS_PER_LAYER}/{name}:"},
        )
        for at, name in enumerate(names)
    ]  # fmt: skip
    metas.append(EventMeta(per_step + 1, f"jit_train_step({PROGRAM_ID})", "", {}))
    metas.extend(EventMeta(per_step + 2 + step, str(step), "", {}) for step in range(steps))
    n = steps * per_step
    flat = length.reshape(-1)
    ops = Events(
        meta=np.tile(np.arange(per_step, dtype=np.int32), steps),
        offset_ps=start + ahead,
        duration_ps=flat,
        occurrences=None,
        stat_ptr=np.arange(n + 1, dtype=np.int64) * 2,
        stat_key=np.tile(np.array([0, 1], np.int32), n),
        stat_kind=np.full(2 * n, StatKind.UINT64, np.uint8),
        stat_bits=np.stack([start, flat], axis=1).reshape(-1),
    )
    first, last = start[::per_step], (start + flat)[per_step - 1 :: per_step]
    modules = Events(
        meta=np.full(steps, per_step, np.int32),
        offset_ps=first + ahead,
        duration_ps=last - first,
        occurrences=None,
        stat_ptr=np.arange(steps + 1, dtype=np.int64),
        stat_key=np.full(steps, 2, np.int32),
        stat_kind=np.full(steps, StatKind.UINT64, np.uint8),
        stat_bits=np.arange(steps, dtype=np.int64),
    )
    marks = _plain(np.arange(per_step + 1, per_step + 1 + steps), first + ahead, last - first)
    lines = (Line(1, "Steps", 0, marks), Line(2, "XLA Modules", 0, modules), Line(3, "XLA Ops", 0, ops))
    return Plane(
        ordinal + 1, f"/device:TPU:{ordinal}", lines, tuple(metas), stat_names, {"device_type_string": "TPU v5p"}
    )


def _host_thread(rng: np.random.Generator, steps: int, n: int) -> Plane:
    names = [
        "train",
        "PjitFunction(train_step)",
        "ParseArguments",
        "TransferToDevice",
        "next_batch",
        "$loop.py:12 step",
    ]
    metas = tuple(EventMeta(at + 1, name, "", {}) for at, name in enumerate(names))
    step_ps = 9_500_000_000
    offset = np.sort(rng.integers(0, steps * step_ps, n - steps))
    small = _plain(rng.integers(1, len(names), n - steps), offset, rng.integers(1_000, 5_000_000, n - steps))
    marks = Events(
        meta=np.zeros(steps, np.int32),
        offset_ps=np.arange(steps, dtype=np.int64) * step_ps,
        duration_ps=np.full(steps, step_ps - 1000),
        occurrences=None,
        stat_ptr=np.arange(steps + 1, dtype=np.int64),
        stat_key=np.zeros(steps, np.int32),
        stat_kind=np.full(steps, StatKind.INT64, np.uint8),
        stat_bits=np.arange(steps, dtype=np.int64),
    )
    lines = (Line(1, "python", 0, marks), Line(2, "worker", 0, small))
    return Plane(50, "/host:CPU", lines, metas, ("step_num",))


def _plain(meta: np.ndarray, offset: np.ndarray, duration: np.ndarray) -> Events:
    n = len(meta)
    nothing = np.zeros(0, np.int64)
    return Events(
        meta.astype(np.int32),
        offset.astype(np.int64),
        duration.astype(np.int64),
        None,
        np.zeros(n + 1, np.int64),
        nothing.astype(np.int32),
        nothing.astype(np.uint8),
        nothing,
    )


if __name__ == "__main__":
    main()
