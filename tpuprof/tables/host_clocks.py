"""The clocks of several hosts, aligned by the collectives that span them: all participants leave one together.

The offset of a host's clock is the median over collectives of the differences of their ends; the spread of what
remains is the uncertainty. Hosts that share no collective have no common time axis, and nothing is compared across.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64
from tpuprof.quality import Quality
from tpuprof.tables.arrays import row_codes
from tpuprof.tables.occurrences import CoreLike, Occurrences
from tpuprof.tables.windows import FORMS
from tpuprof.units import format_ps

RESIDUAL_QUANTILE = 0.9
_TOLD = 4  # hosts that a message names
_SYNC = FORMS.index("sync")
_HALVES = (FORMS.index("start_only"), FORMS.index("done_only"))


@dataclass(frozen=True, slots=True)
class HostClocks:
    """What is known of the clocks of the hosts with cores.

    Args:
        offset_ps: by host how far its clock is ahead of that of the first host of its component.
        residual_ps: by host the uncertainty of it: 90 % of the collectives agree with the offset within this.
        component: by host a number that hosts with a common clock share.
        quality: what to tell of it.
    """

    offset_ps: Mapping[str, int] = field(default_factory=dict[str, int])
    residual_ps: Mapping[str, int] = field(default_factory=dict[str, int])
    component: Mapping[str, int] = field(default_factory=dict[str, int])
    quality: tuple[Quality, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether all hosts have one time axis."""
        return len(set(self.component.values())) <= 1


@dataclass(frozen=True, slots=True)
class _Link:
    """How the clocks of two hosts compare."""

    offset_ps: int  # the second host's clock minus the first's
    residual_ps: int
    count: int
    sync: bool  # from synchronous collectives


def compare_hosts(cores: Sequence[CoreLike], seen: Occurrences) -> HostClocks:
    """Offsets between the clocks of the hosts, from the ends of collectives that span them."""
    hosts = list(dict.fromkeys(core.record.device.host for core in cores))
    if len(hosts) < 2:
        return HostClocks(dict.fromkeys(hosts, 0), dict.fromkeys(hosts, 0), dict.fromkeys(hosts, 0))
    host_of = np.array([hosts.index(core.record.device.host) for core in cores], np.int64)
    links = _links(host_of[seen.core], seen) if len(seen) else {}
    offset, residual, component, count = [0] * len(hosts), [0] * len(hosts), list(range(len(hosts))), [0] * len(hosts)
    for root in range(len(hosts)):
        if component[root] != root:
            continue
        # Hosts are added one by one, each by the surest link: synchronous, then with the most collectives.
        inside = {root}
        while True:
            ways = [(a, b) for a, b in links if (a in inside) != (b in inside)]
            if not ways:
                break
            a, b = max(ways, key=lambda way: _surety(way, links[way]))
            link = links[a, b]
            known, new, sign = (a, b, 1) if a in inside else (b, a, -1)
            offset[new] = offset[known] + sign * link.offset_ps
            residual[new] = max(residual[known], link.residual_ps)
            component[new], count[new] = root, link.count
            inside.add(new)
    named = dict(zip(hosts, component, strict=True))
    quality = [*_not_comparable(named), *_offsets(hosts, offset, residual, component, count)]
    return HostClocks(
        dict(zip(hosts, offset, strict=True)), dict(zip(hosts, residual, strict=True)), named, tuple(quality)
    )


def _surety(way: tuple[int, int], link: _Link) -> tuple[bool, int, int, int, int]:
    """What links between hosts are ranked by."""
    return link.sync, link.count, -link.residual_ps, -way[0], -way[1]


def _links(host: I64, seen: Occurrences) -> dict[tuple[int, int], _Link]:
    """Comparisons of hosts: within each collective every host with the first host that took part."""
    usable = (seen.key >= 0) & (seen.group >= 0) & ~np.isin(seen.form, _HALVES)
    rows = np.flatnonzero(usable)
    if not len(rows):
        return {}
    # The cores of a host leave together as well: one end per collective and host, their median.
    place, host_at, end, length, sync = _per_host(rows, host, seen)
    order = np.lexsort((host_at, place))
    place, host_at, end, length = (column[order] for column in (place, host_at, end, length))
    sync = sync[order]
    first = np.flatnonzero(np.concatenate([[True], np.diff(place) != 0]))
    hub = np.repeat(first, np.diff(np.append(first, len(place))))
    other = np.flatnonzero(np.arange(len(place)) != hub)
    difference = end[other] - end[hub[other]]
    pair = row_codes(host_at[hub[other]], host_at[other])
    links: dict[tuple[int, int], _Link] = {}
    for number in range(int(pair.max()) + 1 if len(pair) else 0):
        mine = np.flatnonzero(pair == number)
        # A done half can come long after the end of the transfer: a synchronous end is the surer sign.
        tight = mine[sync[other[mine]] & sync[hub[other[mine]]]]
        used = tight if len(tight) else mine
        link = _link(difference[used], length[other[used]], sync=bool(len(tight)))
        if link is not None:
            links[int(host_at[hub[other[mine[0]]]]), int(host_at[other[mine[0]]])] = link
    return links


def _per_host(
    rows: npt.NDArray[np.intp], host: I64, seen: Occurrences
) -> tuple[npt.NDArray[np.int64], I64, I64, I64, npt.NDArray[np.bool_]]:
    """(collective, host, median end, longest window, synchronous) per collective and host."""
    number = row_codes(seen.key[rows], seen.group[rows], host[rows])
    place = row_codes(seen.key[rows], seen.group[rows])
    order = np.lexsort((seen.end[rows], number))
    first = np.flatnonzero(np.concatenate([[True], np.diff(number[order]) != 0]))
    sizes = np.diff(np.append(first, len(order)))
    middle = rows[order[first + (sizes - 1) // 2]]
    length = np.maximum.reduceat((seen.end - seen.arrival)[rows[order]], first)
    sync = np.minimum.reduceat((seen.form[rows[order]] == _SYNC).astype(np.int8), first).astype(np.bool_)
    return place[order[first]], host[rows[order[first]]], seen.end[middle], length, sync


def _link(difference: I64, length: I64, *, sync: bool) -> _Link | None:
    """The median difference; none if what remains is as large as the collectives themselves."""
    offset = round(float(np.median(difference - difference[0]))) + int(difference[0])
    rest = np.abs(difference - offset)
    residual = int(np.quantile(rest, RESIDUAL_QUANTILE, method="higher"))
    if residual > float(np.median(length)):
        return None
    return _Link(offset, residual, len(difference), sync)


def _not_comparable(component: Mapping[str, int]) -> list[Quality]:
    if len(set(component.values())) < 2:
        return []
    groups: dict[int, list[str]] = {}
    for host, number in component.items():
        groups.setdefault(number, []).append(host)
    return [
        Quality(
            "clocks_not_comparable",
            "warning",
            f"The clocks of {len(component)} hosts cannot be compared: no collectives span them whose ends agree. "
            "Results of each host stand; times across hosts are null.",
            len(component),
            {"hosts": list(component), "comparable": [names for names in groups.values() if len(names) > 1]},
        )
    ]


def _offsets(
    hosts: Sequence[str],
    offset: Sequence[int],
    residual: Sequence[int],
    component: Sequence[int],
    count: Sequence[int],
) -> list[Quality]:
    """One entry for each group of hosts whose clocks were found to differ."""
    entries: list[Quality] = []
    for root in dict.fromkeys(component):
        moved = [at for at in range(len(hosts)) if component[at] == root and (offset[at] or residual[at])]
        if not moved:
            continue
        told = [
            f"{hosts[at]} {format_ps(abs(offset[at]))} {'ahead' if offset[at] >= 0 else 'behind'} "
            f"(within {format_ps(residual[at])}, from {count[at]} collectives)"
            for at in moved[:_TOLD]
        ]
        entries.append(
            Quality(
                "host_clock_offset",
                "info",
                f"By the ends of collectives that span hosts, clocks differ from that of {hosts[root]}: "
                f"{', '.join(told)}{' …' if len(moved) > _TOLD else ''}. Times are moved to {hosts[root]}'s clock.",
                len(moved),
                {
                    "reference": hosts[root],
                    "offset_ps": {hosts[at]: offset[at] for at in moved},
                    "residual_ps": {hosts[at]: residual[at] for at in moved},
                    "collectives": {hosts[at]: count[at] for at in moved},
                },
            )
        )
    return entries
