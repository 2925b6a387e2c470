"""Published measurements as jobs that the planner can predict, or the reason why one cannot be."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any, cast

from tpuprof.errors import InputError, UsageError
from tpuprof.hardware import find_chip, make_slice
from tpuprof.hardware.slices import default_shape
from tpuprof.hardware.topology import Slice
from tpuprof.plan.flops import model_flops
from tpuprof.plan.matmuls import Masking
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.peak import TORCH, TORCH_LOSS_PARALLEL
from tpuprof.plan.remat import RematPolicy, custom_policy, remat_policy
from tpuprof.plan.state import StateTypes
from tpuprof.plan.table import KEYS, model_of_table
from tpuprof.plan.train_layout import Job, Layout, problems

BUNDLED = "published.json"
"""The file of measurements that the package holds."""
STRANGE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError)
"""What fields of other kinds and sizes than expected lead to, in files of other people."""
_MOST_BYTES = 50_000_000
_MOST_ROWS = 100_000
_POLICIES = {
    "qkv_proj_offloaded": custom_policy(offloaded=("query_proj", "key_proj", "value_proj")),
    "save_dot_except_logits_ffn1": remat_policy("matmul-outputs-but-mlp-in"),
}
_TORCHTITAN = replace(custom_policy(("query", "value", "gate", "mlp_out", "context")), unread=frozenset({"mlp_out"}))
"""What ``selective`` is there: every second matmul of a layer is kept, read or not, and what attention returns."""
_WINDOWS = {"gemma3": "LLLLLG", "gemma4-e2b": "LLLLG", "gemma4": "LLLLLG", "gpt-oss": "LG"}
"""Which layers have a window, by the beginning of a model's name, where a row states only the size of the window."""
_CONVENTIONS: dict[str, Masking] = {"full": "full", "causal_half": "causal"}


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """A measured training step.

    Args:
        row: its id.
        scale: chips.
        measured_s: seconds of the step.
        source: what it follows from: ``step_time_s``, ``tokens_per_s_per_chip`` or ``tflops_per_chip``.
        counts: it belongs in error statistics: it is no upper bound and was checked against its document.
        why_not: why it does not.
        stated_work: operations of a step by the TFLOP/s and the time that the row states, over those of its model; null
            where it does not state both, or not how attention was counted.
    """

    row: str
    job: Job
    layout: Layout
    where: Slice
    measured_s: float
    source: str
    counts: bool
    why_not: str = ""
    stated_work: float | None = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A row that cannot be predicted, and why."""

    row: str
    reason: str


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file in the schema of ``docs/planner.md``.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    where = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"The file of measurements cannot be read: {error.strerror or error}.", where=where) from error
    if len(data) > _MOST_BYTES:
        raise InputError("The file of measurements is too large.", where=where, hint=f"At most {_MOST_BYTES:,} bytes.")
    try:
        table: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError("The file of measurements is no JSON.", where=where, why=str(error)) from error
    return _rows_of(table, where)


def bundled_rows() -> list[dict[str, Any]]:
    """The rows that the package brings along, each with its source."""
    return _rows_of(json.loads(files("tpuprof.plan").joinpath(BUNDLED).read_text("utf-8")), BUNDLED)


def _rows_of(table: Any, where: str) -> list[dict[str, Any]]:
    whole = cast("dict[str, Any]", table) if isinstance(table, dict) else {"rows": table}
    rows, models = whole.get("rows"), whole.get("models")
    if not isinstance(rows, list) or len(cast("list[Any]", rows)) > _MOST_ROWS:
        raise InputError("The file holds no list of rows.", where=where, hint="It needs the key rows: one object each.")
    known = cast("dict[str, Any]", models) if isinstance(models, dict) else {}
    found: list[dict[str, Any]] = []
    for index, row in enumerate(cast("list[Any]", rows)):
        if not isinstance(row, dict):
            raise InputError(f"Row {index} is no object.", where=where)
        found.append(_whole(cast("dict[str, Any]", row), known, f"{where}, row {index}"))
    return found


def _whole(row: dict[str, Any], models: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row with the dimensions of the model that it names by ``like``; what it states itself comes first."""
    model: Any = row.get("model")
    if not isinstance(model, dict) or "like" not in model:
        return row
    own = cast("dict[str, Any]", model)
    shared: Any = models.get(own["like"]) if isinstance(own["like"], str) else None
    if not isinstance(shared, dict):
        raise InputError(
            f"The file has no model {str(own['like'])[:60]!r}.", where=where,
            hint="Models that rows name by like stand under the key models.",
        )  # fmt: skip
    stated = {key: value for key, value in own.items() if key != "like"}
    return {**row, "model": cast("dict[str, Any]", shared) | stated}


def published_step(row: Mapping[str, Any]) -> PublishedStep | Unsupported:
    """What a row measured, or why it cannot be predicted; never an error."""
    name = str(row.get("id", "without id"))
    try:
        reason = _outside(row)
        return Unsupported(name, reason) if reason else _step(name, row)
    except UsageError as error:
        return Unsupported(name, " ".join(part for part in (error.what, error.why) if part))
    except STRANGE as error:
        return Unsupported(name, f"a field is missing or of another kind: {type(error).__name__} {error}")


def published_memory(row: Mapping[str, Any]) -> tuple[Job, Layout, float] | None:
    """A job with its layout and the measured peak of bytes per device, whatever the chip; null if none is stated."""
    try:
        peak = row["measured"]["peak_memory_bytes"]
        if not peak or row.get("kind") != "training":
            return None
        sequence = int(row["model"]["seq_len"])
        job = Job(model_of_row(row), int(row["global_batch_seqs"]), sequence, policy_of_row(row["remat"]), "bf16")
        if "torchtitan" in str(row.get("family")):
            policy = _TORCHTITAN if row["remat"]["policy"] == "selective" else job.policy
            split = _layout(row, int(row.get("slices") or 1)).tensor > 1
            job = replace(job, policy=policy, buffers=TORCH_LOSS_PARALLEL if split else TORCH)
        return job, _layout(row, int(row.get("slices") or 1)), float(peak)
    except (UsageError, *STRANGE):
        return None


def _outside(row: Mapping[str, Any]) -> str:
    if row.get("kind") != "training":
        apart = (
            "servers are predicted apart" if row.get("kind") == "serving" else "only training and serving are predicted"
        )
        return f"a {row.get('kind')} measurement: {apart}"
    if not row.get("chip"):
        return "the chip is not stated"
    if "not_a_language_model" in (row.get("flags") or []):
        return "not a language model"
    found = find_chip(str(row["chip"]))
    if found is None or found.platform != "tpu":
        return "GPU networks: training plans are for TPU slices" if found else f"unknown chip {row['chip']}"
    if not row.get("parallelism") or not any(
        isinstance(value, int) and not isinstance(value, bool) for value in row["parallelism"].values()
    ):
        return "the parallelism is not stated"
    if not (row.get("global_batch_seqs") or row.get("global_batch_tokens")):
        return "the batch is not stated"
    remat: Mapping[str, Any] = row.get("remat") or {}
    if not remat.get("policy"):
        return "the rematerialisation is not stated"
    return ""


def _step(name: str, row: Mapping[str, Any]) -> PublishedStep:
    model = model_of_row(row)
    sequence = int(row["model"]["seq_len"])
    sequences = row.get("global_batch_seqs") or round(row["global_batch_tokens"] / sequence)
    where = slice_of_row(row)
    layout = _layout(row, where.slices)
    noted = re.search(r"capacity_factor ([\d.]+\d)", str(row.get("notes") or ""))
    capacity = row.get("moe_capacity") or (noted[1] if noted else None)
    job = Job(
        model, int(sequences), sequence, policy_of_row(row["remat"]), str(row["dtype"]),
        types=_types(row), capacity=None if capacity is None else float(capacity),
    )  # fmt: skip
    wrong = problems(job, layout, where)
    if wrong:
        raise UsageError(f"The layout is not possible here: {'; '.join(wrong)}.")
    measured, source = _measured(row, job, where)
    if not 0 < measured < math.inf:
        raise UsageError(f"A step of {measured} s is stated.")
    why = "an upper bound: the step includes other work" if row.get("upper_bound") else ""
    why = why or ("not checked against its source" if row.get("unverified") else "")
    if source in (row.get("unverified_fields") or []):
        why = why or f"{source} was not checked against its source"
    work = _stated_work(row, job, where, measured) if source == "step_time_s" else None
    return PublishedStep(name, job, layout, where, measured, source, not why, why, work)


def model_of_row(row: Mapping[str, Any]) -> ModelConfig:
    """The model of a row.

    Raises:
        UsageError: its dimensions are not stated or not possible.
    """
    given = {key: value for key, value in row["model"].items() if key in KEYS and value is not None}
    given.setdefault("gated", False)
    given.setdefault("tied_embeddings", False)
    if given.get("sliding_window") and "window_layers" not in given:
        known = [pattern for start, pattern in _WINDOWS.items() if str(given.get("name", "")).startswith(start)]
        if not known:
            raise UsageError("Which layers have the sliding window is not stated.")
        given["window_layers"] = known[0]
    if given.get("attention") != "mla":
        given.pop("attention", None)
        given.pop("mla", None)
    if given.get("shared_experts") and not given.get("dense_layers_first") and given.get("moe_layer_step", 1) == 1:
        # Without dense layers the width of a dense MLP can only be that of what all tokens pass beside the experts.
        given.setdefault("d_ff_shared", given.get("d_ff"))
    for key in ("shared_experts", "dense_layers_first"):
        if not given.get(key):
            given.pop(key, None)
    return model_of_table(given, f"row {row.get('id')}")


def slice_of_row(row: Mapping[str, Any]) -> Slice:
    """The slices of a row; the usual shape where only a number of chips is stated.

    Raises:
        UsageError: there are no such slices.
    """
    chip = find_chip(str(row["chip"]))
    assert chip is not None
    slices = int(row.get("slices") or 1)
    chips = int(row["n_chips"])
    if chips % slices:
        raise UsageError(f"{chips} chips are no {slices} equal slices.")
    text = row.get("topology") or row.get("topology_default")
    shape = tuple(map(int, str(text).split("x"))) if text else default_shape(chip, chips // slices)
    if prod(shape) != chips // slices:
        raise UsageError(f"The topology {text} is not {chips // slices} chips.")
    return make_slice(chip, shape, slices=slices)


def policy_of_row(remat: Mapping[str, Any]) -> RematPolicy:
    """The policy of a row.

    Raises:
        UsageError: it is not known.
    """
    name = str(remat["policy"])
    kept = tuple(remat.get("on_device") or ())
    away = tuple(remat.get("offloaded") or ())
    if name in _POLICIES:
        return _POLICIES[name]
    if name == "custom" or away:
        return custom_policy(kept, away)
    return remat_policy(name)


def _types(row: Mapping[str, Any]) -> StateTypes:
    """What the optimizer keeps; 32 bits, as MaxText does, where the row states nothing else."""
    stated: Any = row.get("optimizer")
    given: Mapping[str, Any] = cast("Mapping[str, Any]", stated) if isinstance(stated, Mapping) else {}
    narrow = {"bfloat16": "bf16", "float32": "f32"}
    first, gradients = (str(given.get(key) or "float32") for key in ("mu_dtype", "grad_dtype"))
    return StateTypes("f32", narrow.get(gradients, gradients), (narrow.get(first, first), "f32"))


def _layout(row: Mapping[str, Any], slices: int) -> Layout:
    given: dict[str, int] = {
        key: value
        for key, value in row["parallelism"].items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    if given.get("dcn_fsdp", 1) > 1 or given.get("dcn_pipeline", 1) > 1:
        raise UsageError("FSDP or pipelines over the data-centre network are not modelled.")
    expert = given.get("expert", 1)
    separate = bool(row["parallelism"].get("expert_is_separate_factor"))
    fsdp = given.get("fsdp", 1) * given.get("fsdp_transpose", 1) * (expert if separate else 1)
    return Layout(
        data=given.get("data", 1), fsdp=fsdp, tensor=given.get("tensor", 1), context=given.get("context", 1),
        pipeline=given.get("pipeline", 1), expert=expert, slices=slices,
        accumulation=given.get("grad_accum_steps", 1), zero=3,
    )  # fmt: skip


def _measured(row: Mapping[str, Any], job: Job, where: Slice) -> tuple[float, str]:
    found = row["measured"]
    if found.get("step_time_s"):
        return float(found["step_time_s"]), "step_time_s"
    if found.get("tokens_per_s_per_chip"):
        return job.tokens / (float(found["tokens_per_s_per_chip"]) * where.n_chips), "tokens_per_s_per_chip"
    if found.get("tflops_per_chip"):
        masking = _CONVENTIONS.get(str(row.get("flop_convention")))
        if masking is None:
            raise UsageError("TFLOP/s are stated, and not how attention was counted.")
        flops = model_flops(job.model, job.sequences, job.sequence, masking=masking).training
        return flops / (float(found["tflops_per_chip"]) * 1e12 * where.n_chips), "tflops_per_chip"
    raise UsageError("No step time, throughput or TFLOP/s is stated.")


def _stated_work(row: Mapping[str, Any], job: Job, where: Slice, seconds: float) -> float | None:
    rate, masking = row["measured"].get("tflops_per_chip"), _CONVENTIONS.get(str(row.get("flop_convention")))
    if not rate or masking is None:
        return None
    flops = model_flops(job.model, job.sequences, job.sequence, masking=masking).training
    return float(rate) * 1e12 * where.n_chips * seconds / flops
