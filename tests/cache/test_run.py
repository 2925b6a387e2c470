"""Runs from the cache: the same in every bit, never those of other files, and never in the way."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.random_traces import cpu_truths
from tests.test_reading import pods
from tpuprof.cache import CacheDir, finish_writing, run
from tpuprof.cache.codec import Codec
from tpuprof.cache.container import NotKeptError, read_container, write_container
from tpuprof.cache.frame import frame_parts
from tpuprof.errors import InputError, UsageError
from tpuprof.report import build_report
from tpuprof.tables.schemas import SEGMENTS
from tpuprof.testing import TraceBuilder
from tpuprof.testing.contract import edge_trace

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_traces"
TABLES = (
    "events", "ops", "modules", "steps", "partition", "segments", "gaps", "collectives", "arrivals", "host_events",
    "memory", "memory_summary", "memory_events", "allocators", "scopes",
)  # fmt: skip


class Cache:
    """A cache for runs of any size, and what it said."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        self.dir = CacheDir(path, min_input_bytes=0, tell=self.said.append)

    def load(self, path: str | os.PathLike[str], **options: Any) -> tpuprof.Trace:
        self.said.clear()
        trace = tpuprof.load(path, cache=self.dir, **options)
        finish_writing()
        return trace

    @property
    def hit(self) -> bool:
        return any("taken from" in text for text in self.said)

    @property
    def entries(self) -> list[Path]:
        return sorted(self.dir.path.glob("*.run"))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """Equal in every bit; what is parsed from the HLO is compared through the tables."""
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()), where
        return
    assert type(one) is type(other), where
    if is_dataclass(one):
        for name in {field.name for field in fields(one)} - {"instruction", "program"}:
            assert_same(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for left, right in zip(one, other, strict=True):
            assert_same(left, right, f"{where}[]")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key}]")
    else:
        assert one == other or one != one, where


def assert_same_run(one: tpuprof.Trace, other: tpuprof.Trace) -> None:
    assert_same(one.built, other.built, "built")
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True, obj=name)
    assert json.dumps(build_report(one)) == json.dumps(build_report(other))
    assert (one.quality, one.metadata) == (other.quality, other.metadata)
    assert (one.name, one.path, one.hosts, one.devices) == (other.name, other.path, other.hosts, other.devices)
    assert list(one.programs) == list(other.programs)
    assert [source.path for source in one.sources] == [source.path for source in other.sources]


@pytest.mark.parametrize("sample", ["cpu_demo", "tpu_loop_async", "tpu_two_hosts"])
def test_sample_traces_are_the_same_from_the_cache(cache: Cache, sample: str) -> None:
    without = cache.load(SAMPLES / sample)
    assert not cache.hit
    assert_same_run(without, cache.load(SAMPLES / sample))
    assert cache.hit


@pytest.mark.real
@pytest.mark.parametrize("folder", ["v6e-4-host-offload", "v5e-1-matmul", "v7x-2-prefill", "mi300-gemm"])
def test_real_traces_are_the_same_from_the_cache(cache: Cache, real_traces: Path, folder: str) -> None:
    without = cache.load(real_traces / folder)
    assert_same_run(without, cache.load(real_traces / folder))
    assert cache.hit


@settings(max_examples=5, deadline=None)
@given(pods() | cpu_truths().map(lambda truth: truth.trace))
def test_any_trace_is_the_same_from_the_cache(tmp_path_factory: pytest.TempPathFactory, trace: TraceBuilder) -> None:
    folder = tmp_path_factory.mktemp("run")
    path, cache = trace.write(folder / "log"), Cache(folder / "cache")
    without = cache.load(path)
    assert_same_run(without, cache.load(path))
    assert cache.hit


@pytest.mark.parametrize("steps", [0, 1])
def test_runs_with_next_to_nothing_in_them(cache: Cache, tmp_path: Path, steps: int) -> None:
    path = edge_trace("edge", steps, marked=False, cores=1).write(tmp_path / "log")
    assert_same_run(cache.load(path), cache.load(path))
    assert cache.hit


def test_a_json_trace_is_the_same_from_the_cache(cache: Cache, tmp_path: Path) -> None:
    path = small().write_json(tmp_path / "log")
    assert_same_run(cache.load(path), cache.load(path))
    assert cache.hit


def test_a_selection_is_the_same_from_the_cache(cache: Cache) -> None:
    cache.load(SAMPLES / "tpu_two_hosts")
    kept, read = cache.load(SAMPLES / "tpu_two_hosts"), tpuprof.load(SAMPLES / "tpu_two_hosts")
    assert cache.hit
    choice: dict[str, Any] = {"devices": [read.devices[1].id], "steps": [int(read.steps["step"].iloc[0])]}
    assert_same_run(read.select(**choice), kept.select(**choice))


def small(steps: int = 3) -> TraceBuilder:
    return edge_trace("small", steps, marked=True, cores=2)


def test_segments_are_kept_when_they_were_made(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = SAMPLES / "tpu_two_hosts"
    made = cache.load(path).segments
    finish_writing()
    assert len(list(cache.dir.path.glob("*-segments.table"))) == 1
    read = cache.load(path)

    def never(*arguments: Any) -> Any:
        raise AssertionError(arguments)

    with monkeypatch.context() as patch:
        patch.setattr("tpuprof.tables.segments.segments_frame", never)
        pd.testing.assert_frame_equal(made, read.segments, check_exact=True)
        steps = [int(made["step"].iloc[0])]
        chosen = made[made["step"].isin(steps)].reset_index(drop=True)
        pd.testing.assert_frame_equal(chosen, cache.load(path).select(steps=steps).segments, check_exact=True)
    device = [read.devices[0].id]
    expected = tpuprof.load(path).select(devices=device).segments
    pd.testing.assert_frame_equal(expected, cache.load(path).select(devices=device).segments, check_exact=True)


@pytest.mark.parametrize("damage", ["noise", "other columns", "other codes", "other lengths"])
def test_damaged_segments_are_made_again(cache: Cache, damage: str) -> None:
    path = SAMPLES / "tpu_two_hosts"
    made = cache.load(path).segments
    finish_writing()
    (entry,) = cache.dir.path.glob("*.table")
    tree, parts = frame_parts(made, SEGMENTS)
    if damage == "noise":
        put(entry, b"noise")
    else:
        if damage == "other columns":
            tree, parts = tree[:-1], parts[:-1]
        elif damage == "other codes":
            parts[0] = np.full(len(made), 100, np.int8)
        else:
            parts[1] = np.zeros(3, np.int64)
        entry.unlink()
        with entry.open("wb") as stream:
            write_container(stream, tree, parts)
    pd.testing.assert_frame_equal(made, cache.load(path).segments, check_exact=True)
    assert any("cannot be used" in text for text in cache.said)


def test_only_plain_columns_are_kept() -> None:
    from tpuprof.tables.schemas import STEPS, TABLES

    assert frame_parts(STEPS.empty(), STEPS)[0][0] == []
    refused = next(
        schema for schema in TABLES.values() if any(column.nullable and column.dtype != "category" for column in schema)
    )
    with pytest.raises(NotKeptError, match="has no form in the cache"):
        frame_parts(refused.empty(), refused)


# --- other content, other run -----------------------------------------------------------------------------------------


def test_a_changed_file_is_read(cache: Cache, tmp_path: Path) -> None:
    path = small(3).write(tmp_path / "log")
    (file,) = path.glob("*.xplane.pb")
    cache.load(path)
    times = file.stat()
    shutil.rmtree(tmp_path / "log")
    small(2).write(tmp_path / "log")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.load(path).n_steps == 2
    assert not cache.hit
    assert len(cache.entries) == 2
    shutil.rmtree(tmp_path / "log")
    small(3).write(tmp_path / "log")
    assert cache.load(path).n_steps == 3
    assert cache.hit


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "other.xplane.pb").write_bytes(small(2).to_bytes()),
        lambda path: next(path.glob("*.xplane.pb")).rename(path / "renamed.xplane.pb"),
        lambda path: (path / f"{next(path.glob('*.xplane.pb')).name[:-10]}.trace.json").write_text(
            '{"traceEvents": []}'
        ),
    ],
    ids=["another host", "another name", "a JSON beside it"],
)
def test_other_files_are_another_run(cache: Cache, tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = small().write(tmp_path / "log")
    cache.load(path)
    change(path)
    found = cache.load(path)
    assert not cache.hit
    assert_same_run(tpuprof.load(path), found)
    assert_same_run(tpuprof.load(path), cache.load(path))
    assert cache.hit


def test_the_json_that_an_empty_file_falls_back_to_counts(cache: Cache, tmp_path: Path) -> None:
    path = small(3).write_json(tmp_path / "log")
    (text,) = path.glob("*.trace.json.gz")
    (path / text.name.replace(".trace.json.gz", ".xplane.pb")).write_bytes(b"")
    assert cache.load(path).n_steps == 3
    assert any(entry.id == "xplane_empty" for entry in cache.load(path).quality)
    assert cache.hit
    text.write_bytes((small(2).write_json(tmp_path / "other") / text.name).read_bytes())
    assert cache.load(path).n_steps == 2
    assert not cache.hit


def test_a_copy_elsewhere_names_its_own_files(cache: Cache, tmp_path: Path) -> None:
    path = small().write(tmp_path / "log")
    cache.load(path)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    copy = cache.load(tmp_path / "copy")
    assert copy.sources[0].path.startswith(str(tmp_path / "copy"))


def test_a_sidecar_is_read_anew(cache: Cache, tmp_path: Path) -> None:
    path = small().write(tmp_path / "log")
    cache.load(path)
    (path / "tpuprof.json").write_text('{"versions": {"jax": "9.9"}}')
    trace = cache.load(path)
    assert cache.hit
    assert trace.metadata["versions"] == {"jax": "9.9"}
    (path / "tpuprof.json").write_text("{")
    assert "sidecar_unreadable" in {entry.id for entry in cache.load(path).quality}
    assert cache.hit


def test_the_step_program_counts(cache: Cache) -> None:
    path = SAMPLES / "tpu_two_hosts"
    program = str(tpuprof.load(path).modules["module"].iloc[0]).partition("(")[0]
    cache.load(path)
    chosen = cache.load(path, step_program=program)
    assert not cache.hit
    assert_same_run(chosen, cache.load(path, step_program=program))
    assert cache.hit
    for _ in range(2):
        with pytest.raises(UsageError, match="nothing_like_it"):
            cache.load(path, step_program="nothing_like_it")


def test_the_hlo_counts(cache: Cache, tmp_path: Path) -> None:
    json_only = tmp_path / "log"
    tpu = tpuprof.load(SAMPLES / "tpu_loop_async")
    session = json_only / "plugins" / "profile" / "run"
    session.mkdir(parents=True)
    shutil.copy(tpu.sources[0].path, session)
    dump = tmp_path / "dump"
    dump.mkdir()
    text = (SAMPLES / "tpu_loop_async.hlo.txt").read_text()
    (dump / "module.hlo.txt").write_text(text)
    cache.load(json_only)
    for hlo in (dump, dump / "module.hlo.txt"):
        first = cache.load(json_only, hlo=hlo)
        assert not cache.hit
        assert_same_run(first, cache.load(json_only, hlo=hlo))
        assert cache.hit
    (dump / "module.hlo.txt").write_text(text.replace("is_scheduled=true", "is_scheduled=true ", 1) + "\n")
    cache.load(json_only, hlo=dump)
    assert not cache.hit
    (dump / "more.hlo.txt").write_text(text)
    cache.load(json_only, hlo=dump)
    assert not cache.hit
    with pytest.raises(InputError):
        cache.load(json_only, hlo=tmp_path / "nothing")


def test_other_code_is_another_run(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = run.code_mark()
    assert any("tables/build.py" in str(entry[0]) for entry in mark[1:])
    cache.load(SAMPLES / "tpu_two_hosts")
    monkeypatch.setattr(run, "code_mark", lambda: [*mark, "x"])
    cache.load(SAMPLES / "tpu_two_hosts")
    assert not cache.hit
    monkeypatch.setattr(run, "code_mark", lambda: mark)
    monkeypatch.setattr(run, "FORMAT", 0)
    cache.load(SAMPLES / "tpu_two_hosts")
    assert not cache.hit


def test_a_file_that_changes_while_the_run_is_read_is_not_kept(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small(3).write(tmp_path / "log")
    (file,) = path.glob("*.xplane.pb")
    found = run.Entry.read

    def changed(entry: run.Entry) -> Any:
        result = found(entry)
        file.write_bytes(small(2).to_bytes())
        return result

    monkeypatch.setattr(run.Entry, "read", changed)
    assert cache.load(path).n_steps == 2
    assert cache.entries == []
    assert "changed while they were read" in cache.said[-1]


# --- what goes wrong with the cache never goes wrong with the run -----------------------------------------------------


def test_a_damaged_entry_is_no_entry(cache: Cache) -> None:
    path = SAMPLES / "tpu_two_hosts"
    whole = cache.load(path)
    (entry,) = cache.entries
    good = entry.read_bytes()
    for bad in (b"", good[:100], good[:-64], good[:5000] + b"\xff" * 64 + good[5064:], b"x" * len(good)):
        put(entry, bad)
        assert_same(whole.built, cache.load(path).built)
        assert not cache.hit
        assert "cannot be used" in cache.said[0]
        assert "read from its files" in cache.said[1]
        cache.load(path)
        assert cache.hit  # it was mended


def put(entry: Path, content: bytes) -> None:
    entry.unlink()  # what is mapped must not be cut
    entry.write_bytes(content)


def rewritten(entry: Path, change: Callable[[Any], Any]) -> None:
    """The entry with another content, whose checksums are right."""
    codec: Codec = run._codec()
    with entry.open("rb") as stream:
        kept = codec.decode(*read_container(stream))
    tree, parts = codec.encode(change(kept))
    entry.unlink()  # what is mapped must not be cut
    with entry.open("wb") as stream:
        write_container(stream, tree, parts)


def with_core(kept: Any, **changes: Any) -> Any:
    core = replace(kept.built.cores[0], **changes)
    return replace(kept, built=replace(kept.built, cores=(core, *kept.built.cores[1:])))


def first_core(kept: Any) -> Any:
    return kept.built.cores[0]


UNSOUND: dict[str, Callable[[Any], Any]] = {
    "no run": lambda kept: kept.heads,
    "no hosts": lambda kept: replace(kept, heads=()),
    "another file": lambda kept: replace(
        kept, heads=tuple(replace(head, source=replace(head.source, path="/etc/passwd")) for head in kept.heads)
    ),
    "fewer ops": lambda kept: replace(kept, ops=kept.ops[:1]),
    "fewer cores": lambda kept: replace(kept, built=replace(kept.built, cores=kept.built.cores[:1])),
    "shorter levels": lambda kept: with_core(kept, levels=first_core(kept).levels[:-1]),
    "parents outside": lambda kept: with_core(
        kept, nesting=replace(first_core(kept).nesting, parent=first_core(kept).nesting.parent + 10**6)
    ),
    "runs outside": lambda kept: with_core(
        kept, runs=replace(first_core(kept).runs, of_op=first_core(kept).runs.of_op + 10**6)
    ),
    "windows outside": lambda kept: with_core(
        kept, windows=replace(first_core(kept).windows, row=first_core(kept).windows.row + 10**9)
    ),
    "ops below": lambda kept: with_core(
        kept,
        record=replace(
            first_core(kept).record,
            ops=replace(first_core(kept).record.ops, info=first_core(kept).record.ops.info - 10**6),
        ),
    ),
}


@pytest.mark.parametrize("change", UNSOUND.values(), ids=UNSOUND)
def test_an_entry_that_contradicts_itself_is_no_entry(cache: Cache, change: Callable[[Any], Any]) -> None:
    path = SAMPLES / "tpu_two_hosts"
    whole = cache.load(path)
    rewritten(cache.entries[0], change)
    assert_same(whole.built, cache.load(path).built)
    assert not cache.hit
    assert "cannot be used" in cache.said[0]


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    blocked = Cache(tmp_path / "file" / "cache")
    assert blocked.load(SAMPLES / "tpu_two_hosts").n_steps > 0
    assert "is not kept: " in blocked.said[-1]
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    exposed = Cache(tmp_path / "open")
    assert exposed.load(SAMPLES / "tpu_two_hosts").n_steps > 0
    assert "others may write there" in exposed.said[-1]
    assert exposed.entries == []


def test_what_has_no_form_in_the_cache_is_not_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_codec", lambda: Codec((run.Kept,)))
    assert cache.load(SAMPLES / "tpu_two_hosts").n_steps > 0
    assert "is not kept: " in cache.said[-1]
    assert "has no form in the cache" in cache.said[-1]


def test_whatever_happens_while_writing_is_only_told(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("by zero")

    found = cache.load(SAMPLES / "tpu_two_hosts")
    cache.dir.clear()
    monkeypatch.setattr(run, "write_container", lambda *arguments: broken())
    assert_same(found.built, cache.load(SAMPLES / "tpu_two_hosts").built)
    assert cache.said[-1] == "cache: this run is not kept: ZeroDivisionError: by zero"


def test_a_run_larger_than_the_cache_is_not_kept(cache: Cache) -> None:
    cache.dir = replace(cache.dir, max_bytes=1000)
    cache.load(SAMPLES / "tpu_two_hosts")
    assert "the cache may hold 1 kB" in cache.said[-1]
    assert cache.entries == []


def test_small_runs_are_left_alone(cache: Cache) -> None:
    cache.dir = CacheDir(cache.dir.path, tell=cache.said.append)
    cache.load(SAMPLES / "tpu_two_hosts")
    assert cache.said == []
    assert not cache.dir.path.exists()


def test_remote_runs_are_not_cached(cache: Cache) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.makedirs("/cached/plugins/profile/run", exist_ok=True)
    memory.pipe("/cached/plugins/profile/run/small.xplane.pb", small().to_bytes())
    try:
        assert cache.load("memory://cached").n_steps == 3
        assert "is not on a local file system" in cache.said[0]
        assert cache.load(SAMPLES / "tpu_loop_async", hlo=None).n_steps > 0
    finally:
        memory.rm("/cached", recursive=True)


def test_without_asking_nothing_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "user"))
    monkeypatch.setattr("tpuprof.cache.directory.MIN_INPUT_BYTES", 0)
    tpuprof.load(SAMPLES / "tpu_two_hosts")
    finish_writing()
    assert not (tmp_path / "user").exists()


def test_true_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "user"))
    path = small(400).write(tmp_path / "log")
    monkeypatch.setattr("tpuprof.trace.user_cache", lambda: CacheDir(tmp_path / "user", min_input_bytes=0))
    tpuprof.load(path, cache=True)
    finish_writing()
    assert len(list((tmp_path / "user").glob("*.run"))) == 1
    monkeypatch.setattr("tpuprof.trace.user_cache", lambda: None)  # switched off
    assert tpuprof.load(path, cache=True).n_steps == 400


def test_events_are_read_once_more_and_then_held(cache: Cache, tmp_path: Path) -> None:
    path = small().write(tmp_path / "log")
    cache.load(path)
    trace = cache.load(path)
    assert cache.hit
    assert not trace.recordings.heads[0].space.planes
    first = trace.recordings[0].space
    assert first.planes
    assert trace.recordings[-1].space is first
    assert trace.recordings[:1][0].space is first
    shutil.rmtree(path)
    assert len(trace.host_events)
    assert len(trace.events)


def test_many_at_once(cache: Cache) -> None:
    path = SAMPLES / "tpu_two_hosts"
    whole = tpuprof.load(path)
    found: list[tpuprof.Trace] = []

    def work() -> None:
        found.extend(tpuprof.load(path, cache=cache.dir) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finish_writing()
    assert len(found) == 12
    for trace in found:
        assert_same(whole.built, trace.built)
    assert len(cache.entries) == 1
    assert not list(cache.dir.path.glob("*.tmp"))


@given(st.binary(max_size=50), st.integers(0, 1 << 20))
@settings(max_examples=8, deadline=None)
def test_no_damage_brings_a_wrong_run(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    folder = tmp_path_factory.mktemp("noise")
    cache = Cache(folder / "cache")
    whole = cache.load(SAMPLES / "tpu_loop_async")
    (entry,) = cache.entries
    good = entry.read_bytes()
    at %= len(good)
    put(entry, good[:at] + noise + good[at + len(noise) :])
    assert_same(whole.built, cache.load(SAMPLES / "tpu_loop_async").built)
