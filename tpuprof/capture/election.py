"""Electing the name of a run through the key-value store that the processes of ``jax.distributed`` share.

There is no leader to wait for: the first process that has a trace proposes a name, and those whose windows began
within `JOIN_SECONDS` of its own, for the same reason, take it. A process with another reason, or a much later window,
proposes the name of the next run. It happens when a trace is about to be written: before the window it would let
hosts start at different times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, cast

from tpuprof.capture.session import ProcessIdentity, check_name, profile_root, session_name

JOIN_SECONDS = 120.0  # more than hosts need to reach the same step, less than between two captures on purpose
WAIT_MS = 10_000
_KEY = "tpuprof/run"
_MOST_RUNS = 10_000
_MOST_NAMES = 3600


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


@dataclass
class Elections:
    """The elections that this process has taken part in."""

    next: int = 0
    last: str = ""  # the name of the latest run; those to come are named later, so that names are in the order of time

    def join(
        self, store: KeyValueStore, logdir: Path, identity: ProcessIdentity, reason: str, started: float
    ) -> tuple[str, dict[str, str]]:
        """The name of the run, elected by others just now for the same reason or proposed here, and who is in it."""
        for number in range(self.next, _MOST_RUNS):
            found = _value(store, f"{_KEY}/{number}")
            if found is None:
                proposal = _reserve(logdir, datetime.fromtimestamp(started), self.last)
                text = json.dumps({"name": proposal, "time": started, "reason": reason})
                try:
                    store.key_value_set(f"{_KEY}/{number}", text)
                except Exception:  # another process was faster
                    _give_back(logdir, proposal)
                    text = store.blocking_key_value_get(f"{_KEY}/{number}", WAIT_MS)
                found = text
            elected: dict[str, Any] = json.loads(found)
            apart = _seconds_apart(elected, reason, started)
            later = _value(store, f"{_KEY}/{number + 1}") if apart is not None else None
            # Who missed a run must not take a place in it when the others are at the next one already.
            nearer = None if later is None else _seconds_apart(json.loads(later), reason, started)
            if apart is None or (nearer is not None and nearer < apart):
                continue
            self.next = number + 1
            name = check_name(str(elected["name"]))
            self.last = max(self.last, name)
            store.key_value_set(f"{_members(number)}/{identity.process_index}", identity.host)
            return name, _seen(store, number)
        raise RuntimeError("the program has had too many runs")


elections = Elections()


def distributed_client() -> KeyValueStore | None:
    """The client of ``jax.distributed`` where the program has initialised it; imports nothing."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    client = getattr(state, "client", None)
    needed = ("key_value_set", "blocking_key_value_get", "key_value_dir_get")
    return client if client is not None and all(hasattr(client, name) for name in needed) else None


def _seconds_apart(elected: Mapping[str, Any], reason: str, started: float) -> float | None:
    """How far apart the proposer's window and ours began, by two clocks; None if the run is not for us."""
    apart = abs(started - float(elected["time"]))
    return apart if elected["reason"] == reason and apart <= JOIN_SECONDS else None


def _members(number: int) -> str:
    return f"{_KEY}-members/{number}"


def _seen(store: KeyValueStore, number: int) -> dict[str, str]:
    pairs = sorted((int(key.rsplit("/", 1)[-1]), str(host)) for key, host in store.key_value_dir_get(_members(number)))
    return {str(index): host for index, host in pairs}


def _value(store: Any, key: str) -> str | None:
    """The value of a key, None if it has none; only waits where this jax cannot ask without."""
    try:
        if hasattr(store, "key_value_try_get"):
            return cast("str", store.key_value_try_get(key))
        return cast("str", store.blocking_key_value_get(key, 1))
    except Exception:
        return None


def _reserve(logdir: Path, moment: datetime, last: str) -> str:
    # The directory is made at once: another program with the same log directory must not take the name.
    for seconds in range(_MOST_NAMES):
        name = session_name(moment + timedelta(seconds=seconds))
        if name <= last:
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
