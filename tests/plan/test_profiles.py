"""Profiles by name: what a file may say, what it changes, and how it is found."""

from __future__ import annotations

import os
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import InputError, UsageError
from tpuprof.hardware import parse_slice
from tpuprof.plan import load_model, remat_policy
from tpuprof.plan.profile_store import (
    load_profile,
    profile_directory,
    profile_names,
    profile_path,
    profile_text,
    stored_profiles,
)
from tpuprof.plan.profiles import CHIP, SHARED, Profile, default_of, limits_of, profile_of_table, read_profile
from tpuprof.plan.train_explain import explain
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_profile import assumptions, efficiency
from tpuprof.plan.train_search import search
from tpuprof.plan.train_step import estimate

MINE = """
[profile]
name = "mine"
source = "two runs"
[chips.v5p]
matmul = 0.5
[chips."TPU7x"]
memory = 0.6
[overlap]
weights = 1
[collectives]
all_gather = 0.25
[steps]
idle_s = 0.125
[host]
tpu7x = 5e10
[[fitted]]
constant = "chips.v5p.matmul"
value = 0.5
source = "by hand"
"""
JOB = Job(load_model("llama3-8b"), 64, 8192, remat_policy("block-inputs"))
WHERE = parse_slice("v5p:4x4x4")


def made(text: str) -> Profile:
    return profile_of_table(tomllib.loads(text), "file.toml", "file")


def test_a_profile_replaces_what_it_says_and_nothing_else() -> None:
    mine, plain = made(MINE).efficiency("v5p"), efficiency("v5p")
    assert (mine.matmul, mine.overlap_weights, mine.idle_s) == (0.5, 1.0, 0.125)
    assert (mine.memory, mine.overlap_activations) == (plain.memory, plain.overlap_activations)
    assert (mine.reached("all_gather"), mine.reached("all_reduce")) == (0.25, 1.0)
    assert mine.source_of("matmul") == "profile mine: by hand"
    assert mine.source_of("overlap.weights") == "profile mine"
    assert mine.source_of("memory") == "profile mine"
    assert "attention, memory of v5p built in" in mine.source
    other = made(MINE).efficiency("tpu7x")  # by its alias
    assert (other.memory, other.matmul, other.host_bandwidth) == (0.6, efficiency("tpu7x").matmul, 5e10)
    unknown = made("[default]\nmatmul = 0.3").efficiency("no-such-chip")
    assert (unknown.matmul, unknown.memory) == (0.3, efficiency("no-such-chip").memory)
    assert made("[default]\nmatmul = 0.3").efficiency("v5p").matmul == plain.matmul


def test_an_empty_profile_is_the_built_in_one() -> None:
    for chip in ("v5p", "v6e", "no-such-chip"):
        mine, plain = made("").efficiency(chip), efficiency(chip)
        for name in (
            "matmul",
            "memory",
            "overlap_weights",
            "elementwise",
            "host_bandwidth",
            "attention_block",
            "idle_s",
        ):
            assert getattr(mine, name) == getattr(plain, name)


def test_the_built_in_file_is_a_profile() -> None:
    text = files("tpuprof.plan").joinpath("train_profile.toml").read_text("utf-8")
    for chip in ("v2", "v5p", "tpu7x"):
        assert made(text).efficiency(chip).matmul == efficiency(chip).matmul
    for table, keys in SHARED.items():
        for key, limits in keys.items():
            assert limits.allow(default_of(f"{table}.{key}"))
    for key in CHIP:
        assert limits_of(f"chips.v5p.{key}").allow(default_of(f"chips.v5p.{key}"))


def test_constants_change_the_step_as_they_should() -> None:
    plain = estimate(JOB, Layout(fsdp=64), WHERE)
    idle = estimate(JOB, Layout(fsdp=64), WHERE, made("[steps]\nidle_s = 0.125").efficiency("v5p"))
    assert idle.seconds == pytest.approx(plain.seconds + 0.125)
    assert idle.parts["overhead"] == pytest.approx(0.125)
    slow = estimate(JOB, Layout(fsdp=64), WHERE, made("[collectives]\nall_gather = 0.25").efficiency("v5p"))
    times = {moved.name: moved.seconds for moved in plain.collectives}
    for moved in slow.collectives:
        assert moved.seconds == pytest.approx(times[moved.name] * (4 if moved.kind == "all_gather" else 1))


def test_explanations_say_where_constants_come_from() -> None:
    profile = made(MINE).efficiency("v5p")
    plan = search(JOB, WHERE, policies=[JOB.policy], profile=profile, only=Layout(fsdp=64))
    found = explain(plan, plan.candidates[0])
    assert found["step"].inputs["e_mm"].source == "profile mine: by hand"
    assert found["fsdp_gather"].inputs["reached"].value == 0.25
    assert "reached" not in found["fsdp_scatter"].inputs
    assert "/ reached" in found["fsdp_gather"].steps[0].formula
    assert any(text.startswith("instead, overlap.weights: profile mine") for text in found["step"].assumptions)
    assert len(assumptions(profile)) > len(assumptions())
    given = profile.with_overlap(0.5)
    assert "overlap.weights" not in dict(given.sources)
    assert "matmul" in dict(given.sources)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[chips.v5p]\nmatmul = 1.5", "chips.v5p.matmul cannot be 1.5"),
        ("[chips.v5p]\nmatmul = 0", "must be a number from 0.001 to 1"),
        ("[chips.v5p]\nmatmul = 1e-300", "must be a number from 0.001 to 1"),
        ("[collectives]\nall_gather = 1e-300", "must be a number from 0.001 to 2"),
        ("[chips.v5p]\nmatmul = nan", "chips.v5p.matmul cannot be nan"),
        ("[chips.v5p]\nmatmul = inf", "chips.v5p.matmul cannot be inf"),
        ("[chips.v5p]\nmatmul = true", "chips.v5p.matmul cannot be True"),
        ("[chips.v5p]\nmatmul = '0.5'", "chips.v5p.matmul cannot be 0.5"),
        ("[chips.v5p]\nmatmull = 0.5", "Did you mean matmul"),
        ("[chips.v5p]\nlaunch_s = -1e-6", "chips.v5p.launch_s cannot be"),
        (f"[chips.v5p]\nlaunch_s = 1{'0' * 400}", "chips.v5p.launch_s cannot be"),
        ("[chips]\nv5p = 3", "chips.v5p must be a table"),
        ("[overlap]\nweights = 1.01", "must be a number from 0 to 1"),
        ("[overlap]\nspeed = 1", "'speed' is no key of [overlap]"),
        ("[attention]\nblock = 2.5", "must be a whole number from 1"),
        ("[steps]\nidle_s = 1e9", "steps.idle_s cannot be"),
        ("[host]\nv5p = 3", "host.v5p cannot be 3"),
        ("[collectives]\nall_gather = 0", "collectives.all_gather cannot be 0"),
        ("[offload]\nhidden = [1]", "offload.hidden cannot be"),
        ("[overlaps]\nweights = 1", "Did you mean overlap"),
        ("overlap = 3", "overlap must be a table"),
        ("[profile]\nnames = 'x'", "'names' is no key of [profile]"),
        ("[profile]\nname = 3", "profile.name must be a text"),
        ("fitted = 3", "fitted must be a list of tables"),
        ("fitted = [3]", "fitted must be a table"),
        ("[[fitted]]\nvalue = [1]", "fitted.value must be a text"),
        ("[[fitted]]\nvalue = inf", "fitted.value must be a text"),
        ("[overlap]\nsource = 3", "overlap.source must be a text"),
    ],
)
def test_values_that_cannot_be_are_told(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(text)
    assert said in str(caught.value)
    assert caught.value.where == "file.toml"
    assert caught.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The profile cannot be read"):
        read_profile(tmp_path / "none.toml")
    file = tmp_path / "file.toml"
    for data in (b"x = [", b"\xff\xfe", b"a.b = " + b"[" * 50_000):
        file.write_bytes(data)
        with pytest.raises(InputError, match="The profile is no TOML"):
            read_profile(file)
    file.write_bytes(b"#" * 1_100_000)
    with pytest.raises(InputError, match="too large"):
        read_profile(file)


def test_names_and_files(tmp_path: Path) -> None:
    assert profile_directory({"XDG_CONFIG_HOME": "/etc/x", "HOME": "/h"}) == Path("/etc/x/tpuprof/profiles")
    assert profile_directory({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "linux") == Path(
        "/h/.config/tpuprof/profiles"
    )
    assert profile_directory({"HOME": "/h"}, "darwin") == Path("/h/Library/Application Support/tpuprof/profiles")
    assert profile_names(tmp_path / "none") == ()
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "bad.toml").write_text("[chips.v5p]\nmatmul = 7")
    (tmp_path / "not a name.toml").write_text("")
    assert profile_names(tmp_path) == ("bad", "mine")
    assert load_profile("mine", tmp_path).tables["chips.v5p"] == {"matmul": 0.5}
    assert load_profile(str(tmp_path / "mine.toml")).name == "mine"
    found = dict(stored_profiles(tmp_path))
    assert isinstance(found["mine"], Profile)
    assert isinstance(found["bad"], UsageError)
    with pytest.raises(UsageError, match="There is no profile 'mien'") as caught:
        load_profile("mien", tmp_path)
    assert "Did you mean mine" in caught.value.hint
    with pytest.raises(UsageError, match="There is no profile") as caught:
        load_profile("zzz", tmp_path)
    assert "Profiles: bad, mine." in caught.value.hint
    for name in ("..", "a/b", "", ".hidden", "default", "built-in", "x" * 65, "a\nb", "-x"):
        with pytest.raises(UsageError, match="cannot name a profile"):
            profile_path(name)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(sorted(CHIP.keys() - {"launch_s"})), st.floats(1e-3, 1), max_size=5),
    st.dictionaries(st.sampled_from(sorted(SHARED["overlap"])), st.floats(0, 1), max_size=3),
    st.text(max_size=60),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
)
def test_what_is_written_is_read_again(
    chip: dict[str, float], overlap: dict[str, float], source: str, run: str
) -> None:
    profile = Profile(
        "mine", {"chips.v5p": chip, "overlap": overlap}, "2026", source, {"runs": ({"name": run, "n": 3},)}
    )
    again = made(profile_text(profile))
    assert again.tables == profile.tables
    assert (again.name, again.created) == ("mine", "2026")
    assert again.notes["runs"][0]["n"] == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_the_directory_does_not_keep_the_listing_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "waits.toml")
    ((name, problem),) = stored_profiles(tmp_path)
    assert name == "waits"
    assert "The profile is no file." in str(problem)
