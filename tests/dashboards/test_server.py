"""How the dashboard is served."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from tpuprof_dashboards.runs import library_of
from tpuprof_dashboards.server import SCRIPT, Server
from tpuprof_dashboards.settings import Settings
from tpuprof_dashboards.start import prepare

from tests.dashboards.harness import SAMPLES, Dashboard
from tpuprof.cli import main

_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
_OPEN = ("0.0.0.0", "10.1.2.3", "pod-7")


@pytest.mark.parametrize(("host", "local"), [*((host, True) for host in _LOCAL), *((host, False) for host in _OPEN)])
def test_it_knows_who_can_reach_it(host: str, local: bool) -> None:
    assert Server(Settings(), host).local is local


def test_the_command_line_keeps_to_this_machine_and_sends_nothing_anywhere() -> None:
    arguments = Server(Settings("/logs"), allowed=("proxy.example",)).arguments()
    assert "--server.address=127.0.0.1" in arguments
    assert "--browser.gatherUsageStats=false" in arguments
    assert "--client.showErrorDetails=none" in arguments
    assert "--server.allowedHosts=localhost" in arguments
    assert "--server.allowedHosts=proxy.example" in arguments
    assert str(SCRIPT) in arguments
    assert SCRIPT.is_file()
    assert [path.name for path in SCRIPT.parent.iterdir() if path.suffix == ".py"] == ["script.py"]


def test_a_page_of_another_site_cannot_talk_to_it(samples: Dashboard) -> None:
    """Neither under a name of its own that resolves to this machine, nor from its own origin."""
    assert _handshake(samples.port, "127.0.0.1", "http://127.0.0.1") == 101
    assert _handshake(samples.port, "evil.example", "http://evil.example") == 403
    assert _handshake(samples.port, "127.0.0.1", "http://evil.example") == 403


def _handshake(port: int, host: str, origin: str) -> int:
    """The status of a WebSocket's opening."""
    request = (
        f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {origin}:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request.encode())
        return int(connection.recv(4096).split()[1])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that the command would have become."""
    calls: list[list[str]] = []

    def execv(_: str, arguments: list[str]) -> None:
        calls.append(arguments)

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    return calls


def test_the_command_starts_it_on_the_directory(started: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert main(["dashboard", str(SAMPLES), "--no-open", "--port", str(port)]) == 0
    (arguments,) = started
    assert f"--server.port={port}" in arguments
    assert Settings.of_arguments(arguments).logdir == str(SAMPLES)
    assert capsys.readouterr().out == ""


def test_a_port_that_is_taken_is_said(started: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["dashboard", str(SAMPLES), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"Nothing can listen on port {port} of 127.0.0.1: address already in use." in said
    assert "Leave out --port for the next free one" in said
    assert started == []


def test_whoever_opens_it_to_others_is_warned(started: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", str(SAMPLES), "--host", "0.0.0.0"]) == 0
    assert "reachable from other machines" in capsys.readouterr().err
    assert "--server.address=0.0.0.0" in started[0]


def test_what_is_wrong_is_said_before_anything_starts(
    started: list[list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["dashboard", str(tmp_path / "missing")]) == 3
    assert "no such file or directory" in capsys.readouterr().err
    assert main(["dashboard", str(tmp_path), "--source-link", "javascript:{path}"]) == 2
    assert "no known scheme" in capsys.readouterr().err

    import importlib.util

    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "streamlit" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert main(["dashboard", str(tmp_path)]) == 2
    assert 'pip install "tpuprof[dashboard]"' in capsys.readouterr().err
    assert started == []


def test_what_the_first_page_needs_is_there_before_anyone_asks(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "tpu_two_hosts", tmp_path / "logs")
    settings = Settings(str(tmp_path / "logs"))
    library = library_of(settings.logdir)
    (files,) = library.list()
    assert not library.is_open(files)
    prepare(["run", "script.py", "--", *settings.arguments()])
    assert library.is_open(files)


@pytest.mark.parametrize("logdir", ["", "/no/such/directory"])
def test_what_cannot_be_prepared_is_left_to_the_page(logdir: str) -> None:
    prepare(["run", "script.py", "--", *Settings(logdir).arguments()])
    prepare([])
