"""How alike two ops are that have no key in common, and which of them to pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tpuprof.compare.side import Item
from tpuprof.compare.signature import COMBINED, Signature, dtype_and_rank

THRESHOLD = 0.55
"""Ops less alike than this stay apart: what is new shall not be told as a change of something unrelated."""

MOST_PER_BUCKET = 16
"""Of the ops that share a scope, a name or shapes, so many of each side, the longest, are compared with each other."""

_WEIGHTS = {"kind": 0.15, "opcode": 0.15, "name": 0.15, "scope": 0.35, "shapes": 0.2}
_NEAR_SCOPE = 0.5
_COMBINED_NEAR = 0.9
_Pools = Mapping[Signature, Sequence[Item]]


def similar_pairs(base: _Pools, new: _Pools) -> Iterator[tuple[Signature, Signature]]:
    """Pairs of signatures that are alike enough, the most alike and then the longest first.

    The order does not depend on which side is which. A signature may come several times.
    """
    shares = _shares(base), _shares(new)
    ours, theirs = _buckets(base, shares[0]), _buckets(new, shares[1])
    found: dict[tuple[Signature, Signature], float] = {}
    for key, mine in ours.items():
        for one in mine:
            for other in theirs.get(key, ()):
                if (one, other) not in found:
                    found[one, other] = similarity(one, other)
    alike = [(pair, score) for pair, score in found.items() if score >= THRESHOLD]
    alike.sort(
        key=lambda entry: (
            -round(entry[1] * 20),
            -min(shares[0][entry[0][0]], shares[1][entry[0][1]]),
            sorted((entry[0][0].sorting, entry[0][1].sorting)),
        )
    )
    return (pair for pair, _ in alike)


def similarity(one: Signature, other: Signature) -> float:
    """From 0 to 1 how alike two ops are by kind, opcode, name, scope and shapes; what one side lacks does not count.

    Ops that do different things in a step (compute, collective, transfer) are not alike at all; neither are ops of
    different scopes, unless they have one name and make the same, nor ops without scopes that make different things.
    """
    if one.role != other.role:
        return 0.0
    parts = {"kind": float(one.kind == other.kind), "opcode": float(one.opcode == other.opcode)}
    if one.name != one.opcode or other.name != other.opcode:  # "fusion" is no name
        parts["name"] = _overlap(set(one.name.split("_")), set(other.name.split("_")))
    scope = _scope_similarity(one, other)
    shapes = _shape_similarity(one, other)
    if scope is not None:
        parts["scope"] = scope
    if shapes is not None:
        parts["shapes"] = shapes
    named = one.name == other.name != one.opcode  # all fusions of one size are alike but for their place
    if scope is not None and scope < _NEAR_SCOPE and not (named and shapes == 1.0):
        return 0.0
    if scope is None and not shapes and one.name != other.name:
        return 0.0
    return sum(_WEIGHTS[name] * value for name, value in parts.items()) / sum(_WEIGHTS[name] for name in parts)


def _scope_similarity(one: Signature, other: Signature) -> float | None:
    if one.scope is None or other.scope is None:
        return None
    if one.operation == COMBINED == other.operation:
        # The scope of a combined op is what most of its parts have in common: one part more or less moves it.
        shorter, longer = sorted((one.place, other.place), key=len)
        alike = 1.0 if longer == shorter else _COMBINED_NEAR if longer[: len(shorter)] == shorter else 0.0
        return alike if one.marks == other.marks else 0.5 * alike
    common = 0
    for a, b in zip(one.scope, other.scope, strict=False):
        if a != b:
            break
        common += 1
    alike = 2 * common / (len(one.scope) + len(other.scope)) if one.scope or other.scope else 1.0
    return alike if one.marks == other.marks else 0.5 * alike


def _shape_similarity(one: Signature, other: Signature) -> float | None:
    if one.shapes is None or other.shapes is None:
        return None
    if one.shapes == other.shapes:
        return 1.0
    same = _overlap(set(one.shapes), set(other.shapes))
    forms = _overlap(set(map(dtype_and_rank, one.shapes)), set(map(dtype_and_rank, other.shapes)))
    return max(min(same, 0.95), 0.5 * forms)


def _overlap(one: set[object] | set[str], other: set[object] | set[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


def _shares(pools: _Pools) -> dict[Signature, float]:
    times = {signature: sum(item.ps for item in items) for signature, items in pools.items()}
    total = sum(times.values()) or 1
    return {signature: ps / total for signature, ps in times.items()}


def _buckets(pools: _Pools, shares: Mapping[Signature, float]) -> dict[tuple[object, ...], list[Signature]]:
    """Signatures by what they may have in common, the longest first and not too many."""
    buckets: dict[tuple[object, ...], list[Signature]] = {}
    for signature in sorted(pools, key=lambda each: (-shares[each], each.sorting)):
        keys: list[tuple[object, ...]] = [("name", signature.role, signature.name)]
        if signature.scope:
            keys += [("scope", signature.role, signature.scope), ("place", signature.role, signature.place)]
        if signature.shapes:
            keys.append(("shapes", signature.role, signature.shapes))
        for key in keys:
            bucket = buckets.setdefault(key, [])
            if len(bucket) < MOST_PER_BUCKET:
                bucket.append(signature)
    return buckets
