"""Small files of state: they appear complete or not at all, and what is in them is checked when they are read."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any, cast

from tpuprof.errors import InputError, UsageError

MAX_BYTES = 32 << 20


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file in one stroke, its directory included.

    Raises:
        UsageError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"The file cannot be written: {error.strerror}.",
            where=str(path),
            hint="Check the directory's permissions and free space.",
        ) from error


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; null if there is no such file.

    Raises:
        InputError: it cannot be read, is too large, or holds no JSON object.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror}.", where=str(path)) from error
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        loaded: Any = json.loads(data)
        if not isinstance(loaded, dict):
            raise ValueError("it is no JSON object")
    except (ValueError, RecursionError) as error:
        hint = "Remove the file to begin anew."
        raise InputError(
            f"The file holds something else than it should ({error}).", where=str(path), hint=hint
        ) from error
    return cast("dict[str, Any]", loaded)
