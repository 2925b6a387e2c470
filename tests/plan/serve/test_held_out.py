"""Servers that were looked up after all figures had been settled: Qwen3 32B on one TPU7x chip with vLLM."""

from __future__ import annotations

import pytest

from tpuprof.hardware import chip, make_slice
from tpuprof.plan import load_model
from tpuprof.plan.serve import Assumptions, ServeQuestion, Types, Workload
from tpuprof.plan.serve.candidates import points
from tpuprof.plan.serve.layout import layouts

ONE = make_slice(chip("tpu7x"), (1, 1, 1))
FP8 = Types("f8e4m3fn", "f8e4m3fn", "f8e4m3fn")


@pytest.mark.parametrize(
    ("prompt", "generate", "batch", "measured"),
    [(1024, 1024, 135, 6556.72), (1024, 8192, 120, 3959.56), (8192, 1024, 120, 1382.18)],
)
def test_tokens_per_second(prompt: int, generate: int, batch: int, measured: float) -> None:
    """AI-Hypercomputer/tpu-recipes, inference/ironwood/vLLM/Qwen3-32B: 98 % of the memory, 4,096 tokens a step, at most
    135 sequences, of which 120 fit where they are long. 320 requests are no whole number of fillings of the server,
    and it runs empty at the end, so that a prediction of a full one should be too high."""
    asked = ServeQuestion(
        load_model("qwen3-32b"), (ONE,), Workload(prompt, generate), FP8, Assumptions(memory_fraction=0.98),
        budget=4096, batches=(batch,),
    )  # fmt: skip
    found = [one for layout in layouts(asked.model, ONE) for one in points(asked, layout)[0]]
    error = max(one.steady.tokens_per_s for one in found) / measured - 1
    assert 0 < error < 0.3
