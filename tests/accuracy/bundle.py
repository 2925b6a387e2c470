"""Writes tpuprof/plan/published.json, the measurements that tpuprof brings along, from the rows that the tests hold.

``python -m tests.accuracy.bundle`` writes it, ``--check`` says whether it is current. What no prediction reads is left
out, models that several rows share stand once, and remarks become the facts that they state.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROWS = Path(__file__).resolve().parents[1] / "data" / "published_perf.json"
BUNDLE = Path(__file__).resolve().parents[2] / "tpuprof" / "plan" / "published.json"
ABOUT = (
    "Measurements that others published, each with the document that states it. The keys are those of"
    " tpuprof validate; a model that several rows share stands under models."
)
_KEPT = (
    "id", "kind", "family", "source", "commit", "chip", "n_chips", "topology", "topology_default", "slices", "model",
    "global_batch_seqs", "global_batch_tokens", "dtype", "parallelism", "remat", "optimizer", "measured",
    "flop_convention", "upper_bound", "unverified", "unverified_fields", "workload", "op", "flags",
)  # fmt: skip
_NOT_OF_MODELS = ("seq_len", "note", "n_params", "n_params_basis", "n_matmul_params", "n_active_params")
_STATED = {"moe_capacity": r"capacity_factor (\d+\.\d+|\d+)", "step_tokens": r"max-num-batched-tokens (\d{1,7})\b"}


def bundle(rows: list[dict[str, Any]]) -> str:
    """The text of the file: one row and one model a line."""
    models: dict[str, dict[str, Any]] = {}
    made = [_row(row, models) for row in rows]
    lines = [
        "{", f'"about": {json.dumps(ABOUT)},', '"models": {',
        _lines(f"{json.dumps(name)}: {_text(dims)}" for name, dims in models.items()),
        "},", '"rows": [', _lines(_text(row) for row in made), "]", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _row(row: dict[str, Any], models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = {key: value for key in _KEPT if (value := _slim(row.get(key))) not in (None, False)}
    for key in ("parallelism", "remat"):
        if key in found:
            found[key].pop("note", None)
    for key, pattern in _STATED.items():
        stated = re.search(pattern, str(row.get("notes") or ""))
        if stated:
            found[key] = float(stated[1]) if "." in stated[1] else int(stated[1])
    if "model" in found:
        model = found["model"]
        dims = {key: value for key, value in model.items() if key not in _NOT_OF_MODELS}
        found["model"] = {"like": _name(dims, models)} | ({"seq_len": model["seq_len"]} if "seq_len" in model else {})
    return found


def _name(dims: dict[str, Any], models: dict[str, dict[str, Any]]) -> str:
    """The name under which these dimensions stand; models of one name that differ get numbers."""
    base = str(dims.get("name", "model"))
    count = 1
    while True:
        name = base if count == 1 else f"{base} ({count})"
        if models.setdefault(name, dims) == dims:
            return name
        count += 1


def _slim(value: Any) -> Any:
    """Without what is null or empty, at any depth."""
    if isinstance(value, dict):
        found = {key: slim for key, part in value.items() if (slim := _slim(part)) is not None}
        return found or None
    return None if value == [] else value


def _lines(parts: Any) -> str:
    return ",\n".join(parts)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> int:
    """Does what the arguments say."""
    text = bundle(json.loads(ROWS.read_text(encoding="utf-8"))["rows"])
    if BUNDLE.exists() and BUNDLE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{BUNDLE} is out of date: python -m tests.accuracy.bundle")
        return 1
    BUNDLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
