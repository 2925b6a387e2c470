"""Measuring a function in a test, and holding the times against a budget and a stored baseline."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from tpuprof.errors import InputError, UsageError
from tpuprof.units import PS_PER_NS

P = ParamSpec("P")
T = TypeVar("T")

STEPS, WARMUP = 30, 3
MAX_STEPS = 100_000
OPTIONS = ("budget", "p95", "baseline", "min_effect", "steps", "warmup")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the marker asks for.

    Args:
        budget_ps: the most that the median may be; null for no limit.
        p95_ps: the most that the 95th percentile may be; null for no limit.
        baseline: true: there must be one; false: there is none; null: it counts if it is there.
        min_effect: the smallest change that matters, as a share.
        steps: how often a function is called.
        warmup: how often before that, not counted.
    """

    budget_ps: float | None = None
    p95_ps: float | None = None
    baseline: bool | None = None
    min_effect: float | None = None
    steps: int = STEPS
    warmup: int = WARMUP


@dataclass(slots=True)
class Meter:
    """The fixture ``tpuprof``: calls a function, or times what the test does itself.

    Args:
        wanted: what the marker asks for.
        step_ps: the times so far.
    """

    wanted: Wanted = field(default_factory=Wanted)
    step_ps: list[float] = field(default_factory=list[float])

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls the function: first to warm up, then timed, each time until its results are ready.

        Returns what the last call returned.
        """
        for _ in range(self.wanted.warmup):
            wait_for(function(*args, **kwargs))
        for _ in range(self.wanted.steps - 1):
            with self.step():
                wait_for(function(*args, **kwargs))
        with self.step():
            result = function(*args, **kwargs)
            wait_for(result)
        return result

    @contextmanager
    def step(self) -> Generator[None]:
        """Times one step; for loops that the test runs itself."""
        began = time.perf_counter_ns()
        yield
        self.record((time.perf_counter_ns() - began) / 1e9)

    def record(self, seconds: float) -> None:
        """Takes a step time that was measured elsewhere.

        Raises:
            UsageError: it is no time, or there are too many.
        """
        if not 0 <= seconds < 1e9:
            raise UsageError(f"{seconds!r} is no step time.", hint="Give seconds.")
        if len(self.step_ps) >= MAX_STEPS:
            raise UsageError(f"A test can record at most {MAX_STEPS} steps.")
        self.step_ps.append(max(seconds * 1e9 * PS_PER_NS, 1.0))


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a test: ``pass``, ``fail`` or ``cannot_tell``, and why."""

    outcome: Literal["pass", "fail", "cannot_tell"]
    message: str


def wanted_of(arguments: Mapping[str, object]) -> Wanted:
    """What the arguments of the marker ask for.

    Raises:
        UsageError: one of them is unknown or makes no sense.
    """
    from tpuprof.gate.quantities import parse_count, parse_share, parse_time_ps

    unknown = [name for name in arguments if name not in OPTIONS]
    if unknown:
        hint = f"It takes {', '.join(OPTIONS)}."
        raise UsageError(f"The marker tpuprof does not take {unknown[0]!r}.", hint=hint)
    values: dict[str, Any] = {}
    for name, key in (("budget", "budget_ps"), ("p95", "p95_ps")):
        if arguments.get(name) is not None:
            values[key] = parse_time_ps(arguments[name], name, where="marker tpuprof")
    if arguments.get("min_effect") is not None:
        values["min_effect"] = parse_share(arguments["min_effect"], "min_effect", where="marker tpuprof")
    if arguments.get("baseline") is not None:
        if not isinstance(arguments["baseline"], bool):
            raise UsageError("baseline of the marker tpuprof is neither true nor false.")
        values["baseline"] = arguments["baseline"]
    for name, least in (("steps", 1), ("warmup", 0)):
        if arguments.get(name) is not None:
            count = int(parse_count(arguments[name], name, where="marker tpuprof"))
            if not least <= count <= MAX_STEPS:
                raise UsageError(f"{name} of the marker tpuprof is {count}.", hint=f"From {least} to {MAX_STEPS}.")
            values[name] = count
    return Wanted(**values)


def judge_test(meter: Meter, baseline: Path | None) -> Judged:
    """Holds what was measured against the budget and the baseline.

    Args:
        meter: what was measured.
        baseline: the file of the baseline; null where there is no place for one.

    Raises:
        InputError: the baseline cannot be read.
    """
    from tpuprof.compare.capture import step_figures
    from tpuprof.units import format_ps

    wanted = meter.wanted
    if not meter.step_ps:
        return Judged("fail", "nothing was measured: call the fixture tpuprof with the function, or use tpuprof.step()")
    figures = step_figures(meter.step_ps)
    for name, key, limit in (("median", "p50_ps", wanted.budget_ps), ("95th percentile", "p95_ps", wanted.p95_ps)):
        value = figures[key]
        if limit is not None and (value is None or value > limit):
            return Judged("fail", f"the {name} is {format_ps(value)}, above its budget of {format_ps(limit)}")
    stored = None if baseline is None or wanted.baseline is False else read_baseline(baseline)
    if stored is None:
        if wanted.baseline:
            return Judged("cannot_tell", "there is no baseline; run pytest with --tpuprof-update to make one")
        return Judged("pass", f"median {format_ps(figures['p50_ps'])}")
    return _against(meter, stored)


def read_baseline(path: Path) -> tuple[tuple[float, ...], str] | None:
    """Step times in ps and the hardware of a stored baseline; null if there is none.

    Raises:
        InputError: the file cannot be read or is no baseline.
    """
    from tpuprof.gate.files import read_object

    document = read_object(path)
    if document is None:
        return None
    times: Any = document.get("step_ps")
    named: Any = document.get("hardware")
    known = isinstance(named, str) and named != ""  # of what is not known to be alike nothing can pass
    if not known or not isinstance(times, list) or not times or len(cast("list[Any]", times)) > MAX_STEPS:
        raise InputError("The file is no baseline.", where=str(path), hint="Make it anew with --tpuprof-update.")
    checked: list[float] = []
    for value in cast("list[Any]", times):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e24:
            raise InputError(f"The baseline holds {value!r} as a step time.", where=str(path))
        checked.append(float(value))
    return tuple(checked), named


def write_baseline(path: Path, test: str, meter: Meter) -> None:
    """Stores what was measured as the baseline of a test.

    Raises:
        UsageError: nothing was measured, or the file cannot be written.
    """
    from tpuprof.gate.files import write_atomic

    if not meter.step_ps:
        raise UsageError("Nothing was measured, so that there is no baseline to store.", where=test)
    document = {"schema_version": 1, "test": test, "hardware": hardware(), "step_ps": [round(t) for t in meter.step_ps]}
    write_atomic(path, (json.dumps(document) + "\n").encode())


def baseline_path(folder: Path, test: str) -> Path:
    """The file of a test, by its id."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-.")[-80:]
    return folder / f"{readable}-{hashlib.sha256(test.encode('utf-8', 'replace')).hexdigest()[:8]}.json"


def hardware() -> str:
    """What this process measures on: the devices of jax if it is there, else the machine."""
    jax = sys.modules.get("jax")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if jax is None:
        return machine
    try:
        devices = cast("list[Any]", jax.devices())
        kinds = sorted({str(device.device_kind) for device in devices})
    except Exception:  # whatever a backend that cannot start raises
        return machine
    return f"{len(devices)} × {', '.join(kinds)} ({machine})"


def wait_for(result: object) -> None:
    """Returns when the arrays in a result are computed; what holds none is ready anyway."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "block_until_ready"):
        jax.block_until_ready(result)
    elif hasattr(result, "block_until_ready"):
        cast("Any", result).block_until_ready()


def _against(meter: Meter, stored: tuple[tuple[float, ...], str]) -> Judged:
    from tpuprof.compare.outcome import Thresholds
    from tpuprof.compare.samples import Samples
    from tpuprof.compare.verdict import judge

    wanted = meter.wanted
    limits = Thresholds() if wanted.min_effect is None else Thresholds(relative=wanted.min_effect)
    old = Samples(stored[0], "baseline", stored[1])
    told = judge([old], [Samples(tuple(meter.step_ps), "this test", hardware())], limits)
    outcome = {"regressed": "fail", "cannot_tell": "cannot_tell"}.get(told.verdict, "pass")
    return Judged(cast("Any", outcome), told.reason)
