"""A run's files as facts: one file at a time, in this process or in several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuprof.engine import Progress, map_hosts
from tpuprof.errors import InputError
from tpuprof.formats.load import as_run, in_order, read_host
from tpuprof.formats.recording import HostFile, Recording, RunFiles
from tpuprof.formats.recordings import NO_EVENTS, Recordings
from tpuprof.tables.bounds import within_bounds
from tpuprof.tables.hostfacts import HostFacts, host_facts
from tpuprof.tables.merge import RunFacts, merge_hosts, named

SMALL_RUN_BYTES = 48 << 20
"""Runs of several hosts up to this size are read in this process and their events are held: starting others costs
more than it saves."""

_UNPACKED = 8  # events of a gzipped JSON file take about this many times its size


@dataclass(frozen=True, slots=True, eq=False)
class HostRead:
    """One host's file: what was read, and the facts drawn from it."""

    recording: Recording
    facts: HostFacts


def read_hosts(
    files: RunFiles, *, workers: int | None = None, progress: Progress | None = None
) -> tuple[Recordings, RunFacts]:
    """The recordings of a run in order of the hosts' names, and the facts of all.

    The events of a run of several hosts that is not small are dropped as soon as the facts of its file are there, so
    that memory holds few files' events at a time; ``Recordings`` reads them again when asked. The result does not
    depend on the number of processes.

    Args:
        files: the run.
        workers: the number of processes. Default: one for small runs, else as many as there are cores.
        progress: called with (files read, files).

    Raises:
        InputError: no host can be read; the error is that of the first one.
        WorkerError: a process that reads files could not be started, or ended before it was done.
        UsageError: ``workers`` is less than 1.
    """
    ordered = in_order(files)
    if any(_in_this_process_alone(file) for file in ordered):
        workers = 1
    held = _is_small(ordered) and workers in (None, 1)
    found = map_hosts(
        _try_to_read if held else _try_to_read_facts,
        ordered,
        workers=1 if held else workers,
        progress=progress,
    )
    once = _Once()
    outcomes = [one if isinstance(one, InputError) else once.shared(one) for one in found]
    heads = as_run(files, [one if isinstance(one, InputError) else one.recording for one in outcomes])
    read = [(file, one.facts, one.recording.source) for file, one in zip(ordered, outcomes, strict=True)
            if not isinstance(one, InputError)]  # fmt: skip
    by_source = {id(source): (file, facts) for file, facts, source in read}
    in_place = [by_source[id(head.source)] for head in heads]
    run = merge_hosts([named(facts, head.host) for head, (_, facts) in zip(heads, in_place, strict=True)])
    return Recordings(heads, () if held else [file for file, _ in in_place], _read), run


def recordings_again(files: RunFiles, heads: Sequence[Recording]) -> Recordings:
    """The recordings of a run that was read before, from their heads; events are read when they are asked for.

    As after ``read_hosts``, those of a small run are held from then on.
    """
    of_path = {path: file for file in files.files for path in (file.xplane, file.trace_json) if path is not None}
    return Recordings(heads, [of_path[head.source.path] for head in heads], _read, hold=_is_small(files.files))


def _is_small(files: Sequence[HostFile]) -> bool:
    return len(files) == 1 or sum(map(bytes_to_read, files)) <= SMALL_RUN_BYTES


def _in_this_process_alone(file: HostFile) -> bool:
    return any(path is not None and path.startswith("memory:") for path in (file.xplane, file.trace_json))


def bytes_to_read(file: HostFile) -> int:
    """How much there is to read of a host's files, in bytes as XPlane has them."""
    return file.xplane_size if file.xplane is not None else file.trace_json_size * _UNPACKED


def _try_to_read(file: HostFile) -> HostRead | InputError:
    try:
        recording = _read(file)
    except InputError as error:
        return error
    return HostRead(recording, host_facts(recording))


def _try_to_read_facts(file: HostFile) -> HostRead | InputError:
    read = _try_to_read(file)
    return read if isinstance(read, InputError) else replace(read, recording=replace(read.recording, space=NO_EVENTS))


def _read(file: HostFile) -> Recording:
    """One host's file, without events whose time cannot be true."""
    return within_bounds(read_host(file))


class _Once:
    """Keeps one copy of what the files of many hosts repeat: the facts of ops and the HLO of programs."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def shared(self, read: HostRead) -> HostRead:
        facts = read.facts
        return replace(
            read,
            facts=replace(
                facts,
                op_keys=self._each(facts.op_keys),
                ops=self._each(facts.ops),
                programs=dict(zip(facts.programs, self._each(facts.programs.values()), strict=True)),
            ),
        )

    def _each(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self._known.setdefault(value, value) for value in values)
