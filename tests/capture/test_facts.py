"""What a sidecar says of the process, its machine, its code, its devices and what it compiled."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.capture.support import FakeProfiler, child_environment
from tpuprof.capture import capture, compiles, environment, forget_programs, note_program, process, programs
from tpuprof.capture.process import GitLook
from tpuprof.capture.sidecar import add_facts, write_sidecar
from tpuprof.errors import UsageError
from tpuprof.sidecar import FIELDS, problems


def test_devices_are_described_with_their_place():
    class Chip:
        id, process_index, device_kind, platform = 5, 1, "TPU v5p", "tpu"
        coords, core_on_chip, slice_index, local_hardware_id = (1, 0, 2), 0, 3, 1

        def memory_stats(self):
            return {"bytes_limit": 95 << 30, "bytes_in_use": 1}

    assert environment.device_facts(Chip()) == {
        "kind": "TPU v5p",
        "id": 5,
        "process_index": 1,
        "coords": [1, 0, 2],
        "core_on_chip": 0,
        "slice_index": 3,
        "local_hardware_id": 1,
        "memory_bytes": 95 << 30,
    }


def test_a_device_that_tells_little_is_described_by_that():
    class Odd:
        id, device_kind = 0, "odd"

        @property
        def coords(self):
            raise NotImplementedError

    assert environment.device_facts(Odd()) == {"kind": "odd", "id": 0}


def test_the_meshes_of_live_arrays_are_seen_with_the_assignment():
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    arrays = [jax.device_put(jnp.ones((4, n)), NamedSharding(mesh, PartitionSpec("data"))) for n in (2, 3)]
    deleted = jax.device_put(jnp.ones(4), NamedSharding(mesh, PartitionSpec()))
    deleted.delete()
    (found,) = environment.meshes_of([jnp.ones(3), *arrays, deleted, object()])
    assert found["axes"] == {"data": 1, "model": 1}
    assert found["device_ids"] == [jax.devices()[0].id]
    assert found["bytes"] >= 4 * 4 * 5
    assert found["arrays"] >= 2
    assert len(found["axis_types"]) == 2


def test_a_real_capture_knows_devices_mesh_and_settings(tmp_path):
    mesh = jax.make_mesh((1,), ("data",), devices=jax.devices()[:1])
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh, PartitionSpec("data")))
    with capture(tmp_path) as made:
        (x + 1).block_until_ready()
    content = json.loads((made.path / "tpuprof.json").read_text())
    assert problems(content) == []
    assert [device["id"] for device in content["devices"]] == [device.id for device in jax.local_devices()]
    assert {"data": 1} in [mesh["axes"] for mesh in content["meshes"]]
    assert content["settings"]["jax_enable_x64"] is False
    assert content["run"] == {
        "name": made.path.name,
        "agreed_by": "time",
        "expected_processes": [0],
        "seen": {},
    }


def test_compilations_in_the_window_are_told_from_those_before_it(tmp_path):
    with capture(tmp_path):  # from here on somebody listens
        pass
    jax.jit(lambda x: x * 2)(1.0)
    with capture(tmp_path) as made:

        def planted_function(x):
            return jnp.sin(x) + 3

        jax.jit(planted_function)(jnp.ones(7)).block_until_ready()
    content = json.loads((made.path / "tpuprof.json").read_text())["compiles"]
    assert content["in_window"] >= 1
    assert content["count"] > content["in_window"]
    assert content["seconds_in_window"] > 0
    names = {event.get("function") for event in content["events"] if event["event"] == "backend_compile"}
    assert any("planted_function" in str(name) for name in names)


def test_the_log_of_compilations_is_bounded_and_never_in_the_way():
    log = compiles.CompileLog()
    assert log.report(0, 1) is None
    heard = []
    log.watch(types.SimpleNamespace(register_event_duration_secs_listener=heard.append))
    log.watch(types.SimpleNamespace(register_event_duration_secs_listener=heard.append))
    assert heard == [log.heard]
    for _ in range(3 * compiles.MOST_EVENTS):
        log.heard("/jax/core/compile/backend_compile_duration", 0.5, fun_name="f" * 1000)
    log.heard("/something/else", 1.0)
    report = log.report(0, 1 << 62)
    assert (report["count"], report["in_window"]) == (3 * compiles.MOST_EVENTS, compiles.MOST_EVENTS)
    assert report["seconds"] == 1.5 * compiles.MOST_EVENTS
    assert len(report["events"]) == compiles.MOST_REPORTED
    assert len(report["events"][0]["function"]) == 200
    assert log.report(0, 1)["in_window"] == 0
    none = compiles.CompileLog()
    none.watch(types.SimpleNamespace())
    assert none.report(0, 1) is None


def test_variables_of_the_runtime_are_kept_and_secrets_are_not():
    found = process.variables(
        {
            "XLA_FLAGS": "--xla_a=1 --token=sesame",
            "LIBTPU_INIT_ARGS": "--xla_tpu_x=true",
            "JAX_API_KEY": "sesame",
            "HOME": "/home/ann",
            "TPU_WORKER_ID": "3",
            "TPU_WORKER_HOSTNAMES": "a,b",
            "JAX_COORDINATOR_ADDRESS": "a:1",
            "AWS_SECRET": "sesame",
        }
    )
    assert found == {
        "JAX_API_KEY": "***",
        "LIBTPU_INIT_ARGS": "--xla_tpu_x=true",
        "TPU_WORKER_ID": "3",
        "XLA_FLAGS": "--xla_a=1 --token=***",
    }
    many = process.variables({f"XLA_{n}": "x" * 100_000 for n in range(1000)})
    assert len(many) == 200
    assert sum(map(len, many.values())) == 200_000


def test_command_lines_are_bounded(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--password=x", *["a"] * 2000])
    found = process.command_line()
    assert found[:3] == ["train.py", "--password=***", "a"]
    assert found[-1] == "… 1002 more"
    assert len(found) == 1001
    monkeypatch.setattr(sys, "argv", ["train.py", *["a" * 30_000] * 100])
    assert [len(argument) for argument in process.command_line()] == [8, 30_000, 19_992, len("… 98 more")]


@pytest.fixture
def checkout(tmp_path):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "train.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commit_of_the_code_and_whether_it_was_changed(checkout, monkeypatch):
    def look():
        git = GitLook(checkout)
        git.start()
        return git.result()

    clean = look()
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (checkout / "new.txt").write_text("untracked files are not changes")
    assert look()["dirty"] is False
    (checkout / "train.py").write_text("2\n")
    assert look() == {"commit": clean["commit"], "dirty": True}
    monkeypatch.setenv("TPUPROF_GIT", "0")
    assert look() is None


def test_without_a_checkout_or_git_the_commit_is_unknown(tmp_path, monkeypatch):
    git = GitLook(tmp_path)
    assert git.result() is None
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    git.start()
    assert git.result() is None
    monkeypatch.setenv("PATH", "")
    there = GitLook(tmp_path)
    there.start()
    assert there.result() is None


def test_a_git_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(process, "GIT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(process, "_git", lambda *_: released.wait(10) and "")
    git = GitLook(tmp_path)
    git.start()
    assert git.result() is None
    released.set()


@pytest.fixture
def compiled():
    yield jax.jit(lambda x: x @ x).lower(jnp.ones((16, 16))).compile()
    forget_programs()


def test_noted_programs_are_described_in_each_session(compiled, new_capture):
    note_program(compiled, "step one")
    note_program(compiled)
    for _ in range(2):
        with new_capture() as made:
            pass
        found = {
            program["name"]: program for program in json.loads((made.path / "tpuprof.json").read_text())["programs"]
        }
        assert set(found) == {"step_one", "jit__lambda"} or set(found) == {"step_one", "jit__lambda_"}
        assert found["step_one"]["memory"]["argument_bytes"] == 16 * 16 * 4
        text = (made.path / found["step_one"]["file"]).read_text()
        assert text.startswith("HloModule")
    forget_programs()
    with new_capture() as made:
        pass
    assert json.loads((made.path / "tpuprof.json").read_text())["programs"] == []


def test_the_hlo_of_a_noted_program_is_read_back(compiled, new_capture):
    from tpuprof.hlo import load_hlo

    note_program(compiled)
    with new_capture() as made:
        pass
    (module,) = load_hlo(str(made.path / "hlo"))
    assert module.name.startswith("jit__lambda")


def test_what_is_no_program_is_refused_and_their_number_is_bounded(compiled):
    with pytest.raises(UsageError, match=r"function is not a compiled function\. Give what jitted\.lower"):
        note_program(lambda: 0)
    for n in range(programs.MOST_PROGRAMS):
        note_program(compiled, f"p{n}")
    note_program(compiled, "p0")
    with pytest.raises(UsageError, match="There are 32 programs noted already"):
        note_program(compiled, "one more")


def test_a_program_that_cannot_be_described_does_not_cost_the_capture(new_capture):
    class Odd:
        def as_text(self):
            return "HloModule ../odd, is_scheduled=true"

        def memory_analysis(self):
            raise NotImplementedError("not on this backend")

    note_program(Odd())
    try:
        with new_capture() as made:
            pass
    finally:
        forget_programs()
    assert made.error is None
    (found,) = json.loads((made.path / "tpuprof.json").read_text())["programs"]
    assert found["name"] == "_odd"
    assert found["error"] == "NotImplementedError: not on this backend"


def test_a_sidecar_keeps_what_its_description_says(new_capture):
    with new_capture() as made:
        pass
    content = json.loads((made.path / "tpuprof.json").read_text())
    assert problems(content) == []
    described = {field.path.partition(".")[0].removesuffix("[]") for field in FIELDS}
    always = {field.path for field in FIELDS if not field.optional and "." not in field.path}
    assert always <= set(content) <= described


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"host": None}, ["host is null"]),
        ({"pid": "7"}, ["pid is not of kind integer"]),
        ({"pid": True}, ["pid is not of kind integer"]),
        ({"versions": {"jax": 3, "libtpu": None}}, ["versions.jax is not of kind text"]),
        ({"devices": [{"id": 0}]}, ["devices[0].kind is missing"]),
        ({"git": {"commit": "x", "dirty": 1}}, ["git.dirty is not of kind boolean"]),
        ({"new": object()}, []),
    ],
)
def test_contradictions_are_named_with_their_place(new_capture, change, expected):
    with new_capture() as made:
        pass
    content = json.loads((made.path / "tpuprof.json").read_text())
    assert problems({**content, **change}) == expected
    assert problems([]) == ["it is no JSON object"]
    del content["host"]
    assert problems(content) == ["host is missing"]


def test_the_facts_import_nothing_heavy():
    code = (
        "import sys, tpuprof.capture.environment, tpuprof.capture.process, tpuprof.capture.runid, tpuprof.sidecar\n"
        "heavy = {'jax', 'numpy', 'pandas', 'google.protobuf', 'click', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), check=True)


def test_the_fake_profiler_describes_no_real_device(process):
    assert FakeProfiler(process).environment.devices == ()
    assert os.environ["JAX_PLATFORMS"] == "cpu"


def test_what_steps_took_after_the_window_is_added_later(process, tmp_path):
    from tpuprof.capture.director import Director
    from tpuprof.capture.options import CaptureOptions
    from tpuprof.capture.plan import Plan
    from tpuprof.capture.recorder import Capture
    from tpuprof.capture.schedule import Schedule
    from tpuprof.capture.steplog import StepLog

    troubles = []
    director = Director(
        Plan(schedule=Schedule(at_steps=(5,), warmup=0, active=2)),
        lambda trigger, preempt: Capture(
            tmp_path, CaptureOptions(), profiler=FakeProfiler(process), trigger=trigger, managed=True
        ),
        log=StepLog(tmp_path),
        section=contextlib.nullcontext,
        changed=lambda *_, **__: None,
        problem=troubles.append,
        over=lambda: None,
    )

    def times():
        return json.loads((director.captures[0].path / "tpuprof.json").read_text())["step_time"]

    for number in range(40):
        director.before_step()
        director.enter_step()
        director.exit_step()
        if number == 10:
            assert "after_ns" not in times()
    assert troubles == []
    assert times()["after_steps"] == 20
    assert times()["after_ns"] > 0
    assert (times()["before_steps"], times()["during_steps"]) == (5, 2)
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    assert len(list(session.iterdir())) == 2
    (session / "tpuprof.json").unlink()
    director.captures[0].add_facts(late="x")  # a sidecar that is gone is no reason to fail


def test_facts_are_added_without_losing_others(tmp_path):
    trace = tmp_path / "h.xplane.pb"
    path = write_sidecar(trace, {"a": 1, "b": {"c": 2}})
    mode = path.stat().st_mode
    add_facts(path, {"b": 3, "d": "ü"})
    assert json.loads(path.read_bytes()) == {"a": 1, "b": 3, "d": "ü"}
    assert path.stat().st_mode == mode
    path.write_text("[]")
    with pytest.raises(ValueError, match="holds no JSON object"):
        add_facts(path, {})
    assert [one.name for one in tmp_path.iterdir()] == ["tpuprof.json"]
