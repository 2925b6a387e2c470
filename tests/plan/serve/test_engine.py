"""What an engine spends besides: worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.serve.tiny import LAYER, MIXTURE, forward, where
from tpuprof.errors import UsageError
from tpuprof.hardware import chip, make_slice
from tpuprof.perfmodel.rates import rates_of
from tpuprof.plan import load_model
from tpuprof.plan.serve import BOUND, ForwardModel, ServeLayout, Types, layouts
from tpuprof.plan.serve.engine import VLLM, Engine, computed_keys, dispatch_seconds, loop_seconds

ENGINE = Engine(0.5, 512, 10, 1e-6, 0.1, 128, "a test")
WITH = replace(BOUND, engine=ENGINE)
ONE = ServeLayout(where(1, 1))


def test_small_passes_last_as_long_as_their_ops_and_large_ones_as_their_bytes() -> None:
    # 10 ops of 1 us; 10 widths of 256, 2 x 6 heads of 64 and 2 x 512 hidden values, 2 bytes each, at 10 GB/s.
    elements = 10 * 256 + 2 * 6 * 64 + 2 * 512
    assert loop_seconds(ENGINE, LAYER, 1, ONE, "bf16", 1e10) == pytest.approx(1e-5)
    assert loop_seconds(ENGINE, LAYER, 4096, ONE, "bf16", 1e10) == pytest.approx(4096 * elements * 2 / 1e10)
    four = ServeLayout(where(2, 2))  # the residual is on every device, the rest is split
    split = 10 * 256 + (2 * 6 * 64 + 2 * 512) / 4
    assert loop_seconds(ENGINE, LAYER, 4096, four, "bf16", 1e10) == pytest.approx(4096 * split * 2 / 1e10)


def test_rows_go_to_their_experts_and_back() -> None:
    mixed = MIXTURE.layers[0]
    # 64 tokens, 2 experts each, 256 numbers of 2 bytes; there and back, read and written, at a tenth of 10 GB/s.
    assert dispatch_seconds(ENGINE, mixed, 64, ONE, "bf16", 1e10) == pytest.approx(64 * 2 * 256 * 2 * 4 / 1e9)
    spread = ServeLayout(where(2, 2), experts=4, heads=2, cache="copies")
    assert dispatch_seconds(ENGINE, mixed, 64, spread, "bf16", 1e10) == pytest.approx(64 * 2 * 256 * 2 / 1e9)
    assert dispatch_seconds(ENGINE, LAYER, 64, ONE, "bf16", 1e10) == 0


def test_the_kernel_for_prompts_computes_whole_blocks() -> None:
    assert [computed_keys(ENGINE, keys) for keys in (1, 512, 513)] == [512, 512, 1024]
    # 1,024 queries and keys are two blocks: all pairs where the mask leaves half, at half of the rate.
    assert forward(assumed=WITH).prefill(1024).scores == pytest.approx(4 * forward().prefill(1024).scores)


def test_an_engine_only_adds() -> None:
    for model in (None, MIXTURE):
        given = {} if model is None else {"model": model}
        bound, made = forward(**given), forward(**given, assumed=WITH)
        for plain, dear in (
            (bound.decode(8, 100), made.decode(8, 100)), (bound.prefill(300), made.prefill(300)),
        ):  # fmt: skip
            # A matmul can come to wait for the matrix unit instead of its weights.
            assert plain.weights + plain.arithmetic <= dear.weights + dear.arithmetic + 1e-15
            assert plain.scores <= dear.scores
            assert (plain.cache, plain.collectives) == (dear.cache, dear.collectives)
            assert dear.loops > 0 == plain.loops
            assert dear.total == pytest.approx(sum(dear.to_json().values()))


def test_the_trace_that_the_figures_come_from() -> None:
    # vLLM, a prompt of 1,024 tokens through Qwen3 32B on the two cores of a TPU7x chip: 66.9 ms, of which matmuls 42.3,
    # attention 17.0, sums 3.43, and loops, relayouts, slices and pads 4.34. Collectives are no figure of the engine.
    one = make_slice(chip("tpu7x"), (1, 1, 1))
    model = load_model("qwen3-32b")
    layout = next(layout for layout in layouts(model, one) if layout.x == 1)
    made = ForwardModel(model, layout, Types(), rates_of(one.chip)).prefill(1024)
    assert made.arithmetic + made.weights == pytest.approx(42.3e-3, rel=0.02)
    assert made.scores == pytest.approx(17.0e-3, rel=0.02)
    assert made.collectives == pytest.approx(3.43e-3, rel=0.05)
    assert made.loops == pytest.approx(4.34e-3, rel=0.05)
    assert made.total == pytest.approx(66.9e-3, rel=0.02)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attention": 0.0}, "The share attention of an engine is 0.0"),
        ({"gather": 1.5}, "The share gather of an engine is 1.5"),
        ({"attention": float("nan")}, "The share attention of an engine is nan"),
        ({"key_block": 0}, "key_block of an engine is 0"),
        ({"tile": -1}, "tile of an engine is -1"),
        ({"op_s": float("inf")}, "cannot have 47 ops of inf s"),
        ({"ops": -1}, "cannot have -1 ops"),
    ],
)
def test_figures_out_of_range(change: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(VLLM, **change)
