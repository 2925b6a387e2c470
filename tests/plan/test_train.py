"""The estimate of a training step: numbers worked by hand, and what must hold for every layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.hardware import parse_slice
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.plan import StateTypes, remat_policy
from tpuprof.plan.model import Attention, Experts, Layer, Mlp, ModelConfig
from tpuprof.plan.peak import SPARSE_CORE
from tpuprof.plan.train_comm import needs, network_bytes
from tpuprof.plan.train_compute import device_of, head_time, kernel_pairs, layer_time
from tpuprof.plan.train_explain import explain
from tpuprof.plan.train_layout import Job, Layout, problems
from tpuprof.plan.train_placement import Piece, cost, network_cost, place
from tpuprof.plan.train_profile import Efficiency, assumptions, efficiency
from tpuprof.plan.train_search import search
from tpuprof.plan.train_step import PARTS, estimate, memory_of, offload_seconds, optimizer_bytes

LAYER = Layer(512, Attention(4, 4, 128), Mlp(2048, True))
TINY = ModelConfig("tiny", (LAYER,) * 4, 1024, False)
MOE = ModelConfig("tiny-moe", (Layer(512, Attention(4, 4, 128), Experts(8, 2, 1024, True)),) * 4, 1024, False)
EVERYTHING, FULL = remat_policy("everything"), remat_policy("block-inputs")
PERFECT = replace(
    efficiency("v5p"), matmul=1.0, attention=1.0, memory=1.0, launch_s=0.0, overlap_weights=0.0,
    overlap_activations=0.0, overlap_network=0.0,
)  # fmt: skip
V5P = parse_slice("v5p:4x4x4")


def _job(model: ModelConfig = TINY, sequences: int = 256, sequence: int = 1024, **more: object) -> Job:
    return Job(model, sequences, sequence, EVERYTHING, **more)  # type: ignore[arg-type]


def test_a_layers_matmuls_by_hand() -> None:
    device = device_of(V5P.chip, "bf16")
    made = layer_time(LAYER, device, PERFECT, 4096, 1024, 1, 1, EVERYTHING)
    flops = 0.0
    # 4096 tokens, all sizes multiples of 128, so nothing is padded; each matmul is bound by arithmetic or bytes.
    seconds = 0.0
    for k, n in ((512, 512),) * 4 + ((512, 2048),) * 2 + ((2048, 512),):
        for m_, k_, n_ in ((4096, k, n), (4096, n, k), (k, 4096, n)):
            flops += 2 * m_ * k_ * n_
            moved = 2 * (m_ * k_ + k_ * n_ + m_ * n_)
            seconds += max(2 * m_ * k_ * n_ / 459e12, moved / 2765e9)
    assert flops == 3 * 2 * 4096 * (4 * 512 * 512 + 3 * 512 * 2048)
    assert made.matmuls == pytest.approx(seconds, rel=1e-12)
    # Of 4 x 4 blocks 10 are computed, 640 keys per query; two products forward and five backward, 4 heads of 128.
    assert made.attention == pytest.approx(3.5 * 2 * 2 * 4096 * 640 * 4 * 128 / 459e12, rel=1e-12)
    # 10 D, 2 (N+K)H and 2 F elements of two bytes, forward once and backward twice.
    assert made.elementwise == pytest.approx(3 * 2 * 4096 * (5120 + 2048 + 4096) / 2765e9, rel=1e-12)
    assert made.recompute == 0


def test_recomputation_repeats_the_forward_pass_but_for_what_nothing_reads() -> None:
    device = device_of(V5P.chip, "bf16")
    full = layer_time(LAYER, device, PERFECT, 4096, 1024, 1, 1, FULL)
    shape = Matmul(4096, 512, 2048)
    down = max(shape.flops / 459e12, shape.bytes / 2765e9)
    assert full.recompute == pytest.approx(full.forward - down, rel=1e-9)  # the residual sum does not read its output
    assert full.matmuls == layer_time(LAYER, device, PERFECT, 4096, 1024, 1, 1, EVERYTHING).matmuls


def test_narrow_heads_leave_a_part_of_a_wide_unit_idle() -> None:
    on_v6e = device_of(parse_slice("v6e:4x4").chip, "bf16")
    narrow = layer_time(LAYER, on_v6e, PERFECT, 4096, 1024, 1, 1, EVERYTHING)
    wide = replace(LAYER, attention=Attention(2, 2, 256))
    assert narrow.attention == pytest.approx(
        2 * layer_time(wide, on_v6e, PERFECT, 4096, 1024, 1, 1, EVERYTHING).attention
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.none() | st.integers(1, 80), st.integers(1, 20), st.integers(1, 8))
def test_a_kernel_computes_the_blocks_that_a_mask_leaves(sequence: int, window: int | None, block: int, n: int) -> None:
    edge = min(block, -(-sequence // n))
    seen = window or sequence
    touched = {
        (query // edge, key // edge) for query in range(sequence) for key in range(max(0, query - seen + 1), query + 1)
    }
    wanted = min(float(sequence), len(touched) * edge * edge / sequence)
    assert kernel_pairs(sequence, window, block, n) == pytest.approx(wanted)


def test_blocks_of_known_programs() -> None:
    assert kernel_pairs(8192, None, 2048, 4) == 0.625 * 8192
    assert kernel_pairs(32768, 1024, 2048, 4) == (2 * 16 - 1) * 2048 / 16


def test_tensor_parallelism_divides_the_work_and_int8_doubles_the_rate() -> None:
    device, narrow = device_of(V5P.chip, "bf16"), device_of(V5P.chip, "int8")
    whole = layer_time(LAYER, device, PERFECT, 65536, 1024, 1, 1, EVERYTHING)
    half = layer_time(LAYER, device, PERFECT, 65536, 1024, 2, 1, EVERYTHING)
    assert half.attention == pytest.approx(whole.attention / 2)
    assert half.elementwise == pytest.approx(whole.elementwise / 2)
    assert whole.matmuls / 2 <= half.matmuls < whole.matmuls
    assert narrow.peak == 2 * device.peak
    assert narrow.attention_peak == device.peak
    assert head_time(512, 1024, device, PERFECT, 4096, 2) < head_time(512, 1024, device, PERFECT, 4096, 1)
    with pytest.raises(UsageError, match="no known peak for f4"):
        device_of(V5P.chip, "f4")


def test_experts_compute_the_rows_that_are_routed_to_them() -> None:
    device = device_of(V5P.chip, "bf16")
    (layer,) = MOE.layer_counts
    one = layer_time(layer, device, PERFECT, 65536, 1024, 1, 1, EVERYTHING)
    split = layer_time(layer, device, PERFECT, 65536, 1024, 1, 4, EVERYTHING)
    assert split.matmuls == pytest.approx(one.matmuls, rel=0.2)  # as many rows on fewer experts
    dropped = layer_time(layer, device, PERFECT, 65536, 1024, 1, 1, EVERYTHING, 1.25)
    assert dropped.matmuls > one.matmuls


def test_parts_and_memory_add_up() -> None:
    layout = Layout(fsdp=16, tensor=4)
    found = estimate(_job(), layout, V5P)
    assert tuple(found.parts) == PARTS
    assert found.seconds == sum(found.parts.values())
    assert found.memory["total"] == pytest.approx(sum(v for k, v in found.memory.items() if k not in ("total", "host")))
    assert found.parts["communication"] == pytest.approx(sum(moved.exposed for moved in found.collectives))
    assert found.low < found.seconds < found.high
    assert found.fits is True
    assert found.tokens_per_s_per_chip == pytest.approx(256 * 1024 / found.seconds / 64)
    assert 0 < found.mfu < found.mfu_full < 1
    assert found.hfu == found.mfu  # nothing is computed again


def test_state_of_a_layout_by_hand() -> None:
    params = 4 * (4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512) + 2 * 1024 * 512 + 512
    held = memory_of(_job(), Layout(fsdp=64))
    assert held["weights"] == pytest.approx(4 * params / 64)
    assert held["optimizer"] == pytest.approx(8 * params / 64)
    layer = 4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512
    assert held["gathered"] == 2 * (layer + 4 * layer / 64)  # one layer, and the converted share of all four
    # ZeRO-1 splits the optimizer alone; replicas split nothing.
    first = memory_of(_job(), Layout(fsdp=64, zero=1))
    assert (first["weights"], first["optimizer"]) == pytest.approx((4 * params, 8 * params / 64))
    assert memory_of(_job(), Layout(data=64))["optimizer"] == pytest.approx(8 * params)
    # The chip's compiler holds what it does, unless the job says otherwise.
    there = memory_of(_job(), Layout(fsdp=16), parse_slice("tpu7x:2x2x2"))
    assert there == memory_of(_job(buffers=SPARSE_CORE), Layout(fsdp=16)) != memory_of(_job(), Layout(fsdp=16))
    # Where that does not fit, its scheduler does with less.
    large = _job(sequences=2**14)
    small = memory_of(large, Layout(fsdp=16), parse_slice("tpu7x:2x2x2"))
    assert small["total"] < memory_of(replace(large, buffers=SPARSE_CORE), Layout(fsdp=16))["total"]
    away = memory_of(_job(offload_optimizer=True), Layout(fsdp=64))
    assert away["host"] == pytest.approx(8 * params / 64)
    assert away["optimizer"] == 0
    assert away["total"] == pytest.approx(held["total"] - held["optimizer"])


def test_collectives_of_fsdp_by_hand() -> None:
    found = {need.name: need for need in needs(_job(), Layout(fsdp=64))}
    layer = 4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512
    assert found["fsdp_gather"].size == 2 * layer  # bf16
    assert found["fsdp_gather"].count == 8  # 4 layers, forward and backward
    assert found["fsdp_scatter"].count == 4
    twice = {need.name: need for need in needs(_job(), Layout(fsdp=64, accumulation=2))}
    assert twice["fsdp_gather"].count == 16
    once = {need.name: need for need in needs(_job(), Layout(fsdp=64, zero=1, accumulation=2))}
    assert once["gradients"].count == 4  # reduced once per step
    each = {need.name: need for need in needs(_job(), Layout(fsdp=64, zero=2, accumulation=2))}
    assert each["gradients"].count == 8  # a device keeps its share only
    assert once["weights"].size == 4 * layer  # updated weights in their own type
    replicas = {need.name: need for need in needs(_job(), Layout(data=4, fsdp=16))}
    assert replicas["data_gradients"].size == pytest.approx(2 * layer / 16)


def test_the_head_is_gathered_as_often_as_layers_are() -> None:
    def counts(zero: int) -> tuple[float, float]:
        found = {need.name: need for need in needs(_job(), Layout(fsdp=64, zero=zero, accumulation=2))}
        return found["head_gather"].count, found["head_scatter"].count

    assert counts(3) == (4, 2)  # forward and backward of each microbatch
    assert counts(2) == (1, 2)  # updated weights once
    assert counts(1) == (1, 1)


def test_layers_of_several_kinds_do_not_hide_each_others_collectives() -> None:
    mixed = ModelConfig("tiny-mixed", (LAYER, LAYER, *MOE.layers), 1024, False)
    layout = Layout(fsdp=16, tensor=4)
    made = estimate(_job(mixed), layout, V5P, replace(efficiency("v5p"), overlap_weights=0.5))
    names = [moved.name for moved in made.collectives]
    assert names.count("fsdp_gather") == 2  # layers of two sizes
    assert sum(made.exposed.values()) == pytest.approx(made.parts["communication"], rel=1e-12)
    assert made.exposed["fsdp_gather"] == pytest.approx(
        sum(moved.exposed for moved in made.collectives if moved.name == "fsdp_gather"), rel=1e-12
    )
    both = sum(moved.seconds for moved in made.collectives)
    assert sum(made.hidden.values()) + sum(made.exposed.values()) == pytest.approx(both, rel=1e-12)
    plan = search(_job(mixed), V5P, only=layout)
    derived = explain(plan, plan.candidates[0])
    assert derived["fsdp_gather"].value != derived["fsdp_gather-2"].value


def test_collectives_of_activations_by_hand() -> None:
    layout = Layout(fsdp=8, tensor=4, context=2)
    found = {need.name: need for need in needs(_job(), layout)}
    tokens = 256 * 1024 / 16
    assert found["tensor_gather"].size == 2 * tokens * 512
    assert found["tensor_gather"].count == 4 * 2 * 2  # layers, attention and MLP, forward and backward
    again = {need.name: need for need in needs(replace(_job(), policy=FULL), layout)}
    assert again["tensor_gather"].count == 4 * 2 * 3
    assert found["context_gather"].size == 2 * (tokens * 2) * (2 * 512) / 4
    experts = {need.name: need for need in needs(_job(MOE), Layout(fsdp=64, expert=4))}
    assert experts["expert_exchange"].size == 2 * (256 * 1024 / 64) * 2 * 512
    assert experts["expert_exchange"].count == 4 * 2 * 2  # there and back, forward and backward
    assert experts["expert_fsdp_gather"].size == 2 * 8 * 3 * 512 * 1024 / 4


def test_gradients_between_slices_are_summed_in_the_type_in_which_they_are_kept() -> None:
    job, layout = _job(), Layout(fsdp=64, slices=2)
    params = 4 * (4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512) + 2 * 1024 * 512
    assert network_bytes(job, layout) == pytest.approx(4 * params / 64)
    assert network_bytes(replace(job, types=StateTypes("bf16", "bf16")), layout) == pytest.approx(2 * params / 64)
    two = parse_slice("2*v5p:4x4x4")
    found = estimate(job, layout, two)
    # Each of two slices sends its half to the other and receives the sum: once the bytes at 6.25 GB/s and c = 0.8.
    (moved,) = (one for one in found.collectives if one.name == "network_gradients")
    assert moved.seconds == pytest.approx(10e-6 + 4 * params / 64 / 6.25e9 / 0.8, rel=1e-6)
    assert found.parts["network"] == pytest.approx(moved.exposed)
    assert network_cost(V5P, "all_reduce").seconds(1e9) == 0


def test_axes_take_whole_torus_axes_first() -> None:
    where = parse_slice("v5p:8x16x16")
    placed = place(Layout(fsdp=256, tensor=8), where)
    assert placed["tensor"] == (Piece(0, 8),)
    assert placed["fsdp"] == (Piece(1, 16), Piece(2, 16))
    broken = place(Layout(fsdp=512, tensor=4), where)
    assert broken["tensor"] == (Piece(0, 4),)
    assert broken["fsdp"][0] == Piece(0, 2, 4)
    assert broken["fsdp"][0].text() == "x2/4"
    cores = place(Layout(fsdp=64, tensor=2), parse_slice("tpu7x:4x4x4"))
    assert cores["tensor"][0].text() in {"core2", "x2"}
    with pytest.raises(UsageError, match="does not fit the shape"):
        place(Layout(fsdp=3), where)


def test_what_an_axis_costs_is_what_the_collective_costs_on_the_slice() -> None:
    from tpuprof.hardware import map_mesh
    from tpuprof.hardware.topology import Place
    from tpuprof.perfmodel import collective_time

    where = parse_slice("v5p:4x4x8")
    places = [Place(0, (x, y, z)) for x in range(4) for y in range(4) for z in range(8)]
    mesh = map_mesh(where, {"x": 4, "y": 4, "z": 8}, places)
    for axes, pieces in ((("z",), (Piece(2, 8),)), (("x", "y"), (Piece(0, 4), Piece(1, 4)))):
        for size in (1e3, 1e9):
            wanted = collective_time("all_gather", size, where, axes=axes, mesh=mesh).expected_s
            assert cost(where, pieces, "all_gather").seconds(size) == pytest.approx(wanted, rel=1e-6)
    assert cost(where, (), "all_gather").seconds(1e9) == 0
    assert cost(where, (Piece(0, 4),), "all_gather").seconds(0) == 0


def test_problems_name_what_cannot_be_divided() -> None:
    def said(layout: Layout, model: ModelConfig = TINY, sequences: int = 256, where: str = "v5p:4x4x4") -> str:
        return "; ".join(problems(_job(model, sequences), layout, parse_slice(where)))

    assert said(Layout(fsdp=64)) == ""
    assert said(Layout(fsdp=32)) == "it needs 32 devices, not 64"
    assert "4 heads cannot be split evenly over tensor=8" in said(Layout(fsdp=8, tensor=8))
    assert "4 layers cannot be split evenly into 8 stages" in said(Layout(fsdp=8, pipeline=8, accumulation=8))
    assert "only 16 sequences for 64 replicas" in said(Layout(fsdp=64), sequences=16)
    assert "96 sequences cannot be split evenly into 64 replicas" in said(Layout(fsdp=64), sequences=96)
    assert "needs at least as many microbatches" in said(Layout(fsdp=16, pipeline=4))
    assert "has no experts" in said(Layout(fsdp=64, expert=2))
    assert "8 experts cannot be split evenly over expert=16" in said(Layout(fsdp=64, expert=16), MOE)
    assert "must divide fsdp=4" in said(Layout(data=16, fsdp=4, expert=8), MOE)
    assert problems(Job(TINY, 64, 1000, FULL), Layout(context=16, fsdp=4), V5P)[-1].startswith("sequences of 1000")


def test_a_bubble_is_what_the_other_stages_wait() -> None:
    found = estimate(_job(), Layout(fsdp=16, pipeline=4, accumulation=4), V5P)
    busy = found.compute - found.parts["optimizer"] + found.parts["communication"]
    assert found.parts["bubble"] == pytest.approx(busy * 3 / 4)
    assert found.layout.mesh() == {"pipeline": 4, "fsdp": 16, "accumulation": 4, "zero": 3}


def test_offload_takes_the_bandwidth_of_the_host() -> None:
    where = parse_slice("v6e:4x4")
    job = _job(offload_optimizer=True)
    held = memory_of(job, Layout(fsdp=16))["host"]
    assert offload_seconds(0.0, job, Layout(fsdp=16), where, PERFECT, 1.0) == 0
    found = offload_seconds(held, job, Layout(fsdp=16), where, replace(PERFECT, offload_hidden=0.0), 1.0)
    figure = where.chip.host_dma_bandwidth or where.chip.pcie_bandwidth
    assert figure is not None
    share = 1.0 if where.chip.host_dma_bandwidth else PERFECT.offload_share
    assert found == pytest.approx(held / (figure.value * share))
    unknown = parse_slice("tpu7x:2x2x2")
    with pytest.raises(UsageError, match="between tpu7x and its host is not known"):
        offload_seconds(1.0, job, Layout(fsdp=16), unknown, PERFECT, 1.0)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from(["everything", "block-inputs"]))
def test_doubling_the_layers_doubles_what_layers_cost(tensor: int, context: int, policy: str) -> None:
    layout = Layout(fsdp=64 // (tensor * context), tensor=tensor, context=context)
    job = replace(_job(), policy=remat_policy(policy))
    twice = replace(job, model=replace(TINY, layers=TINY.layers * 2))
    one, two = estimate(job, layout, V5P), estimate(twice, layout, V5P)
    for name in ("matmul", "attention", "elementwise", "recompute"):
        assert two.parts[name] == pytest.approx(2 * one.parts[name])
    assert two.parts["head"] == one.parts["head"]
    assert two.memory["activations"] == pytest.approx(2 * one.memory["activations"])


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["2x2x1", "2x2x2", "2x2x4", "4x4x4", "4x4x8"]), st.sampled_from([1, 2, 4]))
def test_more_chips_never_raise_the_computation_of_one(shape: str, tensor: int) -> None:
    small = parse_slice(f"v5p:{shape}")
    big = parse_slice("v5p:4x8x8")
    job = _job(sequences=1024)
    first = estimate(job, Layout(fsdp=small.n_devices // tensor, tensor=tensor), small)
    second = estimate(job, Layout(fsdp=big.n_devices // tensor, tensor=tensor), big)
    assert second.compute <= first.compute


def test_hidden_communication_is_never_more_than_computation() -> None:
    # A model so small that its weights cannot be gathered behind anything.
    job = Job(TINY, 64, 16, EVERYTHING)
    found = estimate(job, Layout(fsdp=64), V5P, efficiency("v5p").with_overlap(1.0))
    hidden = sum(moved.seconds - moved.exposed for moved in found.collectives)
    assert hidden == pytest.approx(found.compute - found.parts["optimizer"])
    assert found.parts["communication"] > 0


def test_profiles_say_where_they_come_from() -> None:
    assert efficiency("v6e").matmul == 0.74
    assert "guess" in efficiency("no-such-chip").source
    assert all(": " in sentence for sentence in assumptions())
    faster = efficiency("v5p").scaled(1.1, "mine", "a run")
    assert isinstance(faster, Efficiency)
    assert faster.matmul == pytest.approx(1.1 * efficiency("v5p").matmul)
    with pytest.raises(UsageError, match="cannot be scaled by 0"):
        faster.scaled(0, "bad", "")
    with pytest.raises(UsageError, match=r"share of 1\.5 cannot overlap"):
        faster.with_overlap(1.5)


def test_the_update_touches_its_own_share() -> None:
    job = _job()
    whole = optimizer_bytes(job, Layout(data=64))
    assert optimizer_bytes(job, Layout(fsdp=64)) == pytest.approx(whole / 64)
    assert optimizer_bytes(job, Layout(fsdp=64, zero=1)) == pytest.approx(whole / 64)
    assert optimizer_bytes(job, Layout(fsdp=64, zero=2)) == pytest.approx(whole / 64)


def test_a_chip_without_links_is_no_place_for_a_plan() -> None:
    chip = V5P.chip
    assert chip.ici is not None
    blind = replace(V5P, chip=replace(chip, ici=replace(chip.ici, link_bandwidth=None)))
    with pytest.raises(UsageError, match="How long a collective takes on v5p is not known"):
        estimate(_job(), Layout(fsdp=64), blind)
