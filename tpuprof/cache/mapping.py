"""The bytes of a file of the cache: mapped where the file system is local, read into memory elsewhere.

On a network file system another machine may delete a file that is mapped here, and the next look at a page of it would
end the process.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

LOCAL = frozenset(("apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"))
"""File systems whose files stay as long as a process has them mapped."""

_MOUNTS = "/proc/self/mountinfo"


def content(stream: BinaryIO) -> memoryview:
    """The whole file. It can be written to, which changes the memory and never the file."""
    size = os.fstat(stream.fileno()).st_size
    if size and file_system(stream.fileno()) in LOCAL:
        return memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY))
    room: Any = np.empty(size, np.uint8)  # not zeroed first, and aligned as arrays are
    view = memoryview(room)
    done = 0
    while done < size:
        got = _read_into(stream, view[done:])
        if not got:
            break
        done += got
    return view[:done]


def _read_into(stream: Any, room: memoryview) -> int:
    got: int = stream.readinto(room)
    return got


def file_system(descriptor: int) -> str | None:
    """The type of the file system that a file lies on; null where the system does not say."""
    device = os.fstat(descriptor).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            place, _, kind = line.partition(" - ")
            if place.split(" ")[2:3] == [number]:
                return kind.partition(" ")[0]
    return None
