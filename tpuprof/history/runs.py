"""What a store gives back: runs, samples, baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpuprof.history.facts import BRANCH_TAG, COMMIT_TAG


@dataclass(frozen=True, slots=True)
class Run:
    """A stored run, without its samples, metrics and op groups, which are read when they are asked for.

    Args:
        id: its number in the store.
        key: what makes it the same run; see ``RunFacts``.
        captured_ns: when it was recorded, since the epoch; null if unknown.
        added_ns: when it came into the store.
        program: fingerprint of the program, null if the run does not say enough to be like another one.
        structure: fingerprint of the compiled program, null without HLO.
        hardware: fingerprint of the devices, null without any.
        facts: versions, flags, quality entries and the like.
    """

    id: int
    key: str
    name: str
    path: str
    captured_ns: int | None
    added_ns: int
    tool_version: str
    platform: str | None
    device_kind: str | None
    n_devices: int
    n_hosts: int
    step_source: str
    n_steps: int
    window_ps: int | None
    worst_quality: str | None
    program_name: str | None
    program: str | None
    program_source: str | None
    structure: str | None
    hardware: str | None
    hardware_source: str | None
    facts: Mapping[str, Any] = field(repr=False)
    tags: Mapping[str, str] = field(repr=False)

    @property
    def time_ns(self) -> int:
        """When it was recorded, else when it was added: the order of a series."""
        return self.added_ns if self.captured_ns is None else self.captured_ns

    @property
    def branch(self) -> str | None:
        """The tag ``branch``."""
        return self.tags.get(BRANCH_TAG)

    @property
    def commit(self) -> str | None:
        """The tag ``commit``."""
        return self.tags.get(COMMIT_TAG)

    @property
    def series(self) -> tuple[str, str, str | None] | None:
        """Runs with the same value may be compared: program, hardware, branch. Null: this one with none."""
        if self.program is None or self.hardware is None:
            return None
        return self.program, self.hardware, self.branch


@dataclass(frozen=True, slots=True)
class Sample:
    """The time of a step in ps, and in which capture (the number of the run) it was seen."""

    capture: int
    step: int
    time_ps: int


@dataclass(frozen=True, slots=True)
class Added:
    """What came of adding a run.

    Args:
        run: the run as stored.
        new: false if it was there already.
        new_tags: tags that an old run got now.
        kept_tags: tags whose old value was kept, with the value that was given now.
    """

    run: Run
    new: bool
    new_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    kept_tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Baseline:
    """Named runs of one program on one kind of hardware, to compare with; oldest first, at least one."""

    name: str
    program: str
    hardware: str
    set_ns: int
    runs: tuple[Run, ...]
