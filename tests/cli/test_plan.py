"""``tpuprof plan train`` and ``tpuprof validate``: documents, views and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.conftest import Run
from tpuprof.cli.plan import SUBCOMMANDS, command
from tpuprof.plan.published import read_rows

PUBLISHED = Path(__file__).parents[1] / "data" / "published_perf.json"
GIVEN: tuple[str, ...] = (
    "plan",
    "train",
    "llama3-8b",
    "--chip",
    "v5p",
    "--topology",
    "4x4x4",
    "--batch-tokens",
    "2097152",
    "--seq",
    "8192",
)
CONTRACT = {
    "rank", "mesh", "step_time_s", "mfu", "tokens_per_s_per_chip", "memory_bytes", "fits", "bound_by", "exposed",
    "cost_usd", "why",
}  # fmt: skip


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_listing_says_what_the_help_says(name: str) -> None:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    assert (found.help or "").splitlines()[0] == SUBCOMMANDS[name][1]
    assert all(option.help for option in found.params if isinstance(option, click.Option))


def test_json_holds_the_contract(run: Run) -> None:
    code, out, err = run(*GIVEN, "--tokens", "15T", "--remat", "block-inputs", "--top", "3", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert document["model"]["name"] == "llama3-8b"
    assert document["hardware"]["slice"] == "v5p:4x4x4"
    assert len(document["candidates"]) == 3
    for rank, one in enumerate(document["candidates"], 1):
        assert set(one) >= CONTRACT
        assert one["rank"] == rank
        assert set(one["memory_bytes"]) >= {"weights", "optimizer", "gradients", "activations", "total"}
        parts = {name: value for name, value in one["memory_bytes"].items() if name not in ("total", "host")}
        assert one["memory_bytes"]["total"] == pytest.approx(sum(parts.values()))
        assert one["step_time_s"] == pytest.approx(sum(one["parts_s"].values()))
        assert one["cost_of"] == "budget"
        assert one["days"] > 0
    assert document["rejected"]
    assert all(set(one) >= {"mesh", "why"} and one["why"] for one in document["rejected"])


@pytest.mark.parametrize("form", ["table", "md", "csv", "jsonl", "html"])
def test_views(run: Run, form: str) -> None:
    code, out, _ = run(*GIVEN, "--mesh", "fsdp=64", "--format", form)
    assert code == 0
    assert "fsdp=64" in out


def test_explain_derives_the_numbers(run: Run) -> None:
    code, out, _ = run(*GIVEN, "--mesh", "fsdp=16,tensor=4", "--explain", "1")
    assert code == 0
    for word in ("tensor_gather", "critical-batch", "formula", "assumes", "memory", "mfu"):
        assert word in out
    code, out, _ = run(*GIVEN, "--mesh", "fsdp=16,tensor=4", "--explain", "1", "--json")
    document = json.loads(out)
    assert document["derivations"]["step"]["answer"]["value"] == document["candidate"]["step_time_s"]
    assert run(*GIVEN, "--mesh", "fsdp=16,tensor=4", "--explain", "1", "--format", "md")[0] == 0
    code, out, _ = run(*GIVEN, "--mesh", "fsdp=16,tensor=4", "--explain", "1", "--format", "html")
    assert code == 0
    assert "<h2>Derivation of candidate 1</h2>" in out
    assert "<td>critical-batch</td>" in out


def test_the_suffix_of_the_file_decides_and_nothing_is_replaced_unasked(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "plan.html"
    assert run(*GIVEN, "--mesh", "fsdp=64", "-o", str(target))[0] == 0
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    code, _, err = run(*GIVEN, "--mesh", "fsdp=64", "-o", str(target))
    assert code == 2
    assert "The output file exists." in err


def test_the_curve_over_sizes(run: Run) -> None:
    code, out, _ = run(*GIVEN, "--remat", "block-inputs", "--scaling", "--json")
    assert code == 0
    points = json.loads(out)["points"]
    assert [point["chips"] for point in points] == [4, 8, 16, 32, 64, 128, 256]
    assert all(point["layout"] or point["reason"] for point in points)
    assert json.loads(out)["job"]["tokens"] == 2097152


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chip", "v99"), "v99"),
        (("--topology", "3x3x3"), "no slice of shape 3x3x3"),
        (("--topology", "ring"), "no topology"),
        (("--topology", "0x4x4"), "Every axis has at least one chip"),
        (("--topology", "99999x99999x99999"), "no slice of shape 99999x99999x99999"),
        (("--chip", "H100-SXM"), "not joined to others by a torus of links"),
        (("--slices", "0"), "'--slices': 0 is not in the range"),
        (("--batch-tokens", "nan"), "'nan' is no number of things"),
        (("--batch-tokens", "1e30"), "'1e30' is too large"),
        (("--batch-tokens", "1e13"), "A batch of 1e+13 tokens is not possible"),
        (("--seq", "99999999999"), "Sequences of 99999999999 tokens"),
        (("--tokens", "0"), "token budget is 0"),
        (("--tokens", "1e300"), "'1e300' is too large"),
        (("--price", "inf"), "price is inf"),
        (("--mesh", "fsdp=0"), "The mesh axis fsdp has 0 devices"),
        (("--mesh", "fsdp=1e99"), "'fsdp=1e99' is no mesh axis"),
        (("--overlap", "nan"), "share of nan cannot overlap"),
        (("--topology", "4x4x4", "--chips", "64"), "given twice"),
        (("--batch-tokens", "100"), "less than one sequence"),
        (("--batch-tokens", "0"), "batch of 0 tokens"),
        (("--seq", "0"), "Sequences of 0 tokens"),
        (("--seq", "-5"), "Sequences of -5 tokens"),
        (("--mesh", "banana=4"), "'banana' is no axis"),
        (("--mesh", "fsdp=64,zero=4"), "no ZeRO stage 4"),
        (("--remat", "mystery"), "no policy of rematerialisation"),
        (("--dtype", "banana"), "banana"),
        (("--dtype", "fp4"), "no known peak for fp4"),
        (("--price", "-1"), "price is -1"),
        (("--price", "nan"), "price is nan"),
        (("--overlap", "2"), "share of 2.0 cannot overlap"),
        (("--gradients", "f32,bf16"), "one type"),
        (("--mesh", "fsdp=64", "--explain", "2"), "no rank 2"),
        (("--mesh", "fsdp=64", "--explain", "1", "--format", "csv"), "cannot be written as csv"),
        (("--scaling", "--explain", "1"), "searches by itself"),
    ],
)
def test_errors_say_what_to_give(run: Run, words: tuple[str, ...], said: str) -> None:
    given: dict[str, str] = dict(zip(GIVEN[3::2], GIVEN[4::2], strict=True))
    rest: list[str] = []
    at = 0
    while at < len(words):
        if words[at] == "--scaling":
            rest.append(words[at])
            at += 1
        else:
            given[words[at]] = words[at + 1]
            at += 2
    named = [word for pair in given.items() for word in pair]
    code, out, err = run("plan", "train", "llama3-8b", *named, *rest)
    assert code == 2
    assert out == ""
    assert said in err


def test_a_policy_of_ones_own_can_use_the_hosts_memory(run: Run) -> None:
    code, out, _ = run(
        "plan", "train", "llama3-8b", "--chip", "v6e", "--chips", "16", "--batch-tokens", "262144", "--seq", "8192",
        "--offload", "block_input", "--save", "query", "--mesh", "fsdp=16", "--json",
    )  # fmt: skip
    assert code == 0
    (one,) = json.loads(out)["candidates"]
    assert one["remat"] == "custom"
    assert one["memory_bytes"]["host"] == 2 * 32 * 4096 * 262144 / 16
    assert one["parts_s"]["offload"] > 0
    assert run(*GIVEN, "--offload", "mystery")[0] == 2


def test_a_batch_that_is_no_whole_number_of_sequences_is_rounded_aloud(run: Run) -> None:
    _, _, err = run(*GIVEN[:7], "--batch-tokens", "4M", "--seq", "8192", "--mesh", "fsdp=64")
    assert "taken as 488 sequences, 3,997,696 tokens" in err
    assert "512 sequences are 4,194,304 tokens" in err


def test_a_batch_smaller_than_the_data_axes_is_a_reason(run: Run) -> None:
    code, out, err = run(
        "plan", "train", "llama3-8b", "--chip", "v5p", "--chips", "64", "--batch-tokens", "8192", "--seq", "8192",
        "--mesh", "fsdp=64", "--json",
    )  # fmt: skip
    assert code == 0
    assert "No layout of v5p:4x4x4 is possible: only 1 sequence for 64 replicas" in err
    document = json.loads(out)
    assert document["candidates"] == []
    assert document["rejected"][0]["mesh"] == {"fsdp": 64, "zero": 3}


@pytest.mark.parametrize(
    ("mesh", "kinds", "said"),
    [
        ("tensor=64", ["heads"], "Choose a tensor degree that divides the heads."),
        ("fsdp=32", ["devices"], "The axes of --mesh have to multiply to the devices of the slice."),
        ("pipeline=64", ["layers"], "leave pipeline out of --mesh"),
        ("fsdp=64,expert=2", ["experts"], "the model has no experts to split"),
        ("fsdp=64,accumulation=8", ["batch"], "Give more --batch-tokens"),
    ],
)
def test_an_impossible_layout_is_a_row_and_a_sentence(run: Run, mesh: str, kinds: list[str], said: str) -> None:
    code, out, err = run(*GIVEN, "--mesh", mesh, "--json")
    assert code == 0
    assert json.loads(out)["rejected"][0]["kinds"] == kinds
    assert "is possible" in err
    code, out, err = run(*GIVEN, "--mesh", mesh)
    assert (code, err) == (0, "")
    assert said in " ".join(out.split())
    assert run(*GIVEN, "--mesh", mesh, "--format", "html")[0] == 0


CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
    "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "[" * 100_000, "The model file is no JSON."),
        ("b.toml", "layers = [", "The model file is no TOML."),
        ("c.json", "[1, 2]", "The model file holds no table."),
        ("d.json", json.dumps(CONFIG | {"model_type": "mamba"}), "'mamba' is no model type that is known."),
        ("e.json", json.dumps(CONFIG | {"hidden_size": -4096}), "d_model must be a whole number from 1, not -4096"),
        ("f.json", json.dumps(CONFIG | {"num_hidden_layers": 10**11}), "100,000,000,000 layers are too many"),
        ("g.json", json.dumps(CONFIG | {"num_attention_heads": 31}), "4096 does not divide into 31 heads"),
        ("h.json", json.dumps(CONFIG | {"num_hidden_layers": True}), "layers must be a whole number from 1, not True"),
        ("i.json", '{"model_type": "llama", "hidden_size": 1e999}', "The model has no layers."),
        ("j.toml", "layers = 2\nmystery = 1", "mystery"),
    ],
)
def test_model_files_that_make_no_sense(run: Run, tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    code, out, err = run("plan", "train", str(path), *GIVEN[3:])
    assert (code, out) == (2, "")
    assert said in err
    assert str(path) in err
    assert "internal error" not in err


def test_a_name_with_its_owner_finds_the_model(run: Run) -> None:
    code, _, err = run("plan", "train", "meta-llama/Meta-Llama-3-70B", *GIVEN[3:])
    assert code == 2
    assert "Did you mean llama3-70b?" in err


def test_validate_gives_every_row(run: Run) -> None:
    code, out, _ = run("validate", "--published", str(PUBLISHED), "--json")
    assert code == 0
    document = json.loads(out)
    assert len(document["rows"]) == 365
    assert document["predicted"] + document["unsupported"] == 365
    assert len(document["worst"]) == 10
    assert {"id", "predicted_s", "measured_s", "error", "reason"} <= set(document["rows"][0])
    code, out, _ = run("validate", "--published", str(PUBLISHED))
    assert code == 0
    assert "leave-one-out" in out
    assert "Predicted servers" in out
    assert run("validate", "none.json")[0] == 3


def test_validate_brings_measurements_along(run: Run) -> None:
    code, out, _ = run("validate", "--published", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["source"] == "published.json, built in"
    assert [row["id"] for row in document["rows"]] == [row["id"] for row in read_rows(PUBLISHED)]
    # Steps and servers are counted apart, and each row says in which unit it was measured.
    assert (document["counted"], document["serving_counted"]) == (56, 7)
    assert {score["group"] for score in document["serving_scores"]} == {"tpu7x", "v6e", "all"}
    by_kind = {kind: [row for row in document["rows"] if row["kind"] == kind and row["predicted"]]
               for kind in ("training", "serving")}  # fmt: skip
    assert {row["unit"] for row in by_kind["training"]} == {"s"}
    assert {row["unit"] for row in by_kind["serving"]} == {"token/s"}
    for row in (*by_kind["training"], *by_kind["serving"]):
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    for support, kind in (("support", "training"), ("serving_support", "serving")):
        assert sum(entry["predicted"] for entry in document[support]) == len(by_kind[kind])
        assert {"chip", "models", "axes", "chips_least", "chips_most"} <= set(document[support][0])
    assert sum(entry["count"] for entry in document["unsupported_by_reason"]) == document["unsupported"]
    assert len({tuple(row) for row in document["rows"]}) == 1  # all rows have the same keys
