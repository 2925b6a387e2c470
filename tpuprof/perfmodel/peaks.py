"""Rates from first principles: units times operations per cycle times clock, links times bandwidth.

Facts: scaling book, chapters "TPUs" and "GPUs".
"""

from __future__ import annotations

from math import floor, prod

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
