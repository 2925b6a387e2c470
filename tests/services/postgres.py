"""A PostgreSQL server of the tests' own: made in a temporary directory, on loopback and a socket, and gone afterwards.

``python -m tests.services.postgres`` says whether the programs are there, for ``.ci/run``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER = "tpuprof"
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_START_S = 30


@dataclass(frozen=True)
class Server:
    """A running server."""

    directory: Path
    port: int
    password: str

    def url(self, database: str = "postgres", *, password: str | None = None) -> str:
        """Its address over loopback, where the password counts."""
        shown = self.password if password is None else password
        return f"postgresql://{USER}:{shown}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        """Its address over the socket, where no password is asked for."""
        return f"postgresql://{USER}@/{database}?host={self.directory}&port={self.port}"

    def new_database(self) -> str:
        """The name of a new, empty database."""
        name = f"t{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name} STRATEGY file_copy" if self.version() >= 15 else f"CREATE DATABASE {name}")
        return name

    def version(self) -> int:
        """The server's main version."""
        import psycopg

        with psycopg.connect(self.socket_url()) as connection:
            return connection.info.server_version // 10000

    def run(self, statement: str, database: str = "postgres") -> list[Any]:
        """One statement, by itself; its rows."""
        import psycopg

        with psycopg.connect(self.socket_url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def binaries() -> Path | None:
    """Where the server's programs are: the newest version installed; null without."""
    found = [Path("/", *hit.parts[1:]) for place in _PLACES for hit in Path("/").glob(place.lstrip("/"))]
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    good = [place for place in found if (place / "initdb").exists() and (place / "postgres").exists()]
    return max(good, key=lambda place: [int(n) for n in place.parent.name.split(".") if n.isdecimal()], default=None)


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server for as long as it is needed.

    Raises:
        RuntimeError: it did not start; the message holds what it said.
    """
    programs = binaries()
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed")
    who = _account()
    directory = Path(tempfile.mkdtemp(prefix="tpuprof-pg-"))
    process = None
    try:
        password = secrets.token_hex(12)
        _prepare(directory, password, programs, who)
        port = _free_port()
        command = [str(programs / "postgres"), "-D", str(directory / "data"), "-k", str(directory), "-p", str(port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=50"]
        log = directory / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*_ending_with_parent(), *command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                cwd=directory,
                start_new_session=True,
                **who,
            )
        server = Server(directory, port, password)
        _wait(server, process, log)
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            process.wait(20)
        shutil.rmtree(directory, ignore_errors=True)


def _ending_with_parent() -> list[str]:
    """Words before a command whose process must not outlive tests that are killed; none where the tool is missing.

    A function that Python runs in the child would do the same, but needs a fork, against which JAX warns.
    """
    tool = shutil.which("setpriv")
    return [] if tool is None else [tool, "--pdeathsig", "QUIT", "--"]


def _account() -> dict[str, Any]:
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("there is no account but root to run the server")


def _prepare(directory: Path, password: str, programs: Path, who: dict[str, Any]) -> None:
    secret = directory / "password"
    secret.write_text(password)
    if who:
        for path in (directory, secret):
            os.chown(path, who["user"], who["group"])
    command = [str(programs / "initdb"), "-D", str(directory / "data"), "-U", USER, "-E", "UTF8", "--locale=C",
               "--no-sync", "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False, timeout=120, **who)
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(psycopg.OperationalError):
            server.run("SELECT 1")
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":
    sys.exit(binaries() is None)
