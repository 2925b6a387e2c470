"""Which device of the program each core is: the global ids that replica groups speak of."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.tables.rows import Device

# Fields of the plane stat ``core_details``, a small protobuf message whose zero fields are left out.
_GLOBAL_CHIP_ID, _GLOBAL_CORE_ID = 5, 6
_MAX_DETAILS = 4096


def global_ids(devices: Sequence[Device]) -> list[int | None]:
    """The global device id of each core, null where nothing tells.

    TPU planes state it (with megacore a device is a chip, else a core). Elsewhere the ordinal is the id, which holds
    as long as all cores are of one host.
    """
    stated = [_from_details(device) for device in devices]
    if any(number is not None for number in stated):
        # Two cores with one id would be taken for one: then the ids are not what they seem.
        known = [number for number in stated if number is not None]
        return stated if len(set(known)) == len(known) else [None] * len(devices)
    if len({device.host for device in devices}) == 1:
        return [device.ordinal for device in devices]
    return [None] * len(devices)


def _from_details(device: Device) -> int | None:
    details = device.stats.get("core_details")
    if not isinstance(details, bytes) or len(details) > _MAX_DETAILS:
        return None
    fields = _varint_fields(details)
    if fields is None:
        return None
    megacore = bool(device.stats.get("has_megacore"))
    return fields.get(_GLOBAL_CHIP_ID if megacore else _GLOBAL_CORE_ID, 0)


def _varint_fields(data: bytes) -> dict[int, int] | None:
    """The integer fields of a flat protobuf message, null if it is none."""
    fields: dict[int, int] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag < 0 or tag & 7:
            return None
        value, at = _varint(data, at)
        if value < 0:
            return None
        fields[tag >> 3] = value
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, next position); the value is -1 if the bytes end or run on."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            return -1, at
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return -1, at
