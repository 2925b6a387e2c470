"""Rates from first principles: units times operations per cycle times clock, links times bandwidth.

Facts: scaling book, chapters "TPUs" and "GPUs".
"""

from __future__ import annotations

from math import ceil, floor, prod

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity

_TPUS = "scaling book, TPUs"
_GPUS = "scaling book, GPUs"


def unit_count(counts: tuple[int, ...]) -> Derivation:
    """How many units a hierarchy has: 132 SMs of 4 subpartitions of 32 lanes are 16,896.

    Raises:
        UsageError: a count is below 1, or there is none.
    """
    if not counts:
        raise UsageError("There is no count of units.", hint="Give one like 132x4x32.")
    for count in counts:
        counted("A count of units", count)
    return Derivation(prod(counts), "unit", "product of the counts", {"counts": Quantity(list(counts), "unit")})


def rate_of_units(
    *,
    units: float | None = None,
    per_cycle: float | None = None,
    clock: float | None = None,
    rate: float | None = None,
) -> Derivation:
    """Whichever of the four is not given: ``rate = units * per_cycle * clock``.

    Args:
        units: matrix units, tensor cores or lanes.
        per_cycle: operations that one of them finishes per cycle, FLOP.
        clock: Hz.
        rate: of all of them, FLOP/s.

    Raises:
        UsageError: not exactly three are given, or one is not above zero.
    """
    given = {"units": units, "per_cycle": per_cycle, "clock": clock, "rate": rate}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        raise UsageError(
            f"{4 - len(missing)} of units, operations per cycle, clock and rate are given.", hint="Give three of them."
        )
    known = {
        name: positive(f"The {name.replace('_', ' ')}", value) for name, value in given.items() if value is not None
    }
    unit_names = {"units": "unit", "per_cycle": "FLOP/cycle", "clock": "Hz", "rate": "FLOP/s"}
    target = missing[0]
    if target == "rate":
        value, formula = prod(known.values()), "units * per_cycle * clock"
    else:
        others = [name for name in known if name != "rate"]
        value = known["rate"] / prod(known[name] for name in others)
        formula = f"rate / ({' * '.join(others)})"
    inputs = {name: Quantity(value_, unit_names[name]) for name, value_ in known.items()}
    return Derivation(
        value, unit_names[target], formula, inputs, None, ("every unit is busy in every cycle",), source=_TPUS
    )


def product_per_cycle(m: int, n: int, k: int, cycles: int) -> Derivation:
    """Operations per cycle of a matrix unit that finishes one [m,k]x[k,n] product every so many cycles.

    Raises:
        UsageError: a number is below 1.
    """
    sizes = {"m": m, "n": n, "k": k, "cycles": cycles}
    for name, value in sizes.items():
        counted(name, value)
    inputs = {name: Quantity(value, "cycle" if name == "cycles" else "element") for name, value in sizes.items()}
    return Derivation(2 * m * n * k / cycles, "FLOP/cycle", "2*m*n*k / cycles", inputs, source=_TPUS)


def links_bandwidth(
    counts: tuple[int, ...], link: float, *, shared_by: int = 1, measured_gain: float = 1.0
) -> Derivation:
    """Bandwidth of several equal links together, or the share of one user of them, B/s.

    Args:
        counts: links, or a hierarchy of them whose product they are (8 leaf x 16 spine switches x 2 cables).
        link: bandwidth of one in one direction, B/s.
        shared_by: users who share them evenly.
        measured_gain: measured bandwidth over the one of the links, such as 1.3 for reduction inside the switches.

    Raises:
        UsageError: a number is not above zero.
    """
    many = unit_count(counts)
    value = many.number() * positive("The bandwidth of a link", link) / counted("The number of users", shared_by)
    inputs = {"links": Quantity(many.value, "link"), "W": Quantity(link, "B/s")}
    formula = "links * W"
    if shared_by != 1:
        inputs["users"] = Quantity(shared_by)
        formula += " / users"
    if measured_gain != 1.0:
        inputs["gain"] = Quantity(positive("The gain", measured_gain), "x")
        formula += " * gain"
    assumed = ("all links are busy at the same time",)
    return Derivation(value * measured_gain, "B/s", formula, inputs, None, assumed, (many.as_step("links"),), _GPUS)


def resident_warps(
    register_file: float, registers_per_thread: int, lanes: int = 32, bytes_per_register: int = 4
) -> Derivation:
    """How many warps a GPU multiprocessor can hold by its register file.

    Args:
        register_file: bytes of one multiprocessor.
        lanes: threads of a warp.

    Raises:
        UsageError: a number is not above zero.
    """
    warp = counted("Registers per thread", registers_per_thread) * counted("Lanes", lanes)
    warp *= counted("Bytes per register", bytes_per_register)
    inputs = {
        "register_file": Quantity(register_file, "B"), "registers": Quantity(registers_per_thread, "register"),
        "lanes": Quantity(lanes, "lane"), "bytes": Quantity(bytes_per_register, "B"),
    }  # fmt: skip
    value = floor(positive("The register file", register_file) / warp)
    assumed = ("nothing else limits how many warps are resident",)
    formula = "floor(register_file / (registers * lanes * bytes))"
    return Derivation(value, "warp", formula, inputs, None, assumed, source=_GPUS)


def total_of_groups(groups: tuple[tuple[int, ...], ...]) -> Derivation:
    """How many units several groups have together, such as the switches of all levels of a network.

    Args:
        groups: of each group a count, or several whose product it is (128 nodes of 4 switches).

    Raises:
        UsageError: there is no group, or a count is below 1.
    """
    if not groups:
        raise UsageError("There is no group of units.", hint="Give one like 128x4.")
    steps = tuple(unit_count(group).as_step(f"group {number}") for number, group in enumerate(groups, 1))
    inputs = {f"group {number}": Quantity(list(group), "unit") for number, group in enumerate(groups, 1)}
    return Derivation(sum(prod(group) for group in groups), "unit", "sum of the groups", inputs, None, (), steps)


def slice_totals(
    shape: tuple[int, ...],
    *,
    host: tuple[int, ...] | None = None,
    cores_per_chip: int | None = None,
    hbm: float | None = None,
    peak: float | None = None,
) -> dict[str, Derivation]:
    """``chips`` of a slice, and ``hosts``, ``cores``, ``hbm``, ``peak`` as far as the figure of one chip is given.

    Args:
        shape: chips per axis.
        host: chips of one host per axis; a slice smaller than a host has one host.
        hbm: bytes of one chip.
        peak: of one chip, FLOP/s.

    Raises:
        UsageError: a number is below 1.
    """
    chips = prod(counted("The length of an axis", size) for size in shape)
    inputs = {"shape": Quantity(list(shape), "chip")}
    found = {"chips": Derivation(chips, "chip", "product of the axes", inputs, source=_TPUS)}
    step = (found["chips"].as_step("chips"),)
    if host is not None:
        per_host = prod(counted("The chips of a host", size) for size in host)
        named = {**inputs, "host": Quantity(list(host), "chip")}
        found["hosts"] = Derivation(
            ceil(chips / per_host), "host", "chips / chips of a host, rounded up", named, None, (), step, _TPUS
        )
    each = {"cores": (cores_per_chip, "core"), "hbm": (hbm, "B"), "peak": (peak, "FLOP/s")}
    for name, (value, unit) in each.items():
        if value is not None:
            named = {**inputs, f"{name} of a chip": Quantity(positive(f"The {name} of a chip", value), unit)}
            found[name] = Derivation(chips * value, unit, f"chips * {name} of a chip", named, None, (), step, _TPUS)
    return found
