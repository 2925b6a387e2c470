"""A training plan for people: a short page for terminals, a full one for design documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tpuprof.charts.plan_looks import COLLECTIVES, TIMES
from tpuprof.perfmodel.derivation import Derivation
from tpuprof.report.calibration import profile_sentence
from tpuprof.report.listing import Field, Listing, show_count, show_text
from tpuprof.report.page import Page, Section
from tpuprof.report.plan_figures import map_figure, memory_figure, scaling_figure, steps_figure
from tpuprof.report.plan_words import (
    derivation_section,
    facts_listing,
    parts_listing,
    plan_page,
    show_alike,
    show_days,
    show_money,
    show_rate,
    show_seconds,
    show_share,
    show_size,
    show_tokens,
)
from tpuprof.text import plural
from tpuprof.units import format_bytes, format_percent, format_si

_COMMAND = "tpuprof plan train"
_WHYS = 5
_REASONS = 10
_MAP_COLUMNS = 14
_HELP = {
    "memory": "Take more chips, or keep less: --weights bf16, --gradients bf16, --moments bf16,bf16, "
    "--offload-optimizer, a shorter --seq, --remat full, or a larger accumulation in --mesh.",
    "batch": "Give more --batch-tokens, a shorter --seq, or fewer chips.",
    "layers": "Stages of a pipeline need layers that they divide; leave pipeline out of --mesh.",
    "heads": "Choose a tensor degree that divides the heads.",
    "devices": "The axes of --mesh have to multiply to the devices of the slice.",
}
_MEMORY = ("weights", "gradients", "optimizer", "activations", "gathered", "workspace")
_NOTE_MEMORY = (
    "Gathered: weights that are whole for a while. Workspace: what a layer's backward pass or the logits need beside. "
    "Fragmentation and the program itself come on top."
)


def train_brief(document: dict[str, Any]) -> Page:
    """What fits a screen: the ranking, why others lose, where the first step goes, what is not possible."""
    found = [_brief_ranking(document), _step(document)] if document["candidates"] else []
    sections = [*found, _brief_impossible(document)]
    if found:
        profile = document["profile"]
        basis = (
            f"Efficiencies: {profile['name']}, {profile['source']}; computation is known to "
            f"+-{format_percent(profile['spread'], 0)}.",
            *filter(None, (_stored(profile),)),
            "--explain 1 derives every number; -o plan.html or plan.md makes a document with all assumptions.",
        )
        sections.append(Section("Basis", basis))
    return _page(document, sections)


def train_page(document: dict[str, Any], derived: Mapping[str, Derivation] | None = None, rank: int = 1) -> Page:
    """The whole plan: the question, candidates, memory, why losers lose, mesh shapes, assumptions.

    Args:
        derived: the derivations of a candidate, for the end of the page.
        rank: whose they are.
    """
    sections = [_question(document)]
    if document["candidates"]:
        sections += [_full_ranking(document), _losers(document), _step(document), _memory(document)]
        sections.append(_map(document))
    sections += [_impossible(document), _assumptions(document)]
    if derived:
        sections.append(derivation_section(f"Derivation of candidate {rank}", derived))
    return _page(document, sections)


def scaling_page(document: dict[str, Any]) -> Page:
    """The strong-scaling curve."""
    points = document["points"]
    known = [row for row in points if row["tokens_per_s"] is not None]
    name = document["model"]["name"]
    if not known:
        return plan_page(f"{_COMMAND} --scaling", name, "no plan", "error", "The job fits none of the sizes.",
                    (Section("Sizes", listing=_sizes(points)),))  # fmt: skip
    knee = next((row for row in known if row["bound_by"] == "communication"), None)
    last = known[-1]
    lead = (
        f"From {known[0]['chips']:,} to {plural(last['chips'], 'chip')} throughput grows "
        f"{last['tokens_per_s'] / known[0]['tokens_per_s']:.3g} times, {format_percent(last['scaling_efficiency'], 0)} "
        "of what the chips add; "
    )
    lead += (
        f"from {knee['chips']:,} chips on a step is bound by communication."
        if knee
        else "no step is bound by communication."
    )
    figures = partial(scaling_figure, document)
    tokens = document["job"]["tokens"]
    title = f"{name}, {plural(tokens, 'token')} per step on more and more chips"
    return plan_page(f"{_COMMAND} --scaling", title, "curve", "info", lead,
                (Section("Sizes", listing=_sizes(points), figures=figures),))  # fmt: skip


def _page(document: dict[str, Any], sections: list[Section]) -> Page:
    job, where = document["job"], document["hardware"]
    chips = plural(where["chips"], "chip")
    title = f"{document['model']['name']} on {where['slice']} ({chips}), {plural(job['tokens'], 'token')} per step"
    if not document["candidates"]:
        return plan_page(_COMMAND, title, "no plan", "error", _why_not(document), sections)
    return plan_page(_COMMAND, title, "plan", "good", _lead(document), sections)


def _why_not(document: dict[str, Any]) -> str:
    """Of all reasons, that of the layouts that lack the least, and what would help."""
    reasons = document["rejected"]
    if not reasons:
        return "No layout is possible."
    nearest = min(reasons, key=lambda row: ("memory" not in row["kinds"], len(row["kinds"]), -row["more"]))
    help_ = [_HELP[kind] for kind in nearest["kinds"] if kind in _HELP]
    return " ".join([f"No layout is possible: {nearest['why'].rstrip('.')}.", *help_[:1]])


def _lead(document: dict[str, Any]) -> str:
    first = document["candidates"][0]
    held, usable = first["memory_bytes"]["total"], first["usable_bytes"]
    memory = format_bytes(held, 3) if usable is None else f"{format_bytes(held, 3)} of {format_bytes(usable, 3)}"
    lead = (
        f"{first['layout']}, remat {first['remat']}: a step takes {show_seconds(first['step_time_s'])} "
        f"({show_seconds(first['low_s'])} to {show_seconds(first['high_s'])}), MFU {show_share(first['mfu'])}, "
        f"{memory} per device"
    )
    budget = document["job"]["token_budget"]
    if budget is not None:
        cost = "" if first["cost_usd"] is None else f" and {show_money(first['cost_usd'])}"
        lead += f"; {show_tokens(budget)} take {show_days(first['days'])} days{cost}"
    return f"{lead}."


def _question(document: dict[str, Any]) -> Section:
    model, where, job = document["model"], document["hardware"], document["job"]
    active = "" if model["active_params"] == model["params"] else f" ({model['active_params'] / 1e9:,.4g} B per token)"
    facts = [
        ("model", f"{model['name']}: {model['params'] / 1e9:,.4g} B parameters{active}, {model['layers']:,} layers, "
                  f"width {model['width']:,}"),
        ("source of the model", model["source"]),
        ("hardware", f"{where['slice']}: {plural(where['chips'], 'chip')}, {plural(where['devices'], 'device')}, "
                     f"figures of {where['chip']}: {where['edition']}"),
        ("", where["note"] or ""),
        ("one step", f"{plural(job['sequences'], 'sequence')} of {plural(job['sequence'], 'token')}: "
                     f"{plural(job['tokens'], 'token')}, {format_si(model['flops_per_step'], 'FLOP')}"),
        ("types", f"matmuls in {job['dtype']}; {job['state']}"
                  + (", optimizer state in the host's memory" if job["optimizer_on_host"] else "")),
        ("training", "" if job["token_budget"] is None else show_tokens(job["token_budget"])),
        ("search", f"{document['tried']:,} layouts and policies, {document['fitting']:,} layouts fit"),
    ]  # fmt: skip
    return Section("The question", listing=facts_listing("The question", facts))


def _brief_ranking(document: dict[str, Any]) -> Section:
    """With the reasons of the first few, and layouts that are never cut."""
    rows, note = document["candidates"], document["hardware"]["note"]
    notes = [f"{row['rank']}: {row['why']}" for row in rows[:_WHYS]] + ([note] if note else [])
    listing = _ranking(document, Field("layout", "layout"))
    return Section(listing.title, listing=replace(listing, notes=tuple(notes)))


def _full_ranking(document: dict[str, Any]) -> Section:
    listing = _ranking(document, Field("layout", "layout", role="name"))
    return Section(listing.title, listing=listing, figures=partial(steps_figure, document))


def _ranking(document: dict[str, Any], layout: Field) -> Listing:
    budget = document["job"]["token_budget"] is not None
    fields = [
        Field("rank", "#", show_count, right=True), layout,
        Field("step_time_s", "step", show_seconds, right=True), Field("mfu", "MFU", show_share, right=True),
        Field("memory_bytes.total", "memory", show_size, right=True, rank=1),
        Field("exposed_fraction", "exposed", show_share, right=True, rank=3),
        Field("remat", "remat", rank=4),
        Field("tokens_per_s_per_chip", "tok/s/chip", show_rate, right=True, rank=5),
        *([Field("days", "days", show_days, right=True, rank=2)] if budget else []),
        Field("cost_usd", "cost" if budget else "$/step", show_money, right=True, rank=6),
    ]  # fmt: skip
    return Listing("Layouts by step time", "layout", tuple(fields), document["candidates"], document["fitting"])


def _losers(document: dict[str, Any]) -> Section:
    rows = document["candidates"]
    fields = (Field("rank", "#", show_count, right=True), Field("layout", "layout", role="name"), Field("why", "why"))
    title = "Why the first wins and the others lose"
    return Section(title, listing=Listing(title, "layout", fields, rows, len(rows)))


def _step(document: dict[str, Any]) -> Section:
    first = document["candidates"][0]
    parts = {name: value for name, value in first["parts_s"].items() if name not in ("communication", "network")}
    words = {name: label for name, (label, _) in TIMES.items()}
    words |= {f"exposed {name}": COLLECTIVES.get(name, str(name)) for name in first["exposed"]}
    hidden = {f"exposed {name}": value for name, value in first["hidden"].items()}
    exposed = {f"exposed {name}": value for name, value in first["exposed"].items()}
    seconds = {**parts, **dict(sorted(exposed.items(), key=lambda item: -item[1]))}
    waits = show_share(first["exposed_fraction"])
    title = f"Where the step of candidate 1 goes: bound by {first['bound_by']}, {waits} exposed communication"
    critical = first["batch_over_critical"]
    listing = parts_listing(title, seconds, words, hidden)
    said = () if critical is None else (_critical(first, document["job"]["tokens"]),)
    return Section(title, listing=replace(listing, notes=said))


def _critical(first: dict[str, Any], tokens: int) -> str:
    batch = first["critical_batch_tokens"]
    side = "above" if tokens > batch else "below"
    return (
        f"Collectives of weights take as long as computation at {show_tokens(batch)} per step; this batch is {side} "
        "that."
    )


def _memory(document: dict[str, Any]) -> Section:
    rows = document["candidates"]
    held = [name for name in _MEMORY if any(row["memory_bytes"].get(name) for row in rows)]
    fields = [Field("rank", "#", show_count, right=True), Field("layout", "layout", role="name")]
    fields += [Field(f"memory_bytes.{name}", name, _held, right=True) for name in held]
    fields += [
        Field("memory_bytes.total", "total", show_size, right=True),
        Field("usable_bytes", "usable", show_size, right=True),
    ]
    if any(row["memory_bytes"].get("host") for row in rows):
        fields.append(Field("memory_bytes.host", "on the host", _held, right=True))
    title = "Memory of a device"
    listing = Listing(title, "layout", tuple(fields), rows, len(rows), (_NOTE_MEMORY,))
    return Section(title, listing=listing, figures=partial(memory_figure, document))


def _map(document: dict[str, Any]) -> Section:
    """The map as a table: a row per degree of tensor parallelism, a column per number of devices of the batch."""
    cells = document["mesh_map"]
    fastest: dict[int, float] = {}
    for cell in cells:
        if cell["step_time_s"] is not None:
            column = cell["batch_devices"]
            fastest[column] = min(fastest.get(column, cell["step_time_s"]), cell["step_time_s"])
    columns = sorted(sorted(fastest, key=lambda column: fastest[column])[:_MAP_COLUMNS])
    rows: dict[int, dict[str, Any]] = {}
    for cell in cells:
        shown = f"{show_share(cell['exposed_fraction'])}" if cell["layout"] else (cell["kinds"] or ["no"])[0]
        rows.setdefault(cell["tensor"], {"tensor": cell["tensor"]})[f"c{cell['batch_devices']}"] = shown
    title = "Exposed communication by mesh shape"
    fields = (
        Field("tensor", "tensor \\ data x fsdp", show_count, right=True),
        *(Field(f"c{column}", f"{column:,}", _cell, right=True) for column in columns),
    )
    notes = (
        "Share of the step of the best layout of each shape; a word is why none is possible. What a shape leaves of "
        "the slice is context and pipeline parallelism.",
    )
    kept = [row for row in rows.values() if len(row) > 1]
    return Section(title, listing=Listing(title, "degree", fields, kept, len(rows), notes),
                   picture=partial(map_figure, document))  # fmt: skip


def _brief_impossible(document: dict[str, Any]) -> Section:
    """Reasons first, with how many layouts each is that of; an example of one where there is room."""
    listing = _impossible(document).listing
    rows = [] if listing is None else [{**row, "layouts": row["more"] + 1} for row in listing.rows]
    fields = (
        Field("layouts", "layouts", show_count, right=True), Field("why", "why"),
        Field("layout", "such as", rank=1),
    )  # fmt: skip
    title = "Not possible"
    return Section(title, listing=Listing(title, "reason", fields, rows, len(document["rejected"])))


def _impossible(document: dict[str, Any]) -> Section:
    rows = document["rejected"]
    fields = (
        Field("layout", "such as", role="name"), Field("why", "why"),
        Field("more", "more like it", show_alike, right=True),
    )  # fmt: skip
    title = "Not possible"
    return Section(title, listing=Listing(title, "reason", fields, rows[:_REASONS], len(rows)))


def _assumptions(document: dict[str, Any]) -> Section:
    profile = document["profile"]
    shares = profile["overlap"]
    facts = [
        ("profile", f"{profile['name']}: {profile['source']}"),
        ("named profile", _stored(profile)),
        ("reached of the hardware", f"matmuls {format_percent(profile['matmul'], 0)} of the peak, attention "
                                    f"{format_percent(profile['attention'], 0)}, memory "
                                    f"{format_percent(profile['memory'], 0)} of its bandwidth"),
        ("hidden behind computation", f"collectives of weights {format_percent(shares['weights'], 0)}, of activations "
                                      f"{format_percent(shares['activations'], 0)}, between slices "
                                      f"{format_percent(shares['network'], 0)}, and never more than there is"),
        ("interval", f"computation {format_percent(profile['spread'], 0)} faster with half of the exposed "
                     "communication hidden, or as much slower with a quarter of the hidden exposed"),
        *(tuple(sentence.split(": ", 1)) for sentence in document["assumptions"]),
    ]  # fmt: skip
    return Section("What is assumed", listing=facts_listing("What is assumed", facts))


def _stored(profile: dict[str, Any]) -> str:
    """A named profile in one line; empty if the built-in one was used."""
    stored = profile.get("stored")
    return "" if stored is None else profile_sentence(stored)


def _sizes(points: list[dict[str, Any]]) -> Listing:
    fields = (
        Field("chips", "chips", show_count, right=True), Field("slice", "slice", role="name", rank=2),
        Field("step_time_s", "step", show_seconds, right=True),
        Field("tokens_per_s", "tokens/s", show_rate, right=True),
        Field("scaling_efficiency", "efficiency", show_share, right=True),
        Field("mfu", "MFU", show_share, right=True, rank=4),
        Field("exposed_fraction", "exposed", show_share, right=True),
        Field("bound_by", "bound by", show_text, rank=3),
        Field("layout", "best layout", show_text, role="name", rank=1),
    )  # fmt: skip
    without = [f"{row['chips']:,} chips: {row['reason']}" for row in points if row["reason"]]
    notes = (
        "Efficiency: throughput per chip over that of the smallest slice that is possible. "
        "Exposed: communication that the step waits for.",
        *without,
    )
    return Listing("Sizes", "size", fields, points, len(points), notes)


def _held(value: float | None) -> str:
    return show_size(value) if value else "-"


def _cell(value: object) -> str:
    return "" if value is None else str(value)
