"""``tpuprof plan serve``: its document, its tables, its errors."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run
from tpuprof.cli.plan import SUBCOMMANDS, command

ASK = ("plan", "serve", "llama3.2-1b", "--chip", "v5e", "--prompt", "256", "--generate", "64", "--chips", "1,4")


def test_the_document(run: Run) -> None:
    code, out, _ = run(*ASK, "--json", "--explain")
    assert code == 0
    found = json.loads(out)
    assert found["schema_version"] == 1
    assert found["command"] == "plan serve"
    assert found["model"]["name"] == "llama3.2-1b"
    assert found["hardware"] == {
        "chip": "v5e", "edition": "datasheet", "slices": ["v5e:1x1", "v5e:2x2"], "price_usd_per_chip_hour": 1.2
    }  # fmt: skip
    assert [row["rank"] for row in found["candidates"]] == list(range(1, len(found["candidates"]) + 1))
    first = found["candidates"][0]
    assert {"mesh", "batch", "ttft_s", "tpot_s", "tokens_per_s_per_chip", "memory_bytes", "fits", "bound_by"} <= set(
        first
    )
    assert first["decode_step_s"] == pytest.approx(sum(first["decode_parts_s"].values()))
    assert first["decode_step_bound_s"] < first["decode_step_s"]
    assert first["memory_bytes"]["total"] <= first["memory_bytes"]["capacity"]
    assert found["smallest_slice"] == {"rank": 1, "slice": "v5e:1x1", "chips": 1}
    assert found["explain"]["decode-step"]["answer"]["value"] == pytest.approx(first["decode_step_s"])
    assert set(found["explain"]["cost"]) == {
        "answer", "regime", "formula", "inputs", "assumptions", "steps", "source"
    }  # fmt: skip


def test_the_tables(run: Run) -> None:
    code, out, _ = run(*ASK, "--sla-tpot", "20ms")
    assert code == 0
    assert "llama3.2-1b on v5e" in out
    assert "The smallest slice that meets the limits: v5e:1x1, 1 chip." in " ".join(out.split())
    for title in ("Latency against throughput", "Under load", "With servers of their own for prompts"):
        assert title in out


def test_the_page_has_the_curve_and_the_derivation(run: Run) -> None:
    code, out, _ = run(*ASK, "--format", "html", "--candidate", "2")
    assert code == 0
    assert "<h2>Candidate 1 under more and more load</h2>" in out
    assert "<h2>Derivation of candidate 2</h2>" in out
    assert out.count("<svg") == 4
    _, out, _ = run(*ASK, "--json", "--load-curve", "--chips", "1")
    curve = json.loads(out)["load_curve"]
    assert [row["load"] for row in curve] == pytest.approx([0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
    assert curve[0]["ttft_p50_s"] < curve[-1]["ttft_p50_s"]
    assert curve[0]["tpot_p50_s"] < curve[-1]["tpot_p50_s"]


def test_markdown_and_csv(run: Run) -> None:
    _, out, _ = run(*ASK, "--format", "md", "--explain", "--candidate", "2")
    assert "### decode-step:" in out
    assert "### What is assumed" in out
    _, out, _ = run(*ASK, "--format", "csv")
    assert out.startswith("rank,slice,chips,split,batch,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--chip", "v99"), "There is no chip"),
        (("--chip", "H100-SXM"), "torus"),
        (("--prompt", "0"), "The length of the prompt is 0"),
        (("--batch", "0"), "The batch is 0"),
        (("--batch", "x"), "is no list of counts"),
        (("--topology", "4x4", "--chips", "4"), "Slices are given twice"),
        (("--topology", "4-4"), "is no list of shapes"),
        (("--topology", "3x5"), "has no slice of shape 3x5"),
        (("--chips", "3"), "has no slice of 3 chips"),
        (("--weights", "int9"), "is no element type"),
        (("--candidate", "999"), "There is no candidate 999"),
        (("--token-budget", "0"), "The token budget is 0"),
        (("--sla-ttft", "-1s"), "must be positive"),
        (("--load", "nan"), "The load is nan"),
        (("--rate", "inf"), "The rate of requests is inf"),
        (("--generate", "999999"), "An answer of 999,999 tokens is too long"),
        (("--prompt", "99999999"), "tokens is too long"),
        (("--sla-tpot", "nan"), "is no quantity"),
        (("--sla-ttft", "0"), "must be above zero"),
        (("--overlap", "2"), "The overlap is 2"),
        (("--memory-fraction", "0"), "The share of the memory is 0"),
        (("--step-overhead", "-1s"), "must be positive"),
        (("--price", "0USD/h"), "must be positive"),
        (("--chips", "0"), "Slices nearby have 1 chip."),
        (("--chips", "99999999"), "is no list of counts"),
        (("--batch", "9999"), "do not fit the 15.22 GB of a device"),
        (("--memory-efficiency", "1.5"), "The share of the memory bandwidth is 1.5"),
    ],
)
def test_errors(run: Run, words: tuple[str, ...], message: str) -> None:
    asked = list(ASK)
    if words[0] in asked and "--topology" not in words:
        asked[asked.index(words[0]) + 1] = words[1]
        words = words[2:]
    if words and words[0] == "--topology" and "--chips" not in words:
        asked = asked[: asked.index("--chips")]
    code, out, err = run(*asked, *words)
    assert code == 2
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("llama9", "There is no model 'llama9'"),
        ("llama3-405b", "cannot be served on v5e:1x1"),
        ("deepseek-v3", "Weights ("),
    ],
)
def test_models_that_cannot_be_planned(run: Run, model: str, message: str) -> None:
    code, _, err = run(*ASK[:2], model, *ASK[3:])
    assert code == 2
    assert message in err


def test_contexts_beyond_the_models_positions(run: Run) -> None:
    code, _, err = run(
        "plan", "serve", "gpt2", "--chip", "v5e", "--prompt", "1000", "--generate", "100", "--chips", "1"
    )
    assert code == 2
    assert "gpt2 has 1,024 positions, and a sequence has 1,100 tokens" in err


def test_the_table_of_plans_says_what_the_commands_say(run: Run) -> None:
    for name, (_, text) in SUBCOMMANDS.items():
        made = command.get_command(None, name)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
        assert made.help.partition("\n\n")[0].replace("\n", " ") == text
    code, _, err = run("plan", "srve")
    assert code == 2
    assert "Did you mean serve?" in err
