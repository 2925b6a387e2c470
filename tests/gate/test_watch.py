"""``tpuprof watch``: each complete run once, the state, the webhook."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.gate.models import BASE, SLOW, Run, write_run
from tpuprof.errors import InputError, NotATraceError, StoreBusyError, UsageError
from tpuprof.formats.discover import list_runs
from tpuprof.gate.watch import (
    Examined,
    State,
    is_settled,
    locked,
    read_state,
    watch_once,
    worst_code,
    write_state,
)
from tpuprof.gate.webhook import check_url, post, shown


class Server(ThreadingHTTPServer):
    """Takes posts and answers with the codes it was given, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.posts: list[dict[str, Any]] = []
        self.users: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook/s3cret?token=hush"


class Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json"
        code = self.server.answers.pop(0) if self.server.answers else 200
        if code == 200:
            self.server.posts.append(json.loads(body))
        self.server.users.append(self.headers["Authorization"])
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def session(logdir: Path, name: str, ops: object = BASE) -> Path:
    """A run of that name in the log directory."""
    from tests.compare.models import built

    trace = built(ops, steps=12)  # type: ignore[arg-type]
    trace.session = name
    trace.write(logdir)
    return logdir / "plugins/profile" / name


def names(number: int) -> str:
    return f"2026_01_0{number}_00_00_00"


@pytest.fixture
def base(runs: tuple[Path, Path]) -> Path:
    return runs[0]


def test_each_new_run_is_reported_once_with_the_worst_code(tpuprof_cli: Run, base: Path, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    words = ("watch", logs, "--against", base, "--once", "--settle", "0s", "-o", out)
    logs.mkdir()
    assert tpuprof_cli(*words)[0] == 0, "nothing is there yet"
    session(logs, names(1))
    code, _, err = tpuprof_cli(*words)
    assert (code, "passed" in err) == (0, True)
    session(logs, names(2), SLOW)
    code, _, err = tpuprof_cli(*words)
    assert code == 1
    assert names(2) in err
    assert names(1) not in err
    assert tpuprof_cli(*words)[0] == 0
    reports = {path.name.rsplit("-", 1)[0]: path for path in out.glob("*.json") if path.name != "watch.json"}
    assert set(reports) == {names(1), names(2)}
    assert json.loads(reports[names(2)].read_text())["verdict"] == "regressed"
    assert all(path.with_suffix(".html").read_text().startswith("<!doctype html>") for path in reports.values())
    assert not list(out.glob("*.tmp"))


def test_the_webhook_can_be_given_by_the_environment(
    tpuprof_cli: Run, base: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(tmp_path / "logs", names(1))
    monkeypatch.setenv("TPUPROF_WEBHOOK", server.url)
    assert tpuprof_cli("watch", tmp_path / "logs", "--against", base, "--once", "--settle", "0s")[0] == 0
    assert [posted["outcome"] for posted in server.posts] == ["pass"]


def test_the_outcome_is_posted_without_secrets_and_paths(
    tpuprof_cli: Run, base: Path, tmp_path: Path, server: Server
) -> None:
    run = session(tmp_path / "logs", names(1), SLOW)
    (run / "tpuprof.json").write_text(json.dumps({"environment": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuv"}}))
    words = ("watch", tmp_path / "logs", "--against", base, "--once", "--settle", "0s", "--webhook", server.url, "-v")
    code, out, err = tpuprof_cli(*words)
    assert code == 1
    (posted,) = server.posts
    assert (posted["run"], posted["outcome"], posted["verdict"]) == (names(1), "fail", "regressed")
    assert posted["effect"]["relative"] == pytest.approx(0.25, abs=0.001)
    assert posted["causes"][0]["share"] == 1.0
    assert "Step time +25" in posted["text"]
    told = json.dumps(posted) + out + err
    for secret in ("hf_abc", "hush", "s3cret"):
        assert secret not in told
    assert str(tmp_path) not in json.dumps(posted)
    assert tpuprof_cli(*words)[0] == 0
    assert len(server.posts) == 1, "each run is told once"


def test_a_run_that_is_being_written_waits(tpuprof_cli: Run, base: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    run = session(logs, names(1), SLOW)
    words = ("watch", logs, "--against", base, "--once", "--settle", "60s")
    code, _, err = tpuprof_cli(*words)
    assert (code, "still being written" in err) == (0, True)
    for path in run.iterdir():
        os.utime(path, (time.time() - 90,) * 2)
    assert tpuprof_cli(*words)[0] == 1
    assert (logs / "tpuprof-watch" / "watch.json").is_file()


def test_what_is_there_at_first_can_be_left_out(tpuprof_cli: Run, base: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    session(logs, names(1), SLOW)
    words = ("watch", logs, "--against", base, "--once", "--settle", "0s", "--new-only")
    code, _, err = tpuprof_cli(*words)
    assert (code, "taken as seen" in err) == (0, True)
    session(logs, names(2), SLOW)
    assert tpuprof_cli(*words)[0] == 1


def test_a_stored_baseline_and_one_that_is_not_like_the_run(tpuprof_cli: Run, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "h.db")
    assert tpuprof_cli("history", "add", write_run(tmp_path / "stored"), *store)[0] == 0
    assert tpuprof_cli("history", "baseline", "set", "nightly", "1", *store)[0] == 0
    logs = tmp_path / "logs"
    session(logs, names(1), SLOW)
    words = ("watch", logs, "--baseline", "nightly", *store, "--once", "--settle", "0s")
    assert tpuprof_cli(*words)[0] == 1
    write_run(tmp_path / "logs" / "v4", BASE, kind="TPU v4")
    assert tpuprof_cli("watch", logs / "v4", *words[2:])[0] == 5
    assert tpuprof_cli("watch", logs, "--baseline", "none", *store, "--once", "--settle", "0s", "-o", "o")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "What is each run held against"),
        (("--against", "a", "--baseline", "b"), "What is each run held against"),
        (("--against", "a", "--webhook", "ftp://host/hush"), "no http or https address"),
        (("--against", "a", "--interval", "soon"), "--interval 'soon' is no time"),
        (("--against", "a", "--interval", "0s"), "--interval is too short"),
        (("--against", "a", "-o", "file"), "The output is a file"),
    ],
)
def test_wrong_use(tpuprof_cli: Run, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "file").touch()
    code, _, err = tpuprof_cli("watch", tmp_path, "--once", *words)
    assert (code, message in err) == (2, True)
    assert "hush" not in err


def test_without_once_it_goes_on_until_it_is_stopped(
    tpuprof_cli: Run, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        session(logs, names(1))

    monkeypatch.setattr("tpuprof.cli.watch.time.sleep", sleep)
    code, _, err = tpuprof_cli("watch", logs, "--against", base, "--settle", "0s", "--interval", "5 min")
    assert (code, waits) == (130, [300.0, 300.0])
    assert f"{names(1)}: passed" in err


def test_what_to_hold_against_is_read_before_anything_is_judged(tpuprof_cli: Run, tmp_path: Path) -> None:
    session(tmp_path / "logs", names(1))
    words = ("watch", tmp_path / "logs", "--once", "--settle", "0s")
    assert tpuprof_cli(*words, "--against", tmp_path / "none")[0] == 3
    code, _, err = tpuprof_cli(*words, "--baseline", "x", "--store", tmp_path / "none.db")
    assert (code, "no run store" in err) == (3, True)
    assert not (tmp_path / "logs" / "tpuprof-watch" / "watch.json").exists()


def test_a_store_that_does_not_answer_uses_up_no_run(tmp_path: Path) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "state"
    session(logs, names(1))

    def examine(_run: Any) -> Examined:
        raise StoreBusyError("It is locked.")

    for _ in range(5):
        with pytest.raises(StoreBusyError):
            look(logs, folder, examine)
    assert look(logs, folder) == [0]


def good(_run: object) -> Examined:
    return Examined("pass", 0, "all is well", "r.html", {"text": "well"})


def look(logs: Path, folder: Path, examine: Any = good, **options: Any) -> list[int]:
    return watch_once(str(logs), folder, examine, now=time.time() + 1000, settle_s=1.0, **options)


def test_an_unreadable_run_is_tried_three_times_and_hides_no_other(tmp_path: Path) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "state"
    session(logs, names(1))
    session(logs, names(2))
    tried: list[str] = []

    def examine(run: Any) -> Examined:
        tried.append(run.name)
        if run.name == names(1):
            raise NotATraceError("It is torn.")
        return good(run)

    assert [look(logs, folder, examine) for _ in range(5)] == [[3, 0], [3], [3], [], []]
    assert tried == [names(1), names(2), names(1), names(1)]


def test_an_interrupted_pass_forgets_no_run_that_was_done(tmp_path: Path) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "state"
    session(logs, names(1))
    session(logs, names(2))

    def examine(run: Any) -> Examined:
        if run.name == names(2):
            raise KeyboardInterrupt
        return good(run)

    with pytest.raises(KeyboardInterrupt):
        look(logs, folder, examine)
    seen: list[str] = []
    assert look(logs, folder, lambda run: seen.append(run.name) or good(run)) == [0]
    assert seen == [names(2)]


def test_what_a_webhook_does_not_take_is_posted_with_the_next_pass(tmp_path: Path) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "state"
    session(logs, names(1))
    sent: list[Mapping[str, Any]] = []
    answers = iter(["it answered 503", None])

    def send(message: Mapping[str, Any]) -> str | None:
        sent.append(message)
        return next(answers)

    told: list[str] = []
    assert look(logs, folder, send=send, tell=told.append) == [0]
    assert "tried again" in told[-1]
    assert look(logs, folder, send=send) == []
    assert look(logs, folder, send=send) == []
    assert len(sent) == 2


def test_a_webhook_that_never_answers_is_given_up(tmp_path: Path) -> None:
    logs, folder = tmp_path / "logs", tmp_path / "state"
    session(logs, names(1))
    sent: list[object] = []
    for _ in range(5):
        look(logs, folder, send=lambda message: sent.append(message) or "no answer")
    assert len(sent) == 3


def test_only_time_tells_of_files_from_the_future(tmp_path: Path) -> None:
    run_path = session(tmp_path, names(1))
    now = 1_000.0  # long before the files' times
    (run,) = list_runs(str(tmp_path))
    state = State()
    assert not is_settled(run, state, 60.0, now)
    assert not is_settled(run, state, 60.0, now + 59)
    assert is_settled(run, state, 60.0, now + 60)
    file = next(run_path.iterdir())
    file.write_bytes(file.read_bytes() + b"more")
    assert not is_settled(run, state, 60.0, now + 70)
    assert is_settled(run, state, 60.0, now + 130)


def test_the_state_survives_and_is_checked(tmp_path: Path) -> None:
    state = State({"/a": {"name": "a", "outcome": "pass"}}, {"/b": (7, 1.5)})
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    for text in ("{", "[]", '{"version": 2, "runs": {}, "pending": {}}', '{"version": 1, "runs": [], "pending": {}}'):
        (tmp_path / "watch.json").write_text(text)
        with pytest.raises(InputError) as caught:
            read_state(tmp_path)
        assert "Remove the file" in caught.value.hint


def test_two_watchers_do_not_share_a_directory(tmp_path: Path) -> None:
    with locked(tmp_path / "a"):
        with pytest.raises(UsageError, match="Another watcher is at work"), locked(tmp_path / "a"):
            pass
        with locked(tmp_path / "b"):
            pass
    with locked(tmp_path / "a"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"), locked(tmp_path / "file"):
        pass


def test_the_worst_code_of_several_runs() -> None:
    assert [worst_code(codes) for codes in ([], [0, 5], [5, 3], [0, 5, 3, 1])] == [0, 5, 3, 1]


def test_posting_is_tried_again_where_that_may_help(server: Server) -> None:
    waits: list[float] = []
    server.answers = [503, 429]
    assert post(server.url, {"a": 1}, sleep=waits.append) is None
    assert (server.posts, waits) == ([{"a": 1}], [0.5, 1.0])
    server.answers = [500] * 9
    assert post(server.url, {"a": 1}, sleep=waits.append) == "it answered 500"
    assert len(server.answers) == 6
    server.answers = [403, 200]
    assert post(server.url, {"a": 1}, sleep=waits.append) == "it answered 403"
    server.answers = [302, 200]
    assert post(server.url, {"a": 1}, sleep=waits.append) == "it answered 302", "nothing is followed"


def test_a_webhook_that_is_not_there_is_no_error(server: Server) -> None:
    closed = server.url.replace(str(server.server_port), "1")
    failure = post(closed, {"a": 1}, attempts=2, sleep=lambda _s: None)
    assert failure is not None
    assert failure.startswith("no answer")
    assert "hush" not in failure


def test_a_webhook_that_answers_byte_by_byte_takes_no_longer_than_one_that_does_not() -> None:
    done = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not done.wait(0.05):
                connection.sendall(b"X")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        began = time.monotonic()
        try:
            failure = post(f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, timeout_s=0.4, attempts=1)
            took = time.monotonic() - began
        finally:
            done.set()
            thread.join()
    assert failure == "no answer (TimeoutError)"
    assert 0.4 <= took < 3


def test_a_user_in_the_address_is_no_part_of_the_host(server: Server) -> None:
    url = server.url.replace("//", "//perf:p%40ss@")
    assert post(url, {"a": 1}) is None
    assert post(server.url, {"a": 2}) is None
    assert server.users == ["Basic " + base64.b64encode(b"perf:p@ss").decode(), None]


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "ftp://a/b", "https://", "http:///x", "https://a b/", "http://a:0/", "http://[/",
            "http://a:99999/", "https://a/\nb"]
)  # fmt: skip
def test_only_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url)


def test_an_address_is_shown_without_its_secrets() -> None:
    assert check_url("https://user:hush@hooks.example/T0/hush?x=hush")
    assert shown("https://user:hush@hooks.example/T0/hush?x=hush") == "https://hooks.example"
