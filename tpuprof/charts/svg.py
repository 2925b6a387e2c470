"""A chart as SVG without a browser: only shapes and texts, the same bytes every time, nothing loaded from elsewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tpuprof.charts.drawing import need_charts
from tpuprof.charts.themes import VARIABLES, Theme, themed
from tpuprof.palette import CHROME
from tpuprof.text import clean

if TYPE_CHECKING:
    import altair as alt

_NAMESPACE = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset({"svg", "g", "path", "rect", "line", "text", "tspan"})
_ATTRIBUTES = frozenset(
    {
        "viewBox", "width", "height", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "fill", "stroke",
        "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity", "text-anchor", "font-size",
        "font-weight", "font-family",
    }
)  # fmt: skip
_DECIMALS = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def to_svg(chart: alt.LayerChart, theme: Theme = "light", label: str = "") -> str:
    """The chart as an SVG element.

    There are no ids in it, so that several can stand in one page, and no links, styles sheets, scripts or fonts.
    Marks that have a description carry it as ``<title>``, which browsers show on hover.

    Args:
        chart: as the functions of this package return it.
        theme: ``light`` and ``dark`` have a background; ``page`` takes font and colours from the page around it, which
            has rules for classes such as ``fill-matmul`` and ``stroke-line``.
        label: what the picture is, for those who cannot see it.

    Raises:
        MissingDependencyError: vl-convert-python is not installed.
    """
    need_charts()
    import vl_convert

    # An empty list of addresses: a spec could ask for data or pictures, and ours never do.
    drawn = vl_convert.vegalite_to_svg(_quiet(_without_controls(themed(chart, theme))), allowed_base_urls=[])
    source = ElementTree.fromstring(drawn)
    root = _kept(source, theme)
    if root is None:
        raise ValueError("vl-convert returned no svg element")
    root.set("role", "img")
    if label:
        root.set("aria-label", clean(label))
    if theme == "page":
        root.attrib.pop("width", None)
        root.attrib.pop("height", None)
        root.set("class", "chart")
    else:
        root.set("xmlns", _NAMESPACE[1:-1])
        color = CHROME["card"][theme == "dark"]
        root.insert(0, ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": color}))
    return ElementTree.tostring(root, encoding="unicode")


def _quiet(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec in which marks without a description have none: by default Vega lists their coordinates."""
    layers = [
        layer if "description" in layer.get("encoding", {}) else {**layer, "mark": {**layer["mark"], "aria": False}}
        for layer in spec["layer"]
    ]
    return {**spec, "layer": layers}


def _without_controls(value: Any) -> Any:
    """The spec without characters that XML forbids: one of them in a text makes vl-convert end the whole process."""
    if isinstance(value, str):
        return "\n".join(map(clean, value.split("\n")))
    if isinstance(value, Mapping):
        return {key: _without_controls(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without_controls(item) for item in cast("list[Any]", value)]
    return value


def _kept(source: ElementTree.Element, theme: Theme) -> ElementTree.Element | None:
    """The element with what is allowed of its attributes and children; null if there is nothing to see in it."""
    name = source.tag.removeprefix(_NAMESPACE)
    if name not in _ELEMENTS or source.get("display") == "none":
        return None
    made = ElementTree.Element(name)
    for key, value in source.attrib.items():
        if key in _ATTRIBUTES and not (key == "opacity" and value == "1"):
            made.set(key, _DECIMALS.sub(_rounded, value))
    if theme == "page":
        _take_colors_from_page(made)
    if name in ("text", "tspan"):
        made.text = source.text
    described = source.get("aria-label") if source.get("role") == "graphics-symbol" and name != "g" else None
    if described:
        ElementTree.SubElement(made, "title").text = described
    for child in source:
        kept = _kept(child, theme)
        if kept is not None and kept.tag == "g" and not kept.attrib:
            made.extend(kept)
        elif kept is not None:
            made.append(kept)
    return None if _is_empty(made) else made


def _is_empty(element: ElementTree.Element) -> bool:
    if element.tag == "g":
        return not len(element)
    path = element.get("d", "")
    # The frame of a legend without entries is as wide as the largest number is below zero.
    return element.tag == "path" and (path in ("", "M0,0h0v0h0Z") or "e+308" in path)


def _take_colors_from_page(element: ElementTree.Element) -> None:
    """Known colours become classes, so that no element needs a style of its own."""
    classes: list[str] = []
    for key in ("fill", "stroke"):
        name = VARIABLES.get(element.get(key, ""))
        if name is not None:
            del element.attrib[key]
            classes.append(f"{key}-{name}")
    if classes:
        element.set("class", " ".join(classes))
    element.attrib.pop("font-family", None)


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".") or "0"
