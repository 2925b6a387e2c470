"""One run for all processes of a program: which session directory they share, and which of them record.

Directories named by local clocks differ by seconds between hosts, so the name must be agreed. In the order of
preference: the name that the user gave, ``TPUPROF_RUN_ID``, an election through the key-value store of
``jax.distributed``, and the job's number from its scheduler. Where none is there, each process falls back to the
time.

The election has no leader to wait for: the first process that comes proposes a name, and those that come within
`JOIN_SECONDS` for the same reason take it. A process that comes for another reason, or much later, proposes the
name of the next run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

from tpuprof.capture.session import XPLANE_SUFFIX, ProcessIdentity, check_name, profile_root, session_name
from tpuprof.errors import UsageError

RUN_ID_VARIABLE = "TPUPROF_RUN_ID"
HOSTS_VARIABLE = "TPUPROF_HOSTS"
JOIN_SECONDS = 120.0  # more than hosts need to reach the same step, less than between two captures on purpose
ELECTION_TIMEOUT_S = 10.0
_KEY = "tpuprof/run"
_MOST_RUNS = 10_000
_MOST_NAMES = 3600
_LARGEST_INDEX = 1 << 20

AgreedBy = Literal["name", "environment", "coordinator", "scheduler", "time"]
T = TypeVar("T")


class KeyValueStore(Protocol):
    """What is used of the client of ``jax.distributed``."""

    def key_value_set(self, key: str, value: str) -> None:
        """Stores a value; raises where the key has one."""
        ...

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The value of the key; raises after the time-out."""
        ...

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """All keys below a key with their values."""
        ...


@dataclass(frozen=True)
class Membership:
    """The run that this process takes part in.

    Attributes:
        name: the session directory; None leaves it to the time of the start.
        agreed_by: how the name was found.
        expected: the processes that record this run.
        chosen: whether this process is one of them.
        number: which run of the program it is, counting from 0; None outside an election.
        problem: why the processes could not agree; None if they did, or need not.
    """

    name: str | None = None
    agreed_by: AgreedBy = "time"
    expected: tuple[int, ...] = (0,)
    chosen: bool = True
    number: int | None = None
    problem: str | None = None


def parse_hosts(text: str) -> frozenset[int] | None:
    """The processes of a list such as ``0,3`` or ``0-3,8``; None, which means all, for ``all`` and nothing.

    Raises:
        UsageError: the text is no such list.
    """
    if text.strip().lower() in ("", "all"):
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            if not (first.isascii() and first.isdecimal() and (not dash or (last.isascii() and last.isdecimal()))):
                raise ValueError
            low = int(first)
            high = int(last) if dash else low
            if not low <= high < _LARGEST_INDEX:
                raise ValueError
        except ValueError:
            raise UsageError(
                f"{text!r} is not a list of hosts.",
                why=f"{part.strip()!r} is neither the index of a process nor a range of them.",
                hint="Write indices of processes, such as 0,3 or 0-3, or all.",
            ) from None
        found.update(range(low, high + 1))
    return frozenset(found)


def check_hosts(hosts: Iterable[int] | str | None) -> frozenset[int] | None:
    """The processes that shall record, from an argument; None for all, unless ``TPUPROF_HOSTS`` names some.

    Raises:
        UsageError: they are no indices of processes, or there are none.
    """
    if hosts is None:
        return parse_hosts(os.environ.get(HOSTS_VARIABLE, ""))
    if isinstance(hosts, str):
        return parse_hosts(hosts)
    found = list(hosts)
    wrong = [host for host in found if isinstance(host, bool) or not isinstance(host, int) or host < 0]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong or not found:
        said = f"hosts={found!r} " + ("holds something else than indices of processes." if wrong else "is empty.")
        raise UsageError(said, hint="Give indices of jax processes, such as hosts=(0, 3), or None for all.")
    return frozenset(found)


def join_run(
    logdir: Path,
    identity: ProcessIdentity,
    *,
    reason: str,
    name: str | None = None,
    hosts: frozenset[int] | None = None,
    environment: Mapping[str, str] | None = None,
    store: KeyValueStore | None = None,
) -> Membership:
    """The run that this process takes part in. Never raises, and never waits longer than `ELECTION_TIMEOUT_S`.

    Args:
        logdir: where the run will be.
        identity: this process.
        reason: why it captures, such as ``steps 10:13``; processes with other reasons are in other runs.
        name: the session directory that the user asked for.
        hosts: the processes that shall record; None for all.
        environment: the variables of the process; by default its own.
        store: the key-value store; by default that of ``jax.distributed``, where it was initialised.
    """
    variables = os.environ if environment is None else environment
    count, index = max(identity.process_count, 1), identity.process_index
    expected = tuple(host for host in range(count) if hosts is None or host in hosts)
    if index not in expected:
        return Membership(None, "time", expected, chosen=False)
    if name is not None:
        return Membership(name, "name", expected)
    given = _clean_name(variables.get(RUN_ID_VARIABLE))
    if given is not None:
        return Membership(_free_name(logdir, given, identity), "environment", expected)
    if count == 1:
        return Membership(None, "time", expected)
    if store is None:
        store = _distributed_client()
    problem = "jax.distributed was not initialised, and no scheduler's job number was found."
    if store is not None:
        try:
            elected, number = _within(ELECTION_TIMEOUT_S, lambda: _elections.join(store, logdir, identity, reason))
            return Membership(elected, "coordinator", expected, number=number)
        except Exception as error:
            problem = f"The coordinator of jax.distributed did not help: {type(error).__name__}: {error}"
    job = scheduler_job(variables)
    if job is not None:
        return Membership(_free_name(logdir, job, identity), "scheduler", expected)
    return Membership(None, "time", expected, problem=f"The processes could not agree on one run. {problem}")


def seen_processes(membership: Membership, store: KeyValueStore | None = None) -> dict[str, str]:
    """The host names, by index of the process, of those that have joined the run so far; empty if unknown."""
    client = _distributed_client() if store is None else store
    if membership.number is None or client is None:
        return {}
    try:
        entries = _within(ELECTION_TIMEOUT_S, lambda: client.key_value_dir_get(_members(membership.number)))
        pairs = sorted((int(key.rsplit("/", 1)[-1]), str(value)) for key, value in entries)
    except Exception:  # the coordinator is gone, or is another one's: a manifest with fewer names
        return {}
    return {str(index): host for index, host in pairs}


def scheduler_job(variables: Mapping[str, str]) -> str | None:
    """A name that all processes of a job have in common and no other job has; None if nothing tells."""
    job = variables.get("SLURM_JOB_ID")
    if job:
        parts = ["slurm", job, variables.get("SLURM_STEP_ID"), variables.get("SLURM_RESTART_COUNT")]
        return _clean_name("-".join(part for part in parts if part))
    jobset = variables.get("JOBSET_NAME")
    if jobset:
        return _clean_name(f"{jobset}-{variables.get('JOBSET_RESTART_ATTEMPT', '0')}")
    # Cloud TPU VMs name their peers; several slices have a coordinator in common.
    peers = variables.get("MEGASCALE_COORDINATOR_ADDRESS") or variables.get("TPU_WORKER_HOSTNAMES")
    if peers:
        return _clean_name(f"tpu-{_digest(peers)}")
    return None


@dataclass
class _Elections:
    """The elections that this process has taken part in."""

    next: int = 0
    used: set[str] = field(default_factory=set[str])

    def join(self, store: KeyValueStore, logdir: Path, identity: ProcessIdentity, reason: str) -> tuple[str, int]:
        """The name and number of the run: elected by others just now for the same reason, else proposed here."""
        for number in range(self.next, _MOST_RUNS):
            now = time.time()
            found = _value(store, f"{_KEY}/{number}")
            if found is None:
                proposal = _reserve(logdir, datetime.fromtimestamp(now), self.used)
                text = json.dumps({"name": proposal, "time": now, "reason": reason})
                try:
                    store.key_value_set(f"{_KEY}/{number}", text)
                except Exception:  # another process was faster
                    _give_back(logdir, proposal)
                    text = store.blocking_key_value_get(f"{_KEY}/{number}", int(ELECTION_TIMEOUT_S * 1000))
                found = text
            elected: dict[str, Any] = json.loads(found)
            apart = _seconds_apart(elected, reason, now)
            later = _value(store, f"{_KEY}/{number + 1}") if apart is not None else None
            # Who missed a run must not take a place in it when the others are at the next one already.
            nearer = None if later is None else _seconds_apart(json.loads(later), reason, now)
            if apart is None or (nearer is not None and nearer < apart):
                continue
            self.next = number + 1
            name = check_name(str(elected["name"]))
            self.used.add(name)
            store.key_value_set(f"{_members(number)}/{identity.process_index}", identity.host)
            return name, number
        raise RuntimeError("the program has had too many runs")


_elections = _Elections()


def _seconds_apart(elected: Mapping[str, Any], reason: str, now: float) -> float | None:
    """How long ago, or ahead by another clock, a run was proposed; None if it is not for us."""
    apart = abs(now - float(elected["time"]))
    return apart if elected["reason"] == reason and apart <= JOIN_SECONDS else None


def _members(number: int | None) -> str:
    return f"{_KEY}-members/{number}"


def _value(store: Any, key: str) -> str | None:
    """The value of a key, None if it has none; only waits where this jax cannot ask without."""
    try:
        if hasattr(store, "key_value_try_get"):
            return cast("str", store.key_value_try_get(key))
        return cast("str", store.blocking_key_value_get(key, 1))
    except Exception:
        return None


def _reserve(logdir: Path, moment: datetime, used: set[str]) -> str:
    # The directory is made at once: another program with the same log directory must not take the name.
    for seconds in range(_MOST_NAMES):
        name = session_name(moment + timedelta(seconds=seconds))
        if name in used:
            continue
        try:
            (profile_root(logdir) / name).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:
            pass  # the writer of the trace will say what is wrong
        return name
    raise RuntimeError("no free name is left")


def _give_back(logdir: Path, name: str) -> None:
    with suppress(OSError):
        (profile_root(logdir) / name).rmdir()


def _free_name(logdir: Path, base: str, identity: ProcessIdentity) -> str:
    """The name, or the name with the first number under which this process has no file yet.

    A job that is restarted, or captures several times, comes by here in all its processes alike.
    """
    index = identity.process_index
    for number in range(1, _MOST_NAMES):
        name = base if number == 1 else f"{base}-{number}"
        session = profile_root(logdir) / name
        own = f"*.p{index}{XPLANE_SUFFIX}" if identity.process_count > 1 else f"*{XPLANE_SUFFIX}"
        if next(session.glob(own), None) is None:
            return name
    return base


def _clean_name(text: str | None) -> str | None:
    """A text of the environment as the name of a directory; None where nothing is left of it."""
    if not text:
        return None
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.+=@-") else "_" for c in text.strip())[:150]
    kept = kept.lstrip(".+=@-")
    return kept or None


def _digest(text: str) -> str:
    from hashlib import blake2s

    return blake2s(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _distributed_client() -> KeyValueStore | None:
    """The client of ``jax.distributed`` where the program has initialised it; imports nothing."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    client = getattr(state, "client", None)
    needed = ("key_value_set", "blocking_key_value_get", "key_value_dir_get")
    return client if client is not None and all(hasattr(client, name) for name in needed) else None


def _within(seconds: float, function: Callable[[], T]) -> T:
    """The result of a call that may hang, from a thread that is given up then."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(function())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="tpuprof-election", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return results[0]
