"""Runs: what a path or URL given by the user stands for.

A run is a trace file, a session directory, the directory ``plugins/profile``, or a log root. The files of one
session directory are the hosts of one run. Hosts whose clocks disagree write into sibling directories a few seconds
apart: such siblings are one run if no host is in two of them.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from tpuprof.errors import InputError, NotATraceError, TraceNotFoundError, UnsupportedContainerError, UsageError
from tpuprof.formats.files import Entry, as_location, base_name, find, join, list_directory, parent
from tpuprof.formats.recording import HostFile, RunFiles

SIBLING_SECONDS = 60
MAX_DEPTH = 3  # levels below the root at which plugins/profile is looked for
MAX_LISTINGS = 1000
MAX_SESSIONS = 256  # the newest of each profile directory; older ones are found by their name

_XPLANE = ".xplane.pb"
_JSON = (".trace.json.gz", ".trace.json")
_RIEGELI = ".xplane.riegeli"
_SESSION = re.compile(r"\d{4}(?:_\d\d){5}\Z")
_DIGITS = re.compile(r"(\d+)")


def find_run(path: str | os.PathLike[str], *, run: str | None = None) -> RunFiles:
    """The run that a path or URL stands for; in a log root its newest run.

    A file stands for itself alone, except that an empty ``.xplane.pb`` brings the JSON beside it.

    Args:
        path: a file, a session directory, ``plugins/profile``, or a log root.
        run: the name of the run to take from a log root; any of its session directories will do.

    Raises:
        TraceNotFoundError: there is nothing at the path, or no run in the directory.
        UsageError: the directory has no run of that name.
        UnsupportedContainerError: the run is kept in a container that cannot be read.
        NotATraceError: the file is of another kind.
        InputError: the path cannot be read.
    """
    location = as_location(path)
    entry = find(location)
    if entry is None:
        raise TraceNotFoundError(
            "There is no such file or directory.",
            where=location,
            hint="Check the path; `tpuprof runs LOGDIR` lists the runs of a log directory.",
        )
    if not entry.is_dir:
        found = [_file_run(entry)]
    else:
        found = _runs(_search(location), location)
    if run is None:
        chosen = found[0]
    else:
        matching = [one for one in found if run in one.names] or _by_name(location, entry, run)
        if not matching:
            raise _unknown_run(location, run, found)
        chosen = matching[0]
    return _usable(chosen, found)


def list_runs(path: str | os.PathLike[str]) -> list[RunFiles]:
    """All runs under a path or URL, newest first. Runs that only hold files that cannot be read are left out.

    Raises:
        As ``find_run`` without a name.
    """
    location = as_location(path)
    entry = find(location)
    if entry is None or not entry.is_dir:
        return [find_run(location)]
    found = _runs(_search(location), location)
    readable = [one for one in found if one.files]
    return [_usable(one, readable) for one in readable or found]


@dataclass(frozen=True, slots=True)
class _Session:
    """One directory with trace files."""

    name: str
    path: str
    group: str  # the directory it lies in
    files: tuple[HostFile, ...]
    unsupported: tuple[str, ...]  # files in containers that are not read
    named_time: float | None  # from the name
    time: float

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(file.host for file in self.files)


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    path: str
    files: tuple[HostFile, ...]
    unsupported: tuple[str, ...]
    time: float
    names: tuple[str, ...]  # by which it can be asked for


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts ``host-2`` before ``host-10``."""
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text) if part)


def _usable(run: _Run, all_runs: list[_Run]) -> RunFiles:
    others = tuple(other.name for other in all_runs if other is not run)
    if not run.files:
        raise UnsupportedContainerError(
            f"The run is kept in {base_name(run.unsupported[0])}, a container that is not supported.",
            where=run.unsupported[0],
            why="The profiler wrote Riegeli chunks instead of one XPlane file.",
            hint="Capture again without continuous mode, or with fewer steps, to get a .xplane.pb."
            + (f" Another run can be read with --run {others[0]}." if others else ""),
        )
    return RunFiles(run.name, run.path, run.files, others)


def _unknown_run(location: str, run: str, found: list[_Run]) -> UsageError:
    return UsageError(
        f"There is no run {run!r}.", where=location, hint=f"Its runs are {', '.join(one.name for one in found)}."
    )


# --- files


def _file_run(entry: Entry) -> _Run:
    """A run of one file."""
    if entry.name.endswith(_RIEGELI):
        return _Run(entry.name, entry.path, (), (entry.path,), 0.0, (entry.name,))
    host, kind = _classify(entry.name)
    if kind == "other":
        raise NotATraceError(
            f"{entry.name} is not a trace, going by its name.",
            where=entry.path,
            hint=f"Traces end in {_XPLANE} or {_JSON[0]}; anything else can be given after renaming it.",
        )
    directory = parent(entry.path)
    session = base_name(directory)
    in_session = _session_time(session) is not None or base_name(parent(directory)) == "profile"
    name = session if in_session else host
    if kind == "json":
        file = HostFile(host, trace_json=entry.path, trace_json_size=entry.size)
    else:
        twin = _json_beside(directory, host) if entry.size == 0 else None
        file = HostFile(
            host, entry.path, twin.path if twin else None, entry.size, trace_json_size=twin.size if twin else 0
        )
    return _Run(name, entry.path, (file,), (), 0.0, (name, entry.name))


def _json_beside(directory: str, host: str) -> Entry | None:
    for ending in _JSON:
        entry = find(join(directory, host + ending))
        if entry is not None and not entry.is_dir:
            return entry
    return None


def _classify(name: str) -> tuple[str, str]:
    """(host, kind) of a file given by the user; the profiler's own names are stricter."""
    for endings, kind in (((_XPLANE, ".pb"), "xplane"), ((*_JSON, ".json.gz", ".json"), "json")):
        for ending in endings:
            if name.endswith(ending):
                return name.removesuffix(ending) or "host", kind
    return name, "other"


def _session(directory: str, entries: Iterable[Entry]) -> _Session | None:
    """The session that the files of a directory make up, null if there is no trace among them."""
    xplanes: dict[str, Entry] = {}
    jsons: dict[str, Entry] = {}
    unsupported: list[str] = []
    for entry in entries:
        if entry.is_dir or entry.name.startswith("."):
            continue
        if entry.name.endswith(_XPLANE):
            xplanes[entry.name.removesuffix(_XPLANE) or "host"] = entry
        elif entry.name.endswith(_RIEGELI):
            unsupported.append(entry.path)
        else:
            for ending in _JSON:
                if entry.name.endswith(ending):
                    jsons.setdefault(entry.name.removesuffix(ending) or "host", entry)
                    break
    if not (xplanes or jsons or unsupported):
        return None
    files = tuple(
        HostFile(
            host,
            xplanes[host].path if host in xplanes else None,
            jsons[host].path if host in jsons else None,
            xplanes[host].size if host in xplanes else 0,
            jsons[host].size if host in jsons else 0,
        )
        for host in sorted({*xplanes, *jsons}, key=natural_key)
    )
    changed = max((entry.modified or 0.0 for entry in (*xplanes.values(), *jsons.values())), default=0.0)
    name = base_name(directory)
    named_time = _session_time(name)
    time = changed if named_time is None else named_time
    return _Session(name, directory, parent(directory), files, tuple(unsupported), named_time, time)


def _session_time(name: str) -> float | None:
    """Seconds since the epoch of a name like 2026_01_31_23_59_59, taken as local time; null for other names."""
    if _SESSION.match(name) is None:
        return None
    try:
        return datetime.strptime(name, "%Y_%m_%d_%H_%M_%S").timestamp()
    except (ValueError, OverflowError):
        return None


# --- directories


def _search(root: str) -> list[_Session]:
    """The sessions at or under a directory.

    Breadth first and bounded, as listing a remote directory may take a second: ``plugins/profile`` is looked for
    up to ``MAX_DEPTH`` levels down, and within it only its own directories are listed.
    """
    entries = list_directory(root)
    direct = _session(root, entries)
    if direct is not None:
        return _siblings(direct)
    sessions: list[_Session] = []
    unreadable = 0
    queue = deque([(root, entries, 0)])
    listings = 1
    while queue:
        directory, inside, depth = queue.popleft()
        for folder in _worth_listing(directory, inside, depth)[: MAX_LISTINGS - listings]:
            listings += 1
            try:
                inner = list_directory(folder.path, root=root)
            except InputError:
                unreadable += 1
                continue
            session = _session(folder.path, inner)
            if session is not None:
                sessions.append(session)
            elif folder.name in ("plugins", "profile"):
                queue.appendleft((folder.path, inner, depth))  # before anything that only might hold a run
            elif base_name(directory) != "profile":
                queue.append((folder.path, inner, depth + 1))
    if not sessions:
        raise _nothing_found(root, entries, listings, unreadable)
    return sessions


def _worth_listing(directory: str, entries: Iterable[Entry], depth: int) -> list[Entry]:
    folders = [entry for entry in entries if entry.is_dir and not entry.name.startswith(".")]
    if base_name(directory) == "profile":
        folders.sort(key=lambda folder: _session_time(folder.name) or folder.modified or 0.0, reverse=True)
        return folders[:MAX_SESSIONS]
    if base_name(directory) == "plugins":
        return [folder for folder in folders if folder.name == "profile"]
    if depth == MAX_DEPTH:
        return [folder for folder in folders if folder.name == "plugins"]
    return sorted(folders, key=lambda folder: folder.name != "plugins")


def _siblings(session: _Session) -> list[_Session]:
    """A session and those beside it that may belong to the same run."""
    if session.named_time is None:
        return [session]
    found = [session]
    with suppress(InputError):  # what lies beside is a bonus
        for entry in list_directory(session.group):
            time = _session_time(entry.name)
            near = time is not None and abs(time - session.named_time) <= SIBLING_SECONDS
            if near and entry.is_dir and entry.path != session.path:
                other = _session(entry.path, list_directory(entry.path))
                found += [other] if other is not None else []
    return next(group for group in _grouped(found) if session in group)


def _runs(sessions: list[_Session], root: str) -> list[_Run]:
    """Sessions as runs, newest first; those of one name in several places get their place below the root."""
    groups = _grouped(sessions)
    names = [group[0].name for group in groups]
    runs: list[_Run] = []
    for group in groups:
        first = group[0]
        name = first.name
        if names.count(name) > 1:
            name = first.path.removeprefix(root).replace("plugins/profile/", "").lstrip("/\\")
        members = tuple(dict.fromkeys((name, *(session.name for session in group))))
        files = sorted((file for session in group for file in session.files), key=lambda f: natural_key(f.host))
        unsupported = tuple(path for session in group for path in session.unsupported)
        runs.append(_Run(name, first.path, tuple(files), unsupported, group[-1].time, members))
    return sorted(runs, key=lambda one: (one.time, one.name), reverse=True)


def _grouped(sessions: list[_Session]) -> list[list[_Session]]:
    """Sessions that are one run, each group in order of time.

    A session joins the latest earlier group in its directory that began at most ``SIBLING_SECONDS`` before and has
    none of its hosts.
    """
    groups: list[list[_Session]] = []
    for session in sorted(sessions, key=lambda one: (one.time, one.name)):
        for group in reversed(groups):
            first = group[0]
            if (
                first.group == session.group
                and first.named_time is not None
                and session.named_time is not None
                and session.named_time - first.named_time <= SIBLING_SECONDS
                and session.files
                and all(member.files and not member.hosts & session.hosts for member in group)
            ):
                group.append(session)
                break
        else:
            groups.append([session])
    return groups


def _by_name(location: str, entry: Entry, run: str) -> list[_Run]:
    """A run that was too old to be listed, by the name of its directory."""
    if not entry.is_dir or _session_time(run) is None:
        return []
    for directory in (join(location, run), join(location, "plugins", "profile", run)):
        found = find(directory)
        if found is not None and found.is_dir:
            session = _session(directory, list_directory(directory))
            if session is not None:
                return _runs(_siblings(session), location)
    return []


def _nothing_found(root: str, entries: tuple[Entry, ...], listings: int, unreadable: int) -> TraceNotFoundError:
    names = [entry.name + ("/" if entry.is_dir else "") for entry in entries]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    content = f"It holds {shown}." if names else "It is empty."
    return TraceNotFoundError(
        "The directory holds no profile run.",
        where=root,
        why=f"No *{_XPLANE} and no *{_JSON[0]} in it or in plugins/profile/<session> up to {MAX_DEPTH} levels below "
        f"({listings} directories listed{f', {unreadable} of them unreadable' if unreadable else ''}). {content}",
        hint="Give the log directory of the profiler, or record a run: tpuprof capture --logdir DIR -- python train.py",
    )
