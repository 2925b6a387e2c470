"""What makes two runs alike: fingerprints of the program and of the hardware.

A series must go on across compilers and commits, or it would end exactly where something changes. So the program's
fingerprint is what the user hands to the compiler: the main function, the shapes of its inputs and results, the
number of partitions. How the compiler solved it is ``structure``, a second fingerprint that only tells when the
compiled program changed. Neither depends on how instructions are numbered or ordered.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.hlo import HloModule, Instruction
from tpuprof.hlo.shapes import Shape
from tpuprof.tables.programs import split_module_name

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

PREDICTED = "predicted"
"""The key of the sidecar that marks a run as simulated: it is never like a measured one."""

_NUMBERS = re.compile(r"(?:\.\d+|\.(?:clone|remat)\d*)+\Z")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A fingerprint.

    Args:
        value: what is compared; null if the run does not say enough, then it is like no other.
        source: what it rests on.
        text: what went into it, for people.
    """

    value: str | None
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class ProgramFingerprint:
    """The main program: its function's name, its fingerprint, and that of its compiled form (null without HLO)."""

    name: str | None
    fingerprint: Fingerprint
    structure: str | None


def program_fingerprint(trace: Trace, declared: str | None = None) -> ProgramFingerprint:
    """The fingerprint of the program with the most device time.

    Args:
        trace: the run.
        declared: a name that the user gives the program; runs with the same one are alike whatever they ran.
    """
    labels = _main_program(trace)
    name = split_module_name(labels[0])[0] if labels else None
    module = next((found for found in map(trace.programs.find, *_ids(labels)) if found is not None), None)
    structure = None if module is None else structure_of(module)
    if declared is not None:
        return ProgramFingerprint(name, Fingerprint(_hash("declared", declared), "declared", declared), structure)
    if module is not None:
        text = signature_of(module)
        return ProgramFingerprint(name, Fingerprint(_hash("hlo", text), "hlo", text), structure)
    rows = _op_rows(trace, labels)
    if not rows:
        return ProgramFingerprint(name, Fingerprint(None, "none", "no device op was recorded"), None)
    text = f"{plain_name(name or '')}, {len(rows)} ops"
    return ProgramFingerprint(name, Fingerprint(_hash("ops", plain_name(name or ""), *rows), "ops", text), None)


def hardware_fingerprint(trace: Trace, declared: str | None = None) -> Fingerprint:
    """The fingerprint of the devices: how many of which kind on how many hosts.

    Where a trace does not name the kind, and for CPUs, whose kind says nothing, runs are only alike on hosts of the
    same names; a name that the user declares takes the place of the hosts' names.
    """
    devices = trace.devices
    if not devices:
        return Fingerprint(None, "none", "no device op was recorded")
    kinds = Counter((device.platform, device.kind or "unknown kind") for device in devices)
    hosts = sorted({device.host for device in devices})
    counted = [f"{count} × {kind}" for (_, kind), count in sorted(kinds.items())]
    parts = [*counted, f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}"]
    if trace.metadata.get(PREDICTED):
        parts.append("predicted")
    nameless = any(device.kind is None or device.platform == "cpu" for device in devices)
    if declared is not None:
        parts.append(declared)
    elif nameless:
        parts.append(", ".join(hosts))
    source = "declared" if declared is not None else "hosts" if nameless else "devices"
    # Runtimes have spelled the same kind "TPU v5 lite" and "TPU v5 Lite".
    return Fingerprint(_hash("hardware", *(part.casefold() for part in parts)), source, ", ".join(parts))


def signature_of(module: HloModule) -> str:
    """What the program is from outside: name, shapes of inputs and results without layouts, partitions, replicas.

    Inputs are counted, not listed in order: how a framework numbers them says nothing.
    """
    inputs = Counter(_plain(parameter.shape) for parameter in module.entry.parameters)
    results = Counter(_plain(leaf) for leaf in module.entry.root.shape.leaves())
    return (
        f"{plain_name(module.name)}({_counted(inputs)}) -> {_counted(results)}, "
        f"{module.num_partitions} partitions, {module.replica_count} replicas"
    )


def structure_of(module: HloModule) -> str:
    """The fingerprint of the compiled program: what its computations hold and call, without names, ids and order."""
    hashes: dict[str, str] = {}
    for computation in module.reachable:  # callees come first
        lines = sorted(_line(module, computation.operands(op), op, hashes) for op in computation.instructions)
        hashes[computation.name] = _hash(*lines)
    return hashes[module.entry_name]


def plain_name(name: str) -> str:
    """A name without the numbers that compilers append: ``fusion.12`` is ``fusion``."""
    return _NUMBERS.sub("", name) or name


def _line(module: HloModule, operands: Iterable[Instruction], op: Instruction, hashes: dict[str, str]) -> str:
    called = sorted(f"{role}={hashes.get(name, '')}" for role, name in op.called)
    inputs = [f"{operand.opcode}:{_plain(operand.shape)}" for operand in operands]
    groups = op.attributes.get("replica_groups", "") or op.attributes.get("source_target_pairs", "")
    parts = [op.opcode, _plain(op.shape), *inputs, *called, op.custom_call_target or "", groups]
    if op.name == module.entry.root_name:
        parts.append("root")
    return "|".join(parts)


def _main_program(trace: Trace) -> list[str]:
    """The labels of the function with the most device time, the longest-running program of it first."""
    table: Any = trace.modules if len(trace.modules) else trace.ops
    column = "duration_ps"
    if not len(table):
        return []
    sums: pd.Series[Any] = table.groupby("module", observed=True)[column].sum()
    times = {str(label): int(ps) for label, ps in sums.items()}
    by_name: dict[str, int] = {}
    for label, ps in times.items():
        name = split_module_name(label)[0]
        by_name[name] = by_name.get(name, 0) + ps
    if not by_name:
        return []
    main = max(by_name, key=lambda name: (by_name[name], name))
    mine = [label for label in times if split_module_name(label)[0] == main]
    return sorted(mine, key=lambda label: (-times[label], label))


def _ids(labels: list[str]) -> tuple[list[int | None], list[str]]:
    pairs = [split_module_name(label) for label in labels]
    return [number for _, number in pairs], [name for name, _ in pairs]


def _op_rows(trace: Trace, labels: list[str]) -> list[str]:
    """The different ops of the main program by number-free name, kind and scope, with how many there are."""
    stats = trace.op_stats(by="op")
    chosen: Any = stats[stats["module"].isin(labels)] if labels else stats
    columns = (chosen[name].tolist() for name in ("name", "kind", "scope"))
    rows = Counter(f"{plain_name(str(op))}|{kind}|{scope}" for op, kind, scope in zip(*columns, strict=True))
    return sorted(f"{count}|{row}" for row, count in rows.items())


def _plain(shape: Shape) -> str:
    if shape.tuple_shapes:
        return "(" + ",".join(_plain(part) for part in shape.tuple_shapes) + ")"
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"


def _counted(shapes: Counter[str]) -> str:
    return ", ".join(shape if count == 1 else f"{count} × {shape}" for shape, count in sorted(shapes.items()))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
