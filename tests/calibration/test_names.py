"""What names tell: axes of a mesh, and the command line of a sidecar, which is untrusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.calibration.axes import parse_axes, role_of, traffic_of
from tpuprof.calibration.command_line import CommandFacts, command_facts
from tpuprof.errors import UsageError


@pytest.mark.parametrize(
    ("axis", "role"),
    [("fsdp", "fsdp"), ("Model", "tensor"), ("tp:(1)2", "tensor"), ("dcn_data", "slices"), ("seq", "context"),
     ("stage", "pipeline"), ("x", None), ("", None)],
)  # fmt: skip
def test_roles_by_name(axis: str, role: str | None) -> None:
    assert role_of(axis, {}) == role
    assert role_of(axis, {axis.partition(":")[0]: "expert"}) == "expert"


@pytest.mark.parametrize(
    ("kind", "axes", "traffic"),
    [
        ("all_gather", "fsdp", "weights"), ("all_reduce", "data,fsdp", "weights"), ("all_gather", "tp", "activations"),
        ("all_reduce", "dcn_data", "network"), ("all_reduce", "fsdp,tp", None), ("all_gather", "x", None),
        ("all_gather", None, None), ("all_to_all", None, "activations"), ("all_to_all", "x", None),
    ],
)  # fmt: skip
def test_what_travels(kind: str, axes: str | None, traffic: str | None) -> None:
    assert traffic_of(kind, axes, {}) == traffic


def test_collectives_without_axes_can_be_named() -> None:
    assert traffic_of("all_reduce", None, {"*": "tensor"}) == "activations"
    assert traffic_of("all_reduce", "fsdp", {"*": "tensor"}) == "weights"


def test_axes_in_words() -> None:
    assert parse_axes(["x=fsdp", " * = tensor"]) == {"x": "fsdp", "*": "tensor"}
    for text in ("x", "=fsdp", "x=", "x=speed", ""):
        with pytest.raises(UsageError, match="does not say what an axis is for") as caught:
            parse_axes([text])
        assert "data, fsdp, tensor" in caught.value.hint


@pytest.mark.parametrize(
    ("command", "model", "sequence", "sequences"),
    [
        (["python", "train.py", "model_name=llama3-8b", "per_device_batch_size=2", "max_target_length=4096"],
         "llama3-8b", 4096, 16),
        (["run", "--model", "meta-llama/Llama3-8B", "--seq_len=2048", "--global-batch-size", "64"],
         "llama3-8b", 2048, 64),
        (["run", "--trainer.seq_len=2048", "per_device_batch_size=0.5"], None, 2048, 4),
        (["run", "model_name=nobody-knows", "seq_len=many", "global_batch_size=-4"], None, None, None),
        (["run", "per_device_batch_size=0.3"], None, None, None),
        (["run", "per_device_batch_size=4", "gradient_accumulation_steps=8"], None, None, None),
        (["run", "model=../../etc", "model_name=."], None, None, None),
        (["run", "--model", "--seq_len", "99999999999"], None, None, None),
        ([], None, None, None),
    ],
)  # fmt: skip
def test_command_lines(command: list[str], model: str | None, sequence: int | None, sequences: int | None) -> None:
    found = command_facts({"command": command}, 8)
    assert (None if found.model is None else found.model.name) == model
    assert (found.sequence, found.sequences) == (sequence, sequences)


@pytest.mark.parametrize(
    "metadata", [{}, {"command": None}, {"command": "model=llama3-8b"}, {"command": [1, None, {}]}]
)
def test_sidecars_that_say_nothing(metadata: dict[str, object]) -> None:
    assert command_facts(metadata, 8) == CommandFacts()


def test_a_command_line_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    (tmp_path / "mine.toml").write_text("layers = 3")
    monkeypatch.chdir(tmp_path)
    assert os.path.isdir("mine")
    for name in ("mine", "mine.toml", str(tmp_path / "mine.toml")):
        assert command_facts({"command": ["run", f"model={name}"]}, 8).model is None


@settings(max_examples=25)
@given(st.lists(st.text(max_size=30), max_size=20))
def test_any_words_do(words: list[str]) -> None:
    found = command_facts({"command": words}, 8)
    assert found.sequences is None or found.sequences >= 1
