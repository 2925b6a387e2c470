"""``tpuprof calibrate``, and the options of ``plan train`` and ``validate`` that rest on it, as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.calibration.made import job_of, run_of
from tpuprof.cli import main
from tpuprof.hardware import parse_slice
from tpuprof.plan import load_model, model_flops

PUBLISHED = str(Path(__file__).parents[1] / "data" / "published_perf.json")
CPU = str(Path(__file__).parents[2] / "sample_traces" / "cpu_demo")
PLAN = ("plan", "train", "llama3-8b", "--chip", "v6e", "--chips", "8", "--batch-tokens", "131072", "--seq", "8192")
FAST = ("--remat", "block-inputs", "--top", "3")
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Calls the command line with a configuration directory of its own: (exit code, stdout, stderr)."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "160")

    def called(*words: str) -> tuple[int, str, str]:
        code = main(words)
        found = capsys.readouterr()
        return code, found.out, found.err

    return called


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_of(tmp_path_factory.mktemp("planted")).path


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> str:
    flops = model_flops(load_model("llama3-8b"), 16, 8192).training / parse_slice("v6e:2x4").n_devices
    command = ["python", "train.py", "model_name=llama3-8b", "per_device_batch_size=2", "max_target_length=8192"]
    return str(job_of(tmp_path_factory.mktemp("job"), flops, 2.4, 0.4, idle_s=0.05, command=command))


def test_a_profile_from_a_run_to_a_plan(call: Call, planted: str, tmp_path: Path) -> None:
    code, out, err = call("calibrate", planted, "--name", "mine", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert set(document) >= {"profile", "fitted", "kept", "left_out", "runs", "rows", "notes"}
    stored = tmp_path / "config" / "tpuprof" / "profiles" / "mine.toml"
    assert document["profile"]["path"] == str(stored)
    assert stored.is_file()
    matmul = next(one for one in document["fitted"] if one["constant"] == "chips.v6e.matmul")
    assert matmul["value"] == pytest.approx(0.7, rel=1e-4)
    assert (matmul["samples"], matmul["executions"], matmul["default"]) == (2, 48, 0.74)

    code, out, _ = call("calibrate", "--list")
    assert code == 0
    assert "mine" in out
    code, out, err = call(*PLAN, *FAST, "--profile", "mine", "--json")
    assert code == 0, err
    profile = json.loads(out)["profile"]
    assert (profile["name"], profile["matmul"]) == ("mine", pytest.approx(0.7, rel=1e-4))
    assert profile["idle_s"] == pytest.approx(2e-3)
    assert profile["collectives"]["all_gather"] == pytest.approx(0.9, rel=1e-4)
    assert profile["stored"]["path"] == str(stored)
    assert profile["stored"]["runs"][0]["digest"] == document["runs"][0]["digest"]
    assert "median of the steps" in profile["sources"]["steps.idle_s"]
    assert json.loads(out)["candidates"][0]["parts_s"]["overhead"] == pytest.approx(2e-3)
    code, out, _ = call(*PLAN, *FAST, "--profile", str(stored))
    assert "profile mine (" in out.lower()
    code, out, _ = call(*PLAN, *FAST, "--profile", "mine", "--explain", "1")
    assert code == 0
    assert "profile mine: matmuls bound by the matrix unit" in out
    assert "its constants: chips.v6e.matmul 0.7" in out
    built_in = json.loads(call(*PLAN, *FAST, "--json")[1])["profile"]
    assert built_in["stored"] is None
    assert built_in["sources"] == {}


def test_a_stored_profile_is_replaced_only_by_force(call: Call, planted: str) -> None:
    assert call("calibrate", planted, "--name", "mine", "-q")[0] == 0
    code, _, err = call("calibrate", planted, "--name", "mine")
    assert code == 2
    assert "There is a profile 'mine' already" in err
    assert call("calibrate", planted, "--name", "mine", "--force", "-q")[0] == 0


def test_a_profile_to_a_file(call: Call, planted: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    code, out, _ = call("calibrate", planted, "-o", str(file))
    assert code == 0
    assert "chips.v6e.matmul" in out
    assert file.read_text().startswith("# Constants of tpuprof's training plans")
    assert call(*PLAN, *FAST, "--profile", str(file))[0] == 0
    assert call("calibrate", planted, "-o", str(file))[0] == 2
    other = tmp_path / "result.json"
    assert call("calibrate", planted, "-o", str(other))[0] == 0
    assert json.loads(other.read_text())["command"] == "calibrate"


@pytest.mark.parametrize("form", ["table", "md", "csv", "jsonl"])
def test_views(call: Call, planted: str, form: str) -> None:
    code, out, err = call("calibrate", planted, "--format", form)
    assert code == 0
    assert "chips.v6e.matmul" in out
    assert "not stored" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("calibrate",), "nothing to calibrate from"),
        (("calibrate", "RUN", "--published", PUBLISHED), "do not mix"),
        (("calibrate", "--list", "--name", "x"), "--list only lists"),
        (("calibrate", "RUN", "--name", "../x"), "cannot name a profile"),
        (("calibrate", "RUN", "--name", "x", "-o", "y.toml"), "stored twice"),
        (("calibrate", "RUN", "--axis", "x"), "does not say what an axis is for"),
        (("calibrate", "RUN", "RUN"), "given twice"),
        (("calibrate", CPU, "--name", "x"), "nothing to store"),
        (("calibrate", "--published", PUBLISHED, "--chip", "v5q"), "There is no chip"),
        ((*PLAN, "--profile", "nobody"), "There is no profile 'nobody'"),
        ((*PLAN, "--profile", "nobody.toml"), "cannot be read"),
        ((*PLAN, "--axis", "x=fsdp"), "--axis is about a run"),
        (("plan", "train"), "MODEL and --chip and --batch-tokens and --seq are missing"),
        (("plan", "train", "llama3-8b", "--chip", "v5p", "--seq", "64"), "--batch-tokens is missing"),
        (("plan", "train", "--from-run", CPU), "The chip of the run is not known"),
        (("plan", "train", "--from-run", "RUN"), "does not say its model, the length of its sequences and its batch"),
        (("plan", "train", "llama3-8b", "--from-run", "RUN", "--seq", "64"), "The run does not say its batch"),
        (("plan", "train", "--from-run", "RUN", "--scaling", *PLAN[2:3], *PLAN[7:]), "--scaling searches by itself"),
        (("validate", PUBLISHED, "--profile", "nobody"), "There is no profile"),
    ],
)
def test_wrong_use(call: Call, planted: str, words: tuple[str, ...], said: str) -> None:
    code, out, err = call(*(planted if word == "RUN" else word for word in words))
    assert code in (2, 3)
    assert out == ""
    assert said in " ".join(err.split())


def test_published_rows_and_validation(call: Call) -> None:
    assert call("calibrate", "--published", PUBLISHED, "--chip", "v5p", "--name", "rows", "-q")[0] == 0
    code, out, _ = call("validate", PUBLISHED, "--profile", "rows", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["profile"]["name"] == "rows"
    by_chip = {score["group"]: score for score in document["scores"]}
    assert abs(by_chip["v5p"]["signed_median"]) < 0.01
    assert json.loads(call("validate", PUBLISHED, "--json")[1])["profile"] is None
    assert "which are no test of it" in " ".join(call("validate", PUBLISHED, "--profile", "rows")[1].split())


def test_a_plan_from_a_run(call: Call, job: str) -> None:
    code, out, err = call("plan", "train", "--from-run", job, *FAST, "--json")
    assert code == 0, err
    document = json.loads(out)
    found = document["from_run"]
    assert document["model"]["name"] == "llama3-8b"
    assert document["job"]["tokens"] == 131_072
    assert document["hardware"]["slice"] == "v6e:2x4"
    assert found["measured"]["step_s"] == pytest.approx(2.85)
    assert found["measured"]["parts_s"]["communication"] == pytest.approx(0.4)
    assert found["layout_in_use"]["mesh"] == {"fsdp": 4, "tensor": 2, "zero": 3}
    assert found["layout_in_use"]["error"] == pytest.approx(found["layout_in_use"]["predicted_s"] / 2.85 - 1)
    assert "command line" in found["sources"]["model"]
    assert len(found["changes"]) == 3
    for change, candidate in zip(found["changes"], document["candidates"], strict=True):
        assert change["layout"] == candidate["layout"]
        assert change["gain"] == pytest.approx(1 - change["expected_s"] / 2.85)
        assert change["low_s"] <= change["expected_s"] <= change["high_s"]
    assert found["verdict"]
    assert found["uncertainty"]
    code, out, _ = call("plan", "train", "--from-run", job, *FAST)
    assert code == 0
    assert "layout in use: fsdp=4 tensor=2 zero=3" in out
    assert "What to change" in out
    assert call("plan", "train", "--from-run", job, *FAST, "--format", "md")[0] == 0


def test_options_come_before_what_the_run_says(call: Call, job: str) -> None:
    words = ("plan", "train", "llama3-8b", "--from-run", job, "--mesh", "fsdp=8", "--topology", "2x4", *FAST, "--json")
    found = json.loads(call(*words)[1])["from_run"]
    assert found["layout_in_use"]["source"] == "given"
    assert found["layout_in_use"]["mesh"] == {"fsdp": 8, "zero": 3}
    assert found["sources"]["slice"] == "v6e:2x4, given"
    assert found["sources"]["model"] == "llama3-8b, given"


def test_a_plan_of_another_job_gives_no_gain(call: Call, planted: str) -> None:
    words = ("plan", "train", "llama3-8b", "--from-run", planted, *PLAN[7:], *FAST)
    code, out, _ = call(*words, "--json")
    assert code == 0
    found = json.loads(out)["from_run"]
    assert found["changes"] == []
    assert "another job" in found["withheld"]
    assert "What to change" not in call(*words)[1]
