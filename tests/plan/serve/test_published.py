"""Published rows: predictions with a signed error, and a reason for each row without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpuprof.plan.serve.published import predict_row
from tpuprof.plan.serve.setup import EXPECTED

ROW: dict[str, object] = {
    "id": "perf-1", "chip": "v6e", "topology": "2x4", "global_batch_seqs": 64, "dtype": "bf16",
    "model": {
        "name": "llama", "layers": 80, "d_model": 8192, "n_heads": 64, "n_kv_heads": 8, "head_dim": 128, "d_ff": 28672,
        "gated": True, "vocab": 128256, "tied_embeddings": False, "experts": None, "n_params": None,
    },
    "parallelism": {"tensor": 8}, "workload": {"input_tokens": 1000, "output_tokens": 1000},
    "measured": {"output_tokens_per_s": 2494.8, "mean_tpot_s": 0.02535}, "notes": "max-num-batched-tokens 512",
}  # fmt: skip
"""The published serving of Llama 3.3 70B with vLLM on eight v6e chips."""


def test_a_measured_server() -> None:
    found = predict_row(ROW)
    assert found.reason == ""
    assert found.split == "tensor=8 kv=heads8"
    assert found.error is not None
    assert found.tpot_error is not None
    assert abs(found.error) < 0.1
    assert abs(found.tpot_error) < 0.1
    # Knowing nothing of the engine it is too fast, but by less than a quarter.
    bare = predict_row(ROW, replace(EXPECTED, engine=None, memory=0.8))
    assert bare.error is not None
    assert 0 < bare.error < 0.25
    assert found.predicted == pytest.approx(2494.8 * (1 + found.error))
    assert not any("at most" in text for text in found.assumptions)


def test_what_a_row_does_not_say_is_assumed_aloud() -> None:
    found = predict_row(ROW | {"notes": "", "dtype": "fp8", "workload": {
        "input_tokens": 1000, "output_tokens": 1000, "random_range_ratio": 0.8
    }})  # fmt: skip
    assert found.assumptions[:3] == (
        "activations and cache are bf16", "a step has at most 2048 tokens", "all requests have the mean length"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chip": None}, "The row does not state chip."),
        ({"workload": {}}, "The row does not state request lengths."),
        ({"workload": None, "dtype": None}, "The row does not state dtype, request lengths."),
        ({"chip": "H100-SXM"}, "H100-SXM has no slice of shape 2x4"),
        ({"dtype": "fp16"}, "Weights of type 'fp16' are not planned."),
        ({"model": {"name": "llama"}}, "The model has no layers"),
        ({"parallelism": {"tensor": 3}}, "The split of the row is none that fits."),
        ({"topology": "axb"}, "A field is of another kind than expected: ValueError"),
        ({"global_batch_seqs": [1]}, "A field is of another kind than expected: TypeError"),
        ({"model": [1]}, "A field is of another kind than expected: AttributeError"),
        ({"notes": "", "step_tokens": 32}, "The token budget of 32 leaves no token for each of 64 sequences."),
        ({"topology": "1x1"}, "cannot be served on v6e:1x1"),
    ],
)
def test_rows_that_are_not_supported_say_why(changes: dict[str, object], reason: str) -> None:
    found = predict_row(ROW | changes)
    assert reason in found.reason
    assert (found.predicted, found.error, found.tpot_error) == (None, None, None)
    assert found.measured == 2494.8
