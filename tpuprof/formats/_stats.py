# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
"""Compiled look-ups of one stat of all events of a line: one pass over the stats, no array of owners.

Rows outside the columns of stats are not touched, whatever the pointers of the events say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tpuprof.formats.xspace import I32, I64, U8, Events

_COLUMNS = "i8[::1], i4[::1], u1[::1], i8[::1], i8"
_UINT64, _INT64, _STR, _BYTES, _REF = 3, 4, 5, 6, 7  # rows of StatKind


def find(events: Events, key: int) -> tuple[npt.NDArray[np.intp], U8, I64]:
    """(event rows, kinds, bits) of all occurrences of a stat, in order."""
    return cast("Any", _find)(*_columns(events), key)


def int_stat(events: Events, key: int, missing: int) -> tuple[I64, npt.NDArray[np.bool_]]:
    """(values, present) of every event: the last integer of it, ``missing`` where there is none."""
    return cast("Any", _int_stat)(*_columns(events), key, missing)


def text_codes(events: Events, key: int, first_blob: int) -> I32:
    """The last text of every event: a row of names, or behind ``first_blob`` a row of blobs; -1 for none."""
    return cast("Any", _text_codes)(*_columns(events), key, first_blob)


def _columns(events: Events) -> list[Any]:
    """The columns as the compiled functions want them; copies only what is of another type or read-only."""
    columns = (events.stat_ptr, events.stat_key, events.stat_kind, events.stat_bits)
    types = (np.int64, np.int32, np.uint8, np.int64)
    require: Any = np.require
    return [require(column, dtype, "CW") for column, dtype in zip(columns, types, strict=True)]


@numba.njit(f"Tuple((i8[::1], b1[::1]))({_COLUMNS}, i8)", cache=True, nogil=True)
def _int_stat(ptr, keys, kinds, bits, key, missing):  # type: ignore[no-untyped-def] # compiled
    n = len(ptr) - 1
    values = np.full(n, missing, np.int64)
    present = np.zeros(n, np.bool_)
    for event in range(n):
        for at in range(max(ptr[event], 0), min(ptr[event + 1], len(keys))):
            if keys[at] == key and (kinds[at] == _UINT64 or kinds[at] == _INT64):
                values[event] = bits[at]
                present[event] = True
    return values, present


@numba.njit(f"i4[::1]({_COLUMNS}, i8)", cache=True, nogil=True)
def _text_codes(ptr, keys, kinds, bits, key, first_blob):  # type: ignore[no-untyped-def] # compiled
    n = len(ptr) - 1
    codes = np.full(n, -1, np.int32)
    for event in range(n):
        for at in range(max(ptr[event], 0), min(ptr[event + 1], len(keys))):
            if keys[at] == key:
                if kinds[at] == _REF:
                    codes[event] = bits[at]
                elif kinds[at] == _STR or kinds[at] == _BYTES:
                    codes[event] = bits[at] + first_blob
    return codes


@numba.njit(f"Tuple((i8[::1], u1[::1], i8[::1]))({_COLUMNS})", cache=True, nogil=True)
def _find(ptr, keys, kinds, bits, key):  # type: ignore[no-untyped-def] # compiled
    count = 0
    for at in range(len(keys)):
        count += keys[at] == key
    owner = np.empty(count, np.int64)
    kind = np.empty(count, np.uint8)
    value = np.empty(count, np.int64)
    done = 0
    if count:
        for event in range(len(ptr) - 1):
            for at in range(max(ptr[event], 0), min(ptr[event + 1], len(keys))):
                if keys[at] == key and done < count:
                    owner[done] = event
                    kind[done] = kinds[at]
                    value[done] = bits[at]
                    done += 1
    return owner[:done], kind[:done], value[:done]
