"""The other side of ``tpuprof.engine``: a process that applies one function to items, and how the two talk.

A message is a pickle whose large arrays travel beside it, so that they are copied once, and whose large byte strings
(the HLO of programs, which is the same in the files of many hosts) travel the first time only. Both ends are this
package on this machine; nothing that comes from a trace is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, cast

import numpy as np

MIN_BUFFER_BYTES = 1 << 12
MIN_BLOB_BYTES = 1 << 15
_COUNT = struct.Struct("<Q")


class EndOfPipeError(Exception):
    """The other side has closed its end."""


def serve() -> None:
    """Reads a function, then items, and answers each with (True, result) or (False, exception), until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not get between the messages
    items = sys.stdin.buffer
    sent: set[bytes] = set()
    try:
        function: Callable[[Any], Any] = receive(items, {})
        while True:
            item = receive(items, {})
            send(results, _answer(function, item), sent)
    except (EndOfPipeError, BrokenPipeError):
        return


def send(stream: Any, value: object, sent: set[bytes]) -> None:
    """Writes one message; ``sent`` holds the digests of the byte strings that the other side has, and grows."""
    buffers: list[memoryview] = []
    blobs: dict[bytes, bytes] = {}

    def outside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < MIN_BUFFER_BYTES:
            return True
        buffers.append(raw)
        return False

    body = io.BytesIO()
    _Pickler(body, blobs, outside).dump(value)
    new = [(digest, blob) for digest, blob in blobs.items() if digest not in sent]
    head = [len(body.getbuffer()), len(buffers), *(b.nbytes for b in buffers), len(new), *(len(b) for _, b in new)]
    _write(stream, _COUNT.pack(len(head)) + b"".join(map(_COUNT.pack, head)))
    for part in (body.getbuffer(), *buffers, *(part for pair in new for part in pair)):
        _write(stream, part)
    stream.flush()
    sent.update(digest for digest, _ in new)


def receive(stream: Any, blobs: dict[bytes, bytes]) -> Any:
    """Reads one message; ``blobs`` holds byte strings by digest, which messages share, and grows.

    Raises:
        EndOfPipeError: the other side has closed its end, before or within a message.
    """
    (count,) = _COUNT.unpack(_read(stream, _COUNT.size))
    head = [n for (n,) in _COUNT.iter_unpack(_read(stream, count * _COUNT.size))]
    body_size, n_buffers = head[:2]
    blob_sizes = head[3 + n_buffers :]
    body = _read(stream, body_size)
    buffers = [_read(stream, size) for size in head[2 : 2 + n_buffers]]
    for size in blob_sizes:
        digest = bytes(_read(stream, _DIGEST_BYTES))
        blobs.setdefault(digest, bytes(_read(stream, size)))
    return _Unpickler(io.BytesIO(body), buffers, blobs).load()


_DIGEST_BYTES = 16


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, blobs: dict[bytes, bytes], outside: Callable[[Any], bool]) -> None:
        super().__init__(file, 5, buffer_callback=outside)
        self._blobs = blobs

    def persistent_id(self, obj: Any) -> bytes | None:
        if type(obj) is not bytes or len(obj) < MIN_BLOB_BYTES:
            return None
        digest = hashlib.blake2b(obj, digest_size=_DIGEST_BYTES).digest()
        self._blobs[digest] = obj
        return digest


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, buffers: list[memoryview], blobs: dict[bytes, bytes]) -> None:
        super().__init__(file, buffers=buffers)
        self._blobs = blobs

    def persistent_load(self, pid: Any) -> bytes:
        return self._blobs[pid]


def _answer(function: Callable[[Any], Any], item: object) -> tuple[bool, Any]:
    try:
        return True, function(item)
    except Exception as error:
        error.add_note("In the process that worked on it:\n" + traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return False, RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return False, error


def _write(stream: Any, data: bytes | memoryview) -> None:
    """All of the data: a raw pipe may take less than it is given."""
    view = memoryview(data).cast("B")
    while len(view):
        view = view[stream.write(view) :]


def _read(stream: Any, size: int) -> memoryview:
    data = memoryview(cast("Any", np.empty(size, np.uint8)))  # not zeroed first, as a bytearray would be
    done = 0
    while done < size:
        got: int = stream.readinto(data[done:])
        if not got:
            raise EndOfPipeError
        done += got
    return data
