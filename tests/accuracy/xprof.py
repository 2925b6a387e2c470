"""XProf's numbers under the names of the truth: for each quantity every reading that its tools offer.

XProf has no notion of most quantities by these names. So that nothing is lost on the way, each quantity is read in
every way that makes sense, and the table shows the reading that comes closest to the truth. The collectives and
copies among the rows of ``hlo_stats`` and of the overlap tool are told apart with the truth's own knowledge of the
program, which a user of XProf may lack.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.accuracy.truth import Case, concurrent_collectives

PS_PER_US = 1_000_000
Readings = dict[str, dict[str, float]]  # quantity -> tool -> ps per step

_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "async-collective")
_HIGH_FLOPS = ("convolution fusion", "convolution", "output fusion", "dot")
_HOST = ("infeed", "outfeed", "host send", "host send-done", "host recv", "host recv-done")
_WAITS = ("copy-done", "async-done")


def ask_xprof(sessions: Sequence[Mapping[str, bytes]]) -> list[dict[str, Any]]:
    """What XProf says of each session, given as files by host, in their order.

    Raises:
        RuntimeError: XProf failed; the message ends with what it wrote.
    """
    with tempfile.TemporaryDirectory() as directory:
        paths: list[str] = []
        for number, files in enumerate(sessions):
            own = Path(directory) / f"session{number}"
            own.mkdir()
            for host, data in files.items():
                (own / f"{host}.xplane.pb").write_bytes(data)
            paths.append(str(own))
        command = [sys.executable, "-m", "tests.accuracy.xprof_raw", *paths]
        root = Path(__file__).resolve().parents[2]
        environment = os.environ | {"PYTHONPATH": str(root), "HOME": directory}  # its caches go to the home
        done = subprocess.run(command, capture_output=True, text=True, cwd=directory, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"XProf ended with code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def readings(case: Case, said: dict[str, Any]) -> Readings:
    """Every reading of every quantity, in ps per step and core."""
    result: Readings = {}

    def note(quantity: str, tool: str, value: float | None) -> None:
        if value is not None:
            result.setdefault(quantity, {})[tool] = value

    _from_overview(said["overview_page"], note)
    _from_pod_viewer(said["pod_viewer"], note)
    _from_hlo_stats(said["hlo_stats"], case.occasions, note)
    _from_overlap(said["async_overlap"], case.occasions, note)
    _combined(result, sequential=said["async_overlap"]["status"] == "OK")
    if concurrent_collectives(case):
        # The overlap tool adds up windows; where they overlap each other its sum is no time of the step.
        for quantity in ("collective hidden", "collective exposed"):
            for tool in [tool for tool in result.get(quantity, {}) if "async overlap" in tool]:
                del result[quantity][tool]
    return result


Note = Callable[[str, str, float | None], None]


def _from_overview(tables: Any, note: Note) -> None:
    """The step-time stack of the overview page: one row per step, columns in milliseconds."""
    table = tables[1]
    columns = [column["id"] for column in table["cols"]]
    rows = [dict(zip(columns, (cell.get("v") for cell in row["c"]), strict=True)) for row in table["rows"]]
    if not rows:
        return

    def mean(*names: str) -> float:
        return fmean(sum(float(row.get(name) or 0) for name in names) for row in rows) * 1000 * PS_PER_US

    properties: dict[str, Any] = table.get("p") or {}
    hardware = properties.get("hardware_type")
    stack = [name for name in columns if name.endswith("TimeMs") and name != "stepTimeMs"]
    note("step", "overview", mean("stepTimeMs") if "stepTimeMs" in columns else mean(*stack))
    if hardware == "TPU":
        note("compute", "overview", mean("tcComputeTimeMs"))
        note("host transfer", "overview", mean("tcInfeedTimeMs", "tcOutfeedTimeMs", "hostTransferTimeMs"))
        note("idle", "overview", mean("tcIdleTimeMs"))
    elif hardware == "GPU":
        note("compute", "overview", mean("deviceComputeTimeMs", "deviceToDeviceTimeMs"))
        note("collective exposed", "overview", mean("deviceCollectivesTimeMs"))
        note("host transfer", "overview", mean("infeedTimeMs", "outfeedTimeMs"))
        note("idle", "overview", mean("otherTimeMs"))


def _from_pod_viewer(said: Any, note: Note) -> None:
    """The breakdown of every step of every core, in microseconds."""
    names = {str(event["id"]): event["name"] for event in said.get("stepBreakdownEvents", ())}
    cores = [core for step in said["podStatsSequence"]["podStatsMap"] for core in step["podStatsPerCore"].values()]
    if not cores or said.get("deviceType") in ("CPU", "CPU_ONLY"):
        return

    def mean(*wanted: str) -> float:
        times = [{names[key]: us for key, us in core["stepBreakdownUs"].items()} for core in cores]
        return fmean(sum(float(each.get(name, 0)) for name in wanted) for each in times) * PS_PER_US

    note("step", "pod viewer", fmean(float(core["totalDurationUs"]) for core in cores) * PS_PER_US)
    note("compute", "pod viewer", mean("Device compute"))
    note("compute", "pod viewer", mean("Device compute", "Device to device"))
    note("collective exposed", "pod viewer", mean("Device collective communication"))
    note("host transfer", "pod viewer", mean("Input", "Output"))
    note("idle", "pod viewer", mean("All others"))


def _from_hlo_stats(table: Any, occasions: int, note: Note) -> None:
    """Self times of ops by category, summed over cores and steps, in microseconds."""
    columns = [column["id"] for column in table["cols"]]
    rows = [dict(zip(columns, (cell.get("v") for cell in row["c"]), strict=True)) for row in table["rows"]]
    if not rows:
        return

    def total(keep: Callable[[str, str], bool]) -> float:
        times = (float(row["total_self_time"]) for row in rows if keep(row["category"], row["hlo_op_name"]))
        return sum(times) * PS_PER_US / occasions

    note("matmul", "hlo_stats", total(lambda category, _: category in _HIGH_FLOPS))
    note("collective exposed", "hlo_stats", total(lambda _, name: _is_collective(name)))
    note("collective synchronous", "hlo_stats", total(lambda _, name: _is_collective(name) and not _is_half(name)))
    note("host transfer", "hlo_stats", total(lambda category, _: category in _HOST))
    note("dma wait", "hlo_stats", total(lambda category, name: category in _WAITS and not _is_collective(name)))
    note(
        "dma wait",
        "hlo_stats with issue",
        total(lambda category, name: category in (*_WAITS, "async-start") and not _is_collective(name)),
    )
    not_compute = {*_HOST, *_WAITS, "async-start", "while", "conditional", "call"}
    note(
        "compute",
        "hlo_stats",
        total(lambda category, name: category not in not_compute and not _is_collective(name)),
    )


def _from_overlap(said: Any, occasions: int, note: Note) -> None:
    """Windows of asynchronous ops on TPUs and what covers them."""
    rows = said["top_exposed"]
    if not rows:
        return

    def total(field: Callable[[Any], float], collective: bool) -> float | None:
        mine = [row for row in rows if _is_collective(row["name"]) == collective]
        return sum(field(row) for row in mine) / occasions if mine else None

    for quantity in ("collective exposed", "each exposed"):
        note(quantity, "async overlap", total(lambda row: row["exposed_ps"], True))
    for quantity in ("collective hidden", "each hidden"):
        note(quantity, "async overlap", total(lambda row: row["span_ps"] - row["exposed_ps"], True))
    note("dma hidden", "async overlap", total(lambda row: row["span_ps"] - row["exposed_ps"], False))


def _combined(result: Readings, *, sequential: bool) -> None:
    """Synchronous collectives from one tool and the exposed part of the others from the other."""
    synchronous = result.pop("collective synchronous", {}).get("hlo_stats")
    # On GPUs the time of a kernel says nothing of what runs beside it.
    if not synchronous or not sequential:
        return
    for quantity in ("collective exposed", "each exposed"):
        exposed = result.setdefault(quantity, {})
        if "async overlap" in exposed:
            exposed["hlo_stats + async overlap"] = synchronous + exposed["async overlap"]
        else:
            exposed["hlo_stats"] = synchronous


def _is_collective(name: str) -> bool:
    return name.lstrip("%").startswith(_COLLECTIVES)


def _is_half(name: str) -> bool:
    return "-start" in name or "-done" in name


def closest(readings_of_one: dict[str, float], truth: float) -> tuple[str, float]:
    """The reading nearest to the truth, and the tool that gives it."""
    pairs: Iterable[tuple[str, float]] = readings_of_one.items()
    return min(pairs, key=lambda pair: (abs(pair[1] - truth), pair[0]))
