"""What a calibration gives: which constants it fitted and from what, which it could not, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from tpuprof.calibration.estimates import Estimate
from tpuprof.plan.profiles import CHIP, SHARED, Profile, default_of

_MOST_NOTES = 1_000
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """A run that a calibration rests on.

    Args:
        digest: SHA-256 over what was recorded, as run stores know it.
        chip: that it was set against; null if none is known.
        step_s: the mean step; null without steps.
        slice: where its collectives go, and how that is known.
        captured: when, UTC; null if the trace does not say.
    """

    name: str
    digest: str
    chip: str | None
    device_kind: str | None
    devices: int
    steps: int
    step_s: float | None
    slice: str | None
    jax: str | None = None
    libtpu: str | None = None
    captured: str | None = None


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """A published row that a calibration rests on, and by what computation was faster there than predicted."""

    row: str
    chip: str
    factor: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A constant that was fitted.

    Args:
        constant: its place in a profile, such as ``chips.v6e.matmul``.
        value: that goes into the profile.
        default: the built-in value; null without one.
        low, high: between which 80 % of the measured time, steps or rows lie; null with one sample.
        samples: ops, steps or rows.
        executions: of the ops.
        seconds: of measured time behind it; null for published rows.
        source: how it was come by, in words.
    """

    constant: str
    value: float
    default: float | None
    low: float | None
    high: float | None
    samples: int
    executions: int
    seconds: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A constant that stays at its built-in value, and why."""

    constant: str
    default: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Measurements that were not used, and why.

    Args:
        constant: for which they would have been.
        count: of ops.
        seconds: that they took on all cores.
        names: of some of them.
    """

    constant: str
    reason: str
    count: int
    seconds: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PathReach:
    """What synchronous collectives of a kind reach along some axes; a profile has one constant for all axes.

    Args:
        axes: of the program's mesh; null where the program does not name them.
        reached: expected over measured time.
    """

    kind: str
    axes: str | None
    reached: float
    low: float | None
    high: float | None
    samples: int
    executions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result.

    Args:
        profile: with the fitted constants; it holds the rest of this as notes.
        runs, rows: that it rests on; one of the two is empty.
        notes: what else a reader should know.
        paths: the constants of ``collectives`` by the axes behind them, the longest first.
    """

    profile: Profile
    runs: tuple[RunOrigin, ...]
    rows: tuple[RowOrigin, ...]
    fitted: tuple[Fitted, ...]
    kept: tuple[Kept, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()
    paths: tuple[PathReach, ...] = ()


@dataclass(slots=True)
class Ledger:
    """Collects, while samples are drawn, what is left out of them."""

    sums: dict[tuple[str, str], tuple[int, float, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[int, float, tuple[str, ...]]]
    )

    def add(self, constant: str, reason: str, name: str, seconds: float) -> None:
        """One op that is left out for a constant."""
        count, total, names = self.sums.get((constant, reason), (0, 0.0, ()))
        self.sums[constant, reason] = (count + 1, total + seconds, names if len(names) > 2 else (*names, name))

    def entries(self) -> tuple[LeftOut, ...]:
        """What was left out, the longest first."""
        found = [LeftOut(*key, count, seconds, names) for key, (count, seconds, names) in self.sums.items()]
        return tuple(sorted(found, key=lambda one: (-one.seconds, one.constant, one.reason)))

    def why(self, constant: str) -> str:
        """Why there is no sample of a constant; empty if nothing was left out for it."""
        found = [one for one in self.entries() if one.constant == constant]
        return "; ".join(f"{one.count} {'op' if one.count == 1 else 'ops'}: {one.reason}" for one in found)


def fitted_from(constant: str, found: Estimate, source: str, value: float | None = None) -> Fitted:
    """An estimate as a constant.

    Args:
        value: that goes into the profile, if not that of the estimate.
    """
    return Fitted(
        constant, found.value if value is None else value, default_of(constant), found.low, found.high,
        found.samples, found.executions, found.seconds, source,
    )  # fmt: skip


def unfitted(
    chips: Iterable[str], known: Iterable[Fitted | Kept], reasons: Mapping[str, str], otherwise: str
) -> list[Kept]:
    """The constants of which nothing was said yet, as kept.

    Args:
        chips: whose constants there are, beside those of all chips.
        known: what was said.
        reasons: by the last part of a constant's place, or by its table.
        otherwise: the reason of the others.
    """
    said = {one.constant for one in known}
    every = [(f"chips.{chip}", key) for chip in chips for key in CHIP]
    every += [(table, key) for table, keys in SHARED.items() for key in keys]
    return [
        Kept(f"{table}.{key}", default_of(f"{table}.{key}"), reasons.get(key) or reasons.get(table) or otherwise)
        for table, key in every
        if f"{table}.{key}" not in said
    ]


def make_profile(name: str, created: str, source: str, fitted: Iterable[Fitted], **notes: Iterable[Any]) -> Profile:
    """The profile of fitted constants with its notes.

    Args:
        notes: dataclasses by the list of the profile that they belong to.
    """
    constants = tuple(fitted)
    tables: dict[str, dict[str, float]] = {}
    for one in constants:
        table, _, key = one.constant.rpartition(".")
        tables.setdefault(table, {})[key] = _rounded(one.value)
    listed = {"fitted": constants, **notes}
    return Profile(
        name, tables, created, source,
        {key: tuple(_plain(entry) for entry in list(entries)[:_MOST_NOTES]) for key, entries in listed.items()},
    )  # fmt: skip


def _plain(entry: Any) -> dict[str, Any]:
    return {key: _simple(value) for key, value in asdict(entry).items()}


def _simple(value: Any) -> Any:
    if isinstance(value, tuple):
        value = ", ".join(map(str, cast("tuple[Any, ...]", value)))
    return _rounded(value) if isinstance(value, float) else value[:_LONGEST] if isinstance(value, str) else value


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
