"""What the compiled loops share: how they are compiled and cached, and access to bytes by address.

Buffers are passed as addresses. numba counts references of arrays that go into helper functions, with atomic
operations, and that made these loops ten times slower.

When you change one of these modules, delete the cache (``tpuprof/formats/__pycache__/*.nb?``): numba notices a change
of the file that holds a compiled function, not of the files from which it takes helpers.
"""
# numba and llvmlite are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for one signature now, or load it from the cache.

    numba caches beside the module or, where that is read-only, in the user's cache directory (NUMBA_CACHE_DIR names
    another). Where nothing is writable the function is compiled for this process alone.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(signature, cache=True, nogil=True, error_model="numpy")(function)
        except (RuntimeError, OSError):
            return njit(signature, nogil=True, error_model="numpy")(function)

    return decorate


def _load_byte(_typing, base, offset):
    """The byte at an address plus an offset that the caller has checked."""

    def load(_context, builder, _signature, args):
        return builder.load(builder.inttoptr(builder.add(*args), ir.IntType(8).as_pointer()))

    return types.uint8(types.int64, types.int64), load


def _store_byte(_typing, base, offset, value):
    """Write a byte to an address plus an offset that the caller has checked."""

    def store(context, builder, _signature, args):
        at = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(8).as_pointer())
        builder.store(args[2], at)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint8), store


# To be called inside compiled functions only, without the first argument.
load_byte: Any = intrinsic(_load_byte)
store_byte: Any = intrinsic(_store_byte)
