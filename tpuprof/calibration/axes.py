"""What the axes of a program's device mesh are for, by their names, and what travels along them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.text import clean

Traffic = Literal["weights", "activations", "network"]
ROLES = ("data", "fsdp", "tensor", "context", "pipeline", "expert", "slices")
"""What an axis can be for: the degrees of ``tpuprof.plan.train_layout.Layout``."""

UNSTATED = "*"
"""Stands for the axes of collectives whose program does not name any."""
_TRAFFIC: Mapping[str, Traffic] = {
    "data": "weights", "fsdp": "weights", "tensor": "activations", "context": "activations",
    "pipeline": "activations", "expert": "activations", "slices": "network",
}  # fmt: skip
_NAMES = {
    "data": "data dp replica replicas batch data_parallel",
    "fsdp": "fsdp zero shard fsdp_transpose dp_shard",
    "tensor": "tensor tp model mp mdl tensor_parallel model_parallel tensor_transpose tensor_sequence",
    "context": "context cp sequence seq sp context_parallel sequence_parallel",
    "pipeline": "pipeline pp pipe stage stages",
    "expert": "expert experts ep expert_parallel",
    "slices": "slice slices dcn",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_ALWAYS: Mapping[str, Traffic] = {"all_to_all": "activations", "collective_permute": "activations"}


def parse_axes(texts: Iterable[str]) -> dict[str, str]:
    """Roles by axis name, from texts such as ``x=fsdp``.

    Raises:
        UsageError: a text is no such pair, or names no role.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, role = (part.strip() for part in text.partition("="))
        if not equals or not name or role not in ROLES:
            raise UsageError(
                f"{clean(text)[:60]!r} does not say what an axis is for.",
                where="--axis", hint=f"Write NAME=ROLE, such as x=fsdp. Roles: {', '.join(ROLES)}.",
            )  # fmt: skip
        found[name] = role
    return found


def role_of(axis: str, given: Mapping[str, str]) -> str | None:
    """What an axis is for: as given, else by its name; null if that tells nothing."""
    name = axis.partition(":")[0].strip()
    if name in given:
        return given[name]
    plain = name.lower()
    return "slices" if plain.startswith("dcn_") else _ROLE_OF.get(plain)


def traffic_of(kind: str, axes: str | None, given: Mapping[str, str]) -> Traffic | None:
    """What a collective carries: by the axes that it goes along, else by its kind; null if neither tells.

    Args:
        axes: names with commas between them, as in table ``collectives``.
    """
    roles = [role_of(axis, given) for axis in (axes or (UNSTATED if UNSTATED in given else "")).split(",") if axis]
    carried: list[Traffic | None] = [None if role is None else _TRAFFIC[role] for role in roles]
    if carried and all(each == carried[0] for each in carried):
        return carried[0]
    return _ALWAYS.get(kind) if not roles else None
