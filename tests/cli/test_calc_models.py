"""``tpuprof calc`` on models: the usual ways to ask, and what is said when they are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

BOOK = ("--edition", "book-2026")


def _answer(run: Run, *words: str) -> float:
    code, out, err = run("calc", *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["answer"]["value"]


def test_a_model_is_a_name_or_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({
        "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    }), encoding="utf-8")  # fmt: skip
    named = _answer(run, "params", "llama3-8b")
    assert named == _answer(run, "params", str(path)) == _answer(run, "params", str(tmp_path)) == 8_030_261_248
    sizes = "params --layers 32 --d-model 4096 --n-heads 32 --n-kv-heads 8 --d-ff 14336 --vocab 128256"
    assert _answer(run, *sizes.split()) == named - 65 * 4096  # without norms


def test_tensors_are_kept_by_name(run: Run) -> None:
    memory = ["memory", "llama3-8b", "--tokens", "8192", "--chip", "v5e", *BOOK, "--ask"]
    assert _answer(run, *memory, "activations", "--keep", "attention_out") == 2 * _answer(run, *memory, "activations")
    moved = [*memory[:-1], "--move", "decoder_layer_input", "--ask"]
    assert _answer(run, *moved, "activations") == 0
    assert _answer(run, *moved, "host") == _answer(run, *memory, "activations")
    assert _answer(run, *memory, "fits") is False
    flops = ["flops", "llama3-8b", "--seq", "4096", "--ask", "recompute"]
    assert _answer(run, *flops) == 0
    assert _answer(run, *flops, "--keep", "query,key,value,context,attention_out,gate,up") == 0
    assert _answer(run, *flops, "--keep", "query") < _answer(run, *flops, "--remat", "full")


def test_a_chip_answers_for_its_memory_and_links(run: Run) -> None:
    words = ["decode", "llama3-70b", "--chip", "v5e", *BOOK, "--chips", "16", "--context", "8192", "--weights", "int8"]
    assert _answer(run, *words, "--batch", "8", "--ask", "free") == pytest.approx(16e9 - 70.55e9 / 16, rel=1e-3)
    assert _answer(run, "parallelism", "--chip", "v5p", *BOOK, "--ask", "slice") == 73_440
    matmul = ["decode-matmul", "--d-model", "8192", "--d-ff", "28672", "--tokens", "64", "--chip", "v5e", *BOOK]
    assert _answer(run, *matmul, "--ask", "communication") == pytest.approx(2 * 64 * 8192 / 9e10)
    assert _answer(run, "context-parallel", "--chip", "v5p", *BOOK, "--group", "8") == 2550 / 8
    assert _answer(run, "bubble", "--stages", "4", "--microbatches", "12") == 0.2
    assert _answer(run, "cost", "--chip", "v5e", *BOOK, "--throughput", "1000") == pytest.approx(1.2 / 3.6)
    assert _answer(run, "offload", "--bytes", "16GB", "--bandwidth", "16GB/s", "--step", "1s", "--ask", "exposed") == 1
    assert _answer(run, "speculative", "--acceptance", "0.5", "--drafted", "1") == 1.5
    whole = ["memory", "llama3-8b", "--tokens", "1M", "--data", "8", "--chip", "tpu7x"]
    assert _answer(run, *whole, "--ask", "headroom") > _answer(run, *whole, "--per", "device", "--ask", "headroom")


def test_a_run_of_a_model_says_what_its_operations_are(run: Run) -> None:
    code, out, _ = run("calc", "train-time", "llama3-8b", "--tokens", "1T", "--chips", "256", "--chip", "v5e", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["inputs"]["model"]["value"] == "llama3-8b"
    assert [step["what"] for step in document["steps"]] == ["operations per token", "operations"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("params", "The model is given twice or not at all"),
        ("params llama3-9b", "There is no model 'llama3-9b'.*Did you mean llama3-8b"),
        ("flops llama3-8b", "A model needs the length of its sequences"),
        ("flops llama3-8b --params 8B", "MODEL and params are both given"),
        ("flops", "Nothing is given to calculate with"),
        ("flops --matmul 1x2", "A matmul has three sizes, not 2"),
        ("flops --per-token 1T", "The number of tokens is not given"),
        ("flops llama3-8b --seq 8 --remat full --keep key", "The policy is given twice"),
        ("flops --params 3Q", "'3Q' is no number of things"),
        ("flops --params 1e400", "'1e400' is too large"),
        ("kv-cache --layers 4 --n-kv-heads 3", "The size of keys is given twice or not at all"),
        ("kv-cache llama3-8b --context 1.5", "1.5 is no whole number of tokens"),
        ("kv-cache --per-token 3B", "The context is not given"),
        ("memory llama3-8b", "A model needs the tokens of a microbatch"),
        ("memory llama3-8b --tokens 1M --gradients f32,f32", "have one type each"),
        ("memory --part x", "'x' is no part, or it is there twice"),
        ("memory --tokens 1M", "Activations are described in part"),
        ("critical-batch", "The critical intensity is not known"),
        ("critical-batch --intensity 240 --chip v5e", "The intensity is given twice"),
        ("parallelism --intensity 9 --split-axes 2", "Two numbers of axes are split"),
        ("parallelism --link dcn --intensity 9", "no rate of the data-centre network"),
        ("batch --minimum 3", "The batch is not known"),
        ("expert-parallel --intensity 9 --ways 8", "The network is given twice or not at all"),
        ("train-time", "The number of chips is not given"),
        ("train-time --chips 3 --known-days 4", "A known time needs the chips that it was on"),
        ("train-time --chips 3 --params 1B", "The number of tokens is not given"),
        ("cost --price 3", "There is nothing to calculate"),
        ("cost --days 3 --time 3s --price 3", "The time is given twice"),
        ("cost --days 3 --price 3", "The number of chips is not given"),
        ("cost --throughput 3", "The price of a chip-hour is not known"),
        ("params llama3-8b --layers 3", "--layers says nothing with MODEL"),
        ("params llama3-8b --tied", "--gated|--tied says nothing with MODEL"),
        ("flops --params 8B --seq 3", "--seq says nothing without MODEL"),
        ("flops llama3-8b --seq 3 --tokens 4", "--tokens says nothing with MODEL"),
        ("kv-cache llama3-8b --head-dim 3", "--head-dim says nothing without --layers"),
        ("kv-cache --per-token 3B --context 8 --dtype int8", "--dtype says nothing with known bytes"),
        ("memory llama3-8b --tokens 1M --chips 8", "--chips says nothing with MODEL"),
        ("memory --params 8B --data 8", "--data says nothing without MODEL"),
        ("train-time --chips 3 --flops 1T --tokens 3 --peak 1T", "--tokens says nothing with --flops"),
        ("train-time --chips 3 --known-days 3 --known-chips 4 --mfu 0.3", "--mfu says nothing with a known time"),
        ("decode --step 1ms --kv-bytes 1GB", "--kv-bytes says nothing with --step"),
        ("decode --weight-bytes 1GB --context 3 --bandwidth 1TB/s", "--context says nothing without MODEL"),
        ("parallelism --intensity 9 --node 8", "--node says nothing without --d-ff"),
        ("decode", "There is no model"),
        ("decode llama3-8b --chip v5e", "A model needs a context"),
        ("decode llama3-8b --chip v5e --context 8 --batch 1.5", "A batch of 1.5 sequences is not whole"),
        ("prefill llama3-8b --tokens 1.5 --chip v5e", "1.5 is no whole number of tokens"),
        ("offload --bandwidth 16GB/s", "There is nothing to calculate"),
        ("smallest-slice", "The bytes are given twice or not at all"),
        ("smallest-slice --bytes 1GB --slices 1,2", "Too little is given"),
        ("decode-parallel --d-ff 8 --batch 8 --ratio 8 --hbm 1GB/s --ici 1GB/s", "given twice or not at all"),
    ],
)  # fmt: skip
def test_what_is_missing_or_too_much_is_said(run: Run, words: str, message: str) -> None:
    code, out, err = run("calc", *words.split())
    assert (code, out) == (2, "")
    assert re.search(message, " ".join(err.split())) is not None, err


def test_the_python_example_of_the_page_on_models_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "docs/models.md", "exec"), {})


def test_mixed_models_are_itemised_by_kind_of_layer(run: Run) -> None:
    rows: Any = _answer(run, "params", "deepseek-v3", "--ask", "layers")
    assert [(row["kind"], row["layers"]) for row in rows] == [("mla dense", 3), ("mla experts", 58)]
    rows = _answer(run, "flops", "gemma3-1b", "--seq", "4096", "--ask", "layers")
    assert [row["layers"] for row in rows] == [22, 4]


def test_every_policy_is_on_the_page_on_models() -> None:
    from tpuprof.plan.remat import POLICIES

    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| [a-z]", page, re.MULTILINE)[: len(POLICIES)] == list(POLICIES)
