"""What all charts share: the result type, sizes, names made safe, and units of time axes."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.errors import MissingDependencyError
from tpuprof.palette import CHROME, LOOKS
from tpuprof.text import clean
from tpuprof.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    import altair as alt

INSTALL = 'pip install "tpuprof[charts]"'
WIDTH = 820
"""The width of a whole chart in px, margins included."""
INK, SOFT, LINE, CARD = (CHROME[name][0] for name in ("ink", "soft", "line", "card"))
FONT = 12
_CHARACTER = 6.6  # px: an upper mean for the font size above; text is never measured, so that fonts change nothing
_MOST = 1e30  # sums, products and ratios of a few such figures are finite
_SIZE_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))  # as format_bytes writes them
_TIME_UNITS = ((PS_PER_S, "s"), (PS_PER_MS, "ms"), (PS_PER_US, "us"), (PS_PER_NS, "ns"), (1, "ps"))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart with its caption.

    Args:
        chart: the spec, in light colours (see ``themed``); null where there is nothing to draw.
        caption: sentences for below the chart: what is shown of how much; without a chart, why there is none.
    """

    chart: alt.LayerChart | None
    caption: str


def charts_available() -> bool:
    """True if what charts need is installed; nothing is imported to find out."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert"))


def need_charts() -> None:
    """Nothing, if what charts need is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    if not charts_available():
        raise MissingDependencyError(
            "Charts need altair and vl-convert-python, which are not installed.", hint=f"Install them: {INSTALL}."
        )


def shortened(name: object, most: int) -> str:
    """A name from a trace for a label: on one line, without control characters, its middle left out if it is long."""
    text = clean(name)
    if len(text) <= most:
        return text
    head = (most - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def text_width(text: str) -> float:
    """About how wide a label is, in px."""
    return len(text) * _CHARACTER


def overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    """True if two boxes (left, top, right, bottom) have points in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def time_unit(largest_ps: float) -> tuple[int, str]:
    """What to divide times by, and the unit then, for an axis up to ``largest_ps``."""
    return next((unit for unit in _TIME_UNITS if largest_ps >= unit[0]), _TIME_UNITS[-1])


def size_unit(largest_bytes: float) -> tuple[int, str]:
    """What to divide sizes by, and the unit then, for an axis up to ``largest_bytes``."""
    return next((unit for unit in _SIZE_UNITS if largest_bytes >= unit[0]), _SIZE_UNITS[-1])


def number(value: Any) -> float | None:
    """The value as a float; null for all else, for what is not finite, and for what no quantity of a run reaches."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if abs(found) < _MOST else None  # NaN is not below it


def positive(row: Mapping[str, Any], key: str) -> float | None:
    """A figure of a row that is known and above zero; else null."""
    found = number(row.get(key))
    return found if found is not None and found > 1 / _MOST else None


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from ``low`` to ``high``, thinned out to nine at most."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / 9))
    return [float(f"1e{power}") for power in range(first, last + 1, step)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, and 2, 3 and 5 between them where there are few."""
    few = decades(low / 10, high)
    if len(few) > 3:
        return decades(low, high)
    return [tick for ten in few for tick in (ten, 2 * ten, 3 * ten, 5 * ten) if low <= tick <= high]


def part_scale(parts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Domain (labels) and range (light colours) of a colour scale for parts of a step, in the order of the palette."""
    present = set(parts)
    chosen = [part for part in LOOKS if part in present]
    return [LOOKS[part].label for part in chosen], [LOOKS[part].light for part in chosen]


def legend_columns(labels: Sequence[str], room: float) -> int:
    """How many columns of a legend fit into ``room`` px."""
    widest = max((text_width(label) for label in labels), default=0.0) + 28
    return max(1, min(len(labels), int(room / widest)))


def framed(layers: Sequence[alt.LayerChart | alt.Chart], height: int, left: int, right: int, top: int, bottom: int,
           name: str) -> alt.LayerChart:  # fmt: skip
    """The layers as one chart of :data:`WIDTH`, with fixed margins and quiet axes.

    Margins are stated, not found out from the sizes of texts, so that installed fonts change nothing.
    """
    import altair as alt

    made: Any = alt.layer(*layers)  # the types of configure_… are not fully known
    return (
        made
        .properties(
            name=name,
            width=WIDTH - left - right,
            height=height,
            padding={"left": left, "right": right, "top": top, "bottom": bottom},
            autosize="none",
            background="transparent",
        )
        .configure(font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=SOFT, titleColor=SOFT, labelFontSize=FONT, titleFontSize=FONT, titleFontWeight="normal",
            gridColor=LINE, domainColor=LINE, tickColor=LINE, labelLimit=0, titleLimit=0,
            labelBound=False, labelFlush=False,
        )
        .configure_legend(
            labelColor=INK, titleColor=SOFT, labelFontSize=FONT, titleFontSize=FONT, titleFontWeight="normal",
            orient="none", legendX=0, legendY=-top + 4, direction="horizontal", symbolStrokeWidth=0, labelLimit=0,
        )
    )  # fmt: skip
