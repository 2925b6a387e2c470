"""Compiled search for events that share their metadata."""

from __future__ import annotations

import numpy as np

from tpuprof.formats.trace_json_values import kernel
from tpuprof.formats.xspace import I32, I64, U8

_SEED, _HIGH = np.uint64(0xCBF29CE484222325), np.uint64(32)
_PRIME2, _PRIME3, _PRIME4 = (np.uint64(pow(0x100000001B3, power, 1 << 64)) for power in (2, 3, 4))


@kernel
def _same_facts(one: int, two: int, ptr: I64, key: I32, kind: U8, bits: I64, is_fact: U8) -> bool:
    i, j = ptr[one], ptr[two]
    while True:
        while i < ptr[one + 1] and not is_fact[key[i]]:
            i += 1
        while j < ptr[two + 1] and not is_fact[key[j]]:
            j += 1
        if i == ptr[one + 1] or j == ptr[two + 1]:
            return i == ptr[one + 1] and j == ptr[two + 1]
        if key[i] != key[j] or kind[i] != kind[j] or bits[i] != bits[j]:
            return False
        i += 1
        j += 1


@kernel
def group_events(
    name: I32, ptr: I64, key: I32, kind: U8, bits: I64, is_op: U8, is_fact: U8, slots: I32
) -> tuple[I32, I32]:
    """Which events share one metadata: (group of each event, first event of each group).

    Events belong together if the names agree and, for op rows, all facts about the op. ``is_fact`` says so
    for every token, ``is_op`` for every event. ``slots`` is an empty hash table: -1s, a power of two, more
    than events.
    """
    mask = len(slots) - 1
    group = np.empty(len(name), np.int32)
    first = np.empty(len(name), np.int32)
    n_groups = 0
    for event in range(len(name)):
        h = _SEED + np.uint64(name[event] + 1)
        if is_op[event]:
            for row in range(ptr[event], ptr[event + 1]):
                if is_fact[key[row]]:
                    h = h * _PRIME3 + np.uint64(key[row]) * _PRIME2 + np.uint64(kind[row])
                    h = h * _PRIME3 + np.uint64(bits[row])
        h = (h ^ (h >> _HIGH)) * _PRIME4
        slot = np.int64(h ^ (h >> _HIGH)) & mask
        while True:
            found = slots[slot]
            if found < 0:
                found = n_groups
                slots[slot], first[found] = found, event
                n_groups += 1
                break
            other = int(first[found])
            if (
                name[other] == name[event]
                and is_op[other] == is_op[event]
                and (not is_op[event] or _same_facts(other, event, ptr, key, kind, bits, is_fact))
            ):
                break
            slot = (slot + 1) & mask
        group[event] = found
    return group, first[:n_groups].copy()
