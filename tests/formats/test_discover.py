"""What a path stands for: every way to name a run, siblings, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from tpuprof.errors import (
    InputError,
    InputTooLargeError,
    MissingDependencyError,
    NotATraceError,
    TraceNotFoundError,
    UnsupportedContainerError,
    UsageError,
)
from tpuprof.formats import discover, files
from tpuprof.formats.discover import find_run, list_runs, natural_key
from tpuprof.formats.files import as_location, list_directory, open_bytes
from tpuprof.formats.recording import RunFiles

F00 = "2026_01_01_00_00_00"


def put(root: Path, *names: str, data: bytes = b"x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def hosts(run: RunFiles) -> list[str]:
    return [file.host for file in run.files]


def in_profile(session: str, host: str = "hostA", ending: str = ".xplane.pb") -> str:
    return f"plugins/profile/{session}/{host}{ending}"


@pytest.mark.parametrize("place", ["", "plugins", "plugins/profile", f"plugins/profile/{F00}", in_profile(F00)])
@pytest.mark.parametrize("as_path", [True, False])
def test_f01_every_way_to_name_a_run(tmp_path: Path, place: str, as_path: bool) -> None:
    put(tmp_path, in_profile(F00), data=b"12345")
    given = tmp_path / place
    run = find_run(given if as_path else str(given))
    assert run.name == F00
    (file,) = run.files
    assert (file.host, file.xplane, file.xplane_size) == ("hostA", str(tmp_path / in_profile(F00)), 5)
    assert (file.trace_json, file.trace_json_size) == (None, 0)
    assert run.others == ()
    assert list_runs(given) == [run]


def test_a_relative_path_and_a_file_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, in_profile(F00))
    monkeypatch.chdir(tmp_path / "plugins" / "profile" / F00)
    assert find_run(".") == find_run(tmp_path / "plugins" / "profile" / F00) == find_run(f"file://{Path.cwd()}")
    assert find_run("hostA.xplane.pb").name == F00


def test_both_files_of_a_host_are_one_host_and_other_files_are_none(tmp_path: Path) -> None:
    put(tmp_path, "s/b-10.xplane.pb", "s/b-2.xplane.pb", "s/b-2.trace.json.gz", "s/b-1.trace.json", data=b"12")
    put(
        tmp_path,
        "s/perfetto_trace.json.gz",
        "s/b-2.memory_profile.json.gz",
        "s/ALL_HOSTS.op_stats.pb",
        "s/.x.xplane.pb",
    )
    run = find_run(tmp_path / "s")
    assert run.name == "s"
    assert hosts(run) == ["b-1", "b-2", "b-10"]
    one, two, ten = run.files
    assert (one.xplane, one.trace_json) == (None, str(tmp_path / "s/b-1.trace.json"))
    assert (two.xplane_size, two.trace_json_size) == (2, 2)
    assert two.trace_json is not None
    assert ten.trace_json is None


def test_a_given_file_stands_for_itself_alone(tmp_path: Path) -> None:
    put(tmp_path, in_profile(F00), in_profile(F00, "hostB"), in_profile(F00, "hostA", ".trace.json.gz"))
    (file,) = find_run(tmp_path / in_profile(F00)).files
    assert (file.host, file.trace_json) == ("hostA", None)
    (file,) = find_run(tmp_path / in_profile(F00, "hostA", ".trace.json.gz")).files
    assert (file.host, file.xplane) == ("hostA", None)
    put(tmp_path, "alone/tw003.pb", "alone/mine.json")
    assert find_run(tmp_path / "alone/tw003.pb").name == "tw003"
    assert find_run(tmp_path / "alone/mine.json").files[0].trace_json is not None


def test_f03_an_empty_xplane_brings_its_json(tmp_path: Path) -> None:
    put(tmp_path, in_profile(F00), data=b"")
    assert find_run(tmp_path / in_profile(F00)).files[0].trace_json is None
    put(tmp_path, in_profile(F00, "hostA", ".trace.json.gz"), in_profile(F00, "hostB", ".trace.json.gz"))
    for given in (tmp_path / in_profile(F00), tmp_path):
        file = find_run(given).files[0]
        assert (file.host, file.xplane_size, file.trace_json_size) == ("hostA", 0, 1)
        assert file.trace_json == str(tmp_path / in_profile(F00, "hostA", ".trace.json.gz"))


def test_the_newest_run_of_a_root_and_the_others_by_name(tmp_path: Path) -> None:
    names = ["2026_01_01_00_00_00", "2025_12_31_23_00_00", "2026_01_02_00_00_00"]
    for name in names:
        put(tmp_path, in_profile(name))
    run = find_run(tmp_path)
    assert run.name == "2026_01_02_00_00_00"
    assert run.others == ("2026_01_01_00_00_00", "2025_12_31_23_00_00")
    assert [one.name for one in list_runs(tmp_path)] == [run.name, *run.others]
    older = find_run(tmp_path, run="2025_12_31_23_00_00")
    assert older.name == "2025_12_31_23_00_00"
    assert older.others == ("2026_01_02_00_00_00", "2026_01_01_00_00_00")
    with pytest.raises(UsageError, match=r"no run 'nope'.*Its runs are 2026_01_02_00_00_00, 2026_01_01"):
        find_run(tmp_path, run="nope")
    with pytest.raises(UsageError, match="no run 'nope'"):
        find_run(tmp_path / in_profile(names[0]), run="nope")


def test_runs_in_several_places_under_a_root(tmp_path: Path) -> None:
    put(tmp_path, f"train/{in_profile(F00)}", f"eval/{in_profile(F00)}", f"a/b/c/{in_profile('2020_01_01_00_00_00')}")
    put(tmp_path, f"a/b/c/d/{in_profile('2021_01_01_00_00_00')}", "custom/name/hostA.xplane.pb")
    os.utime(tmp_path / "custom/name/hostA.xplane.pb", (1e9, 1e9))
    names = [run.name for run in list_runs(tmp_path)]
    assert names == [f"train/{F00}", f"eval/{F00}", "2020_01_01_00_00_00", "name"]
    assert find_run(tmp_path, run=f"eval/{F00}").path == str(tmp_path / f"eval/plugins/profile/{F00}")


def test_f10_siblings_seconds_apart_with_disjoint_hosts_are_one_run(tmp_path: Path) -> None:
    first, second = "2026_01_01_00_47_36", "2026_01_01_00_47_38"
    put(tmp_path, in_profile(first, "hostA"), in_profile(second, "hostB"), in_profile(second, "hostC"))
    put(tmp_path, in_profile("2026_01_01_00_46_00", "hostD"))
    run = find_run(tmp_path)
    assert run.name == first
    assert hosts(run) == ["hostA", "hostB", "hostC"]
    assert run.others == ("2026_01_01_00_46_00",)
    assert find_run(tmp_path, run=second) == run
    for session in (first, second):
        direct = find_run(tmp_path / "plugins" / "profile" / session)
        assert hosts(direct) == hosts(run)
    assert hosts(find_run(tmp_path / in_profile(second, "hostB"))) == ["hostB"]


@pytest.mark.parametrize(
    ("sessions", "expected"),
    [
        # the same host twice: a stale directory, never merged
        ({"00_00_00": "A", "00_00_02": "A"}, [["00_00_02"], ["00_00_00"]]),
        ({"00_00_00": "AB", "00_00_02": "BC"}, [["00_00_02"], ["00_00_00"]]),
        # exactly a minute, and a second more
        ({"00_00_00": "A", "00_01_00": "B"}, [["00_00_00", "00_01_00"]]),
        ({"00_00_00": "A", "00_01_01": "B"}, [["00_01_01"], ["00_00_00"]]),
        # a chain does not stretch over more than a minute
        ({"00_00_00": "A", "00_00_40": "B", "00_01_20": "C"}, [["00_01_20"], ["00_00_00", "00_00_40"]]),
        # a restarted host: the later files go together
        ({"00_00_00": "A", "00_00_30": "A", "00_00_32": "B"}, [["00_00_30", "00_00_32"], ["00_00_00"]]),
    ],
)
def test_which_siblings_are_merged(tmp_path: Path, sessions: dict[str, str], expected: list[list[str]]) -> None:
    for name, members in sessions.items():
        for host in members:
            put(tmp_path, in_profile(f"2026_01_01_{name}", host))
    found = [
        sorted({Path(file.xplane or "").parent.name.removeprefix("2026_01_01_") for file in run.files})
        for run in list_runs(tmp_path)
    ]
    assert found == expected


def test_siblings_in_different_places_are_never_merged(tmp_path: Path) -> None:
    put(tmp_path, f"a/{in_profile('2026_01_01_00_00_00', 'A')}", f"b/{in_profile('2026_01_01_00_00_01', 'B')}")
    assert [hosts(run) for run in list_runs(tmp_path)] == [["B"], ["A"]]


def test_f03_riegeli_alone_is_named_and_refused(tmp_path: Path) -> None:
    put(tmp_path, in_profile(F00, "hostA", ".xplane.riegeli"))
    for given in (tmp_path, tmp_path / "plugins/profile" / F00, tmp_path / in_profile(F00, "hostA", ".xplane.riegeli")):
        with pytest.raises(
            UnsupportedContainerError, match=r"hostA\.xplane\.riegeli, a container that is not supported"
        ):
            find_run(given)
        with pytest.raises(UnsupportedContainerError, match="hostA"):
            list_runs(given)
    put(tmp_path, in_profile("2025_01_01_00_00_00"))
    with pytest.raises(UnsupportedContainerError, match="--run 2025_01_01_00_00_00"):
        find_run(tmp_path)
    assert [run.name for run in list_runs(tmp_path)] == ["2025_01_01_00_00_00"]
    put(tmp_path, in_profile(F00, "hostB"))
    assert hosts(find_run(tmp_path)) == ["hostB"]


def test_nothing_at_the_path(tmp_path: Path) -> None:
    for path in (tmp_path / "nope", tmp_path / "nope" / "deeper"):
        with pytest.raises(TraceNotFoundError, match=r"nope.*There is no such file or directory.*tpuprof runs"):
            find_run(path)
    put(tmp_path, "file.xplane.pb")
    with pytest.raises(TraceNotFoundError):
        find_run(tmp_path / "file.xplane.pb" / "inside")


def test_an_empty_path_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "file.xplane.pb")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"The path is empty\..*working directory is called '\.'"):
        find_run("")
    with pytest.raises(UsageError, match="null character"):
        find_run("a\0b")
    assert hosts(find_run(".")) == ["file"]


def test_a_directory_without_a_run_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFoundError, match=r"holds no profile run.*It is empty\..*tpuprof capture"):
        find_run(tmp_path)
    put(tmp_path, *(f"events.out.tfevents.{k}" for k in range(7)), "sub/notes.txt")
    with pytest.raises(TraceNotFoundError, match=r"2 directories listed.*events\.out\.tfevents\.0, .* and 3 more"):
        find_run(tmp_path)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    put(tmp_path, "notes.txt")
    with pytest.raises(NotATraceError, match=r"notes\.txt is not a trace.*\.xplane\.pb or \.trace\.json\.gz"):
        find_run(tmp_path / "notes.txt")


def test_search_is_bounded_in_number_and_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def counting(location: str, **options: str) -> tuple[files.Entry, ...]:
        listed.append(location)
        return list_directory(location, **options)

    monkeypatch.setattr(discover, "list_directory", counting)
    for k in range(30):
        put(tmp_path, f"checkpoints/{k}/state/part/leaf/deep/array")
    put(tmp_path, in_profile(F00), in_profile("2026_01_02_00_00_00"))
    assert find_run(tmp_path).name == "2026_01_02_00_00_00"
    assert not any("part/leaf" in location for location in listed)
    listed.clear()
    find_run(tmp_path / "plugins" / "profile")
    assert len(listed) == 3
    listed.clear()
    monkeypatch.setattr(discover, "MAX_LISTINGS", 10)
    assert find_run(tmp_path).name == "2026_01_02_00_00_00"
    assert len(listed) <= 10


def test_only_the_newest_sessions_are_listed_but_all_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "MAX_SESSIONS", 2)
    for day in range(1, 6):
        put(tmp_path, in_profile(f"2026_01_0{day}_00_00_00"))
    assert [run.name for run in list_runs(tmp_path)] == ["2026_01_05_00_00_00", "2026_01_04_00_00_00"]
    assert find_run(tmp_path, run="2026_01_01_00_00_00").name == "2026_01_01_00_00_00"
    assert find_run(tmp_path / "plugins/profile", run="2026_01_02_00_00_00").name == "2026_01_02_00_00_00"


def test_links_are_followed_when_given_and_not_out_of_the_root(tmp_path: Path) -> None:
    put(tmp_path, "outside/hostA.xplane.pb", "root/s/real.xplane.pb", "root/store/blob.pb")
    (tmp_path / "root/s/hostA.xplane.pb").symlink_to(tmp_path / "outside/hostA.xplane.pb")
    (tmp_path / "root/s/hostB.xplane.pb").symlink_to(tmp_path / "root/store/blob.pb")
    (tmp_path / "root/s/hostC.xplane.pb").symlink_to(tmp_path / "nowhere")
    (tmp_path / "root/loop").symlink_to(tmp_path / "root")
    (tmp_path / "given").symlink_to(tmp_path / "outside")
    assert hosts(find_run(tmp_path / "root")) == ["hostB", "real"]
    assert [run.name for run in list_runs(tmp_path / "root")] == ["s"]
    assert hosts(find_run(tmp_path / "given")) == ["hostA"]
    assert hosts(find_run(tmp_path / "root/s/hostA.xplane.pb")) == ["hostA"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_an_unreadable_directory_is_an_error_only_as_the_root(tmp_path: Path) -> None:
    put(tmp_path, in_profile(F00), "locked/x")
    (tmp_path / "locked").chmod(0)
    try:
        assert find_run(tmp_path).name == F00
        with pytest.raises(InputError, match=r"locked: It may not be read: permission denied"):
            find_run(tmp_path / "locked")
    finally:
        (tmp_path / "locked").chmod(0o700)


def test_permission_errors_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, in_profile(F00), "locked/x")
    scan = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(files.os, "scandir", refusing)
    assert find_run(tmp_path).name == F00
    with pytest.raises(InputError, match=r"locked: It may not be read: permission denied.*Ask its owner"):
        find_run(tmp_path / "locked")


def test_memory_urls() -> None:
    fs = fsspec.filesystem("memory")
    for session, host in ((F00, "hostA"), ("2026_01_01_00_00_02", "hostB"), ("2025_01_01_00_00_00", "hostA")):
        fs.pipe_file(f"/discover/log/plugins/profile/{session}/{host}.xplane.pb", b"data")
    fs.pipe_file(f"/discover/log/plugins/profile/{F00}/hostA.trace.json.gz", b"js")
    root = "memory://discover/log"
    for place in (root, root + "/", f"{root}/plugins/profile", f"{root}/plugins/profile/{F00}"):
        run = find_run(place)
        assert run.name == F00
        assert hosts(run) == ["hostA", "hostB"]
    file = run.files[0]
    assert (file.xplane_size, file.trace_json_size) == (4, 2)
    assert file.xplane is not None
    assert open_bytes(file.xplane) == b"data"
    assert hosts(find_run(file.xplane)) == ["hostA"]
    assert find_run(root).others == ("2025_01_01_00_00_00",)
    with pytest.raises(TraceNotFoundError, match="memory://discover/nope"):
        find_run("memory://discover/nope")
    with pytest.raises(TraceNotFoundError, match="no such file"):
        open_bytes("memory://discover/nope.xplane.pb")


def test_urls_that_need_a_package_or_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import known_implementations

    monkeypatch.setitem(
        known_implementations, "fake", {"class": "no_such_driver.FakeFileSystem", "err": "Install no_such_driver"}
    )
    with pytest.raises(MissingDependencyError, match=r"fake:// needs the package no_such_driver.*pip install no_such"):
        find_run("fake://bucket/run")
    with pytest.raises(UsageError, match="'wrong' is not a kind of URL"):
        find_run("wrong://bucket/run")


def test_drivers_may_raise_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    monkeypatch.setattr(type(memory), "info", lambda *_a, **_k: (_ for _ in ()).throw(RuntimeError("token expired")))
    with pytest.raises(InputError, match=r"memory://x: It cannot be read\. RuntimeError: token expired"):
        find_run("memory://x")


def test_open_bytes_of_local_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a", data=b"abc")
    put(tmp_path, "empty", data=b"")
    assert open_bytes(as_location(tmp_path / "a"))[:] == b"abc"
    assert open_bytes(as_location(tmp_path / "empty")) == b""
    with pytest.raises(TraceNotFoundError):
        open_bytes(str(tmp_path / "nope"))
    with pytest.raises(InputError, match="IsADirectoryError"):
        open_bytes(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        open_bytes(str(tmp_path / "pipe"))
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2)
    with pytest.raises(InputTooLargeError, match="has 3 bytes; the limit is 2"):
        open_bytes(str(tmp_path / "a"))


def test_a_directory_with_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, *(f"f{k}" for k in range(5)))
    monkeypatch.setattr(files, "MAX_ENTRIES", 4)
    with pytest.raises(InputTooLargeError, match="more than 4 entries"):
        find_run(tmp_path)


@pytest.mark.parametrize(
    ("location", "joined"),
    [("memory://", "memory://a/b"), ("gs://bucket/x", "gs://bucket/x/a/b"), ("/log", "/log/a/b")],
)
def test_joining_locations(location: str, joined: str) -> None:
    assert files.join(location, "a", "b") == joined
    assert files.base_name(joined) == "b"
    assert files.parent(joined) == joined.removesuffix("/b")


def test_looking_for_runs_imports_nothing_heavy() -> None:
    code = (
        "import sys, tpuprof.formats.load, tpuprof.formats.discover\n"
        "heavy = {'numba', 'pandas', 'pyarrow', 'google.protobuf', 'fsspec', 'jax'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_natural_order() -> None:
    names = ["h-10", "h-9", "h-9a", "10", "9", "a", "h-010"]
    assert sorted(names, key=natural_key) == ["9", "10", "a", "h-9", "h-9a", "h-010", "h-10"]


@pytest.mark.real
def test_real_folders(real_traces: Path) -> None:
    run = find_run(real_traces / "v5e-1-matmul")
    assert run.name == "2026_05_18_09_57_44"
    (file,) = run.files
    assert (file.host, file.xplane_size, file.trace_json_size) == ("t1v-n-3072d20e-w-0", 207534, 120393)
    names = {one.name for one in list_runs(real_traces)}
    assert names == {"2026_05_18_09_57_44", "broken", "mi300-gemm", "v6e-4-host-offload", "v7x-2-prefill"}
