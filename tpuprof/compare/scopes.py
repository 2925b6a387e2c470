"""Views of an explanation: by the tree of scopes, by kind, by source line. Each sums to the same difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpuprof.compare.explanation import Explanation
from tpuprof.compare.rows import Row
from tpuprof.tables.scopes import NO_SCOPE

DOMINANT = 0.9
"""A scope of which one child has this share of all changes is told as that child."""

NO_SOURCE = "(no source)"


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """A part of the difference; mean ps per step, new minus base.

    Args:
        name: a scope path, a kind or a source line.
        base_ps: the time in the base.
        new_ps: the time in the new run.
        delta_ps: the difference.
        gross_ps: the sum of the absolute differences of its rows: larger than the difference where they cancel.
        rows: the rows that changed, the largest first.
        children: of a scope what is in it, likewise; empty for the others.
    """

    name: str
    base_ps: float
    new_ps: float
    delta_ps: float
    gross_ps: float
    rows: tuple[Row, ...] = ()
    children: tuple[Delta, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The difference as JSON data, children included."""
        return {
            "name": self.name,
            "base_ps": self.base_ps,
            "new_ps": self.new_ps,
            "delta_ps": self.delta_ps,
            "gross_ps": self.gross_ps,
            "children": [child.to_json() for child in self.children],
        }


def by_scope(rows: Iterable[Row]) -> tuple[Delta, ...]:
    """The changes at the lowest scopes that hold them, the largest first.

    A change of one op stands at that op; changes of several ops of ``layers/attn`` are one entry ``layers/attn``,
    with the ops as its children. Scopes without any change are left out; waits for peers and idle time are entries of
    their own, ops without a scope together are one.
    """
    root = _Node("")
    for row in rows:
        root.add(_path(row), row)
    root.finish()
    return _ordered([delta for child in root.children.values() for delta in _regions(child)])


def by_kind(explanation: Explanation) -> tuple[Delta, ...]:
    """The changes by part of the step, the largest first; parts that neither side has are left out."""
    found: list[Delta] = []
    for part, (old, fresh) in explanation.parts.items():
        if old or fresh:
            kind = "collective" if part == "collective_exposed" else part
            rows = tuple(row for row in explanation.changed if row.kind == kind)
            found.append(Delta(part, old, fresh, fresh - old, sum(abs(row.delta_ps) for row in rows), rows))
    return _ordered(found)


def by_source(rows: Iterable[Row]) -> tuple[Delta, ...]:
    """The changes by source line (of the new run, for what is gone of the base), the largest first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        name = row.source or (NO_SOURCE if row.count_base is not None else _waiting(row))
        found.setdefault(name, []).append(row)
    return _ordered([_sum(name, of_line) for name, of_line in found.items()])


@dataclass(slots=True)
class _Node:
    """A scope, while the tree is built."""

    path: str
    own: list[Row] = field(default_factory=list[Row])
    children: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    every: list[Row] = field(default_factory=list[Row])
    gross: float = 0.0

    def add(self, names: Sequence[str], row: Row) -> None:
        node = self
        node.every.append(row)
        for name in names:
            path = f"{node.path}/{name}" if node.path else name
            node = node.children.setdefault(name, _Node(path))
            node.every.append(row)
        node.own.append(row)

    def finish(self) -> None:
        self.gross = sum(abs(row.delta_ps) for row in self.every)
        for child in self.children.values():
            child.finish()


def _regions(node: _Node) -> list[Delta]:
    """The lowest scopes that hold the changes below a scope."""
    if not node.gross:
        return []
    if not node.children:
        return [_sum(node.path, node.every)]
    largest = max(node.children.values(), key=lambda child: (child.gross, child.path))
    inner = [delta for child in node.children.values() for delta in _regions(child)]
    if any(row.delta for row in node.own):
        inner.append(_sum(node.path, node.own))
    if largest.gross >= DOMINANT * node.gross:
        return inner
    return [_sum(node.path, node.every, _ordered(inner))]


def _sum(name: str, rows: Sequence[Row], children: tuple[Delta, ...] = ()) -> Delta:
    changed = sorted((row for row in rows if row.change != "same"), key=lambda row: -abs(row.delta))
    return Delta(
        name=name,
        base_ps=sum(row.base_ps for row in rows),
        new_ps=sum(row.new_ps for row in rows),
        delta_ps=float(sum(row.delta for row in rows)),
        gross_ps=sum(abs(row.delta_ps) for row in rows),
        rows=tuple(changed),
        children=children,
    )


def _ordered(deltas: Sequence[Delta]) -> tuple[Delta, ...]:
    return tuple(sorted(deltas, key=lambda delta: (-abs(delta.delta_ps), -delta.gross_ps, delta.name)))


def _path(row: Row) -> list[str]:
    if row.count_base is None:
        return [_waiting(row)]
    return row.scope.split("/") if row.scope else [NO_SCOPE]


def _waiting(row: Row) -> str:
    return f"({row.group})"
