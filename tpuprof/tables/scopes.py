"""The tree of name scopes: where the time goes in the program's own words.

A scope path, such as ``jit(step)/jit(main)/transpose(jvp(layer))/while/body/attn/dot_general``, mixes the names that
the program gives with marks of what JAX did to it. The names make the tree (``layer/attn/dot_general``); the marks
become attributes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tpuprof.formats.xspace import I64
from tpuprof.tables.schemas import OP_KINDS, SCOPES

NO_SCOPE = "(no scope)"
SCOPE_KINDS = tuple(kind for kind in OP_KINDS if kind != "container")
MAX_DEPTH = 64  # deeper paths keep their first names; the rest stays in one name

_CALL = re.compile(r"(?P<mark>[A-Za-z_]\w*)\((?P<inner>.*)\)\Z", re.DOTALL)
_TRANSFORMS = frozenset(
    {"jvp", "transpose", "vmap", "pmap", "linearize", "custom_jvp", "custom_vjp", "remat", "checkpoint", "named"}
)
_JIT = frozenset({"jit", "pjit", "xla_call", "core_call"})
# Marks without a name of their own; at the end of a path they are the operation itself.
_MARKS = frozenset(
    {
        "checkpoint",
        "remat",
        "remat2",
        "rematted_computation",
        "closed_call",
        "core_call",
        "core_closed_call",
        "shard_map",
    }
    | {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "xla_pmap", "pmap", "run_state"}
)
_LOOPS = {"while": ("body", "cond"), "scan": ("body",)}
_BRANCH = re.compile(r"branch_\d+_fun\Z")


@dataclass(frozen=True, slots=True)
class ScopePath:
    """A scope path taken apart.

    Args:
        names: the program's own names from the outside in, the operation last.
        marks: what JAX did, in order of first occurrence: ``jit``, ``jvp``, ``transpose``, ``while``, ``shard_map`` …
    """

    names: tuple[str, ...]
    marks: tuple[str, ...]


def split_scope(path: str) -> ScopePath:
    """The names and marks of a scope path.

    The outermost ``jit(f)`` and ``jit(main)`` are dropped, an inner ``jit(f)`` is the name ``f``; transforms leave what
    is in their parentheses, ``while/body`` and ``cond/branch_0_fun`` leave nothing. The last part is the operation
    and stays whatever it is called.
    """
    parts = _parts(path)
    names: list[str] = []
    marks: list[str] = []
    at = 0
    while at < len(parts):
        part, last = parts[at], at == len(parts) - 1
        following = parts[at + 1] if not last else ""
        at += 1
        if part in _LOOPS and following in _LOOPS[part] and at < len(parts) - 1:
            marks.append(part)
            at += 1
            continue
        if part == "cond" and _BRANCH.match(following) and at < len(parts) - 1:
            marks.append(part)
            at += 1
            continue
        if part in _MARKS and not last:
            marks.append(part)
            continue
        name = _unwrapped(part, marks, outermost=at == 1 and not last)
        if name:
            names.extend(_parts(name))
    if not names and parts:
        names = [parts[-1]]
    if len(names) > MAX_DEPTH:
        names[MAX_DEPTH - 1 :] = ["/".join(names[MAX_DEPTH - 1 :])]
    return ScopePath(tuple(names), tuple(dict.fromkeys(marks)))


def scope_path(scope: str | None) -> str:
    """Where a scope path of an op stands in the tree: its names, joined by slashes; ``(no scope)`` without one."""
    return "/".join(split_scope(scope).names) or NO_SCOPE if scope else NO_SCOPE


def in_scope(path: str, scope: str) -> bool:
    """True if a path of the tree is this scope or lies in it; the scope may be given as ops have it, with marks."""
    return any(path == wanted or path.startswith(f"{wanted}/") for wanted in (scope, scope_path(scope)))


def scope_tree(ops: pd.DataFrame, steps: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table ``scopes``: one row per scope, depth first, the largest total time first among siblings.

    The first row is the whole, with the path ``""``; without ops there is no row. A scope's ``self_ps`` plus the
    ``total_ps`` of its children is its ``total_ps``, exactly; so are the times by kind. Times are self times of ops,
    so that nothing counts twice.

    Args:
        ops: table ``ops``.
        steps: table ``steps`` of the same cores; gives the share of a step, which is null without it.
    """
    if not len(ops):
        return SCOPES.empty()
    codes = ops["scope"].cat.codes.to_numpy()
    categories: list[str] = [str(name) for name in ops["scope"].cat.categories]
    nodes = _Nodes()
    leaf_of = np.empty(len(categories) + 1, np.int64)
    backward = np.zeros(len(categories) + 1, np.bool_)
    recomputed = np.zeros(len(categories) + 1, np.bool_)
    marks_of: list[tuple[str, ...]] = []
    used = set(np.unique(codes).tolist())
    for row, text in enumerate(categories):
        if row not in used:
            leaf_of[row] = 0
            marks_of.append(())
            continue
        split = split_scope(text)
        leaf_of[row] = nodes.add(split.names or (NO_SCOPE,))
        backward[row], recomputed[row] = "transpose" in split.marks, "rematted_computation" in split.marks
        marks_of.append(split.marks)
    leaf_of[-1] = nodes.add((NO_SCOPE,)) if -1 in used else 0
    marks_of.append(())

    leaf = leaf_of[codes]
    own = ops["self_ps"].array.to_numpy(np.int64, na_value=0)
    kind = ops["kind"].cat.codes.to_numpy()
    kind_names = [str(name) for name in ops["kind"].cat.categories]
    n = len(nodes.parent)
    columns: dict[str, I64] = {"self_ps": _sums(leaf, own, n), "total_ps": _sums(leaf, own, n)}
    columns["occurrences"] = np.bincount(leaf, minlength=n).astype(np.int64)
    columns["backward_ps"] = _sums(leaf, np.where(backward[codes], own, 0), n)
    columns["recomputed_ps"] = _sums(leaf, np.where(recomputed[codes], own, 0), n)
    for name in SCOPE_KINDS:
        mine = kind == kind_names.index(name) if name in kind_names else np.zeros(len(kind), np.bool_)
        columns[f"{name}_ps"] = _sums(leaf, np.where(mine, own, 0), n)
    in_step = ops["step"].notna().to_numpy()
    inside = _sums(leaf, np.where(in_step, own, 0), n)
    marks = _marks(leaf_of, marks_of, used, nodes)
    for node in range(n - 1, 0, -1):  # children have larger numbers than their parents
        above = nodes.parent[node]
        for name, column in columns.items():
            if name != "self_ps":
                column[above] += column[node]
        inside[above] += inside[node]
        marks[above].update(marks[node])
    order = _depth_first(nodes, columns["total_ps"])
    window = int(steps["duration_ps"].sum()) if steps is not None else 0
    cores = int(ops["device"].nunique())
    return SCOPES.check(_frame(nodes, columns, inside, marks, order, window, cores))


class _Nodes:
    """The tree under construction; node 0 is the whole."""

    def __init__(self) -> None:
        self.name: list[str] = [""]
        self.parent: list[int] = [-1]
        self.depth: list[int] = [0]
        self._child: dict[tuple[int, str], int] = {}

    def add(self, names: Sequence[str]) -> int:
        node = 0
        for name in names:
            found = self._child.get((node, name))
            if found is None:
                found = self._child[node, name] = len(self.name)
                self.name.append(name)
                self.parent.append(node)
                self.depth.append(self.depth[node] + 1)
            node = found
        return node

    def paths(self) -> list[str]:
        found = [""]
        for node in range(1, len(self.name)):
            above = found[self.parent[node]]
            found.append(f"{above}/{self.name[node]}" if above else self.name[node])
        return found


def _frame(
    nodes: _Nodes,
    columns: dict[str, I64],
    inside: I64,
    marks: Sequence[dict[str, None]],
    order: I64,
    window: int,
    cores: int,
) -> pd.DataFrame:
    paths = nodes.paths()
    parents = [None if above < 0 else paths[above] for above in nodes.parent]
    rows: list[int] = order.tolist()
    data: dict[str, Any] = {
        "path": [paths[row] for row in rows],
        "parent": pd.array([parents[row] for row in rows], dtype="str"),
        "depth": np.array(nodes.depth, np.int32)[order],
        "name": [nodes.name[row] for row in rows],
        "marks": pd.array([",".join(marks[row]) or None for row in rows], dtype="str"),
        **{name: column[order] for name, column in columns.items()},
        "occurrences_per_core": columns["occurrences"][order] / max(cores, 1),
        "step_fraction": inside[order] / window if window else np.full(len(rows), np.nan),
    }
    return pd.DataFrame(data).astype({column.name: column.pandas_dtype for column in SCOPES})[list(SCOPES.names)]


def _depth_first(nodes: _Nodes, total: I64) -> I64:
    children: list[list[int]] = [[] for _ in nodes.parent]
    for node in range(1, len(nodes.parent)):
        children[nodes.parent[node]].append(node)
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(sorted(children[node], key=lambda child: (-int(total[child]), nodes.name[child]), reverse=True))
    return np.array(order, np.int64)


def _marks(leaf_of: I64, marks_of: Sequence[tuple[str, ...]], used: set[int], nodes: _Nodes) -> list[dict[str, None]]:
    found: list[dict[str, None]] = [{} for _ in nodes.parent]
    for row, marks in enumerate(marks_of):
        if row in used:
            found[int(leaf_of[row])].update(dict.fromkeys(marks))
    return found


def _sums(group: np.ndarray[Any, Any], values: np.ndarray[Any, Any], n: int) -> I64:
    """Exact integer sums by group."""
    result = np.zeros(n, np.int64)
    np.add.at(result, group, values)
    return result


def _unwrapped(part: str, marks: list[str], *, outermost: bool) -> str:
    """What is left of one part when its transforms are taken off; their names go to ``marks``."""
    while True:
        call = _CALL.match(part)
        if call is None:
            return part
        if call["mark"] in _JIT:
            marks.append(call["mark"])
            return "" if outermost or call["inner"] == "main" else call["inner"]
        if call["mark"] not in _TRANSFORMS:
            return part
        marks.append(call["mark"])
        part = call["inner"]


def _parts(path: str) -> list[str]:
    """The parts between slashes outside parentheses."""
    parts: list[str] = []
    depth = begin = 0
    for at, character in enumerate(path):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(depth - 1, 0)
        elif character == "/" and not depth:
            parts.append(path[begin:at])
            begin = at + 1
    parts.append(path[begin:])
    return [part for part in parts if part]
