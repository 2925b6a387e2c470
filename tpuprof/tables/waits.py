"""How long each core waited for the others at a collective, how long the transfer took, and who was late.

A core arrives with the barrier directly before the collective, or with the op itself; the transfer can only begin
when the last of the group has arrived. On the CPU backend the rendezvous inside the op is the wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64
from tpuprof.tables.arrays import ints, row_codes
from tpuprof.tables.host_clocks import HostClocks
from tpuprof.tables.occurrences import CoreLike, Occurrences
from tpuprof.tables.rows import NO_TIME
from tpuprof.tables.sweep import BOOL, Spans, overlap, union
from tpuprof.tables.windows import FORMS

REASONS = ("half_missing", "groups_unknown", "peers_not_traced", "not_matched", "no_common_clock")
"""Why a wait is not known: a half of the pair is missing; the groups or the cores' ids; no peer was traced; what the
cores did at that place does not match; the peers are on hosts without a common clock."""

CLOCK_SLACK_PS = 50_000_000  # chips of one host were seen to differ by 10 us
JOINT_RATIO = 10  # a barrier that releases cores ten times closer together than they arrive holds all of them

_HALF, _GROUPS, _PEERS, _MATCH, _CLOCK = range(len(REASONS))
_HALVES = (FORMS.index("start_only"), FORMS.index("done_only"))


@dataclass(frozen=True, slots=True, eq=False)
class CoreWaits:
    """Waits of one core's collectives, in the order of its windows; NO_TIME where not known.

    Args:
        arrival: when the core was ready for the collective.
        wait: until the last of its group was; from the arrival.
        transfer: the window without what of it was wait.
        late: how much earlier the group could have begun without this core's being late; 0 for all but the last.
        lower_bound: members of the group are missing from the trace, so that the wait may be longer.
        reason: a row of REASONS where the wait is not known, else -1.
        compared: how many cores' arrivals were compared, itself included; 0 where none could be.
    """

    arrival: I64
    wait: I64
    transfer: I64
    late: I64
    lower_bound: BOOL
    reason: npt.NDArray[np.int8]
    compared: npt.NDArray[np.int32]


_NONE = np.zeros(0, np.int64)
NO_WAITS = CoreWaits(_NONE, _NONE, _NONE, _NONE, np.zeros(0, np.bool_), np.zeros(0, np.int8), np.zeros(0, np.int32))


def find_waits(cores: Sequence[CoreLike], seen: Occurrences, clocks: HostClocks) -> list[CoreWaits]:
    """Waits of all cores' collectives.

    Args:
        cores: the cores, their times on the common clock where hosts have one.
        seen: their collectives, from the same times.
        clocks: which hosts have a clock in common.
    """
    if not len(seen):
        return [NO_WAITS for _ in cores]
    component = np.array([clocks.component.get(core.record.device.host, -1) for core in cores], np.int64)[seen.core]
    slack = CLOCK_SLACK_PS + max(clocks.residual_ps.values(), default=0)
    team, joint = _teams(seen, component)
    rows, first = _by_team(team)
    reason = _reasons(seen, team, component, rows, first, slack)
    known = reason < 0
    latest, others, compared = _latest(seen.arrival, np.where(known, team, -1))
    whole = known & ~joint & (compared == seen.members)
    barrier = np.where(seen.release != NO_TIME, seen.release - seen.arrival, 0)
    wait = np.maximum(latest - seen.arrival, 0)
    wait = np.where(whole, wait, np.maximum(wait, barrier))
    alone = known & ~whole & (compared < 2) & (barrier == 0)
    reason[alone] = _PEERS
    known &= ~alone
    wait = np.minimum(wait, np.maximum(seen.end - seen.arrival, 0))
    begun = np.minimum(np.maximum(seen.start, seen.arrival + wait), seen.end)
    transfer = seen.end - begun
    met, at_rendezvous = _rendezvous(cores, seen)
    wait, transfer = np.where(met, at_rendezvous, wait), np.where(met, seen.end - seen.start - at_rendezvous, transfer)
    late = np.where(known & (compared > 1), np.maximum(seen.arrival - others, 0), NO_TIME)
    known |= met
    reason[met] = -1
    result = CoreWaits(
        arrival=seen.arrival,
        wait=np.where(known, wait, NO_TIME),
        transfer=np.where(known, transfer, NO_TIME),
        late=late,
        lower_bound=known & ~whole & ~met,
        reason=reason.astype(np.int8),
        compared=np.where(late != NO_TIME, compared, 0).astype(np.int32),
    )
    return _split(result, seen.sizes)


def _teams(seen: Occurrences, component: I64) -> tuple[I64, BOOL]:
    """A number for (occurrence, group): who waits for whom; -1 where unknown. Also which teams are a barrier's.

    The groups of a collective need not be all that its barrier holds: on some topologies the cores of several groups
    are released together. Where barriers show that, all of them wait for the last.
    """
    joint = _released_together(seen, component)
    group = np.where(joint, -2, seen.group)
    team = row_codes(seen.key, group, np.where(joint, component, 0))
    return np.where((seen.key < 0) | (group == -1), -1, team), joint


def _released_together(seen: Occurrences, component: I64) -> BOOL:
    """Rows of instructions whose barriers end together on all cores although they begin far apart."""
    rows = np.flatnonzero((seen.release != NO_TIME) & (seen.key >= 0))
    joint = np.zeros(len(seen), np.bool_)
    if not len(rows):
        return joint
    place = row_codes(seen.key[rows], component[rows])
    arrived, released = _spread(seen.arrival[rows], place), _spread(seen.release[rows], place)
    op_of_place = np.zeros(len(arrived), np.int64)
    op_of_place[place] = seen.op[rows]
    n = int(seen.op.max()) + 1
    arrived_in_all, released_in_all = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(arrived_in_all, op_of_place, arrived)
    np.add.at(released_in_all, op_of_place, released)
    _, first = np.unique(row_codes(seen.op, seen.group), return_index=True)
    several = np.bincount(seen.op[first], minlength=n) > 1
    together = several & (arrived_in_all > 0) & (released_in_all * JOINT_RATIO <= arrived_in_all)
    joint[rows] = together[seen.op[rows]]
    return joint


def _spread(values: I64, place: npt.NDArray[Any]) -> I64:
    """For each place the distance between the smallest and the largest value."""
    n = int(place.max()) + 1
    low, high = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    return high - low


def _by_team(team: I64) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The rows that are in a team, team after team, and where each team begins among them."""
    rows = np.flatnonzero(team >= 0)
    rows = rows[np.argsort(team[rows], kind="stable")]
    if not len(rows):
        return rows, rows
    return rows, np.flatnonzero(np.concatenate([[True], np.diff(team[rows]) != 0]))


def _reasons(
    seen: Occurrences,
    team: I64,
    component: I64,
    rows: npt.NDArray[np.intp],
    first: npt.NDArray[np.intp],
    slack: int,
) -> npt.NDArray[np.int64]:
    """For each row why nothing can be said, -1 where it can."""
    reason = np.full(len(seen), -1, np.int64)
    reason[team < 0] = _GROUPS
    reason[np.isin(seen.form, _HALVES)] = _HALF
    if not len(rows):
        return reason
    sizes = np.diff(np.append(first, len(rows)))
    # All members are inside a collective at once: else these are different ones.
    latest, soonest = np.maximum.reduceat(seen.arrival[rows], first), np.minimum.reduceat(seen.end[rows], first)
    reason[rows[np.repeat(latest > soonest + slack, sizes)]] = _MATCH
    clocks = np.maximum.reduceat(component[rows], first) != np.minimum.reduceat(component[rows], first)
    reason[rows[np.repeat(clocks, sizes)]] = _CLOCK
    return reason


def _latest(arrival: I64, team: I64) -> tuple[I64, I64, I64]:
    """For each row the latest arrival of its team, the latest of the others in it, and how many they are."""
    latest, others, count = arrival.copy(), arrival.copy(), np.zeros(len(arrival), np.int64)
    rows = np.flatnonzero(team >= 0)
    if not len(rows):
        return latest, others, count
    rows = rows[np.lexsort((arrival[rows], team[rows]))]
    first = np.flatnonzero(np.concatenate([[True], np.diff(team[rows]) != 0]))
    sizes = np.diff(np.append(first, len(rows)))
    last = first + sizes - 1
    top = arrival[rows[last]]
    second = np.where(sizes > 1, arrival[rows[np.maximum(last - 1, first)]], top)
    latest[rows] = np.repeat(top, sizes)
    others[rows] = np.repeat(top, sizes)
    others[rows[last]] = second
    count[rows] = np.repeat(sizes, sizes)
    return latest, others, count


def _rendezvous(cores: Sequence[CoreLike], seen: Occurrences) -> tuple[BOOL, I64]:
    """Which rows have a rendezvous inside, on the thread that ran them, and for how long."""
    length = np.zeros(len(seen), np.int64)
    for at, core in enumerate(cores):
        inside = core.record.rendezvous
        rows = np.flatnonzero((seen.core == at) & (seen.row >= 0))
        if inside is None or not len(inside) or not len(rows):
            continue
        lane = core.record.ops.lane[seen.row[rows]]
        for number in ints(np.unique(lane)):
            mine = rows[lane == number]
            here = inside.lane == number
            waits = union(Spans(inside.start[here], inside.end[here]))
            length[mine] = overlap(Spans(seen.start[mine], seen.end[mine]), waits)
    return length > 0, length


def _split(waits: CoreWaits, sizes: Sequence[int]) -> list[CoreWaits]:
    bounds = np.cumsum([0, *sizes])
    return [
        CoreWaits(
            waits.arrival[a:b],
            waits.wait[a:b],
            waits.transfer[a:b],
            waits.late[a:b],
            waits.lower_bound[a:b],
            waits.reason[a:b],
            waits.compared[a:b],
        )
        for a, b in pairwise(ints(bounds))
    ]
