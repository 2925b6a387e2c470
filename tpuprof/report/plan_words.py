"""What the pages of both kinds of plans share: how numbers are shown, tables of facts and of derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tpuprof.perfmodel.derivation import Derivation
from tpuprof.report.derivations import show_quantity
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.report.page import Page, Section, page_html, page_markdown, page_text
from tpuprof.report.render import render_result
from tpuprof.report.screen import Screen
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, UNKNOWN, format_bytes, format_percent, format_ps, format_si

_MILLION, _THOUSAND = 1e6, 1e3


def plan_page(
    command: str, title: str, verdict: str, severity: str, lead: str, sections: Sequence[Section]
) -> Page:  # fmt: skip
    """A page whose sentences are clean, as names in them come from files of models and of hardware."""
    return Page(command, clean(title), verdict, severity, clean(lead), tuple(map(_cleaned, sections)))


def show_seconds(value: float | None) -> str:
    """Seconds with the unit that suits."""
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


def show_money(value: float | None) -> str:
    """US dollars, to as many digits as an estimate has."""
    if value is None:
        return UNKNOWN
    if value >= _MILLION:
        return f"${value / _MILLION:,.3g} M" if value < _THOUSAND * _MILLION else f"${value / _MILLION:,.0f} M"
    return f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"


def show_days(value: float | None) -> str:
    """Days to a tenth, long times to a whole one."""
    return UNKNOWN if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def show_rate(value: float | None) -> str:
    """A rate to a whole number where that is precise enough, else to four digits."""
    return UNKNOWN if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def show_share(value: float | None) -> str:
    """A share of a step, to a tenth of a percent."""
    return format_percent(value, 1)


def show_size(value: float | None) -> str:
    """Bytes to three digits."""
    return format_bytes(value, 3)


def show_tokens(value: float | None) -> str:
    """Tokens to three digits, large numbers as people say them: ``15 T tokens``."""
    return f"{format_si(value, '', 3).strip()} tokens"


def facts_listing(title: str, facts: Sequence[tuple[str, str]], headings: tuple[str, str] = ("", "")) -> Listing:
    """Names and what they are, as a table of two columns."""
    rows = [{"what": what, "value": value} for what, value in facts if value]
    fields = (Field("what", headings[0]), Field("value", headings[1]))
    return Listing(title, "fact", fields, rows, len(rows))


def parts_listing(title: str, seconds: Mapping[str, float], words: Mapping[str, str], hidden: Mapping[str, float]
                  ) -> Listing:  # fmt: skip
    """Parts of a step, as they are in its sum; those of no time are left out.

    Args:
        words: what each part is.
        hidden: seconds of collectives that run behind computation, beside the sum.
    """
    total = sum(seconds.values())
    rows = [
        {"part": words.get(name, name.replace("_", " ")), "seconds": value, "share": value / total,
         "hidden": hidden.get(name)}
        for name, value in seconds.items() if value > 0 or hidden.get(name)
    ]  # fmt: skip
    fields = [
        Field("part", "part"), Field("seconds", "time", show_seconds, right=True),
        Field("share", "share", show_share, right=True),
    ]  # fmt: skip
    if any(hidden.values()):
        fields.append(Field("hidden", "hidden beside it", _blank_seconds, right=True, rank=1))
    return Listing(title, "part", tuple(fields), rows, len(rows))


def derivation_section(title: str, found: Mapping[str, Derivation]) -> Section:
    """Every number of a candidate with its formula, what went in, and what is assumed."""
    rows: list[dict[str, Any]] = []
    for name, answer in found.items():
        inputs = ", ".join(
            f"{symbol} = {show_quantity(one.value, one.unit)}" for symbol, one in answer.inputs.items()
        )  # fmt: skip
        value = show_quantity(answer.value, answer.unit)
        rows.append({"name": name, "value": value, "formula": answer.formula, "inputs": inputs or None})
        rows += [
            {"name": f"· {step.what}", "value": show_quantity(step.value, step.unit), "formula": step.formula,
             "inputs": None}
            for step in answer.steps
        ]  # fmt: skip
    fields = (
        Field("name", "number"), Field("value", "value", right=True), Field("formula", "formula"),
        Field("inputs", "with", _blank_text),
    )  # fmt: skip
    sources = dict.fromkeys(answer.source for answer in found.values() if answer.source)
    notes = (
        "A dot is a part of the number above it.",
        *(f"Sources: {'; '.join(sources)}." for _ in range(bool(sources))),
        *(f"Assumed: {sentence}" for sentence in dict.fromkeys(s for one in found.values() for s in one.assumptions)),
    )
    return Section(title, listing=Listing(title, "number", fields, rows, len(rows), notes))


def render_plan(result: Result, brief: Page, full: Page, form: str, screen: Screen | None = None) -> str:
    """A plan in one of ``PLAN_FORMATS``: the short page for terminals, the full one for documents.

    Listings of the result stand before the sections of either page.
    """
    before = tuple(_cleaned(Section(listing.title, listing=listing)) for listing in result.listings)
    brief, full = (replace(page, sections=(*before, *page.sections)) for page in (brief, full))
    if form == "html":
        return page_html(full)
    if form == "md":
        return page_markdown(full)
    if form == "table":
        return page_text(brief, screen or Screen())
    return render_result(result, form)


def show_alike(value: int | None) -> str:
    """How many further ones there are; nothing for none."""
    return show_count(value) if value else ""


def _blank_seconds(value: float | None) -> str:
    return show_seconds(value) if value else ""


def _blank_text(value: object) -> str:
    return "" if value is None else show_text(value)


def _cleaned(section: Section) -> Section:
    listing = section.listing
    if listing is not None:
        listing = replace(listing, notes=tuple(map(clean, listing.notes)))
    return replace(section, text=tuple(map(clean, section.text)), listing=listing)
