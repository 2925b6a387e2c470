"""How often loops run: as the compiler noted, or derived from the loop's condition, start and step."""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof.errors import HloError
from tpuprof.hlo.cost.configs import count, mapping
from tpuprof.hlo.cost.model import TripCount
from tpuprof.hlo.cost.values import Affine, Values
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import HloModule

_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}
_MAX_TRIPS = 1 << 53
_UNKNOWN = "trip count unknown"


def trip_counts(module: HloModule, loops: list[Instruction], given: Mapping[str, int]) -> dict[str, TripCount]:
    """The number of iterations of loops by name. One that cannot be found out is 1, with the reason."""
    values = Values(module)
    return {loop.name: _trips(module, loop, values, given) for loop in loops}


def _trips(module: HloModule, loop: Instruction, values: Values, given: Mapping[str, int]) -> TripCount:
    if loop.name in given:
        return TripCount(given[loop.name], "user")
    try:
        noted = _noted(loop)
        if noted is not None:
            return TripCount(noted, "known_trip_count")
        found = _derived(module, loop, values)
    except HloError as error:
        found = error.what
    return TripCount(found, "derived") if isinstance(found, int) else TripCount(1, None, f"{_UNKNOWN}: {found}")


def _noted(loop: Instruction) -> int | None:
    if "known_trip_count" not in loop.backend_config:
        return None
    return count(mapping(mapping(loop.backend_config_json).get("known_trip_count")).get("n"))


def _derived(module: HloModule, loop: Instruction, values: Values) -> int | str:
    condition, body = (module.computation(loop.called_by_role(role)[0]) for role in ("condition", "body"))
    test = values.comparison(condition)
    if test is None:
        return "its condition is no comparison of a counter with a limit"
    direction, left, right = test
    counter, limit = left, right
    if counter.element is None or (limit.element is not None and values.is_kept(loop, counter.element)):
        counter, limit, direction = right, left, _MIRRORED.get(direction, direction)
    if counter.element is None:
        return "its condition does not depend on its state"
    bound = _number(loop, limit, values)
    if bound is None:
        return "its limit is no constant"
    start = values.initial(loop, counter.element)
    if start is None:
        return "its counter does not begin with a constant"
    after = values.next_state(body, counter.element)
    if after is None:
        return "the step of its counter is no constant"
    if after.element is None or after.element != counter.element:
        return "its counter is not counted on from its own value"
    return _count(direction, start + counter.offset, bound, after.offset)


def _number(loop: Instruction, value: Affine, values: Values) -> int | None:
    if value.element is None:
        return value.offset
    if not values.is_kept(loop, value.element):
        return None
    number = values.initial(loop, value.element)
    return None if number is None else number + value.offset


def _count(direction: str, start: int, limit: int, step: int) -> int | str:
    """Iterations of a counter from ``start`` by ``step`` while it is in ``direction`` of the limit."""
    if direction in ("GT", "GE"):
        start, limit, step = -start, -limit, -step
        direction = "LT" if direction == "GT" else "LE"
    if direction == "LE":
        direction, limit = "LT", limit + 1
    if direction == "NE":
        distance = limit - start
        if distance == 0:
            return 0
        if step == 0 or distance % step or distance // step < 0:
            return "its counter never meets its limit"
        trips = distance // step
    elif direction == "LT":
        if start >= limit:
            return 0
        if step <= 0:
            return "its counter moves away from its limit"
        trips = -(-(limit - start) // step)
    else:
        return f"its condition compares with {direction}"
    return trips if trips < _MAX_TRIPS else "its limit is absurd"
