"""The section on the memory of training steps: the planner against the TPU compiler and against PyTorch's peaks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.predict.cases import CASES, MODELS, OPTIONS, compiled_bytes, recorded
from tpuprof.hardware import parse_slice
from tpuprof.plan.published import published_memory, read_rows
from tpuprof.plan.train_step import memory_of

ROWS = Path(__file__).resolve().parents[1] / "data" / "published_perf.json"
TITLE = "## Memory of training steps"
ITEMS = ("weights", "optimizer", "gradients", "activations", "gathered", "workspace")
_COMPILER = """
What `tpuprof plan train` says a device needs, and what the TPU compiler says of the same step: a Transformer in plain
JAX (`tests/predict/reference_step.py`: scanned layers, splash attention, f32 weights and Adam, bf16 matmuls),
compiled ahead of time for chips that are not there, with {versions} and
`{options}`, as published training recipes set it. MB. *Compiled* is what
the compiler lays out in HBM, arguments and temporaries with the gaps between them: this has to fit. What jax calls
`peak_memory_in_bytes` is up to 4 % less in these steps; it counts VMEM, too, which matters in small programs, and is
the host's memory where something is offloaded. `python -m tests.predict.record_memory` asks the compiler again. Error
is predicted over compiled less 1. The planner's rules below were read off these steps, so most rows show how well
few rules describe them; `deep`, `tied` on v5p, `mha` with `matmul-outputs-but-mlp` and with microbatches were
predicted before they were compiled.
"""
_FOUND = """
How the compiler lays a step out, and the planner with it:

- **Two peaks.** At the loss all activations, the logits and the gathered output matrix are there, and no gradients yet.
  In the first backward pass of a layer the buffer of all gradients is there, and no logits. The larger one counts.
- **Logits** exist once, in 16 bits: their gradient is written over them.
- **One layer** of gathered weights is alive. On tpu7x, whose SparseCore does the collectives, it is two, and a layer's
  recomputed tensors are alive together with their gradients; this rests on one step.
- **Tensor parallelism** also keeps both alive, and arrays of the whole group's tokens.
- **Offloading** does, too, and has what comes from the host three times: as it came, laid out for use, and the next
  layer's. Where overlap needs more than there is, the planner counts the step without, since the compiler works within
  the memory: it took a step that would need 17.3 GiB with, and 10.7 without, on a v5e, with 14.0 at most.
- **Weights in 32 bits** are converted once, before the loop over layers, so that a copy of the device's own shard in 16
  bits stands beside them during the whole step.
- **Gradients** of scanned layers stay in the type of the weights, and with microbatches there are two buffers.
- **What nothing reads is not kept**, whatever a policy names: the output of an MLP is only added to the residual.
- **Without checkpoints** (policy `no-checkpoint`) automatic differentiation keeps more than fused kernels need: of each
  norm its input in 32 bits and what it scales, and intermediates of the MLP's function: two arrays of the hidden width
  of SiLU, four of GELU. Models do not state their function: `mha` with ReLU, of which a byte per element is kept, took
  3.4 GB where 4.8 GB are predicted.
- Gaps between buffers and the program of some 30 MB are left out. `temp_size_in_bytes` also counts other memories; with
  arguments it is 8 to 44 % above the peak. Mixtures of experts were not compiled.
"""
_TORCH = """
Peaks that torchtitan publishes are what PyTorch's allocator had *reserved* (`max_reserved_gib` of its log), on H100
GPUs. GB. Selective checkpointing keeps every second matmul's output, read or not, and attention's. At the loss, which
is not compiled, there are 32-bit arrays over the vocabulary: what log-softmax keeps, its gradient, the gradient it
makes, one more with a loss split over tensor parallelism; and the block of the 16-bit logits, which fits nothing else.
`workspace` is these, less the buffer of gradients. The root's weights (embedding, output) stay gathered. Not predicted:
what else the allocator holds without using it, communication buffers, 8-bit copies. The same program on 8 GPUs
reserves 15.0 to 15.4 GiB more than on 128; 16 bytes of state per parameter make 14.0 of them. What is counted was
looked up in the programs' sources after a first look at the errors.
"""


def memory_section() -> str:
    """The section, from what was recorded."""
    answers = recorded()
    versions = sorted({f"jax {each['jax']}, libtpu {each['libtpu']}" for each in answers.values()})
    options = " ".join(f"{name}={value}" for name, value in OPTIONS.items())
    text = [TITLE, "", "### Against the TPU compiler", _COMPILER.format(versions=", ".join(versions), options=options)]
    text += ["| model | layers | width | heads | hidden | vocabulary | |", "|---|---:|---:|---|---|---:|---|"]
    text += [_model(name, sizes) for name, sizes in MODELS.items()]
    text += ["", f"| step | {' | '.join(ITEMS)} | predicted | compiled | error |", "|---|" + "---:|" * (len(ITEMS) + 3)]
    errors: list[float] = []
    for case in CASES:
        if case.key not in answers:
            continue
        held, peak = (
            memory_of(case.job(), case.layout(), parse_slice(case.topology)),
            compiled_bytes(case, answers),
        )
        errors.append(held["total"] / peak - 1)
        text.append(f"| {case.key} | {_items(held, 1e6, 0)} | {held['total'] / 1e6:,.0f} | {peak / 1e6:,.0f} | "
                    f"{errors[-1]:+.1%} |")  # fmt: skip
    text += [
        "",
        f"Median size of the error {median(map(abs, errors)):.1%}, largest {max(map(abs, errors)):.1%}.",
        _FOUND,
    ]
    text += ["### Against PyTorch's peaks", _TORCH]
    text.append(f"| row | model | layout | {' | '.join(ITEMS)} | predicted | reserved | error |")
    text.append("|---|---|---|" + "---:|" * (len(ITEMS) + 3))
    for row in read_rows(ROWS):
        found = published_memory(row)
        if found is not None:
            job, layout, peak = found
            held = memory_of(job, layout)
            name, total = f"{row['id']} | {job.model.name} | {layout.text()}", held["total"]
            figures = f"{_items(held, 1e9, 1)} | {total / 1e9:.1f} | {peak / 1e9:.1f} | {total / peak - 1:+.1%}"
            text.append(f"| {name} | {figures} |")
    return "\n".join([*text, ""])


def _model(name: str, sizes: Mapping[str, Any]) -> str:
    function = {"relu": "ReLU", "gelu": "GELU"}.get(sizes.get("activation", ""), "SiLU, gated")
    words = f"{function}{', tied embeddings' if sizes['tied'] else ''}"
    return (
        f"| {name} | {sizes['layers']} | {sizes['width']:,} | {sizes['heads']} ({sizes['kv_heads']} KV) of "
        f"{sizes['head_dim']} | {sizes['hidden']:,} | {sizes['vocab']:,} | {words} |"
    )


def _items(held: Mapping[str, float], unit: float, digits: int) -> str:
    return " | ".join(f"{held[name] / unit:,.{digits}f}" for name in ITEMS)
