"""One run for all processes of a program: which session directory they share, and which of them record.

Directories named by local clocks differ by seconds between hosts, so the name must be agreed. In the order of
preference: the name that the user gave, ``TPUPROF_RUN_ID``, an election through the key-value store of
``jax.distributed``, and the job's number from its scheduler. Where none is there, each process falls back to the
time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from tpuprof.capture.election import KeyValueStore, distributed_client, elections
from tpuprof.capture.session import XPLANE_SUFFIX, ProcessIdentity, profile_root

RUN_ID_VARIABLE = "TPUPROF_RUN_ID"
ELECTION_TIMEOUT_S = 10.0
HURRIED_TIMEOUT_S = 2.0  # when the process is about to be killed
_MOST_NAMES = 3600

AgreedBy = Literal["name", "environment", "coordinator", "scheduler", "time"]
T = TypeVar("T")


@dataclass(frozen=True)
class Membership:
    """The run that this process takes part in.

    Attributes:
        name: the session directory; None leaves it to the time of the start.
        agreed_by: how the name was found.
        seen: host names by index of the process of those that had a trace of it by then; empty if unknown.
        problem: why the processes could not agree; None if they did, or need not.
    """

    name: str | None = None
    agreed_by: AgreedBy = "time"
    seen: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str | None = None


def join_run(
    logdir: Path,
    identity: ProcessIdentity,
    *,
    reason: str,
    started: float,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    store: KeyValueStore | None = None,
    hurried: bool = False,
) -> Membership:
    """The run that this process takes part in. Never raises, and never waits longer than `ELECTION_TIMEOUT_S`.

    Args:
        logdir: where the run will be.
        identity: this process.
        reason: why it captured, such as ``steps 10:13``; processes with other reasons are in other runs.
        started: when its window began, in seconds since the epoch.
        name: the session directory that the user asked for.
        environment: the variables of the process; by default its own.
        store: the key-value store; by default that of ``jax.distributed``, where it was initialised.
        hurried: the process may be about to be killed: wait no longer than `HURRIED_TIMEOUT_S`.
    """
    variables = os.environ if environment is None else environment
    if name is not None:
        return Membership(name, "name")
    given = _clean_name(variables.get(RUN_ID_VARIABLE))
    if given is not None:
        return Membership(_free_name(logdir, given, identity), "environment")
    if identity.process_count <= 1:
        return Membership()
    if store is None:
        store = distributed_client()
    problem = "jax.distributed was not initialised, and no scheduler's job number was found."
    if store is not None:
        try:
            timeout_s = HURRIED_TIMEOUT_S if hurried else ELECTION_TIMEOUT_S
            elected, seen = _within(timeout_s, lambda: elections.join(store, logdir, identity, reason, started))
            return Membership(elected, "coordinator", seen)
        except Exception as error:
            problem = f"The coordinator of jax.distributed did not help: {type(error).__name__}: {error}"
    job = scheduler_job(variables)
    if job is not None:
        return Membership(_free_name(logdir, job, identity), "scheduler")
    return Membership(problem=f"The processes could not agree on one run. {problem}")


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


def _free_name(logdir: Path, base: str, identity: ProcessIdentity) -> str:
    """The name, or the name with the first number under which this process has no file yet.

    A job that is restarted, or captures several times, comes by here in all its processes alike.
    """
    index = identity.process_index
    for number in range(1, _MOST_NAMES):
        name = base if number == 1 else f"{base}-{number}"
        session = profile_root(logdir) / name
        # Lone processes of several machines may be told to share a run.
        own = f"*.p{index}{XPLANE_SUFFIX}" if identity.process_count > 1 else f"{identity.host}{XPLANE_SUFFIX}"
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
