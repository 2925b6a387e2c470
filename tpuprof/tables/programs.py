"""The programs (HLO modules) of a run, parsed when they are first looked at.

A trace holds the HLO of every program that was compiled in the process, often dozens that never ran while it was
recorded. Only those that ops refer to are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tpuprof.errors import HloError
from tpuprof.formats.xspace import EventMeta, Space
from tpuprof.hlo import HloModule, parse_proto
from tpuprof.quality import Quality

MASK64 = (1 << 64) - 1
LIKE_SHARE = 0.5  # a dump that holds fewer of the ops that ran is of another program
_MODULE_NAME = re.compile(r"(?P<name>.*?)\((?P<id>-?\d{1,20})\)\Z", re.DOTALL)


class Programs(Mapping[int, HloModule]):
    """HLO modules by program id modulo 2^64; parsing is lazy and happens once."""

    def __init__(self, raw: Mapping[int, bytes], loaded: Iterable[HloModule] = ()) -> None:
        self._raw = dict(raw)
        self._loaded: dict[int, HloModule | None] = {}
        self._by_name: dict[str, list[HloModule]] = {}
        self._damaged: set[int | None] = set()
        self._joined = False  # whether a module from outside was found by anybody
        self.quality: list[Quality] = []
        for module in loaded:
            self._by_name.setdefault(module.name, []).append(module)

    def __getitem__(self, program_id: int) -> HloModule:
        found = self.find(program_id)
        if found is None:
            raise KeyError(program_id)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def find(self, program_id: int | None, name: str | None = None) -> HloModule | None:
        """The module of a program id; else one from outside with this name, if there is exactly one."""
        if program_id is not None:
            key = program_id & MASK64
            if key in self._raw:
                if key not in self._loaded:
                    self._loaded[key] = self._parse(key)
                if self._loaded[key] is not None:
                    return self._loaded[key]
        named = self._by_name.get(name or "", [])
        exact = [module for module in named if program_id is not None and module.id == program_id & MASK64]
        found = exact[0] if exact else named[0] if len(named) == 1 else None
        self._joined = self._joined or found is not None
        return found

    def refuse_unlike(self, ops: Iterable[tuple[int | None, str | None, str]]) -> None:
        """Drops modules from outside that are of another program than the one of their name that ran.

        Args:
            ops: program id, program name and op name of every op.
        """
        ran: dict[str, set[str]] = {}
        for program_id, name, op in ops:
            if name in self._by_name and (program_id is None or program_id & MASK64 not in self._raw):
                ran.setdefault(name, set()).add(op)
        for name, names in ran.items():
            for module in list(self._by_name[name]):
                known = sum(module.find(op) is not None for op in names)
                if known >= LIKE_SHARE * len(names):
                    continue
                self._by_name[name].remove(module)
                self.quality.append(
                    Quality(
                        "hlo_mismatch",
                        "warning",
                        f"The HLO given for {name} holds {known} of the {len(names)} ops that ran under that name: it "
                        "is of another compilation and was not used.",
                        len(names) - known,
                        {"module": name},
                    )
                )
            if not self._by_name[name]:
                del self._by_name[name]

    def not_joined(self) -> list[Quality]:
        """One entry if modules were given from outside and none fits a program that was looked for so far."""
        if self._joined or not self._by_name:
            return []
        return [
            Quality(
                "hlo_not_joined",
                "info",
                "The HLO given for missing programs was not used: the trace holds the HLO of what ran, or does not say "
                f"which ops belong to {', '.join(list(self._by_name)[:6])}{' …' if len(self._by_name) > 6 else ''}.",
                len(self._by_name),
                {"modules": list(self._by_name)[:100]},
            )
        ]

    def _parse(self, key: int) -> HloModule | None:
        try:
            return parse_proto(self._raw[key])
        except HloError as error:
            self.damaged(key, error, part=False)
            return None

    def damaged(self, program_id: int | None, error: HloError, *, part: bool) -> None:
        """Notes that the HLO of a program, or a part of it, cannot be read; of several errors the first is told."""
        if program_id in self._damaged:
            return
        self._damaged.add(program_id)
        what = "A part of the HLO" if part else "The HLO"
        whose = "a program" if program_id is None else f"program {program_id}"
        self.quality.append(
            Quality(
                "hlo_unreadable",
                "warning",
                f"{what} of {whose} cannot be read: {error}",
                1,
                {"program_id": program_id},
            )
        )


def embedded_programs(space: Space) -> dict[int, bytes]:
    """The serialised HLO in ``/host:metadata`` by program id, of the first entry where an id repeats."""
    raw: dict[int, bytes] = {}
    for plane in space.planes:
        if plane.name != "/host:metadata":
            continue
        for meta in plane.event_meta:
            for name, value in meta.stats.items():
                if isinstance(value, bytes) and name.lower().replace(" ", "_") == "hlo_proto":
                    raw.setdefault(_program_id(meta), value)
    return raw


def _program_id(meta: EventMeta) -> int:
    """The id by which ops refer to the program: stated, or in the name, else the entry's own id.

    TPU and GPU runtimes use the program id as the entry's id; the CPU runtime numbers entries as it likes.
    """
    stated = meta.stats.get("program_id")
    if isinstance(stated, int):
        return stated & MASK64
    _, named = split_module_name(meta.name)
    return meta.id & MASK64 if named is None else named


def split_module_name(text: str) -> tuple[str, int | None]:
    """``jit_f(123)`` as (``jit_f``, 123); ids are taken modulo 2^64."""
    match = _MODULE_NAME.match(text)
    if match is None:
        return text, None
    return match["name"], int(match["id"]) & MASK64
