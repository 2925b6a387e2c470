"""Shardings between text and message: ``{devices=[4,2]<=[8]}``, ``{replicated}``, tuples of them."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from tpuprof.errors import HloError
from tpuprof.hlo.scan import integers, split_top_level

_REPLICATED, _MAXIMAL, _TUPLE, _OTHER, _MANUAL, _UNKNOWN, _UNREDUCED = range(7)
_PLAIN = {"replicated": _REPLICATED, "manual": _MANUAL, "unknown": _UNKNOWN, "unreduced": _UNREDUCED}
_NAMES = {number: name for name, number in _PLAIN.items()}
_DEVICES = re.compile(
    r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]*))"
    r"( last_tile_dim_replicate)?(?: last_tile_dims=\{([a-z, ]*)\})?\Z"
)
_GROUP = re.compile(r" shard_(as|like) (\d{1,18})\Z")


def sharding_text(message: Any) -> str:
    """The text of a sharding message. A named sharding, which this does not spell out, is ``{named}``."""
    if message.named_sharding:
        return "{named}"
    group = f" shard_{'like' if message.shard_group_type else 'as'} {message.shard_group_id}" * message.is_shard_group
    kind = message.type
    if kind == _TUPLE:
        return "{" + ", ".join(sharding_text(part) for part in message.tuple_shardings) + "}"
    if kind == _MAXIMAL:
        device = message.tile_assignment_devices[0] if message.tile_assignment_devices else 0
        return "{maximal device=" + str(device) + group + "}"
    if kind in _NAMES:
        return "{" + _NAMES[kind] + group + "}"
    dims = tuple(message.tile_assignment_dimensions)
    subgroups = tuple(message.last_tile_dims)
    if subgroups and len(set(subgroups)) == 1 and prod(dims[: len(dims) - len(subgroups)]) == 1:
        # All devices lie in one kind of subgroup: the text says that kind alone.
        return "{" + _NAMES.get(subgroups[0], "unknown") + group + "}"
    text = f"devices=[{','.join(map(str, dims))}]"
    reshape = tuple(message.iota_reshape_dims)
    if reshape:
        text += f"<=[{','.join(map(str, reshape))}]"
        if len(reshape) > 1:
            text += f"T({','.join(map(str, message.iota_transpose_perm))})"
    else:
        text += ",".join(map(str, message.tile_assignment_devices))
    if message.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if subgroups:
        text += " last_tile_dims={" + ", ".join(_NAMES.get(kind, "unknown") for kind in subgroups) + "}"
    return "{" + text + group + "}"


def fill_sharding(message: Any, text: str) -> None:
    """Fills an empty sharding message from the text.

    Raises:
        HloError: the text is a form that has no message here.
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise HloError(f"sharding={text[:60]!r} is no sharding.")
    body = text[1:-1].strip()
    if body.startswith("{") or not body:
        message.type = _TUPLE
        for part in split_top_level(body):
            fill_sharding(message.tuple_shardings.add(), part)
        return
    group = _GROUP.search(body)
    if group:
        message.is_shard_group = True
        message.shard_group_type = int(group[1] == "like")
        message.shard_group_id = int(group[2])
        body = body[: group.start()]
    if body in _PLAIN:
        message.type = _PLAIN[body]
    elif body.startswith("maximal device="):
        message.type = _MAXIMAL
        message.tile_assignment_dimensions.append(1)
        message.tile_assignment_devices.extend(integers(body.removeprefix("maximal device="), "sharding"))
    else:
        _fill_devices(message, body)


def _fill_devices(message: Any, body: str) -> None:
    match = _DEVICES.match(body)
    if match is None:
        raise HloError(f"sharding={{{body[:60]}}} is of a form that is not read.")
    message.type = _OTHER
    message.tile_assignment_dimensions.extend(integers(match[1], "sharding"))
    if match[2]:
        reshape = integers(match[2], "sharding")
        message.iota_reshape_dims.extend(reshape)
        message.iota_transpose_perm.extend(integers(match[3], "sharding") if match[3] else range(len(reshape)))
    else:
        message.tile_assignment_devices.extend(integers(match[4], "sharding"))
    message.replicate_on_last_tile_dim = match[5] is not None
    for name in (match[6] or "").split(","):
        if name.strip():
            kind = _PLAIN.get(name.strip())
            if kind is None:
                raise HloError(f"sharding={{{body[:60]}}}: {name.strip()!r} is no kind of sharding.")
            message.last_tile_dims.append(kind)
