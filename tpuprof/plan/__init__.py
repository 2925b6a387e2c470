"""Transformer arithmetic: what a model's training and serving cost in operations, bytes, time and money, and why.

A :class:`ModelConfig` is a tuple of layers. Everything is counted per layer, so that mixed models need no special case,
and every short formula is a function that returns a ``Derivation``. The names here are the ones that most programs
need; each module has more.
"""

from __future__ import annotations

from tpuprof.plan.cache import kv_bytes_per_sequence, kv_bytes_per_token, kv_sharding
from tpuprof.plan.flops import Flops, decode_flops, layer_flops, model_flops
from tpuprof.plan.hugging_face import model_of_config
from tpuprof.plan.matmuls import LayerMatmul, attention_pairs, decode_matmuls, head_matmul, layer_matmuls
from tpuprof.plan.model import Attention, Experts, LatentAttention, Layer, Mlp, ModelConfig
from tpuprof.plan.params import ParamCounts, active_params, layer_params, matmul_params, param_counts
from tpuprof.plan.peak import training_memory
from tpuprof.plan.remat import (
    POLICIES,
    RematPolicy,
    activation_bytes,
    custom_policy,
    layer_tensors,
    offloaded_bytes,
    recomputed_matmuls,
    remat_policy,
    working_bytes,
)
from tpuprof.plan.shards import hosted_experts, local_layer
from tpuprof.plan.state import StateTypes, TrainingSplit, state_bytes
from tpuprof.plan.table import model_of_table
from tpuprof.plan.zoo import load_model, models

__all__ = [
    "POLICIES",
    "Attention",
    "Experts",
    "Flops",
    "LatentAttention",
    "Layer",
    "LayerMatmul",
    "Mlp",
    "ModelConfig",
    "ParamCounts",
    "RematPolicy",
    "StateTypes",
    "TrainingSplit",
    "activation_bytes",
    "active_params",
    "attention_pairs",
    "custom_policy",
    "decode_flops",
    "decode_matmuls",
    "head_matmul",
    "hosted_experts",
    "kv_bytes_per_sequence",
    "kv_bytes_per_token",
    "kv_sharding",
    "layer_flops",
    "layer_matmuls",
    "layer_params",
    "layer_tensors",
    "load_model",
    "local_layer",
    "matmul_params",
    "model_flops",
    "model_of_config",
    "model_of_table",
    "models",
    "offloaded_bytes",
    "param_counts",
    "recomputed_matmuls",
    "remat_policy",
    "state_bytes",
    "training_memory",
    "working_bytes",
]
