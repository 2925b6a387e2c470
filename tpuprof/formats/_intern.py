"""A compiled hash table over the texts of a line's stats. Import this module late: it loads numba."""
# numba's decorators and types are untyped; the function is typed again where it is used (xplane_wire).
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import types

from tpuprof.formats._native import compiled, load_byte
from tpuprof.formats._wire import span

_U8 = types.uint8[::1]
_I32 = types.int32[::1]
_I64 = types.int64[::1]
_I64_2D = types.int64[:, ::1]
_INT = types.int64


@compiled(_INT(_INT, _INT, _U8, _I64, _I32, _I64_2D))
def intern_blobs(buf, size, stat_kind, stat_bits, slots, spans):
    """Give equal STR and BYTES values one row: ``stat_bits`` become rows of ``spans`` (start, end). Returns the rows.

    ``slots`` is a hash table whose length is a power of two, filled with -1. A value that meets too many others on
    its way through the table gets a row of its own, so that no input makes this slow; the caller merges such rows.
    """
    n = 0
    mask = len(slots) - 1
    for i in range(len(stat_kind)):
        if stat_kind[i] != 5 and stat_kind[i] != 6:
            continue
        start, stop = span(buf, stat_bits[i], size)
        if start < 0 or n >= len(spans):
            return -1
        code = np.uint64(0xCBF29CE484222325)
        for k in range(start, stop):
            code = (code ^ np.uint64(load_byte(buf, k))) * np.uint64(0x100000001B3)
        slot = np.int64((code ^ (code >> np.uint64(32))) & np.uint64(mask))
        found = -1
        for _ in range(32):
            candidate = slots[slot]
            if candidate < 0:
                slots[slot] = n
                break
            a = spans[candidate, 0]
            if spans[candidate, 1] - a == stop - start:
                k = 0
                while k < stop - start and load_byte(buf, a + k) == load_byte(buf, start + k):
                    k += 1
                if k == stop - start:
                    found = candidate
                    break
            slot = (slot + 1) & mask
        if found < 0:
            spans[n, 0] = start
            spans[n, 1] = stop
            found = n
            n += 1
        stat_bits[i] = found
    return n
