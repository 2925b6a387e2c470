"""What a store promises, on both databases: nothing is lost, nothing is kept twice, nothing unlike is mixed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import tpuprof
from tests.history import made
from tpuprof.errors import InputError, StoreError, UnlikeRunsError, UsageError
from tpuprof.history import Metric, OpGroup, Sample, Store, run_facts


def test_a_run_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    logs = made.write(tmp_path / "logs")
    added = store.add(logs, {"branch": "main", "commit": "abc"})
    run = added.run
    assert added.new
    assert (run.id, run.name, run.n_devices, run.n_hosts, run.n_steps) == (1, "2026_01_01_00_00_00", 2, 1, 4)
    assert (run.platform, run.device_kind, run.step_source) == ("tpu", "TPU v5 lite", "steps_line")
    assert (run.captured_ns, run.branch, run.commit) == (made.START_NS, "main", "abc")
    assert run.facts["program"] == "jit_train_step(f32[64,64], f32[8,64]) -> f32[8,64], 2 partitions, 1 replicas"
    assert run.facts["hardware"] == "2 × TPU v5 lite, 1 host"
    assert store.samples(run) == tuple(Sample(1, step, us * 1_000_000) for step, us in enumerate((100, 110, 120, 130)))
    metrics = store.metrics([run])[run.id]
    assert metrics["step_p50_ps"].value == 115e6
    assert metrics["matmul_ps"].value == 60e6
    assert metrics["collective_exposed_ps"].value == 20e6
    assert metrics["idle_ps"].value == 35e6
    assert metrics["mfu"].value == pytest.approx(2 * 8 * 64 * 64 / (197e12 * 115e-6))
    assert metrics["memory_peak_bytes"] == Metric("memory_peak_bytes", None, "The trace holds no buffer assignment.")
    assert store.op_groups(run) == (
        OpGroup("jit_train_step", "jit(train_step)/layer/dot", "matmul", 8, 480_000_000, 480_000_000),
        OpGroup("jit_train_step", "jit(train_step)/layer/psum", "collective", 8, 160_000_000, 160_000_000),
    )
    assert store.run(1) == store.run(run.key[:6]) == store.run(run.name) == run == store.runs()[0]


def test_the_stored_run_is_what_the_facts_say(store: Store, tmp_path: Path) -> None:
    facts = run_facts(tpuprof.load(made.write(tmp_path / "logs")))
    run = store.add_facts(facts).run
    for name in ("key", "path", "window_ps", "program", "structure", "hardware", "facts", "worst_quality"):
        assert getattr(run, name) == getattr(facts, name), name
    assert tuple(store.metrics([run])[run.id].values()) == facts.metrics


def test_the_same_recording_is_one_run_wherever_its_files_lie(store: Store, tmp_path: Path) -> None:
    logs = made.write(tmp_path / "logs")
    first = store.add(logs, {"branch": "main"})
    shutil.copytree(logs, tmp_path / "copy")
    again = store.add(tmp_path / "copy", {"branch": "other", "commit": "abc", "hardware": "x"})
    assert not again.new
    assert again.run.id == first.run.id
    assert again.new_tags == {"commit": "abc"}
    assert again.kept_tags == {"branch": "other", "hardware": "x"}
    assert again.run.tags == {"branch": "main", "commit": "abc"}
    assert len(store.runs()) == 1
    assert len(store.samples(again.run)) == 4


def test_a_choice_of_steps_or_devices_is_another_run(store: Store, tmp_path: Path) -> None:
    trace = tpuprof.load(made.write(tmp_path / "logs"))
    keys = {store.add(t).run.key for t in (trace, trace.select(steps=[1, 2]), trace.select(devices=["hostA/TPU:0"]))}
    assert len(keys) == 3
    assert not store.add(trace.select(steps=[2, 1])).new


def test_another_recording_of_the_same_program_is_another_run(store: Store, tmp_path: Path) -> None:
    one = store.add(made.write(tmp_path / "a")).run
    two = store.add(made.write(tmp_path / "b", start_ns=made.START_NS + 1)).run
    assert one.id != two.id
    assert one.series == two.series


def test_numbers_have_no_gaps_from_repeated_adds(store: Store) -> None:
    for number in (0, 0, 0, 1):
        store.add_facts(made.facts(number))
    assert [run.id for run in store.runs()] == [1, 2]


def test_runs_are_in_order_of_capture_and_can_be_chosen(store: Store) -> None:
    for number, branch in ((2, "main"), (0, "main"), (1, "dev"), (3, "main")):
        store.add_facts(made.facts(number, hardware=f"{number % 2}" * 32), {"branch": branch, "n": str(number)})
    assert [run.name for run in store.runs()] == ["run0", "run1", "run2", "run3"]
    assert [run.name for run in store.runs(last=2)] == ["run2", "run3"]
    assert [run.name for run in store.runs(tags={"branch": "main"}, last=2)] == ["run2", "run3"]
    assert [run.name for run in store.runs(tags={"branch": "main", "n": "0"})] == ["run0"]
    assert [run.name for run in store.runs(hardware="1" * 32)] == ["run1", "run3"]
    assert store.runs(program="x" * 32) == []
    assert store.runs(tags={"branch": "none"}) == []


def test_a_run_without_time_of_capture_is_ordered_by_when_it_was_added(store: Store) -> None:
    untimed = store.add_facts(replace(made.facts(0), captured_ns=None)).run
    long_ago = store.add_facts(made.facts(1, captured_ns=1)).run
    future = store.add_facts(made.facts(2, captured_ns=(1 << 63) - 1)).run
    assert untimed.time_ns == untimed.added_ns
    assert store.runs() == [long_ago, untimed, future]


def test_texts_that_look_like_statements_and_extreme_numbers_come_back(store: Store) -> None:
    facts = made.facts(
        0,
        name="a'; DROP TABLE tpuprof_runs; -- \U0001f600 %s :x",
        captured_ns=(1 << 63) - 1,
        steps=((-(1 << 63), (1 << 63) - 1), (5, 0)),
    )
    run = store.add_facts(facts, {"note": "100 % 'x' \\"}).run
    assert run.name == facts.name
    assert run.tags == {"note": "100 % 'x' \\"}
    assert [(s.step, s.time_ps) for s in store.samples(run)] == list(facts.steps)
    assert store.run(facts.name) == run


def test_control_characters_of_a_trace_do_not_reach_the_store(store: Store, tmp_path: Path) -> None:
    run = store.add(made.write(tmp_path / "logs", kind="TPU\x00 v5\x1b[31m", session="2026\x1b[31m_red")).run
    assert run.device_kind == "TPU\N{REPLACEMENT CHARACTER} v5"
    assert run.name == "2026_red"


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["branch"], "'branch' is no tag. Write NAME=VALUE, such as branch=main."),
        (["9x=1"], "'9x' cannot name a tag."),
        (["=1"], "'' cannot name a tag."),
        (["a b=1"], "'a b' cannot name a tag."),
        ([f"{'x' * 65}=1"], "cannot name a tag."),
        (["x="], "The value of tag 'x' is empty or too long."),
        (["x=" + "y" * 2001], "The value of tag 'x' is empty or too long."),
        (["x=1", "x=2"], "Tag 'x' is given twice: '1' and '2'."),
    ],
)
def test_a_wrong_tag_is_refused(file_store: Store, tags: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        file_store.add("not/even/looked/at", tags)
    assert message in str(error.value)
    assert file_store.runs() == []


def test_tags_are_clean_texts(file_store: Store, tmp_path: Path) -> None:
    run = file_store.add(made.write(tmp_path / "logs"), ["note=a\x1b[31mb\nc = d", "x.y-z_1=  v  "]).run
    assert run.tags == {"note": "ab c = d", "x.y-z_1": "v"}


def test_a_path_without_a_run_is_refused(file_store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        file_store.add(tmp_path / "nothing")
    assert file_store.runs() == []


def test_a_run_that_is_not_there(store: Store) -> None:
    store.add_facts(made.facts(0, name="same"))
    store.add_facts(made.facts(1, name="same"))
    for name in ("99", "nothing", "", "-1", "ffffff", "9" * 30):
        with pytest.raises(UsageError, match="No run of the store is called"):
            store.run(name)
    with pytest.raises(UsageError, match="2 runs of the store are called 'same'") as error:
        store.run("same")
    assert error.value.hint == "Give one of their numbers: 1, 2."


def test_removing_a_run_removes_all_of_it(store: Store) -> None:
    kept, gone = (store.add_facts(made.facts(n), {"n": str(n)}).run for n in (0, 1))
    store.set_baseline("both", [kept, gone])
    store.set_baseline("one", [gone])
    assert store.remove(gone)
    assert not store.remove(gone)
    assert store.runs() == [kept]
    assert store.samples(gone) == ()
    assert store.op_groups(gone) == ()
    assert store.metrics([gone]) == {gone.id: {}}
    assert [(b.name, [r.id for r in b.runs]) for b in store.baselines()] == [("both", [kept.id])]
    again = store.add_facts(made.facts(1)).run
    assert again.id not in (kept.id, gone.id)  # a number never comes to mean another run


class TestBaselines:
    def test_samples_of_a_baseline_say_which_capture_they_are_of(self, store: Store) -> None:
        late, early = (store.add_facts(made.facts(n, steps=((0, 10 + n), (1, 20 + n)))).run for n in (1, 0))
        baseline = store.set_baseline("nightly", [late, early])
        assert [run.name for run in baseline.runs] == ["run0", "run1"]
        assert store.samples(baseline) == (
            Sample(early.id, 0, 10), Sample(early.id, 1, 20), Sample(late.id, 0, 11), Sample(late.id, 1, 21),
        )  # fmt: skip
        assert store.baseline("nightly") == store.baseline("nightly", like=late) == baseline

    def test_setting_again_replaces_the_one_of_the_same_program_and_hardware_only(self, store: Store) -> None:
        a, b = (store.add_facts(made.facts(n)).run for n in (0, 1))
        other = store.add_facts(made.facts(2, hardware="o" * 32)).run
        store.set_baseline("x", [a])
        store.set_baseline("x", [other])
        store.set_baseline("x", [b, b])
        assert store.baseline("x", like=a).runs == (b,)
        assert store.baseline("x", like=other).runs == (other,)
        with pytest.raises(UsageError, match="There are 2 baselines 'x'"):
            store.baseline("x")
        assert store.remove_baseline("x") == 2
        assert store.remove_baseline("x") == 0
        assert len(store.runs()) == 3

    def test_unlike_runs_are_never_one_baseline(self, store: Store) -> None:
        a = store.add_facts(made.facts(0)).run
        b = store.add_facts(made.facts(1, hardware="o" * 32, about={"hardware": "4 × TPU v4"})).run
        c = store.add_facts(made.facts(2, program="q" * 32)).run
        unknown = store.add_facts(made.facts(3, hardware=None)).run
        with pytest.raises(UnlikeRunsError, match="runs 1 and 2 are of different hardware") as error:
            store.set_baseline("x", [a, b])
        assert error.value.why == "8 × TPU v5 lite, 1 host, and 4 × TPU v4."
        with pytest.raises(UnlikeRunsError, match="runs 1 and 3 are of different programs"):
            store.set_baseline("x", [a, c])
        with pytest.raises(UnlikeRunsError, match="Run 4 cannot be a baseline: its hardware is unknown"):
            store.set_baseline("x", [unknown])
        assert store.baselines() == []

    def test_a_baseline_of_other_runs_is_not_given(self, store: Store) -> None:
        a = store.add_facts(made.facts(0)).run
        store.set_baseline("x", [a])
        for like, message in (
            (made.facts(1, hardware="o" * 32), "Baseline 'x' is for other hardware."),
            (made.facts(1, program="q" * 32), "Baseline 'x' is for other programs."),
            (made.facts(1, program=None), "The run's program is unknown"),
            (made.facts(1, hardware=None), "The run's hardware is unknown"),
        ):
            with pytest.raises(UnlikeRunsError, match=message) as error:
                store.baseline("x", like=like)
            assert error.value.exit_code == 5
        with pytest.raises(UsageError, match="There is no baseline 'y'"):
            store.baseline("y", like=a)

    @pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 201])
    def test_names(self, file_store: Store, name: str) -> None:
        run = file_store.add_facts(made.facts(0)).run
        with pytest.raises(UsageError, match="cannot name a baseline"):
            file_store.set_baseline(name, [run])

    def test_it_needs_runs_that_are_there(self, store: Store) -> None:
        run = store.add_facts(made.facts(0)).run
        store.remove(run)
        with pytest.raises(UsageError, match="Run 1 is not in the store any more"):
            store.set_baseline("x", [run])
        with pytest.raises(UsageError, match="needs at least one run"):
            store.set_baseline("x", [])


def test_reading_only(store: Store, url: str) -> None:
    run = store.add_facts(made.facts(0)).run
    store.set_baseline("x", [run])
    reader = Store.open(url, read_only=True)
    assert reader.runs() == [run]
    assert reader.baseline("x").runs == (run,)
    for change in (
        lambda: reader.add_facts(made.facts(1)),
        lambda: reader.remove(run),
        lambda: reader.set_baseline("y", [run]),
        lambda: reader.remove_baseline("x"),
    ):
        with pytest.raises(StoreError, match="opened for reading only"):
            change()


def test_many_runs_are_read_in_bounded_statements(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuprof.history.store._CHUNK", 3)
    for number in range(8):
        store.add_facts(made.facts(number, steps=((0, number),)), {"n": str(number)})
    runs = store.runs()
    assert [run.tags["n"] for run in runs] == list("01234567")
    assert all(store.metrics(runs)[run.id] for run in runs)
    baseline = store.set_baseline("all", runs)
    assert [sample.time_ps for sample in store.samples(baseline)] == list(range(8))
