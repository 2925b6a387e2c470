"""A chip and a model whose numbers are round, so that answers can be worked out by hand."""

from __future__ import annotations

from tpuprof.hardware import Chip, Figure, Ici, Slice, make_slice
from tpuprof.perfmodel.rates import rates_of
from tpuprof.plan.model import Attention, Experts, Layer, Mlp, ModelConfig
from tpuprof.plan.serve import BOUND, Assumptions, ForwardModel, ServeLayout, Types


def figure(value: float, unit: str) -> Figure:
    return Figure(value, unit, "a test")


CHIP = Chip(
    "toy", "tpu", "datasheet", peak={"bf16": figure(1e12, "FLOP/s"), "int8": figure(2e12, "FLOP/s")},
    hbm_bytes=figure(1e7, "B"), hbm_bandwidth=figure(1e10, "B/s"), core_vmem_bytes=figure(1e8, "B"), mxu_size=128,
    ici=Ici(2, 4, "only_16", figure(1e9, "B/s"), figure(1e-6, "s")), dcn_bandwidth=figure(1e8, "B/s"),
    pod_shape=(16, 16), price_usd_per_hour=figure(3.6, "USD/h"), host_shape=(2, 2),
)  # fmt: skip
"""1 TFLOP/s, 10 GB/s, 10 MB, links of 1 GB/s with hops of 1 us, 3.6 dollars an hour."""

LAYER = Layer(256, Attention(4, 2, 64), Mlp(512, True))
MODEL = ModelConfig("tiny", (LAYER, LAYER), 1024, False)
"""Per layer 589,824 weights in matmuls and 256 cached numbers per token; 262,144 weights in the output matrix."""

MIXTURE = ModelConfig("tiny-moe", (Layer(256, Attention(4, 2, 64), Experts(8, 2, 128, True)),) * 2, 1024, False)


def where(*shape: int) -> Slice:
    return make_slice(CHIP, shape)


def forward(
    layout: ServeLayout | None = None, model: ModelConfig = MODEL, types: Types | None = None,
    assumed: Assumptions = BOUND,
) -> ForwardModel:  # fmt: skip
    layout = layout or ServeLayout(where(1, 1))
    return ForwardModel(model, layout, types or Types(), rates_of(CHIP), assumed)
