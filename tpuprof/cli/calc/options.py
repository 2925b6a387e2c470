"""What the calculators share: types of options that take units, where rates come from, and how an answer is shown."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from tpuprof.cli.hardware import hardware_options
from tpuprof.cli.output import Output, output_options
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.perfmodel.arrays import Array
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.perfmodel.rates import Rates

    _ParamType: TypeAlias = click.ParamType[Any, Any]
else:
    _ParamType = click.ParamType

CALC_FORMATS = ("table", "json", "md")
MAX_COUNTS = 16
Answers: TypeAlias = "Derivation | Mapping[str, Derivation]"
_MEANINGS = {"B": "bytes", "B/s": "bandwidth", "FLOP/s": "rate", "FLOP": "number of operations", "s": "time"}


class _Type(_ParamType):
    """A click type whose conversion raises the errors of tpuprof."""

    def __init__(self, name: str, convert: Callable[[str], Any]) -> None:
        self.name = name
        self._convert = convert

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or a usage error that names the option."""
        if not isinstance(value, str):
            return value
        try:
            return self._convert(value)
        except UsageError as error:
            self.fail(" ".join(part for part in (error.what, error.why, error.hint) if part), param, ctx)


def quantity(unit: str) -> _ParamType:
    """A number in an SI unit with an optional prefix and unit; zero is written as 0."""

    def convert(text: str) -> float:
        from tpuprof.hardware.quantity import parse_quantity

        return 0.0 if text.strip() == "0" else parse_quantity(text, unit, f"The {_MEANINGS.get(unit, 'number')}")

    return _Type(unit.lower(), convert)


def _array(text: str) -> Array:
    from tpuprof.perfmodel.arrays import parse_array

    return parse_array(text)


def _mesh(text: str) -> dict[str, int]:
    from tpuprof.perfmodel.arrays import parse_mesh

    return parse_mesh(text)


def _counts(text: str) -> tuple[int, ...]:
    parts = re.split(r"[x×*,]", text.strip())
    if len(parts) > MAX_COUNTS or not all(part.strip().isdecimal() and len(part) < 19 for part in parts):
        raise UsageError(f"{text!r} is no list of counts.", hint="Write it like 16, 4x4x4 or 132x4x32.")
    return tuple(int(part) for part in parts)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.strip("{}[] ").split(",")]
    if not all(part.isdecimal() and len(part) < 19 for part in parts):
        raise UsageError(f"{text!r} is no list of device ids.", hint="Write it like 0,16,32,48.")
    return tuple(int(part) for part in parts)


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number.", hint="Write 4096, or inf for the limit.") from None


_COUNT = re.compile(r"(\d+\.?\d*|\.\d+)((?:[eE][+-]?\d+)?)([kKMBGT]?)")
_MOST = 1e24
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def _amount(text: str) -> float:
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no number of things.", hint="Write 4096, 15e12, 70B or 15T.")
    value = float(found[1] + found[2]) * _PREFIXES[found[3]]
    if value > _MOST:
        raise UsageError(f"{text!r} is too large.", hint=f"The limit is {_MOST:g}.")
    return value


def _typed(text: str) -> tuple[str, ...]:
    from tpuprof.dtypes import hlo_dtype

    return () if text.strip().lower() == "none" else tuple(hlo_dtype(part) for part in text.split(","))


ARRAY = _Type("array", _array)
AMOUNT = _Type("amount", _amount)
"""A number of parameters or tokens, which may be written as 70B or 15T."""
DTYPES = _Type("types", _typed)
"""Element types with commas between them, or none."""
MESH = _Type("mesh", _mesh)
COUNTS = _Type("counts", _counts)
AXES = _Type("axes", _names)
KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
IDS = _Type("ids", _ids)
REAL = _Type("number", _real)
"""A number that may be infinite."""


HOP_LATENCY = click.option(
    "--hop-latency", type=quantity("s"), default=0.0, help="Latency of a hop, such as 1us. Default: none."
)


def calculator(name: str) -> Callable[[Callable[..., Answers]], click.Command]:
    """Makes a subcommand of a function that returns an answer, or several by name with the usual one first."""

    def decorate(function: Callable[..., Answers]) -> click.Command:
        @functools.wraps(function)
        def shown(output: Output, ask: str | None, **values: Any) -> None:
            for option, value in values.items():
                if isinstance(value, float) and math.isnan(value):
                    raise UsageError("nan is no number.", where=f"--{option.replace('_', '-')}")
            try:
                _show(function(**values), name, ask, output)
            except ArithmeticError as error:
                raise UsageError(
                    "A number is too large or too small to calculate with.", why=f"{type(error).__name__}: {error}"
                ) from error

        asked = click.option(
            "--ask", metavar="NAME", help="Which answer to derive, of those listed under `also`. Default: the first."
        )
        return click.command(name)(asked(output_options(CALC_FORMATS)(shown)))

    return decorate


def array_options(function: Callable[..., Answers]) -> Callable[..., Answers]:
    """``--array`` or ``--bytes``, as ``array`` and ``size``."""
    given = click.option("--array", type=ARRAY, help="The whole array, such as bf16[1024_X,16384]; or give --bytes.")
    size = click.option("--bytes", "size", type=quantity("B"), help="Its bytes, such as 34MB.")
    return given(size(function))


def bytes_of(array: Array | None, size: float | None) -> float:
    """The bytes of either of the two.

    Raises:
        UsageError: none or both are given, or the array has no element type.
    """
    if (array is None) == (size is None):
        raise UsageError("The bytes are given " + ("twice." if size is not None else "nowhere."),
                         hint="Give either --array or --bytes.")  # fmt: skip
    return size if size is not None else array.bytes()  # pyright: ignore[reportOptionalMemberAccess]


def rates_over(default: str) -> Callable[[Callable[..., Answers]], Callable[..., Answers]]:
    """Options that say what the hardware can do, as ``rates`` and ``link``.

    Args:
        default: the link that ``--bandwidth`` is about, if ``--link`` does not say.
    """

    def decorate(function: Callable[..., Answers]) -> Callable[..., Answers]:
        @functools.wraps(function)
        def collected(
            chip: str | None, edition: str | None, hardware_files: tuple[str, ...], per: str, peak: float | None,
            bandwidth: float | None, link: str, **values: Any,
        ) -> Answers:  # fmt: skip
            rates = _rates(chip, edition, hardware_files, per)
            if peak is not None:
                rates = rates.with_peak(peak)
            if bandwidth is not None:
                rates = rates.with_link(link, bandwidth)
            return function(rates=rates, link=link, **values)

        decorated: Callable[..., Answers] = collected
        for option in reversed(_rate_options(default)):
            decorated = option(decorated)
        return decorated

    return decorate


rate_options = rates_over("hbm")
"""The same for work on the device's own memory."""


def _rate_options(default: str) -> list[Callable[[Callable[..., Answers]], Callable[..., Answers]]]:
    return [
        click.option("--chip", help="Name of the chip, such as v5e, tpu7x or H100."),
        hardware_options,
        click.option(
            "--per",
            type=click.Choice(["chip", "device"]),
            default="chip",
            show_default=True,
            help="Whether rates are those of a chip or of one JAX device of it.",
        ),
        click.option("--peak", type=quantity("FLOP/s"), help="Peak rate, such as 197T; replaces that of the chip."),
        click.option("--bandwidth", type=quantity("B/s"), help="Bandwidth, such as 820GB/s; replaces the chip's."),
        click.option(
            "--link",
            type=click.Choice(["hbm", "vmem", "ici", "dcn", "pcie", "scale-up", "scale-out"]),
            default=default,
            show_default=True,
            help="What carries the bytes.",
        ),
    ]


def _rates(chip: str | None, edition: str | None, files: tuple[str, ...], per: str) -> Rates:
    """The rates of a chip, or of one runtime device of it; none without a chip."""
    from tpuprof.perfmodel.rates import Rates, rates_of, rates_of_whole

    if chip is None:
        if edition is not None or files or per != "chip":
            raise UsageError(
                "--edition, --hardware and --per are about a chip, and there is none.", hint="Give --chip too."
            )
        return Rates()
    from tpuprof.hardware import chip as find

    found = find(chip, edition=edition, files=files)
    return rates_of(found) if per == "device" else rates_of_whole(found)


def _show(found: Answers, name: str, ask: str | None, output: Output) -> None:
    from tpuprof.perfmodel.derivation import Derivation
    from tpuprof.report.derivations import derivation_document, derivation_markdown, derivation_text

    answers = {name: found} if isinstance(found, Derivation) else dict(found)
    chosen = next(iter(answers)) if ask is None else ask
    if chosen not in answers:
        raise UsageError(
            f"There is no answer {chosen!r} to these inputs.",
            where=f"tpuprof calc {name}",
            hint=f"Ask for one of {', '.join(answers)}; some need further inputs.",
        )
    answer = answers.pop(chosen)
    if output.form == "json":
        from tpuprof.report.plain import to_json

        output.write(to_json(derivation_document(answer, f"calc {name}", chosen, answers)))
    elif output.form == "md":
        output.write(derivation_markdown(answer, chosen, answers))
    else:
        output.write(derivation_text(answer, chosen, answers))
