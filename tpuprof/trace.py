"""The trace of a run: recorded once, never changed; its tables are built when they are first looked at."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.cache import CacheDir, user_cache
from tpuprof.cache.run import Entry, Kept, entry_of
from tpuprof.capture_notes import not_covered
from tpuprof.engine import Progress
from tpuprof.errors import UsageError
from tpuprof.formats.discover import find_run
from tpuprof.formats.recording import Source
from tpuprof.formats.recordings import Recordings
from tpuprof.formats.sidecars import read_sidecars
from tpuprof.formats.xspace import I32
from tpuprof.hlo import load_hlo
from tpuprof.quality import Quality, ordered, worst
from tpuprof.reading import read_hosts, recordings_again
from tpuprof.summary import html_summary, rich_summary
from tpuprof.tables.build import Built, build, join_ops
from tpuprof.tables.programs import Programs
from tpuprof.tables.rows import Device
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text


def load(
    path: str | PathLike[str],
    *,
    run: str | None = None,
    hlo: str | PathLike[str] | None = None,
    step_program: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    cache: bool | CacheDir = False,
) -> Trace:
    """Loads a run.

    Args:
        path: an ``.xplane.pb``, a ``.trace.json.gz``, a session directory, ``plugins/profile``, or a log root (its
            newest run); a local path or any fsspec URL.
        run: which run of a log root, by name.
        hlo: an HLO dump (file or directory) to join to programs whose HLO the trace lacks.
        step_program: take the executions of this function as steps.
        workers: how many processes read the files of several hosts. Default: as many as there are cores, unless the
            files are small.
        progress: called with (files read, files).
        cache: where to keep what was made of a large run, so that it opens at once the next time: a directory, or true
            for the user's (``tpuprof.cache.user_cache``). The trace is the same with and without.

    Raises:
        InputError: nothing there can be read as a trace.
        UsageError: ``run`` or ``step_program`` names nothing, or ``workers`` is less than 1.
        WorkerError: a process that read files ended before it was done.
    """
    files = find_run(str(path), run=run)
    place = user_cache() if cache is True else cache or None
    entry = None if place is None else entry_of(place, files, step_program, None if hlo is None else str(hlo))
    kept = None if entry is None else entry.read()
    if kept is None:
        recordings, run_facts = read_hosts(files, workers=workers, progress=progress)
        programs = Programs(run_facts.programs, load_hlo(str(hlo)) if hlo is not None else [])
        built = build(run_facts, programs, step_program)
        if entry is not None:
            entry.write(Kept.of(recordings.heads, run_facts.ops, run_facts.programs, built))
    else:
        recordings = recordings_again(files, [head.recording() for head in kept.heads])
        programs = Programs(kept.programs, load_hlo(str(hlo)) if hlo is not None else [])
        built = replace(kept.built, infos=join_ops(kept.ops, programs))
    metadata, notes_quality = read_sidecars(files)
    covered = not_covered(metadata, built)
    quality = ordered([*(q for r in recordings.heads for q in r.quality), *notes_quality, *covered, *built.quality])
    return Trace(
        name=files.name,
        path=files.path,
        other_runs=files.others,
        recordings=recordings,
        programs=programs,
        metadata=metadata,
        quality=quality,
        built=built,
        cached=entry,
    )


@dataclass(frozen=True, eq=False)
class Trace:
    """A run: what was captured, and its tables as pandas DataFrames.

    Tables have a schema each (``tpuprof.tables.schemas``); times are integer picoseconds from ``origin_ns``. Make one
    with ``tpuprof.load``.
    """

    name: str
    path: str
    other_runs: tuple[str, ...]
    recordings: Recordings = field(repr=False)
    programs: Programs = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)
    quality: tuple[Quality, ...] = field(repr=False)
    built: Built = field(repr=False)
    selected_steps: frozenset[int] | None = field(default=None, repr=False)
    cached: Entry | None = field(default=None, repr=False)  # of the whole run

    @property
    def origin_ns(self) -> int:
        """Time zero of all tables, in ns since the epoch; 0 where the trace does not say."""
        return self.built.origin_ns

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose files were read."""
        return tuple(recording.host for recording in self.recordings.heads)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The cores with work on them, in the order of the tables."""
        return tuple(core.record.device for core in self.built.cores)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that were read."""
        return tuple(recording.source for recording in self.recordings.heads)

    @property
    def step_source(self) -> str:
        """Where steps come from: steps_line, host_annotation, module or none."""
        return self.built.steps.source

    @cached_property
    def n_steps(self) -> int:
        """The number of steps that were found on all cores; 0 without a source of steps."""
        if self.selected_steps is None or self.step_source == "none":
            return self.built.steps.n_steps
        return int(self.steps.loc[self.steps["matched"], "step"].nunique())

    @cached_property
    def window_ps(self) -> tuple[int, int] | None:
        """From the first to the last device op; null without device work, or if hosts have no clock in common."""
        cores = self.built.cores
        hosts = {core.record.device.host for core in cores}
        if not cores or (len(hosts) > 1 and not self.built.host_clocks.comparable):
            return None
        return (
            min(int(core.record.ops.start.min()) for core in cores),
            max(int(core.record.ops.end.max()) for core in cores),
        )

    @cached_property
    def outside_steps_ps(self) -> float | None:
        """Time between a core's first and last op that lies in no step; the mean over cores, null without steps."""
        cores = self.built.cores
        if not cores or self.step_source == "none":
            return None
        total = 0
        for core in cores:
            start, end = int(core.record.ops.start.min()), int(core.record.ops.end.max())
            inside = np.minimum(core.steps.end, end) - np.maximum(core.steps.start, start)
            total += end - start - int(np.maximum(inside, 0).sum())
        return total / len(cores)

    @cached_property
    def events(self) -> pd.DataFrame:
        """Every event of every line, as recorded; the files of a large run are read again."""
        from tpuprof.tables.frames import events_frame

        return events_frame(self.recordings, self.origin_ns)

    @cached_property
    def ops(self) -> pd.DataFrame:
        """Leaf op occurrences."""
        from tpuprof.tables.frames import ops_frame

        return self._in_steps(ops_frame(self.built))

    @cached_property
    def op_rows(self) -> I32:
        """For each row of ``ops`` the row of ``built.infos`` that says what the op is."""
        from tpuprof.tables.frames import op_rows

        return op_rows(self.built, self.selected_steps)

    @cached_property
    def modules(self) -> pd.DataFrame:
        """Executions of programs."""
        from tpuprof.tables.frames import modules_frame

        return modules_frame(self.built)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Steps by core."""
        from tpuprof.tables.frames import steps_frame

        return self._in_steps(steps_frame(self.built))

    @cached_property
    def partition(self) -> pd.DataFrame:
        """The exact division of every step of every core."""
        from tpuprof.tables.frames import partition_frame

        return self._in_steps(partition_frame(self.built))

    @cached_property
    def segments(self) -> pd.DataFrame:
        """The partition as a timeline: stretches of one part and cause."""
        from tpuprof.tables.schemas import SEGMENTS
        from tpuprof.tables.segments import segments_frame

        def make() -> pd.DataFrame:
            return segments_frame(self.built, self.recordings)

        return self._in_steps(make() if self.cached is None else self.cached.frame(SEGMENTS, make))

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Idle stretches inside steps."""
        from tpuprof.tables.frames import gaps_frame

        return self._in_steps(gaps_frame(self.built))

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """Collectives by occurrence and core."""
        from tpuprof.tables.collectives import collectives_frame

        return self._in_steps(collectives_frame(self.built))

    @cached_property
    def arrivals(self) -> pd.DataFrame:
        """When cores came to collectives, and which one kept the others waiting."""
        from tpuprof.tables.arrivals import arrivals

        return self._in_steps(arrivals(self.built))

    @cached_property
    def host_events(self) -> pd.DataFrame:
        """Events of the hosts' threads that take time; the files of a large run are read again."""
        from tpuprof.tables.frames import host_events_frame

        return host_events_frame(self.recordings, self.origin_ns, self.built.host_clocks.offset_ps)

    @cached_property
    def _memory(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        from tpuprof.tables.memory import memory_frames

        return memory_frames(self.built)

    @property
    def memory(self) -> pd.DataFrame:
        """What is live in memory at the peak of every program that ran."""
        return self._memory[0]

    @property
    def memory_summary(self) -> pd.DataFrame:
        """Memory by program that ran and memory space."""
        return self._memory[1]

    @cached_property
    def memory_events(self) -> pd.DataFrame:
        """Allocations and releases of device memory that the hosts recorded."""
        from tpuprof.tables.allocators import memory_events_frame

        return self._in_steps(memory_events_frame(self.recordings, self.origin_ns, self.built.host_clocks.offset_ps))

    @cached_property
    def allocators(self) -> pd.DataFrame:
        """How full each allocator of device memory was during the capture."""
        from tpuprof.tables.allocators import allocators_frame

        return allocators_frame(self.memory_events)

    def select(self, *, devices: Iterable[str] | None = None, steps: Iterable[int] | None = None) -> Trace:
        """The same run with fewer devices or steps in its tables.

        Args:
            devices: device ids to keep.
            steps: step numbers to keep; ops, gaps and collectives outside them are left out.

        Raises:
            UsageError: a device or step does not exist.
        """
        built, chosen, cached = self.built, self.selected_steps, self.cached
        if devices is not None:
            wanted = list(devices)
            known = [device.id for device in self.devices]
            _must_exist("device", [w for w in wanted if w not in known], known)
            keep = [at for at, device in enumerate(known) if device in wanted]
            cores = tuple(built.cores[at] for at in keep)
            cached = None
            built = replace(built, cores=cores, steps=replace(built.steps, cores=tuple(core.steps for core in cores)))
        if steps is not None:
            numbers = frozenset(int(step) for step in steps)
            have = sorted({int(n) for core in built.cores for n in core.steps.number.tolist()})
            _must_exist("step", sorted(numbers - set(have)), have)
            chosen = numbers if chosen is None else numbers & chosen
        return replace(self, built=built, selected_steps=chosen, cached=cached)

    def counted(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those rows (with columns ``device`` and ``step``) that lie in counted steps; all of them without steps."""
        from tpuprof.tables.stats import in_counted_steps

        if self.step_source == "none":
            return rows
        mask = self.counted_ops if rows is self.ops else in_counted_steps(rows, self.steps)
        return rows if mask.all() else rows[mask].reset_index(drop=True)

    @cached_property
    def counted_ops(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each row of ``ops`` whether it lies in a counted step; all do without steps."""
        from tpuprof.tables.stats import in_counted_steps

        if self.step_source == "none":
            return np.ones(len(self.ops), np.bool_)
        return in_counted_steps(self.ops, self.steps)

    def op_stats(self, by: str = "op") -> pd.DataFrame:
        """Ops aggregated by ``op``, ``kind``, ``scope``, ``source`` or ``module``, largest self time first."""
        from tpuprof.tables.stats import op_stats

        return op_stats(self.ops, by)

    @cached_property
    def scopes(self) -> pd.DataFrame:
        """The tree of name scopes, depth first."""
        from tpuprof.tables.scopes import scope_tree

        return scope_tree(self.ops, None if self.step_source == "none" else self.steps)

    def step_statistics(self) -> dict[str, float | int | None]:
        """Count, mean, percentiles, stdev and cv of the step time (per step the maximum over cores)."""
        from tpuprof.tables.stats import step_statistics

        if self.step_source == "none":
            return step_statistics(self.steps.iloc[:0])
        return step_statistics(self.steps)

    def breakdown(self) -> dict[str, Any] | None:
        """The mean step divided into its parts, over all cores and per core; null without device work."""
        return copy.deepcopy(self._breakdown)

    @cached_property
    def _breakdown(self) -> dict[str, Any] | None:
        from tpuprof.tables.stats import breakdown

        reasons = [core.clocks.reason for core in self.built.cores if core.clocks.reason is not None]
        return breakdown(self.partition, self.steps["counted"].to_numpy(), reasons[0] if reasons else None)

    def critical_device(self) -> str | None:
        """The core with the longest mean step."""
        from tpuprof.tables.stats import critical_device

        return critical_device(self.steps)

    def __rich__(self) -> Text:
        return rich_summary(f"Trace {self.name}", self._facts())

    def _repr_html_(self) -> str:
        return html_summary(f"Trace {self.name}", self._facts())

    def _facts(self) -> dict[str, object]:
        """What a person wants to know first; bounded."""
        kinds = sorted({device.kind or device.platform for device in self.devices})
        statistics, mean = self.step_statistics(), self.breakdown()
        facts: dict[str, object] = {
            "hosts": len(self.hosts),
            "cores": f"{len(self.devices)} ({', '.join(kinds)})" if kinds else 0,
            "steps": f"{self.n_steps} from {self.step_source}",
            "step time": format_ps(statistics["p50_ps"]),
        }
        if mean is not None and mean["step_ps"]:
            parts = sorted(mean["parts"].items(), key=lambda item: -item[1])
            for name, value in parts[:5]:
                if value:
                    facts[name.removesuffix("_ps")] = format_percent(value / mean["step_ps"])
        found = worst(self.quality)
        facts["data quality"] = f"{len(self.quality)} entries, worst: {found}" if found else "nothing to report"
        return facts

    def _in_steps(self, frame: pd.DataFrame) -> pd.DataFrame:
        if self.selected_steps is None:
            return frame
        return frame[frame["step"].isin(self.selected_steps)].reset_index(drop=True)


def _must_exist(what: str, missing: list[Any], known: list[Any]) -> None:
    if missing:
        shown = ", ".join(str(k) for k in known[:20]) + (" …" if len(known) > 20 else "")
        raise UsageError(f"There is no {what} {missing[0]!r} in this run.", hint=f"It has: {shown or 'none'}.")
