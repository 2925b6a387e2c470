"""A serving plan for people: a short page for terminals, a full one for design documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tpuprof.charts.plan_looks import TIMES
from tpuprof.perfmodel.derivation import Derivation
from tpuprof.report.listing import Field, Listing, show_count
from tpuprof.report.page import Page, Section
from tpuprof.report.plan_figures import load_figure, memory_figure, pareto_figure, steps_figure
from tpuprof.report.plan_words import (
    derivation_section,
    facts_listing,
    parts_listing,
    plan_page,
    show_money,
    show_rate,
    show_seconds,
    show_share,
    show_size,
)
from tpuprof.text import plural
from tpuprof.units import format_percent

_COMMAND = "tpuprof plan serve"
_WHYS = 5
_REJECTED, _FEW_REJECTED = 30, 5
_WHERE = (Field("slice", "slice"), Field("split", "split"))
_RANK = Field("rank", "#", show_count, right=True)


def serve_brief(document: dict[str, Any], top: int = 10) -> Page:
    """What fits a screen.

    Args:
        top: candidates of the ranking.
    """
    ranking = _ranking(document, top)
    whys = tuple(f"{row['rank']}: {row['why']}" for row in document["candidates"][: min(_WHYS, top)])
    note = (
        "TTFT: of an empty server. TPOT: of a full one. --explain derives each number; -o plan.html makes a document."
    )
    listings = [
        replace(ranking, notes=(note, *whys)), _front(document), _loaded(document), *_curve(document), _apart(document)
    ]  # fmt: skip
    sections = [Section(listing.title, listing=listing) for listing in listings]
    return _page(document, [*sections, *_brief_rejected(document)])


def serve_page(
    document: dict[str, Any], top: int = 10, derived: Mapping[str, Derivation] | None = None, rank: int = 1
) -> Page:
    """The whole plan: the question, candidates, the trade-off, load, memory, why losers lose, assumptions.

    Args:
        top: candidates of the tables.
        derived: the derivations of a candidate, for the end of the page.
        rank: whose they are.
    """
    ranking, front = _ranking(document, top), _front(document)
    sections = [
        _question(document),
        Section(ranking.title, listing=ranking, figures=partial(steps_figure, document)),
        _losers(document, top),
        Section(front.title, listing=front, figures=partial(pareto_figure, document)),
        _step(document),
        _memory(document, top),
    ]
    loaded = _loaded(document)
    sections.append(Section(loaded.title, listing=loaded))
    sections += [
        Section(one.title, listing=one, figures=partial(load_figure, document)) for one in _curve(document)
    ]  # fmt: skip
    apart = _apart(document)
    sections.append(Section(apart.title, listing=apart))
    sections += _rejected(document)
    sections.append(_assumptions(document))
    if derived:
        sections.append(derivation_section(f"Derivation of candidate {rank}", derived))
    return _page(document, sections)


def _page(document: dict[str, Any], sections: list[Section]) -> Page:
    work = document["workload"]
    title = (
        f"{document['model']['name']} on {document['hardware']['chip']}, {plural(work['prompt_tokens'], 'token')} in, "
        f"{work['generated_tokens']:,} out"
    )
    first = document["candidates"][0]
    limits = _limits(work)
    lead = f"{_named(first)}." if first["meets_sla"] else f"Nothing meets the limits; the nearest is {_named(first)}."
    small = document["smallest_slice"]
    if small is not None:
        does = "meets the limits" if limits else "holds the model"
        lead += f" The smallest slice that {does}: {small['slice']}, {plural(small['chips'], 'chip')}."
    severity = "good" if first["meets_sla"] else "warning"
    return plan_page(_COMMAND, title, "plan" if first["meets_sla"] else "misses", severity, lead, sections)


def _named(first: dict[str, Any]) -> str:
    cost = first["cost_usd_per_mtoken"]
    paid = "" if cost is None else f", {show_money(cost)} per million tokens"
    tpot = "" if first["tpot_s"] is None else f", TPOT {show_seconds(first['tpot_s'])}"
    return (
        f"{first['slice']} as {first['split']} with {plural(first['batch'], 'sequence')} at a time: TTFT "
        f"{show_seconds(first['ttft_s'])}{tpot}, {show_rate(first['tokens_per_s_per_chip'])} tokens/s per chip{paid}"
    )


def _limits(work: dict[str, Any]) -> str:
    named = (("TTFT", work["sla_ttft_s"]), ("TPOT", work["sla_tpot_s"]))
    return ", ".join(f"{name} {show_seconds(value)}" for name, value in named if value is not None)


def _question(document: dict[str, Any]) -> Section:
    model, where, work = document["model"], document["hardware"], document["workload"]
    price = where["price_usd_per_chip_hour"]
    active = "" if model["active_params"] == model["params"] else f" ({model['active_params'] / 1e9:,.4g} B per token)"
    rate = work["rate_requests_per_s"]
    facts = [
        ("model", f"{model['name']}: {model['params'] / 1e9:,.4g} B parameters{active}, "
                  f"{plural(model['layers'], 'layer')}"),
        ("source of the model", model["source"]),
        ("types", f"weights {model['weights']}, cache {model['cache']}, activations {model['activations']}"),
        ("hardware", f"{', '.join(where['slices'])}; figures of {where['chip']}: {where['edition']}"),
        ("price", "" if price is None else f"{show_money(price)} per chip and hour"),
        ("requests", f"{plural(work['prompt_tokens'], 'token')} in, {work['generated_tokens']:,} out; at most "
                     f"{plural(work['token_budget'], 'token')} in a step"),
        ("limits", _limits(work) or "none"),
        ("simulated arrivals", f"random, {format_percent(work['load'], 0)} of what a server can do"
                               if rate is None else f"random, {show_rate(rate)} requests per second and server"),
    ]  # fmt: skip
    return Section("The question", listing=facts_listing("The question", facts))


def _ranking(document: dict[str, Any], top: int) -> Listing:
    fields = [
        _RANK, *_WHERE, Field("batch", "batch", show_count, right=True),
        Field("max_batch", "fits", show_count, right=True, rank=6),
        Field("ttft_s", "TTFT", show_seconds, right=True), Field("tpot_s", "TPOT", show_seconds, right=True),
        Field("tokens_per_s_per_chip", "tok/s/chip", show_rate, right=True),
        Field("cost_usd_per_mtoken", "$/Mtok", show_money, right=True, rank=1),
        Field("memory_bytes.total", "memory", show_size, right=True, rank=4), Field("bound_by", "bound by", rank=2),
    ]  # fmt: skip
    if _limits(document["workload"]):
        fields.append(Field("meets_sla", "limits", _yes, rank=3))
    rows = document["candidates"]
    return Listing("Splits, each at its best batch", "candidate", tuple(fields), rows[:top], len(rows))


def _losers(document: dict[str, Any], top: int) -> Section:
    rows = document["candidates"][:top]
    title = "Why the first wins and the others lose"
    return Section(title, listing=Listing(title, "candidate", (_RANK, *_WHERE, Field("why", "why")), rows, len(rows)))


def _front(document: dict[str, Any]) -> Listing:
    fields = (
        *_WHERE, Field("batch", "batch", show_count, right=True), Field("tpot_s", "TPOT", show_seconds, right=True),
        Field("ttft_s", "TTFT", show_seconds, right=True),
        Field("tokens_per_s_per_chip", "tok/s/chip", show_rate, right=True),
        Field("cost_usd_per_mtoken", "$/Mtok", show_money, right=True, rank=1),
    )  # fmt: skip
    rows = document["pareto"]
    title = "Latency against throughput: points that no other point beats in both"
    return Listing(title, "point", fields, rows, len(rows))


def _step(document: dict[str, Any]) -> Section:
    first = document["candidates"][0]
    words = {name: label for name, (label, _) in TIMES.items()}
    title = f"Where the average step of candidate 1 goes: bound by {first['bound_by']}"
    listing = parts_listing(title, first["average_parts_s"], words, {})
    bound = (
        f"A step of decode alone takes {show_seconds(first['decode_step_s'])}; no server on this hardware takes less "
        f"than {show_seconds(first['decode_step_bound_s'])}. {show_share(first['mixed_step_share'])} of the steps "
        "carry a piece of a prompt."
    )
    return Section(title, listing=replace(listing, notes=(bound,)))


def _memory(document: dict[str, Any], top: int) -> Section:
    rows = document["candidates"][:top]
    held = (("weights", "weights"), ("cache", "cache"), ("work", "work"), ("total", "total"), ("capacity", "capacity"))
    fields = (_RANK, *_WHERE, *(Field(f"memory_bytes.{key}", name, show_size, right=True) for key, name in held),
              Field("max_batch", "sequences that fit", show_count, right=True))  # fmt: skip
    title = "Memory of the fullest device"
    note = (
        "Capacity: the share that may be filled of what the runtime leaves to programs. Work: activations and logits."
    )
    return Section(title, listing=Listing(title, "candidate", fields, rows, len(rows), (note,)),
                   figures=partial(memory_figure, document))  # fmt: skip


def _loaded(document: dict[str, Any]) -> Listing:
    rows = [row for row in document["candidates"] if row["loaded"] is not None]
    fields = (_RANK, *_WHERE, *(_prefixed(field) for field in _load_fields(document)))
    notes = ("Simulated arrivals, random and seeded. Load: arrivals as a share of what the server can do.",)
    return Listing("Under load", "candidate", fields, rows, len(rows), notes)


def _curve(document: dict[str, Any]) -> list[Listing]:
    rows = document["load_curve"]
    if not rows:
        return []
    title = "Candidate 1 under more and more load"
    return [Listing(title, "load", _load_fields(document), rows, len(rows))]


def _load_fields(document: dict[str, Any]) -> tuple[Field, ...]:
    limits = (Field("meets_sla", "limits", _yes, rank=3),) if _limits(document["workload"]) else ()
    return (
        Field("load", "load", partial(format_percent, digits=0), right=True, rank=2),
        Field("requests_per_s", "requests/s", show_rate, right=True),
        Field("ttft_p50_s", "TTFT p50", show_seconds, right=True), Field("ttft_p90_s", "p90", show_seconds, right=True),
        Field("ttft_p99_s", "p99", show_seconds, right=True, rank=4),
        Field("tpot_p50_s", "TPOT p50", show_seconds, right=True),
        Field("cost_usd_per_mtoken", "$/Mtok", show_money, right=True, rank=1), *limits,
    )  # fmt: skip


def _prefixed(field: Field) -> Field:
    return replace(field, key=f"loaded.{field.key}")


def _apart(document: dict[str, Any]) -> Listing:
    rows = document["candidates"][:1]
    fields = (
        _RANK, *_WHERE,
        Field("disaggregated.prefill_servers_per_decode_server", "prefill servers", show_rate, right=True),
        Field("disaggregated.ttft_s", "TTFT", show_seconds, right=True),
        Field("disaggregated.cache_transfer_s", "of it transfer", show_seconds, right=True, rank=1),
        Field("disaggregated.tpot_s", "TPOT", show_seconds, right=True),
        Field("disaggregated.tokens_per_s_per_chip", "tok/s/chip", show_rate, right=True),
    )  # fmt: skip
    title = "With servers of their own for prompts, per decoding server"
    return Listing(title, "candidate", fields, rows, len(rows))


def _brief_rejected(document: dict[str, Any]) -> list[Section]:
    """Reasons as sentences, which a narrow screen cuts nothing of; the same one once."""
    reasons: dict[str, list[dict[str, Any]]] = {}
    for row in document["rejected"]:
        reasons.setdefault(f"{row['slice']}: {row['why']}", []).append(row)
    said = [f"{why} ({plural(len(rows), 'split')})" for why, rows in list(reasons.items())[:_FEW_REJECTED]]
    more = len(reasons) - len(said)
    said += [f"{plural(more, 'further reason')} in -o plan.html or --json"] if more else []
    return [Section("Not possible", tuple(said))] if said else []


def _rejected(document: dict[str, Any]) -> list[Section]:
    rows = document["rejected"]
    fields = (*_WHERE, Field("batch", "batch", _batch, right=True), Field("why", "why"))
    title = "Not possible"
    return [Section(title, listing=Listing(title, "split", fields, rows[:_REJECTED], len(rows)))] if rows else []


def _assumptions(document: dict[str, Any]) -> Section:
    assumed = document["assumptions"]
    facts = [
        ("memory bandwidth", f"{format_percent(assumed['memory_efficiency'], 0)} of it is reached"),
        ("peak rate", f"{format_percent(assumed['compute_efficiency'], 0)} of it is reached after padding"),
        ("overhead of a step", show_seconds(assumed["step_overhead_s"])),
        ("memory", f"{format_percent(assumed['memory_fraction'], 0)} of what the runtime leaves may be filled"),
        ("collectives", f"{assumed['collectives']}; {format_percent(assumed['overlap'], 0)} of them may hide behind "
                        "matmuls"),
        ("engine", _engine(assumed.get("engine"))),
        ("requests", "of equal length, served first come first served and never evicted"),
        ("left out", "scales of quantised weights, prefix caches, speculative decoding, uneven use of experts"),
    ]  # fmt: skip
    return Section("What is assumed", listing=facts_listing("What is assumed", facts))


def _engine(engine: dict[str, Any] | None) -> str:
    """What is known of an engine's ways, where the plan goes by them."""
    if not engine:
        return ""
    shown = ", ".join(f"{name} {value:.4g}" for name, value in engine.items() if not isinstance(value, str))
    return f"{shown}; {engine['source']}" if engine.get("source") else shown


def _yes(value: bool) -> str:
    return "meets" if value else "misses"


def _batch(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"
