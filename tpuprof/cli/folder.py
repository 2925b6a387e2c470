"""Results of several files: a directory that appears complete or not at all."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tpuprof.errors import OutputExistsError, UsageError

MARK = "export.json"
"""The file that says that a directory was written by an export; only such a directory is ever replaced."""


def check_folder(path: Path, *, force: bool) -> None:
    """Fails early if the directory cannot be written.

    Raises:
        OutputExistsError: it exists and is not empty, and ``force`` is false or it is no earlier export.
        UsageError: it is a file, or the directory around it does not exist.
    """
    if path.exists() and not path.is_dir():
        raise UsageError("The output is a file, and several files are to be written.", where=str(path),
                         hint="Name a directory with -o.")  # fmt: skip
    if not path.absolute().parent.is_dir():
        raise UsageError("The directory around the output does not exist.", where=str(path), hint="Create it first.")
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not force:
        raise OutputExistsError(
            "The output directory exists and is not empty.",
            where=str(path),
            hint="Give --force to replace an earlier export, or another -o.",
        )
    if not (path / MARK).is_file():
        raise OutputExistsError(
            "The output directory exists and is no earlier export, so it is not replaced.",
            where=str(path),
            why=f"It holds no {MARK}.",
            hint="Name another directory with -o.",
        )


def marked(files: Iterable[tuple[str, bytes]], command: str, form: str) -> Iterator[tuple[str, bytes]]:
    """The files, then the one that marks the directory as an export and names them."""
    names: list[str] = []
    for name, data in files:
        names.append(name)
        yield name, data
    document = {"schema_version": 1, "command": command, "to": form, "files": names}
    yield MARK, (json.dumps(document, indent=2) + "\n").encode()


def write_folder(path: Path, files: Iterable[tuple[str, bytes]], *, force: bool) -> int:
    """Writes the files into a new directory that then takes the place; returns their number.

    Raises:
        As ``check_folder``, and UsageError if something cannot be written.
    """
    check_folder(path, force=force)
    target = path.absolute()
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    count = 0
    try:
        temporary.mkdir()
        for name, data in files:
            (temporary / name).write_bytes(data)
            count += 1
        if target.is_dir():
            old = target.with_name(f"{temporary.name}.old")
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    except OSError as error:
        raise UsageError(
            f"The output directory cannot be written: {error.strerror}.",
            where=str(path),
            hint="Check the permissions and free space of the directory around it, or name another one with -o.",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count
