"""What the command line in a sidecar says of a training job: a hint at model, batch and sequence, never more.

Trainers are given these as ``name=value`` or ``--name value``. Models are looked up by name only: what stands in a file
of a log directory must not decide which other files are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tpuprof.plan.model import ModelConfig
from tpuprof.plan.zoo import aliases, models

_MOST_WORDS = 1_000
_LONGEST = 200
_MOST = 10**9
_PAIR = re.compile(r"-{0,2}(?P<name>[A-Za-z][\w.-]*)=(?P<value>.+)")
_MODEL = ("model_name", "model")
_SEQUENCE = ("max_target_length", "seq_len", "sequence_length", "max_seq_len", "max_seq_length", "seq_length")
_PER_DEVICE = ("per_device_batch_size", "per_device_train_batch_size")
_ACCUMULATION = "gradient_accumulation_steps"
_GLOBAL = ("global_batch_size", "train_batch_size")


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """What a command line says; null where it does not.

    Args:
        model: a named model.
        sequence: tokens of a sequence.
        sequences: of one step, over all devices.
    """

    model: ModelConfig | None = None
    sequence: int | None = None
    sequences: int | None = None


def command_facts(metadata: Mapping[str, Any], devices: int) -> CommandFacts:
    """The facts of a sidecar's ``command``.

    Args:
        metadata: the sidecar.
        devices: of the job, for batches that are stated per device.
    """
    words: Any = metadata.get("command")
    if not isinstance(words, list):
        return CommandFacts()
    said: dict[str, str] = {}
    for name, value in _pairs([str(word)[:_LONGEST] for word in cast("list[Any]", words)[:_MOST_WORDS]]):
        said.setdefault(name.replace("-", "_").rpartition(".")[2].lower(), value)
    whole, each = _number(said, _GLOBAL), _number(said, _PER_DEVICE)
    if said.get(_ACCUMULATION, "1") != "1":
        each = None  # whether a step of the trace is all microbatches or one, the command line does not say
    sequences = whole if whole is not None else None if each is None else each * devices
    sequence = _number(said, _SEQUENCE)
    return CommandFacts(
        next(filter(None, (_named(said[name]) for name in _MODEL if name in said)), None),
        None if sequence is None else int(sequence),
        None if sequences is None or sequences < 1 or sequences != int(sequences) else int(sequences),
    )


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words):
        found = _PAIR.fullmatch(word)
        if found is not None:
            yield found["name"], found["value"]
        elif word.startswith("--") and index + 1 < len(words) and not words[index + 1].startswith("-"):
            yield word.removeprefix("--"), words[index + 1]


def _number(said: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", said.get(name, "")):
            value = float(said[name])
            return value if 0 < value <= _MOST else None
    return None


def _named(name: str) -> ModelConfig | None:
    plain = _comparable(name.rpartition("/")[2])
    for found in models():
        if plain in map(_comparable, (found.name, *aliases(found.name))):
            return found
    return None


def _comparable(name: str) -> str:
    return re.sub(r"[\s_.-]+", "", name.lower())
