"""Times of passes: a tiny model worked out by hand, the book's Llama 3 70B, and what must hold for all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.serve.tiny import LAYER, MIXTURE, MODEL, forward, where
from tpuprof.errors import UsageError
from tpuprof.hardware import parse_slice
from tpuprof.hardware.mesh import torus_mesh
from tpuprof.perfmodel import collective_time
from tpuprof.perfmodel.rates import rates_of
from tpuprof.plan import load_model
from tpuprof.plan.model import Experts, LatentAttention, Layer, ModelConfig
from tpuprof.plan.serve import BOUND, Assumptions, ForwardModel, ServeLayout, Types, layouts
from tpuprof.plan.serve.communication import cache_moves, experts_moves, layer_moves
from tpuprof.plan.serve.layout import problem
from tpuprof.plan.serve.links import Links

ONE = ServeLayout(where(1, 1))
FOUR = ServeLayout(where(2, 2), heads=2, cache="batch")


def test_a_decode_step_waits_for_weights_and_cache() -> None:
    made = forward().decode(1, 100)
    # Weights of 2 bytes at 10 GB/s: 2 layers of 589,824 and the output matrix of 262,144.
    assert made.weights == pytest.approx((2 * 589_824 + 262_144) * 2 / 1e10)
    # 2 layers, 100 tokens of 256 numbers of 2 bytes.
    assert made.cache == pytest.approx(2 * 100 * 256 * 2 / 1e10)
    assert (made.arithmetic, made.scores, made.collectives, made.overhead) == (0, 0, 0, 0)
    assert made.total == pytest.approx(made.weights + made.cache)
    assert made.bound_by == "weights"


def test_a_prompt_waits_for_the_matrix_unit() -> None:
    made = forward().prefill(1024)
    # All sizes are multiples of 128: no padding. One row of logits is padded to 8, and waits for its weights.
    assert made.arithmetic == pytest.approx(2 * 1024 * 2 * 589_824 / 1e12)
    assert made.weights == pytest.approx(262_144 * 2 / 1e10)
    # Half of the pairs, in 2 layers of 4 heads: heads of 64 are padded to 128 where they are summed over (scores), and
    # not where they are put out (context).
    assert made.scores == pytest.approx(2 * 2 * 4 * 1024 * 1024 * (128 + 64) / 2 / 1e12)


def test_a_short_prompt_is_computed_on_one_block_of_keys_whatever_its_length() -> None:
    made = forward(assumed=Assumptions())
    whole = made.prefill(4096).scores
    for tokens in (128, 1024):
        assert made.prefill(tokens).scores == pytest.approx(whole * tokens / 4096)
    # Rows of queries are padded to 8; keys to the block, and not to the matrix unit and to the block.
    assert made.prefill(1).scores < whole * 8 / 4096
    assert made.prefill(1000).scores == pytest.approx(whole * 1000 / 4096, rel=0.02)


def test_narrow_weights_are_read_faster_and_multiplied_at_the_wider_rate() -> None:
    narrow = forward(types=Types("int8", "int8"))
    assert narrow.decode(1, 100).total == pytest.approx(forward().decode(1, 100).total / 2)
    assert narrow.prefill(1024).arithmetic == pytest.approx(forward().prefill(1024).arithmetic)
    both = forward(types=Types("int8", "int8", "int8"))
    assert both.prefill(1024).arithmetic == pytest.approx(forward().prefill(1024).arithmetic / 2)


def test_small_batches_are_padded_to_eight_rows() -> None:
    slow = Assumptions(1.0, 0.01, 0.0, 1.0, True, engine=None)
    one, eight, nine = (forward(assumed=slow).linear(rows, rows).arithmetic for rows in (1, 8, 9))
    assert one == eight
    assert nine == pytest.approx(2 * eight)


def test_efficiencies_and_overhead_add_up() -> None:
    expected = forward(assumed=Assumptions(0.5, 1.0, 1e-3, 1.0, True, engine=None)).decode(1, 100)
    assert expected.total == pytest.approx(2 * forward().decode(1, 100).total + 1e-3)


def test_four_chips_share_the_weights_and_sum_twice_per_layer() -> None:
    made = forward(FOUR, assumed=replace(BOUND, overlap=0.0)).decode(4, 100)
    assert made.weights == pytest.approx(forward().decode(4, 100).weights / 4)
    # Heads split the cache 2 ways, sequences 2 more.
    assert made.cache == pytest.approx(forward().decode(4, 100).cache / 4)
    # A sum of 4 x 256 numbers in a 2 x 2 mesh without rings takes the hops there and back: 2 x 2 us. With the
    # embedding there are 5 sums, and per layer 2 all-to-alls of one hop.
    assert made.collectives == pytest.approx(5 * 4e-6 + 2 * 2 * 1e-6, rel=0.05)


def test_collectives_hide_behind_matmuls_as_far_as_those_last() -> None:
    whole = forward(FOUR, assumed=replace(BOUND, overlap=0.0)).linear(4, 4)
    hidden = forward(FOUR).linear(4, 4)
    embedding = Links(FOUR, True).seconds("all_reduce", "all", 4 * 256 * 2)
    assert hidden.collectives == pytest.approx(embedding)
    assert whole.collectives == pytest.approx(5 * embedding)


@pytest.mark.parametrize("name", ["v5e:4x4", "v6e:2x4", "tpu7x:2x2x1", "v5p:2x2x4"])
@pytest.mark.parametrize("kind", ["all_gather", "all_reduce", "all_to_all"])
def test_link_costs_are_those_of_collective_time(name: str, kind: str) -> None:
    at = parse_slice(name)
    layout = ServeLayout(at, cache="batch", heads=at.n_devices // 2)
    devices = torus_mesh(at).devices
    pairs = [devices[start : start + 2] for start in range(0, len(devices), 2)]
    for size in (1e3, 1e6, 1e9):
        known = collective_time(kind, size, at)
        assert Links(layout, True).seconds(kind, "all", size) == pytest.approx(known.seconds)
        assert Links(layout).seconds(kind, "all", size) == pytest.approx(known.expected_s)
        known = collective_time(kind, size, at, groups=pairs)
        assert Links(layout, True).seconds(kind, "rest", size) == pytest.approx(known.seconds)


def test_experts_that_nobody_reaches_are_not_read() -> None:
    one, many = (forward(model=MIXTURE).decode(batch, 10).weights for batch in (1, 64))
    each = 3 * 256 * 128
    rest = (2 * 256 * 256 + 2 * 256 * 128) * 2 + 262_144  # the router is so small that it waits for its padding
    assert one == pytest.approx((2 * 2 * each + rest) * 2 / 1e10)
    assert many == pytest.approx((2 * 8 * each + rest) * 2 / 1e10)


def test_experts_are_spread_over_devices() -> None:
    spread = ServeLayout(where(2, 2), experts=4, heads=2, cache="copies")
    shares = {share.output: share.matmul for share in forward(spread, MIXTURE).shares(MIXTURE.layers[0], 64)}
    assert (shares["up"].batch, shares["up"].m, shares["up"].k, shares["up"].n) == (2, 16, 256, 128)
    inside = {share.output: share.matmul for share in forward(FOUR, MIXTURE).shares(MIXTURE.layers[0], 64)}
    assert (inside["up"].batch, inside["up"].n, inside["mlp_out"].k) == (8, 32, 32)


@pytest.mark.parametrize(
    ("context", "batch", "shape"), [(8192, 32, "4x2"), (8192, 32, "4x4"), (8192, 43, "4x2"), (8192, 1, "4x2")]
)
def test_the_books_decode_of_llama_3_70b_on_v5e(context: int, batch: int, shape: str) -> None:
    """All bytes once through the memories: 17.07 ms for 32 sequences on eight chips, half of it on sixteen."""
    at = parse_slice(f"v5e:{'x'.join(sorted(shape.split('x')))}", "book-2026")
    model = load_model("llama3-70b")
    layout = next(one for one in layouts(model, at) if one.x == 1 and one.cache in ("heads", "tokens"))
    made = ForwardModel(model, layout, Types("int8", "int8"), rates_of(at.chip), BOUND).decode(batch, context)
    book = (batch * context * 163_840 + 70e9) / (at.n_devices * 8.2e11)
    # The book counts 70e9 weights, the model's matmuls have 69.5e9.
    assert made.weights + made.cache == pytest.approx(book, rel=0.01)
    if batch == 32:  # printed for 32 sequences, with 160 kB per token in place of 163,840
        assert made.weights + made.cache == pytest.approx(17.07e-3 if at.n_devices == 8 else 8.54e-3, rel=0.01)


def test_the_books_prefill_of_llama_3_70b_on_v5e() -> None:
    at = parse_slice("v5e:4x4", "book-2026")
    model = load_model("llama3-70b")
    layout = ServeLayout(at, heads=8, cache="copies")
    assumed = replace(BOUND, compute=0.4)
    made = ForwardModel(model, layout, Types("int8", "int8"), rates_of(at.chip), assumed).prompt(8192, 2048)
    # The book's 0.91 s at 40 % of the peak, without attention scores, takes 70e9 weights for every token. Of them 2.1e9
    # are the embedding and the output matrix, which a prompt multiplies with its last token only.
    assert made.arithmetic == pytest.approx(2 * (70.55e9 - 2.1e9) * 8192 / (16 * 1.97e14 * 0.4), rel=1e-3)
    assert made.arithmetic == pytest.approx(0.9096, rel=0.05)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 400), context=st.integers(1, 5000), shape=st.sampled_from([(1, 1), (2, 2), (2, 4)]),
    model=st.sampled_from([MODEL, MIXTURE]), index=st.integers(0, 50),
)  # fmt: skip
def test_what_holds_for_every_split(
    batch: int, context: int, shape: tuple[int, int], model: ModelConfig, index: int
) -> None:
    able = [one for one in layouts(model, where(*shape)) if not problem(model, one)]
    made = forward(able[index % len(able)], model, assumed=Assumptions())
    step, twice = made.decode(batch, context), made.decode(2 * batch, context)
    assert step.total == pytest.approx(sum(step.to_json().values()))
    # Twice the batch never takes more than twice the time, so throughput does not fall.
    assert twice.total <= 2 * step.total * (1 + 1e-9)
    assert twice.total >= step.total
    assert made.decode(batch, context + 1).total >= step.total
    # No step is faster than reading the device's share of the weights of both layers at the full bandwidth.
    shares = [*made.shares(model.layers[0], batch), *made.shares(model.layers[1], batch), made.head_share(batch)]
    bound = forward(made.layout, model).decode(batch, context)
    assert bound.total >= sum(share.matmul.bytes_by_operand["rhs"] for share in shares) / 1e10 * (1 - 1e-9)
    assert bound.total <= step.total


@given(index=st.integers(0, 100), batch=st.integers(1, 64))
@settings(max_examples=30, deadline=None)
def test_devices_together_do_all_the_work(index: int, batch: int) -> None:
    """The shares of a split, times the devices, are no less than the whole matmuls: nothing is lost in the split."""
    able = [one for one in layouts(MODEL, where(2, 4)) if not problem(MODEL, one)]
    layout = able[index % len(able)]
    whole = {share.output: share.matmul.flops for share in forward(ONE).shares(LAYER, batch)}
    split = {share.output: share.matmul.flops * 8 for share in forward(layout).shares(LAYER, batch)}
    assert split == whole


def test_windows_cap_what_is_read() -> None:
    layer = replace(LAYER, attention=replace(LAYER.attention, window=50))
    model = replace(MODEL, layers=(layer, LAYER))
    assert forward(model=model).decode(1, 100).cache == pytest.approx((50 + 100) * 512 / 1e10)


@pytest.mark.parametrize(("batch", "context"), [(0, 5), (1, 0), (-1, 5)])
def test_a_step_of_nothing_is_an_error(batch: int, context: int) -> None:
    with pytest.raises(UsageError, match="is none"):
        forward().decode(batch, context)


def test_splits_that_do_not_divide_say_so() -> None:
    odd = replace(MODEL, layers=(Layer(256, replace(LAYER.attention, heads=6), LAYER.mlp),))
    assert problem(odd, ServeLayout(where(2, 2))) == "6 heads do not split evenly over 4 devices."
    mlp = replace(MODEL, layers=(replace(LAYER, mlp=replace(LAYER.mlp, hidden=510)),))
    assert problem(mlp, ServeLayout(where(2, 2))) == "The hidden width 510 does not split 4 ways."
    assert "by expert" in problem(MIXTURE, ServeLayout(where(2, 2), ("x",), 2))
    assert problem(replace(MODEL, layers=(replace(LAYER, width=255),)), ServeLayout(where(2, 2), ("x",), 2)) == (
        "The width 255 does not split 2 ways."
    )


def test_equal_axes_are_looked_at_once() -> None:
    found = [one.x_axes for one in layouts(MODEL, where(4, 4)) if one.cache == "batch"]
    assert len(found) == len(set(found)) == 2


def test_two_dimensions_move_what_the_book_says() -> None:
    """Per layer with weights [D over X, F over Y]: the width is gathered over Y and scattered back, twice; partial sums
    are scattered over X and gathered: queries with keys and values, gate with up, and what comes of them."""
    layout = ServeLayout(where(2, 4), ("x",), 2, heads=2, cache="batch")
    tokens, size = 8192, 2 * 8192
    # Lines of links of 1 GB/s without rings: size * (n-1)/n over n chips of an axis, one direction.
    over_x, over_y = 0.5 / 1e9, 0.75 / 1e9
    width = 4 * size * (256 / 2) * over_y
    sums = size * ((256 + 2 * 128) + 256 + 2 * 512 + 512) / 4 * over_x
    assert layer_moves(Links(layout, True), LAYER, tokens, Types()) == pytest.approx(width + sums)


def test_tokens_of_the_cache_need_their_softmax_merged() -> None:
    layout = ServeLayout(where(2, 2), heads=2, cache="tokens")
    batch = 8192
    # In pairs of neighbours: queries of 128 numbers are gathered; outputs and two float32 per head are scattered.
    gathered, partial = batch * 128 * 2, batch * (128 * 2 + 8 * 2)
    assert cache_moves(Links(layout, True), LAYER, batch, Types()) == pytest.approx((gathered + partial) * 0.5 / 1e9)
    assert cache_moves(Links(ServeLayout(where(2, 2), heads=2, cache="copies"), True), LAYER, batch, Types()) == 0


def test_experts_take_the_faster_of_a_sum_and_all_to_alls() -> None:
    many = replace(LAYER, mlp=Experts(8, 1, 128, True))
    spread = Links(ServeLayout(where(2, 4), experts=8, heads=2, cache="batch"), True)
    split = Links(ServeLayout(where(2, 4), heads=2, cache="batch"), True)
    tokens = 1 << 14
    summed = split.seconds("all_reduce", "all", tokens * 256 * 2)
    assert experts_moves(split, many, tokens, Types()) == summed
    assert experts_moves(spread, many, tokens, Types()) == 2 * spread.seconds(
        "ragged_all_to_all", "all", tokens / 8 * 256 * 2
    )
    greedy = replace(LAYER, mlp=Experts(8, 8, 128, True))
    assert experts_moves(spread, greedy, tokens, Types()) == summed
    assert experts_moves(spread, LAYER, tokens, Types()) == 0


def test_blocks_that_share_their_input_share_their_sum() -> None:
    links = Links(ServeLayout(where(2, 2), heads=2, cache="copies"), True)
    one = links.seconds("all_reduce", "all", 64 * 256 * 2)
    assert layer_moves(links, LAYER, 64, Types()) == 2 * one
    assert layer_moves(links, replace(LAYER, parallel=True), 64, Types()) == one
    # The sum of experts is counted with them.
    assert layer_moves(links, MIXTURE.layers[0], 64, Types()) == one


def test_a_prompt_gathers_its_cache_where_sequences_or_tokens_split_it() -> None:
    moved = {
        cache: forward(ServeLayout(where(2, 2), heads=2, cache=cache)).prompt_attention(8192, 8192).collectives
        for cache in ("batch", "tokens", "copies")
    }
    # Half of 256 numbers of 2 bytes per token, of which a neighbour has half, in 2 layers.
    assert moved["batch"] == moved["tokens"] == pytest.approx(2 * 8192 * 256 / 2 * 2 * 0.5 / 1e9)
    assert moved["copies"] == 0


LATENT = LatentAttention(4, None, 128, 64, 64, 64)


def test_latent_attention_reads_one_vector_for_all_heads() -> None:
    model = replace(MODEL, layers=(replace(LAYER, attention=LATENT),))
    made = forward(model=model)
    assert made.decode(2, 1000).cache == pytest.approx(2 * 1000 * (128 + 64) * 2 / 1e10)
    # Two devices without heads to split hold half of the tokens each, or all of them.
    split = {cache: forward(ServeLayout(where(2, 2), cache=cache), model).cache_bytes(model.layers[0], 2, 1000)
             for cache in ("tokens", "copies", "batch")}  # fmt: skip
    assert split == {"tokens": 2 * 250 * 192 * 2, "copies": 2 * 1000 * 192 * 2, "batch": 1000 * 192 * 2}


def test_latent_attention_expands_earlier_keys_again() -> None:
    model = replace(MODEL, layers=(replace(LAYER, attention=LATENT),))
    made = forward(model=model)
    later, alone = (made.prompt_attention(256, keys).scores for keys in (512, 256))
    # Scores of 128 numbers, context of 64: 256 x 256 more pairs that all count, where half of as many did.
    pairs = 2 * 4 * 256 * 256 * (128 + 64)
    again = 2 * 256 * 128 * 4 * (64 + 64)
    assert alone == pytest.approx(pairs / 2 / 1e12)
    assert later == pytest.approx((pairs * 3 / 2 + again) / 1e12)
