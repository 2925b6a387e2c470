"""Where a run store is: the text a user gives, resolved to a file or a database server, without its secrets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tpuprof.errors import UsageError
from tpuprof.masking import MASK, mask_credentials

ENVIRONMENT = "TPUPROF_STORE"
_SQLITE = ("sqlite", "sqlite+pysqlite")
_POSTGRES = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_FORMS = "Write a file path, sqlite:///FILE or postgresql://USER@HOST/DATABASE."
_NO_FILE = re.compile(r"\s*postgres(ql)?(\+\w+)?:|[^/]*:[^@]*@", re.IGNORECASE)
_SECRET_KEY = re.compile(r"pass|secret|token|key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Location:
    """A store's place.

    Args:
        shown: the place for people, passwords masked.
        path: the SQLite file; null for a server.
        url: the server's address; null for a file.
        default: whether nobody named it.
    """

    shown: str
    path: Path | None = None
    url: URL | None = None
    default: bool = False

    def hide(self, text: str) -> str:
        """The text without the address's secrets: drivers quote addresses in their messages."""
        for secret in _secrets(self.url) if self.url is not None else ():
            text = text.replace(secret, MASK)
        return mask_credentials(text)


def locate(text: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> Location:
    """The place that the text names; without one the variable ``TPUPROF_STORE``, else the user's data directory.

    Raises:
        UsageError: the text is neither a file nor an address of a supported database.
    """
    asked = os.fspath(text) if text is not None else environment.get(ENVIRONMENT, "")
    if text is not None and not asked.strip():
        raise UsageError("The address of the run store is empty.", hint=_FORMS)
    if not asked:
        path = data_directory(environment) / "history.db"
        return Location(str(path), path=path, default=True)
    if "://" not in asked:
        if _NO_FILE.match(asked):  # taken for a path, it would be printed with the password
            raise UsageError(
                "The address of the run store cannot be read.",
                where=f"{MASK}@{asked.rpartition('@')[2]}" if "@" in asked else "",
                hint=_FORMS,
            )
        return _file(asked)
    return _address(asked)


def data_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where a user's programs keep data: by the XDG rule, on macOS in Application Support."""
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    named = environment.get("XDG_DATA_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "tpuprof"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "tpuprof"
    return home / ".local" / "share" / "tpuprof"


def _file(text: str) -> Location:
    if text == ":memory:" or "\0" in text:
        raise UsageError("A run store must be a file or a database server.", where=text, hint=_FORMS)
    path = Path(text).expanduser().absolute()
    return Location(str(path), path=path)


def _address(text: str) -> Location:
    shown = _without_user(text)
    try:
        # Of several @ the first would end the password, and what is left of it would be taken for the host.
        url = make_url(text if text.partition("?")[0].count("@") < 2 else "")
    except (ArgumentError, ValueError):
        # Without the cause: it may quote a part of a password that was taken for a port.
        raise UsageError(
            "The address of the run store cannot be read.",
            where=shown,
            hint=f"{_FORMS} Special characters in a password must be percent-encoded.",
        ) from None
    if url.drivername in _SQLITE:
        if not url.database or url.database == ":memory:" or url.query:
            raise UsageError("A run store must be a plain file.", where=shown, hint=_FORMS)
        return _file(url.database)
    name = _POSTGRES.get(url.drivername, url.drivername)
    if name != "postgresql+psycopg":
        raise UsageError(f"A run store cannot be in {url.drivername!r}.", where=shown, hint=_FORMS)
    masked = url.set(query={k: MASK if _SECRET_KEY.search(k) else v for k, v in url.query.items()})
    shown = masked.render_as_string(hide_password=True).replace(quote(MASK), MASK)
    return Location(shown, url=url.set(drivername=name))


def _without_user(text: str) -> str:
    """An address that may not be well formed, without its query and all that stands before the host."""
    scheme, _, rest = text.partition("?")[0].partition("://")
    return f"{scheme}://{MASK}@{rest.rpartition('@')[2]}" if "@" in rest else f"{scheme}://{rest}"


def _secrets(url: URL) -> list[str]:
    found = [str(url.password)] if url.password else []
    for key, value in url.query.items():
        if _SECRET_KEY.search(key):
            found += [value] if isinstance(value, str) else list(value)
    return [secret for secret in found if secret]
