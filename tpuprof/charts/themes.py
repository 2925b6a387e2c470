"""Charts in light or dark colours: specs are made in light ones, and every colour of the palette has a dark twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from tpuprof.palette import CHROME, LOOKS

if TYPE_CHECKING:
    import altair as alt

Theme = Literal["light", "dark", "page"]
THEMES: tuple[Theme, ...] = ("light", "dark", "page")
"""``page`` is for SVG inside of a page that has a class for each colour, as the HTML report does."""

DARK = {look.light: look.dark for look in LOOKS.values()} | dict(CHROME.values())
"""The dark twin of each light colour."""
VARIABLES = {look.light: part for part, look in LOOKS.items()} | {light: name for name, (light, _) in CHROME.items()}
"""The name of each light colour: a part of a step, or what surrounds the data."""

_DATA = ("data", "datasets")


def themed(chart: alt.LayerChart, theme: Theme = "light") -> dict[str, Any]:
    """The chart as a Vega-Lite spec in the colours of a theme; data are left as they are."""
    spec = chart.to_dict()
    return _darkened(spec) if theme == "dark" else spec


def _darkened(value: Any) -> Any:
    if isinstance(value, str):
        return DARK.get(value, value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: item if key in _DATA else _darkened(item) for key, item in items}
    if isinstance(value, list):
        return [_darkened(item) for item in cast("list[Any]", value)]
    return value
