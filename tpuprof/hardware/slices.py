"""Names and shapes of slices: what ``v5p:4x4x8_twisted``, ``v4-8`` and ``2*v6e-256`` mean, and what cannot be had.

Sources: the Cloud TPU pages of each generation for the shapes; public training configurations for ``tpu7x-N`` (N
counts TensorCores: ``tpu7x-128`` is 4x4x4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import prod

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip
from tpuprof.hardware.lookup import HardwareFile
from tpuprof.hardware.lookup import chip as find
from tpuprof.hardware.topology import CUBE, FULL_RING, Slice, can_twist, wraparound

_COUNT_CORES = frozenset({"v2", "v3", "v4", "v5p", "tpu7x"})
_COUNT_CHIPS = frozenset({"v5e", "v6e"})
_NAME = re.compile(
    r"\s*(?:(?P<slices>\d{1,6})\s*[*×]\s*)?(?P<chip>[A-Za-z][A-Za-z0-9 ]*?)\s*"
    r"(?:[:=_]\s*(?P<shape>\d{1,6}(?:[xX×]\d{1,6})*)(?P<twist>_twisted|_untwisted)?|-(?P<count>\d{1,9}))\s*\Z",
    re.IGNORECASE,
)
_FORMS = "Write CHIP:SHAPE such as v5p:4x4x8, CHIP-N such as v5e-8 or v4-8, and N*SLICE for several slices."
_MAX_SLICES = 4096


def parse_slice(text: str, edition: str | None = None, files: Sequence[HardwareFile] = ()) -> Slice:
    """The slice that a name means: ``v5e:4x4``, ``v4-8``, ``v5p:4x4x8_twisted``, ``2*v5p:8x8x8``.

    ``CHIP-N`` counts TensorCores on v2, v3, v4, v5p and TPU7x (so ``v4-8`` has 4 chips) and chips on v5e and v6e;
    its shape is `default_shape`. A trailing axis of 1 may be left out or added.

    Args:
        edition: whose constants the chip carries; null takes the default.
        files: TOML files of the user that may describe the chip.

    Raises:
        UsageError: the text names no slice, the chip is unknown or has no torus, or the shape cannot be had.
    """
    found = _NAME.match(text)
    if found is None:
        raise UsageError(f"{text!r} names no slice.", hint=_FORMS)
    chip = find(found["chip"].strip(), edition=edition, files=files)
    slices = int(found["slices"] or 1)
    if not 1 <= slices <= _MAX_SLICES:
        raise UsageError(f"{text!r} asks for {slices} slices.", why=f"1 to {_MAX_SLICES} slices are possible.")
    if found["count"]:
        return make_slice(chip, default_shape(chip, _chips_of_name(chip, int(found["count"]), text)), slices=slices)
    shape = tuple(map(int, re.split("[xX×]", found["shape"])))
    if chip.ici is not None and len(shape) == 1 and chip.ici.dims > 1 and shape != (1,):
        raise UsageError(
            f"{text!r} gives one number as a shape.",
            why=f"{chip.name} slices have {chip.ici.dims} axes.",
            hint=f"Write {chip.name}-{shape[0]} for a size, or the length of every axis.",
        )
    return make_slice(chip, shape, twisted=(found["twist"] or "").lower() == "_twisted", slices=slices)


def make_slice(chip: Chip, shape: tuple[int, ...], *, twisted: bool = False, slices: int = 1) -> Slice:
    """A slice that can be had, with the wraparound that its generation gives it.

    Args:
        shape: chips per axis; missing axes are 1.

    Raises:
        UsageError: `shape_problem` has something to say, or the shape cannot be twisted.
    """
    problem = shape_problem(chip, shape)
    if problem:
        raise UsageError(
            f"{chip.name} has no slice of shape {'x'.join(map(str, shape))}.", why=problem, hint=_nearby(chip, shape)
        )
    whole = _with_all_axes(chip, shape)
    return Slice(chip, whole, wraparound(chip, whole), twisted, slices)


def shape_problem(chip: Chip, shape: tuple[int, ...]) -> str:
    """Why a shape cannot be had, as a sentence; empty if it can.

    One chip is always possible. Beyond that: slices are made of hosts' blocks of 2x2 chips, two-dimensional ones fit
    into the pod, three-dimensional ones lie inside one cube of 4x4x4 or are made of whole cubes.
    """
    if chip.ici is None:
        return f"{chip.name} is not joined to others by a torus of links."
    if not shape or min(shape) < 1:
        return "Every axis has at least one chip."
    dims = chip.ici.dims
    if len(shape) > dims and any(size > 1 for size in shape[dims:]):
        return f"Its torus has {dims} axes, not {len(shape)}."
    whole = _with_all_axes(chip, shape)
    if prod(whole) == 1:
        return ""
    if any(size % 2 for size in whole[:2]):
        return "Hosts hold blocks of 2x2 chips, so the first two axes are even."
    if dims == 3 and max(whole) > CUBE and any(size % CUBE for size in whole):
        return "A slice that does not fit into one cube of 4x4x4 chips is made of whole cubes."
    if dims == 3 and any(size == 3 for size in whole):
        return "Inside a cube of 4x4x4 chips the axes are 1, 2 or 4 long."
    if dims == 2 and any(size & (size - 1) for size in whole):
        return "Axes are 2, 4, 8 or 16 long, and 32 on v3."
    return _too_large(chip, whole)


def job_limit(where: Slice) -> str:
    """What a user should know of a slice that exists and that one job does not get, as a sentence; else empty."""
    limit = where.chip.max_job_shape
    if limit is None or where.chips_per_slice <= prod(limit):
        return ""
    return (
        f"One job gets at most {prod(limit)} chips ({'x'.join(map(str, limit))}) of a {where.chip.name} pod, "
        f"not {where.chips_per_slice}."
    )


def default_shape(chip: Chip, n_chips: int) -> tuple[int, ...]:
    """The shape that a slice known only by its number of chips usually has: the most compact one, short axes first.

    Raises:
        UsageError: no slice of the chip has this many chips.
    """
    if chip.ici is None:
        raise UsageError(f"{chip.name} has no torus of links.", hint="Slices exist for TPUs.")
    candidates = _shapes(n_chips, chip.ici.dims)
    possible = [shape for shape in candidates if not shape_problem(chip, shape)]
    if not possible:
        raise UsageError(
            f"{chip.name} has no slice of {n_chips} chips.",
            why="No shape of so many chips is built.",
            hint=f"Slices nearby have {_sizes_nearby(chip, n_chips)}.",
        )
    return min(possible, key=lambda shape: (sum(shape), shape))


def twistable(where: Slice) -> bool:
    """Whether this shape is also offered as a twisted torus."""
    return can_twist(where.shape)


def _chips_of_name(chip: Chip, count: int, text: str) -> int:
    if chip.name in _COUNT_CHIPS:
        return count
    if chip.name not in _COUNT_CORES:
        raise UsageError(
            f"{text!r} has no known meaning.",
            why=f"No document says whether {chip.name}-N counts chips or TensorCores.",
            hint=f"Give the shape, such as {chip.name}:4x4x4.",
        )
    if count % chip.cores_per_chip or count < 1:
        raise UsageError(
            f"{text!r} is no whole number of chips.",
            why=f"{chip.name}-N counts TensorCores, {chip.cores_per_chip} per chip.",
        )
    return count // chip.cores_per_chip


def _with_all_axes(chip: Chip, shape: tuple[int, ...]) -> tuple[int, ...]:
    dims = chip.ici.dims if chip.ici is not None else len(shape)
    return (*shape[:dims], *(1,) * (dims - len(shape)))


def _too_large(chip: Chip, shape: tuple[int, ...]) -> str:
    pod = chip.pod_shape
    if len(shape) == 2:
        edges = sorted(pod or (FULL_RING, FULL_RING))
        fits = all(size <= edge for size, edge in zip(sorted(shape), edges, strict=True))
        return "" if fits else f"The pod is {'x'.join(map(str, edges))} chips; larger systems are several slices."
    most = prod(pod) if pod else chip.pod_chips
    if most is not None and prod(shape) > most:
        return f"The pod has {most} chips, this would be {prod(shape)}."
    return ""


def _shapes(n_chips: int, dims: int) -> list[tuple[int, ...]]:
    if n_chips < 1 or n_chips > 1 << 20:
        return []
    divisors = [size for size in range(1, n_chips + 1) if n_chips % size == 0]
    found: list[tuple[int, ...]] = []
    for short in combinations_with_replacement(divisors, dims - 1):
        last, left = divmod(n_chips, prod(short))
        if not left and last >= short[-1]:
            found.append((*short, last))
    # Small three-dimensional slices are flat along z (2x2x1), although their axes are otherwise in rising order.
    return found + [shape[1:] + shape[:1] for shape in found if dims == 3]


def _sizes_nearby(chip: Chip, n_chips: int) -> str:
    assert chip.ici is not None
    limit = chip.pod_chips or prod(chip.pod_shape or (1,))
    sizes: list[int] = []
    size = 1
    while size <= limit:
        if any(not shape_problem(chip, shape) for shape in _shapes(size, chip.ici.dims)):
            sizes.append(size)
        size *= 2
    below = [size for size in sizes if size < n_chips][-1:]
    above = [size for size in sizes if size > n_chips][:1]
    found = below + above
    return f"{' and '.join(map(str, found)) or 'no'} {'chip' if found == [1] else 'chips'}"


def _nearby(chip: Chip, shape: tuple[int, ...]) -> str:
    if chip.ici is None or not shape or min(shape) < 1:
        return ""
    try:
        usual = default_shape(chip, prod(shape))
    except UsageError as problem:
        return problem.hint
    return f"{prod(shape)} chips are usually {'x'.join(map(str, usual))}."
