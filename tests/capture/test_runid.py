"""One run for all processes: who agrees on a name with whom, and who records."""

import json
import os
import threading
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.support import FakeProfiler
from tpuprof.capture import CaptureState, capture, election, runid
from tpuprof.capture.hosts import check_hosts, expected_processes, parse_hosts
from tpuprof.capture.runid import Membership, join_run, scheduler_job
from tpuprof.capture.session import ProcessIdentity, store
from tpuprof.errors import CaptureError, UsageError

NOON = datetime(2026, 3, 1, 12).timestamp()


class Store:
    """A key-value store as jax has it: a key is set once."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.lock = threading.Lock()

    def key_value_set(self, key, value):
        with self.lock:
            if key in self.values:
                raise RuntimeError(f"ALREADY_EXISTS: {key}")
            self.values[key] = value

    def key_value_try_get(self, key):
        if key not in self.values:
            raise RuntimeError(f"NOT_FOUND: {key}")
        return self.values[key]

    def blocking_key_value_get(self, key, timeout_in_ms):
        return self.key_value_try_get(key)

    def key_value_dir_get(self, key):
        return [(k, v) for k, v in self.values.items() if k.startswith(key)]


class Program:
    """Processes that share a store, each with elections of its own as if it were one of its own."""

    def __init__(self, monkeypatch, logdir, count=4) -> None:
        self.store = Store()
        self.logdir = logdir
        self.count = count
        self.elections = [election.Elections() for _ in range(count)]
        self.monkeypatch = monkeypatch

    def join(self, index, reason="steps 10:13", **kwargs) -> Membership:
        self.monkeypatch.setattr(runid, "elections", self.elections[index])
        identity = ProcessIdentity(f"host{index}", 100 + index, index, self.count)
        kwargs = {"started": NOON, "environment": {}, "store": self.store, **kwargs}
        return join_run(self.logdir, identity, reason=reason, **kwargs)


@pytest.fixture
def program(monkeypatch, tmp_path):
    return Program(monkeypatch, tmp_path)


def test_the_processes_of_a_program_get_one_name_whoever_comes_first(program):
    found = [program.join(index) for index in (2, 0, 3, 1)]
    assert len({one.name for one in found}) == 1
    assert {one.agreed_by for one in found} == {"coordinator"}
    assert found[0].name == "2026_03_01_12_00_00"
    assert (program.logdir / "plugins" / "profile" / found[0].name).is_dir()
    assert found[0].seen == {"2": "host2"}
    assert found[3].seen == {str(n): f"host{n}" for n in range(4)}


def test_the_next_capture_is_the_next_run_for_all(program):
    first = [program.join(index).name for index in range(4)]
    second = [program.join(index).name for index in (3, 1, 0, 2)]
    assert len({*first, *second}) == 2
    assert len(set(second)) == 1


def test_names_are_in_the_order_of_the_runs(program):
    taken = program.logdir / "plugins" / "profile" / "2026_03_01_12_00_00"
    taken.mkdir(parents=True)
    first = program.join(0)
    taken.rmdir()  # its proposer was beaten
    assert program.join(1).name == first.name == "2026_03_01_12_00_01"
    assert program.join(1, "steps 20:23").name == program.join(0, "steps 20:23").name == "2026_03_01_12_00_02"


def test_another_reason_is_another_run(program):  # whose window begins in the same second
    slow = program.join(1, "a slow step")
    rest = [program.join(index) for index in (0, 1, 2)]
    assert len({one.name for one in rest}) == 1
    assert rest[0].name != slow.name
    assert program.join(3, "a slow step").name == slow.name


def test_clocks_may_differ_by_seconds_but_a_much_later_window_is_another_run(program):
    old = program.join(0)
    assert program.join(1, started=NOON - 5).name == old.name
    assert program.join(2, started=NOON + 1000).name != old.name


def test_who_missed_a_run_goes_where_the_others_are(program):
    first = program.join(0)
    second = program.join(0, started=NOON + 60)
    assert program.join(1, started=NOON + 59).name == second.name != first.name


def test_two_programs_in_one_directory_do_not_share_a_name(program, monkeypatch):
    other = Program(monkeypatch, program.logdir)
    assert program.join(0).name != other.join(0).name


def test_racing_processes_elect_one_name_and_leave_no_other_directory(tmp_path):
    shared, count = Store(), 8
    barrier = threading.Barrier(count)
    found = []

    def run(index):
        elections = election.Elections()
        barrier.wait()
        found.append(elections.join(shared, tmp_path, ProcessIdentity("h", index, index, count), "steps 1:2", NOON))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    assert {name for name, _ in found} == {found[0][0]}
    assert max(len(seen) for _, seen in found) == count
    assert [path.name for path in (tmp_path / "plugins" / "profile").iterdir()] == [found[0][0]]


@given(st.permutations(range(5)), st.lists(st.integers(0, 4), unique=True))
def test_whatever_the_order_each_run_has_one_name(tmp_path_factory, order, late):
    with pytest.MonkeyPatch.context() as patch:
        program = Program(patch, tmp_path_factory.mktemp("log"), count=5)
        first = {program.join(index).name for index in order}
        second = {program.join(index).name for index in late}
        assert len(first) == 1
        assert len(second) == bool(late)
        assert not first & second


def test_only_the_processes_asked_for_are_expected():
    assert expected_processes(4, None) == (0, 1, 2, 3)
    assert expected_processes(4, frozenset({0, 3, 9})) == (0, 3)
    assert expected_processes(4, frozenset({9})) == ()
    assert expected_processes(0, None) == (0,)


def test_a_coordinator_that_fails_or_hangs_costs_nothing_but_the_name(program, monkeypatch):
    class Dead:
        def __getattr__(self, name):
            raise RuntimeError("UNAVAILABLE: connection refused")

    program.store = Dead()
    found = program.join(1)
    assert (found.name, found.agreed_by) == (None, "time")
    assert "did not help: RuntimeError: UNAVAILABLE" in found.problem
    monkeypatch.setattr(runid, "HURRIED_TIMEOUT_S", 0.05)
    released = threading.Event()
    program.store = Store()
    program.store.key_value_try_get = lambda key: released.wait(10)
    assert "no answer within 0.05 s" in program.join(1, hurried=True).problem
    released.set()


def test_nonsense_in_the_store_is_survived(program):
    for text in ("", "[]", "{}", '{"name": "../x", "time": 0, "reason": ""}', '{"time": "x"}'):
        program.store.values = {"tpuprof/run/0": text}
        assert program.join(0) is not None
    program.store.values = {"tpuprof/run/0": json.dumps({"name": "../../x", "time": NOON, "reason": "steps 10:13"})}
    assert "cannot name a run" in program.join(1).problem


def test_a_given_name_wins_then_the_variable_then_the_store(tmp_path):
    def join(name=None, count=2, **variables):
        identity = ProcessIdentity("h", 1, 0, count)
        return join_run(tmp_path, identity, reason="r", started=NOON, name=name, environment=variables, store=Store())

    assert (join("mine", TPUPROF_RUN_ID="other").name, join("mine").agreed_by) == ("mine", "name")
    assert (join(TPUPROF_RUN_ID="job 7/a").name, join(TPUPROF_RUN_ID="x").agreed_by) == ("job_7_a", "environment")
    assert join(TPUPROF_RUN_ID="..").agreed_by == "coordinator"
    assert join(SLURM_JOB_ID="5").agreed_by == "coordinator"
    assert join(count=1).agreed_by == "time"
    assert join(count=1, SLURM_JOB_ID="5", SLURM_NTASKS="8") == Membership()


def test_lone_processes_of_several_machines_may_share_a_run(tmp_path):
    names = []
    for host in ("a", "b", "a"):
        identity = ProcessIdentity(host, 1)
        found = join_run(tmp_path, identity, reason="r", started=NOON, environment={"TPUPROF_RUN_ID": "job"})
        store(b"", tmp_path, identity, started=datetime.now(), name=found.name)
        names.append(found.name)
    assert names == ["job", "job", "job-2"]


def test_without_a_store_the_scheduler_gives_the_name(tmp_path, monkeypatch):
    monkeypatch.setattr(runid, "distributed_client", lambda: None)

    def join(index, **variables):
        identity = ProcessIdentity("h", 1, index, 2)
        return join_run(tmp_path, identity, reason="r", started=NOON, environment=variables)

    job = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
    names = []
    for _ in range(2):  # two captures of both processes
        for index in (0, 1):
            found = join(index, **job)
            store(b"", tmp_path, ProcessIdentity("h", 1, index, 2), started=datetime.now(), name=found.name)
            names.append(found.name)
    assert names == ["slurm-77-0", "slurm-77-0", "slurm-77-0-2", "slurm-77-0-2"]
    alone = join(0)
    assert alone.name is None
    assert alone.problem.startswith("The processes could not agree on one run. jax.distributed was not initialised")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "1"}, "slurm-1"),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "2", "SLURM_RESTART_COUNT": "3"}, "slurm-1-2-3"),
        ({"JOBSET_NAME": "train"}, "train-0"),
        ({"JOBSET_NAME": "train", "JOBSET_RESTART_ATTEMPT": "2"}, "train-2"),
        ({"JOB_COMPLETION_INDEX": "3"}, None),
    ],
)
def test_jobs_are_named_by_their_scheduler(variables, expected):
    assert scheduler_job(variables) == expected


def test_peers_of_a_tpu_slice_are_one_job():
    peers = {"TPU_WORKER_HOSTNAMES": "t-0,t-1"}
    names = {scheduler_job({**peers, "TPU_WORKER_ID": str(n)}) for n in range(2)}
    assert len(names) == 1
    assert scheduler_job({"TPU_WORKER_HOSTNAMES": "t-2,t-3"}) not in names
    slices = {
        scheduler_job({"MEGASCALE_COORDINATOR_ADDRESS": "c:1", "TPU_WORKER_HOSTNAMES": f"s{n}"}) for n in range(2)
    }
    assert len(slices) == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("", None), ("all", None), ("3", {3}), ("0,3", {0, 3}), ("0-2, 5", {0, 1, 2, 5})]
)
def test_lists_of_hosts(text, expected):
    assert parse_hosts(text) == expected


@pytest.mark.parametrize("text", ["a", "1,", "3-1", "-1", "1-", "0-9999999999", "1.5", "²", "0,,1"])
def test_lists_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match=r"is not a list of hosts\..*Write indices of processes, such as 0,3"):
        parse_hosts(text)


def test_arguments_are_checked(monkeypatch):
    assert check_hosts((0, 3)) == {0, 3}
    assert check_hosts("0-1") == {0, 1}
    monkeypatch.setenv("TPUPROF_HOSTS", "2")
    assert check_hosts(None) == {2}
    for wrong in ([True], [-1], ["0"], [1.0]):
        with pytest.raises(UsageError, match="something else than indices"):
            check_hosts(wrong)
    with pytest.raises(UsageError, match=r"hosts=\[\] is empty"):
        check_hosts([])
    with pytest.raises(UsageError, match="something else than indices"):
        capture("log", hosts=[None])


def test_a_process_that_was_not_asked_for_runs_its_body_alone(new_capture, process, tmp_path):
    fake = FakeProfiler(process, process_count=4, index=1)
    ran = []
    with new_capture(profiler=fake, hosts=frozenset({0})) as made:
        ran.append(made.state)
    assert ran == [CaptureState.SKIPPED]
    assert fake.calls == ["prepare"]
    assert (made.error, made.path) == (None, None)
    with pytest.raises(CaptureError, match="This process did not record"):
        _ = made.trace
    with new_capture() as after:
        pass
    assert after.path is not None


def test_hosts_that_saw_the_same_slow_step_share_a_run(new_capture, process, monkeypatch):
    shared = Store()
    monkeypatch.setattr(runid, "distributed_client", lambda: shared)
    paths = []
    for index, ratio in enumerate((2.31, 2.29)):
        monkeypatch.setattr(runid, "elections", election.Elections())
        fake = FakeProfiler(process, process_count=2, index=index)
        with new_capture(profiler=fake, trigger=f"launcher: slow step 37: {ratio} medians") as made:
            pass
        paths.append(made.path)
    assert paths[0] == paths[1]
    monkeypatch.setattr(runid, "elections", election.Elections())
    with new_capture(
        profiler=FakeProfiler(process, process_count=2), trigger="launcher: slow step 38: 2 medians"
    ) as made:
        pass
    assert made.path != paths[0]


def test_processes_that_cannot_agree_still_write_and_say_so(new_capture, process, monkeypatch):
    monkeypatch.setattr(runid, "distributed_client", lambda: None)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "TPU_", "MEGASCALE_", "JOBSET_"))]:
        monkeypatch.delenv(name)
    with new_capture(profiler=FakeProfiler(process, process_count=2, index=1)) as made:
        pass
    content = json.loads(next(made.path.glob("*tpuprof.json")).read_text())
    assert content["run"]["agreed_by"] == "time"
    assert "could not agree on one run" in content["errors"][0]
