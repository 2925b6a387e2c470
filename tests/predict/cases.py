"""Training steps for which the compiler's memory was recorded, and what the planner says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.plan import custom_policy, remat_policy
from tpuprof.plan.table import model_of_table
from tpuprof.plan.train_layout import Job, Layout

RECORDED = Path(__file__).with_name("compiled_memory.json")
OPTIONS = {"xla_jf_spmd_threshold_for_windowed_einsum_mib": "1000000"}
"""Weights are gathered before they are multiplied with, as published training recipes set it, not while."""

MODELS: dict[str, dict[str, Any]] = {
    "gqa": {"layers": 8, "width": 2048, "heads": 16, "kv_heads": 4, "head_dim": 128, "hidden": 8192, "vocab": 32768,
            "gated": True, "tied": False},
    "mha": {"layers": 12, "width": 1536, "heads": 12, "kv_heads": 12, "head_dim": 128, "hidden": 6144, "vocab": 16384,
            "gated": False, "activation": "relu", "tied": False},
    "gpt": {"layers": 8, "width": 1536, "heads": 12, "kv_heads": 12, "head_dim": 128, "hidden": 6144, "vocab": 16384,
            "gated": False, "activation": "gelu", "tied": False},
    "tied": {"layers": 6, "width": 1024, "heads": 8, "kv_heads": 2, "head_dim": 128, "hidden": 4096, "vocab": 65536,
             "gated": True, "tied": True},
    "deep": {"layers": 32, "width": 2048, "heads": 16, "kv_heads": 4, "head_dim": 128, "hidden": 8192, "vocab": 32768,
             "gated": True, "tied": False},
}  # fmt: skip
POLICIES: dict[str, tuple[str, ...] | None] = {
    "no-checkpoint": None,
    "matmul-outputs": ("query", "key", "value", "attention_out", "gate", "up", "mlp_out"),
    "matmul-outputs-but-mlp": ("query", "key", "value", "attention_out"),
    "block-inputs": (),
    "offload": (),
}
OFFLOADED = {"offload": ("block_input", "query", "key", "value")}


@dataclass(frozen=True)
class Case:
    """A step to compile."""

    model: str
    topology: str
    policy: str
    mesh: dict[str, int] = field(hash=False)
    sequences: int = 32
    sequence: int = 2048
    microbatches: int = 1

    @property
    def key(self) -> str:
        """What names it in the file."""
        mesh = " ".join(f"{name}={size}" for name, size in self.mesh.items())
        parts = f" in {self.microbatches}" if self.microbatches > 1 else ""
        return f"{self.model} {self.topology} {mesh} {self.policy} {self.sequences}x{self.sequence}{parts}"

    def arguments(self) -> dict[str, Any]:
        """For ``reference_step.lowered``."""
        return {
            "model": MODELS[self.model], "sequences": self.sequences, "sequence": self.sequence,
            "policy": POLICIES[self.policy], "mesh": self.mesh, "microbatches": self.microbatches,
            "offloaded": OFFLOADED.get(self.policy, ()),
        }  # fmt: skip

    def job(self) -> Job:
        """The same for the planner."""
        sizes = MODELS[self.model]
        model = model_of_table(
            {"name": self.model, "layers": sizes["layers"], "d_model": sizes["width"], "n_heads": sizes["heads"],
             "n_kv_heads": sizes["kv_heads"], "head_dim": sizes["head_dim"], "d_ff": sizes["hidden"],
             "gated": sizes["gated"], "vocab": sizes["vocab"], "tied_embeddings": sizes["tied"]},
            "tests",
        )  # fmt: skip
        kept = POLICIES[self.policy]
        policy = remat_policy(self.policy) if kept is None else custom_policy(kept, OFFLOADED.get(self.policy, ()))
        return Job(model, self.sequences, self.sequence, policy)

    def layout(self) -> Layout:
        """The same for the planner."""
        return Layout(**self.mesh, accumulation=self.microbatches)


CASES = (
    Case("gqa", "v5p:2x2x4", "block-inputs", {"fsdp": 16}),
    Case("gqa", "v5p:2x2x4", "matmul-outputs", {"fsdp": 16}),
    Case("tied", "v6e:2x4", "block-inputs", {"fsdp": 8}),
    Case("mha", "v5e:4x4", "block-inputs", {"fsdp": 16}),
    Case("gqa", "v5e:4x4", "block-inputs", {"fsdp": 4, "tensor": 4}),
    Case("deep", "v5e:4x4", "block-inputs", {"fsdp": 16}, sequences=16),
    Case("gqa", "v5p:2x2x4", "no-checkpoint", {"fsdp": 16}),
    Case("mha", "v6e:2x4", "matmul-outputs", {"fsdp": 4, "tensor": 2}),
    Case("tied", "v5p:2x2x4", "matmul-outputs", {"data": 4, "fsdp": 4}),
    Case("mha", "v5e:4x4", "matmul-outputs-but-mlp", {"fsdp": 16}),
    Case("gpt", "v5e:4x4", "no-checkpoint", {"fsdp": 16}),
    Case("mha", "v5e:4x4", "block-inputs", {"fsdp": 16}, sequences=64, microbatches=2),
    Case("mha", "v6e:2x4", "offload", {"fsdp": 8}),
    Case("gqa", "tpu7x:2x2x1", "matmul-outputs-but-mlp", {"fsdp": 8}),
)


def recorded() -> dict[str, dict[str, Any]]:
    """The compiler's answers by the name of the case."""
    return json.loads(RECORDED.read_text("utf-8"))["steps"] if RECORDED.exists() else {}


def compiled_bytes(case: Case, answers: Mapping[str, Any]) -> float:
    """What the compiler lays out in HBM for a recorded step: arguments and temporaries, with the gaps between them."""
    return answers[case.key]["memory"]["hbm"]
