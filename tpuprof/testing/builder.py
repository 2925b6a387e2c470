"""Small traces with known truth, built event by event.

The parts are plain mutable objects that mirror the file: a trace has hosts, a host has planes, a plane has
lines, a line has events. ``trace["hostA"]["/device:TPU:0"]["XLA Ops"]`` reaches one of them, ``copy()`` makes
a whole that can be altered, and everything that is written is derived from these objects when it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, TypeVar

from tpuprof.testing.programs import Program
from tpuprof.testing.values import Ref, Stat, Time, Unsigned, as_text, to_ps

Clock = Literal["plain", "device", "mapped"]
Stats = Mapping[str, Stat]
_Part = TypeVar("_Part", "LineBuilder", "PlaneBuilder", "HostBuilder")


@dataclass(slots=True)
class Event:
    """One event.

    Args:
        name: the short name. Bytes are written as they are, valid UTF-8 or not.
        start_ps: start, from the line's timestamp, on the clock on which the test thinks (see
            ``LineBuilder``).
        duration_ps: duration; written as it is, even if negative.
        text: the long name. If given, it is the metadata's name, and ``name`` is its display name.
        meta: stats of the event's metadata, shared by all events with the same name, text and meta.
        stats: stats of this event.
        occurrences: for an aggregated event, which has a count instead of a start.
    """

    name: str | bytes
    start_ps: int
    duration_ps: int
    text: str | bytes | None = None
    meta: dict[str, Stat] = field(default_factory=dict[str, Stat])
    stats: dict[str, Stat] = field(default_factory=dict[str, Stat])
    occurrences: int | None = None

    @property
    def end_ps(self) -> int:
        """Start plus duration."""
        return self.start_ps + self.duration_ps


@dataclass(slots=True)
class LineBuilder:
    """One line: a device's op line, a stream, a thread.

    ``clock`` says how the times of the events are written. ``plain``: as the event's offset. The two others
    imitate TPUs, where the recorded offset is mapped to the host's clock, which runs ``host_minus_device_ps``
    of the plane
    ahead: ``device`` writes the mapped offset and the true time as the stats ``device_offset_ps`` and
    ``device_duration_ps`` (as for ops), ``mapped`` writes the mapped offset only (as for barriers or module
    rows).
    """

    name: str
    id: int = 0
    timestamp_ns: int = 0
    clock: Clock = "plain"
    display_name: str = ""
    duration_ps: int = 0
    events: list[Event] = field(default_factory=list[Event])

    def event(
        self,
        name: str | bytes,
        start: Time,
        duration: Time,
        *,
        text: str | bytes | None = None,
        meta: Stats | None = None,
        stats: Stats | None = None,
    ) -> Self:
        """Adds an event; times in microseconds, or ``Ps``."""
        self.events.append(Event(name, to_ps(start), to_ps(duration), text, dict(meta or {}), dict(stats or {})))
        return self

    def op(
        self,
        name: str,
        start: Time,
        duration: Time,
        program: Program,
        category: str | None = None,
        *,
        meta: Stats | None = None,
        stats: Stats | None = None,
    ) -> Self:
        """Adds a TPU op: its long name is the program's instruction, metadata states program and category."""
        facts: dict[str, Stat] = {"program_id": Unsigned(program.id)}
        if category is not None:
            facts["hlo_category"] = category
        text = program.instruction(name) or None
        return self.event(name, start, duration, text=text, meta={**facts, **(meta or {})}, stats=stats)

    def module(self, program: Program, start: Time, duration: Time, *, stats: Stats | None = None) -> Self:
        """Adds an execution of a program, as on the line ``XLA Modules``."""
        return self.event(program.label, start, duration, stats=stats)

    def step(self, number: int, start: Time, duration: Time, name: str = "train") -> Self:
        """Adds what ``jax.profiler.StepTraceAnnotation(name, step_num=number)`` leaves on a host thread."""
        return self.event(name, start, duration, stats={"step_num": number, "_r": 1})

    def cpu_op(
        self,
        name: str,
        start: Time,
        duration: Time,
        program: Program,
        *,
        run_id: int,
        device_ordinal: int = 0,
        stats: Stats | None = None,
    ) -> Self:
        """Adds an op of the CPU backend to a thread: the event and its twin of length zero, ``end: NAME``."""
        facts: dict[str, Stat] = {
            "hlo_op": Ref(name),  # as the CPU backend writes them
            "hlo_module": Ref(program.name),
            "program_id": program.id,
            "run_id": run_id,
            "device_ordinal": device_ordinal,
        }
        begin, length = to_ps(start), to_ps(duration)
        self.events.append(Event(name, begin, length, stats={**facts, **(stats or {})}))
        self.events.append(Event(f"end: {name}", begin + length, 0))
        return self

    def keep(self, condition: Callable[[Event], bool]) -> Self:
        """Drops the events for which the condition does not hold."""
        self.events = [event for event in self.events if condition(event)]
        return self

    def named(self, name: str) -> list[Event]:
        """The events with this short name, in the order in which they were added."""
        return [event for event in self.events if as_text(event.name) == name]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


@dataclass(slots=True)
class MetadataEntry:
    """An entry of the event metadata of a plane that belongs to no event, as HLO protos are stored."""

    id: int
    name: str | bytes
    stats: dict[str, Stat] = field(default_factory=dict[str, Stat])


@dataclass(slots=True)
class PlaneBuilder:
    """One plane: a device, the host's threads, or metadata."""

    name: str
    id: int = 0
    stats: dict[str, Stat] = field(default_factory=dict[str, Stat])
    host_minus_device_ps: int | Callable[[int], int] = 0
    lines: list[LineBuilder] = field(default_factory=list[LineBuilder])
    entries: list[MetadataEntry] = field(default_factory=list[MetadataEntry])

    def add_line(
        self,
        name: str,
        *,
        line_id: int | None = None,
        timestamp_ns: int = 0,
        clock: Clock = "plain",
        display_name: str = "",
    ) -> LineBuilder:
        """A new line, with the next free id if none is given."""
        number = max((line.id for line in self.lines), default=0) + 1 if line_id is None else line_id
        self.lines.append(LineBuilder(name, number, timestamp_ns, clock, display_name))
        return self.lines[-1]

    def __getitem__(self, line: str) -> LineBuilder:
        return _only(self.lines, line, f"plane {self.name!r}", "line")

    def __contains__(self, line: str) -> bool:
        return any(found.name == line for found in self.lines)

    def __iter__(self) -> Iterator[LineBuilder]:
        return iter(self.lines)

    def drop_line(self, name: str) -> Self:
        """Removes a line."""
        self.lines.remove(self[name])
        return self

    def shift_at(self, device_ps: int) -> int:
        """How far the host's clock is ahead of the device's at a device time."""
        shift = self.host_minus_device_ps
        return shift if isinstance(shift, int) else shift(device_ps)


@dataclass(slots=True)
class HostBuilder:
    """What one host recorded: one file of the session."""

    name: str
    hostnames: list[str | bytes] = field(default_factory=list[str | bytes])
    planes: list[PlaneBuilder] = field(default_factory=list[PlaneBuilder])
    errors: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def add_plane(self, name: str, *, plane_id: int = 0, stats: Stats | None = None) -> PlaneBuilder:
        """A new plane of any name."""
        self.planes.append(PlaneBuilder(name, plane_id, dict(stats or {})))
        return self.planes[-1]

    def add_tpu(self, ordinal: int, kind: str = "TPU v5 lite", stats: Stats | None = None) -> PlaneBuilder:
        """A plane ``/device:TPU:<ordinal>`` that states its device kind."""
        facts: dict[str, Stat] = {"device_type_string": kind, **(stats or {})}
        return self.add_plane(f"/device:TPU:{ordinal}", plane_id=2 + 8 * ordinal, stats=facts)

    def add_gpu(self, ordinal: int, stats: Stats | None = None) -> PlaneBuilder:
        """A plane ``/device:GPU:<ordinal>``."""
        return self.add_plane(f"/device:GPU:{ordinal}", plane_id=ordinal, stats=stats)

    def add_thread(self, name: str, *, timestamp_ns: int = 0, line_id: int | None = None) -> LineBuilder:
        """A thread of the host: a line of ``/host:CPU``, which is added if it is not there yet."""
        plane = self["/host:CPU"] if "/host:CPU" in self else self.add_plane("/host:CPU")
        return plane.add_line(name, timestamp_ns=timestamp_ns, line_id=line_id)

    def add_program(self, program: Program, *, name: str | None = None) -> Self:
        """Stores the program's HLO in ``/host:metadata``, which is added if it is not there yet.

        Args:
            program: the program; one without text is stored as an entry without HLO.
            name: the entry's name if it is not ``jit_f(<id>)``.
        """
        plane = self["/host:metadata"] if "/host:metadata" in self else self.add_plane("/host:metadata")
        stats: dict[str, Stat] = {"Hlo Proto": program.to_proto()} if program.text else {}
        # Map keys are signed: a program id from 2^63 on appears as a negative one.
        key = program.id - (1 << 64) if program.id >= 1 << 63 else program.id
        plane.entries.append(MetadataEntry(key, program.label if name is None else name, stats))
        return self

    def add_task_environment(self, start_ns: int, stop_ns: int) -> Self:
        """States when the session began and ended (ns since the epoch); lines count from its begin."""
        times = {"profile_start_time": Unsigned(start_ns), "profile_stop_time": Unsigned(stop_ns)}
        self.add_plane("Task Environment", stats=times)
        return self

    def __getitem__(self, plane: str) -> PlaneBuilder:
        return _only(self.planes, plane, f"host {self.name!r}", "plane")

    def __contains__(self, plane: str) -> bool:
        return any(found.name == plane for found in self.planes)

    def __iter__(self) -> Iterator[PlaneBuilder]:
        return iter(self.planes)

    def drop_plane(self, name: str) -> Self:
        """Removes a plane."""
        self.planes.remove(self[name])
        return self

    def shift(self, ns: int, planes: Callable[[PlaneBuilder], bool] = lambda _: True) -> Self:
        """Moves all lines of the selected planes by this many nanoseconds."""
        for plane in filter(planes, self.planes):
            for line in plane:
                line.timestamp_ns += ns
        return self


@dataclass(slots=True)
class Layout:
    """Choices of a writer that must not change any number: how ids are given and how planes are cut into
    chunks.

    Args:
        first_id: the first metadata id of every plane.
        id_step: the distance of metadata ids.
        chunk_events: write a plane in several pieces with at most this many events of each line, every piece
            with ids of its own; null for one piece.
    """

    first_id: int = 1
    id_step: int = 1
    chunk_events: int | None = None


@dataclass(slots=True)
class TraceBuilder:
    """A trace under construction: the hosts of one session.

        trace = TraceBuilder()
        tpu = trace.add_host("hostA").add_tpu(0)
        tpu.add_line("Steps").event("0", 0, 1000)
        tpu.add_line("XLA Ops").event("fusion.1", 0, 400, meta={"hlo_category": "loop fusion"})
        session = trace.write(tmp_path)        # tmp_path/plugins/profile/2026_01_01_00_00_00

    Times are microseconds, exact to the picosecond.
    """

    session: str = "2026_01_01_00_00_00"
    hosts: list[HostBuilder] = field(default_factory=list[HostBuilder])

    def add_host(self, name: str, *, hostnames: list[str | bytes] | None = None) -> HostBuilder:
        """A new host; ``hostnames`` is what the file says, by default the name."""
        self.hosts.append(HostBuilder(name, [name] if hostnames is None else hostnames))
        return self.hosts[-1]

    def __getitem__(self, host: str) -> HostBuilder:
        return _only(self.hosts, host, "the trace", "host")

    def __contains__(self, host: str) -> bool:
        return any(found.name == host for found in self.hosts)

    def __iter__(self) -> Iterator[HostBuilder]:
        return iter(self.hosts)

    def copy(self) -> TraceBuilder:
        """An independent copy to be altered."""
        return deepcopy(self)

    def to_bytes(self, host: str | None = None, layout: Layout | None = None) -> bytes:
        """The XPlane file of one host (of the only one by default), the same bytes every time."""
        from tpuprof.testing.xplane import serialize

        return serialize(self._host(host), layout or Layout())

    def to_json(self, host: str | None = None) -> str:
        """The trace viewer's JSON of one host, with what a viewer's conversion loses left out."""
        from tpuprof.testing.chrome import trace_json

        return trace_json(self._host(host))

    def session_dir(self, logdir: str | Path) -> Path:
        """Where the files of this session belong below a log directory; made if it is not there."""
        directory = Path(logdir) / "plugins" / "profile" / self.session
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def write(self, logdir: str | Path, layout: Layout | None = None) -> Path:
        """Writes ``<host>.xplane.pb`` for every host and returns the session's directory."""
        directory = self.session_dir(logdir)
        for host in self.hosts:
            (directory / f"{host.name}.xplane.pb").write_bytes(self.to_bytes(host.name, layout))
        return directory

    def write_json(self, logdir: str | Path, *, compress: bool = True) -> Path:
        """Writes ``<host>.trace.json[.gz]`` for every host and returns the session's directory."""
        import gzip

        directory = self.session_dir(logdir)
        for host in self.hosts:
            data = self.to_json(host.name).encode()
            if compress:
                (directory / f"{host.name}.trace.json.gz").write_bytes(gzip.compress(data, mtime=0))
            else:
                (directory / f"{host.name}.trace.json").write_bytes(data)
        return directory

    def _host(self, name: str | None) -> HostBuilder:
        if name is not None:
            return self[name]
        if len(self.hosts) != 1:
            raise KeyError(f"the trace has {len(self.hosts)} hosts, say which: {_names(self.hosts)}")
        return self.hosts[0]


def _only(found: Sequence[_Part], name: str, owner: str, what: str) -> _Part:
    for item in found:
        if item.name == name:
            return item
    raise KeyError(f"{owner} has no {what} {name!r}; it has {_names(found)}")


def _names(found: Sequence[LineBuilder | PlaneBuilder | HostBuilder]) -> str:
    return ", ".join(repr(item.name) for item in found) or "none"
