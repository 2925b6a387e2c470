"""Models by name: what their sources publish comes out of their shapes."""

from __future__ import annotations

import pytest

from tpuprof.errors import InputError, UsageError
from tpuprof.plan import Experts, LatentAttention, ModelConfig, load_model, matmul_params, models, param_counts
from tpuprof.plan.zoo import aliases

ALL = models()
ACTIVE = {
    # As the papers and model cards print them, in billions, with how exactly they do.
    "mixtral-8x7b": (12.9, 0.01), "mixtral-8x22b": (39.1, 0.01), "deepseek-v3": (37, 0.02), "deepseek-v2": (21, 0.02),
    "qwen3-30b-a3b": (3.3, 0.02), "qwen3-235b-a22b": (22, 0.01), "qwen3-480b-a35b": (35, 0.02),
    "qwen2-57b-a14b": (14, 0.02), "deepseek-moe-16b": (2.8, 0.02), "gpt-oss-120b": (5.7, 0.01),
}  # fmt: skip


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_published_parameter_counts_come_out(model: ModelConfig) -> None:
    assert model.published_params is not None
    assert model.source
    # Counts of files are exact, those of papers are rounded.
    exact = model.published_params > 1e6 and model.published_params % 1e6 != 0
    assert param_counts(model).all == pytest.approx(model.published_params, rel=1e-9 if exact else 0.002)


@pytest.mark.parametrize("name", ACTIVE)
def test_published_active_parameters_come_out(name: str) -> None:
    stated, tolerance = ACTIVE[name]
    assert param_counts(load_model(name)).active_all == pytest.approx(stated * 1e9, rel=tolerance)


def test_names_are_found_in_any_spelling_and_point_to_one_model() -> None:
    assert load_model("Llama-3.1-70B") is load_model("llama3_70b")
    names = [name for model in ALL for name in (model.name, *aliases(model.name))]
    assert len(names) == len(set(names))


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match=r"There is no model 'llama3-71b'\. Did you mean llama3-70b"):
        load_model("llama3-71b")
    with pytest.raises(UsageError, match=r"There is no model ''"):
        load_model("")


def test_mixed_layers_keep_their_places() -> None:
    deepseek = load_model("deepseek-v3")
    assert [isinstance(layer.mlp, Experts) for layer in deepseek.layers].index(True) == 3
    assert all(isinstance(layer.attention, LatentAttention) for layer in deepseek.layers)
    gemma = load_model("gemma3-27b")
    windows = [layer.attention.window for layer in gemma.layers]
    assert windows[:7] == [1024] * 5 + [None, 1024]
    assert sorted(count for count in gemma.layer_counts.values()) == [10, 52]
    assert {layer.kind for layer in gemma.layers} == {"window-1024 dense", "full dense"}
    assert {layer.kind for layer in deepseek.layers} == {"mla dense", "mla experts"}


def test_parameters_that_multiply_are_all_but_tables_norms_and_biases() -> None:
    llama = load_model("llama3-8b")
    counts = param_counts(llama)
    assert matmul_params(llama) == counts.all - counts.total["norms"] - counts.total["embedding"]
    gpt = load_model("gpt2")  # tied: the table multiplies, positions and biases do not
    assert matmul_params(gpt) == 12 * 12 * 768**2 + 50257 * 768


def test_files_are_read_and_bad_ones_are_said(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.toml"
    path.write_text(
        "layers = 2\nd_model = 8\nn_heads = 2\nd_ff = 16\ngated = true\nvocab = 10\ntied_embeddings = true\n", "utf-8"
    )
    found = load_model(path)
    assert found.name == "mine"
    assert param_counts(found).all == 2 * (4 * 64 + 3 * 8 * 16 + 2 * 8) + 8 + 80
    path.write_text("layers = ", "utf-8")
    with pytest.raises(UsageError, match="is no TOML"):
        load_model(path)
    (tmp_path / "deep.json").write_text("[" * 100_000, "utf-8")
    with pytest.raises(UsageError, match="is no JSON"):
        load_model(tmp_path / "deep.json")
    (tmp_path / "list.json").write_text("[]", "utf-8")
    with pytest.raises(UsageError, match="holds no table"):
        load_model(tmp_path / "list.json")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_model(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * 5_000_001)
    with pytest.raises(InputError, match="too large"):
        load_model(tmp_path / "large.json")
