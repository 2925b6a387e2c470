"""The comparison of two runs in words: the sentence that says it all, and the sections below it."""

from __future__ import annotations

from functools import partial
from typing import Any

from tpuprof.report import bars
from tpuprof.report.diff_charts import delta_figure, steps_figures
from tpuprof.report.facts import Notice, quality_notices
from tpuprof.report.listing import Field, Listing, show_count, show_text
from tpuprof.report.page import Page, Section
from tpuprof.report.plain import rows_of, table_of
from tpuprof.text import clean
from tpuprof.units import UNKNOWN, format_percent, format_ps

WORDS = {"regressed": "regressed", "improved": "improved", "unchanged": "unchanged", "cannot_tell": "cannot tell"}
SEVERITIES = {"regressed": "error", "improved": "good", "unchanged": "good", "cannot_tell": "warning"}
GROUPS_SHOWN, DIFFERENCES_SHOWN, CHANGES_SHOWN = 15, 20, 10
_BAR = 16
_VERSIONS_NAMED = 3
_NOUNS = {"op": "group", "kind": "kind", "scope": "scope", "source": "source line"}


def diff_page(document: dict[str, Any]) -> Page:
    """The page of a comparison."""
    sections = [
        Section("Causes, the largest first", (), tuple(_causes(document))) if document["causes"] else None,
        Section("Both sides", tuple(_notes(document)), (), sides_listing(document), partial(steps_figures, document)),
        _groups(document),
        _differences(document),
        _changes(document),
        Section("What it takes to look into it", (), (), evidence_listing(document)),
        Section("Quality of the recordings", (), tuple(_quality(document))) if document["quality"] else None,
    ]
    return Page(
        command="tpuprof diff",
        title=f"{_name(document['base'])} → {_name(document['new'])}",
        verdict=WORDS[document["verdict"]],
        severity=SEVERITIES[document["verdict"]],
        lead=sentence(document),
        sections=tuple(section for section in sections if section is not None),
    )


def sentence(document: dict[str, Any]) -> str:
    """The outcome in one sentence: how much, how sure, what most of it is, and what came with it."""
    word = document["verdict"]
    effect = table_of(document["effect"])
    if word == "cannot_tell":
        text = f"Whether the step got slower cannot be told: {clean(document['reason']).rstrip('.')}"
    else:
        text = f"Step time {signed(effect.get('relative'))}{_interval(document)}, {WORDS[word]}"
    parts = [text]
    main = rows_of(document["causes"])[:1] if word != "unchanged" else []
    for cause in main:
        share, relative = cause["share"], effect.get("relative") or 0.0
        if share is None or cause["delta_ps"] * (relative or cause["delta_ps"]) <= 0:
            continue
        happened = f" ({clean(cause['happened'])})" if cause["happened"] else ""
        delta = _signed_ps(document["step_delta_ps"])
        of = "of it" if word != "cannot_tell" else f"of the {delta} between the mean steps"
        parts.append(f"{format_percent(share, 0)} {of} is {clean(cause['title'])}{happened}")
    if word != "unchanged":
        parts += _came_with(document)
    return "; ".join(parts) + "."


def signed(share: float | None) -> str:
    """A share as a percentage with its sign."""
    return UNKNOWN if share is None else f"{round(100 * share, 2) + 0.0:+.2f} %"


def sides_listing(document: dict[str, Any]) -> Listing:
    """Both sides with the number and spread of their steps, and each capture where there are several."""
    rows: list[dict[str, Any]] = []
    for side in ("base", "new"):
        facts = document[side]
        if facts is None:  # there was nothing to compare with
            continue
        several = facts["n_captures"] > 1
        name = f"{facts['n_captures']} captures" if several else facts["name"]
        rows.append({"side": side, "name": name, **facts["steps"]})
        rows += [{"side": "", **capture} for capture in facts["captures"]] if several else []
    return Listing("Step times", "side", _SIDE_FIELDS, rows, len(rows))


def evidence_listing(document: dict[str, Any]) -> Listing:
    """What somebody else needs, with what is missing."""
    slots = document["evidence"]
    rows: list[dict[str, Any]] = []
    for slot in slots:
        sides = [("both", slot["base"])] if slot["base"] == slot["new"] else [(n, slot[n]) for n in ("base", "new")]
        rows += [{"what": slot["what"], "side": side, "have": have or "MISSING"} for side, have in sides]
    hints: dict[str, list[str]] = {}
    for slot in slots:
        if slot["base"] is None or slot["new"] is None:
            hints.setdefault(clean(slot["hint"]), []).append(clean(slot["what"]))
    notes = tuple(f"Missing {', '.join(names)}: {hint}" for hint, names in hints.items())
    fields = (Field("what", "what"), Field("side", "side"), Field("have", "what there is"))
    return Listing("What it takes to look into it", "slot", fields, rows, len(rows), notes)


def _interval(document: dict[str, Any]) -> str:
    effect, limits = table_of(document["effect"]), table_of(document["thresholds"])
    if effect.get("ci_low") is None or effect.get("ci_high") is None:
        return ""
    level = f"{100 * (1 - (limits.get('alpha') or 0.01)):.6g} %"
    return f" ({level} CI {signed(effect['ci_low'])} .. {signed(effect['ci_high'])})"


def _came_with(document: dict[str, Any]) -> list[str]:
    found = rows_of(document["differences"])
    for kind, words in (("version", "versions differ"), ("flag", "flags differ"), ("code", "the code differs")):
        named = [d for d in found if d["kind"] == kind]
        if named:
            texts = [f"{clean(d['what'])} {_old_new(d)}" for d in named[:_VERSIONS_NAMED]]
            more = f" and {len(named) - _VERSIONS_NAMED} more" if len(named) > _VERSIONS_NAMED else ""
            return [f"{words}: {', '.join(texts)}{more}"]
    return []


def _old_new(difference: dict[str, Any]) -> str:
    old, fresh = ("none" if difference[side] is None else clean(difference[side]) for side in ("base", "new"))
    return f"{old} → {fresh}"


def _causes(document: dict[str, Any]) -> list[Notice]:
    notices: list[Notice] = []
    for number, cause in enumerate(document["causes"], 1):
        share = "" if cause["share"] is None else f" ({format_percent(cause['share'], 0)})"
        with_it = [f"{clean(d['what'])}: {_old_new(d)}" for d in cause["related"]]
        beside = f" With it: {'; '.join(with_it)}." if with_it else ""
        message = f"{clean(cause['message'])}{beside}"
        severity = "warning" if cause["delta_ps"] > 0 else "info"
        head = f"{number}. {_signed_ps(cause['delta_ps'])}{share}"
        notices.append(Notice(head, severity, head, message, clean(cause["suggestion"]), cause["source"], "cause"))
    return notices


def _notes(document: dict[str, Any]) -> list[str]:
    notes = [clean(note) for note in document["notes"]]
    if document["verdict"] != "cannot_tell":
        notes.insert(0, f"{clean(document['reason'])}.")
    for key, noun in (("steps_needed", "steps"), ("captures_needed", "captures")):
        if document[key]:
            notes.append(f"About {document[key]:,} {noun} a side would settle it.")
    return notes


def _groups(document: dict[str, Any]) -> Section:
    rows = document["groups"]
    if document["explanation_reason"]:
        return Section("Where the difference is", (clean(document["explanation_reason"]),))
    largest = max((abs(row["delta_ps"]) for row in rows), default=0.0)
    shown = [
        {
            **row,
            "label": f"{'· ' * row['depth']}{row['name']}",
            "counts": _counts(row["count_base"], row["count_new"]),
            "bar": f"{'-' if row['delta_ps'] < 0 else '+'}{bars.meter(abs(row['delta_ps']) / largest, _BAR)}"
            if largest
            else "",
        }
        for row in rows[:GROUPS_SHOWN]
    ]
    by = document["by"]
    matched = document["coverage"]["matched_time_fraction"]
    notes = (
        f"The difference of the mean steps is {_signed_ps(document['step_delta_ps'])}; the rows"
        f"{' at the outer level' if by == 'scope' else ''} and a residual of {_signed_ps(document['residual_ps'])} sum"
        f" to it. {format_percent(matched)} of the ops' time is in groups that both sides have.",
    )
    fields = tuple(field for field in _GROUP_FIELDS if by == "op" or field.key != "scope")
    listing = Listing(f"Where the difference is: mean per step, by {by}", _NOUNS[by], fields, shown, len(rows), notes)
    return Section("Where the difference is", (), (), listing, partial(delta_figure, document))


def _differences(document: dict[str, Any]) -> Section | None:
    rows = document["differences"]
    if not rows:
        return None
    listing = Listing("What else differs", "difference", _DIFFERENCE_FIELDS, rows[:DIFFERENCES_SHOWN], len(rows))
    return Section("What else differs", (), (), listing)


def _changes(document: dict[str, Any]) -> Section | None:
    rows = document["finding_changes"]
    if not rows:
        return None
    listing = Listing("Findings that changed", "change", _CHANGE_FIELDS, rows[:CHANGES_SHOWN], len(rows))
    return Section("Findings that changed", (), (), listing)


def _quality(document: dict[str, Any]) -> list[Notice]:
    entries = [{**entry, "message": f"{entry['side']}: {entry['message']}"} for entry in document["quality"]]
    return quality_notices({"quality": entries})


def _name(side: dict[str, Any]) -> str:
    return clean(side["name"] or "(unnamed run)")


def _signed_ps(ps: float | None) -> str:
    if ps is None:
        return UNKNOWN
    return f"+{format_ps(ps)}" if ps > 0 else format_ps(ps)


def _counts(old: float | None, fresh: float | None) -> str:
    texts = [
        "" if value is None else show_count(int(value)) if float(value).is_integer() else f"{value:,.2f}"
        for value in (old, fresh)
    ]
    return texts[0] if texts[0] == texts[1] else f"{texts[0] or 0} → {texts[1] or 0}"


def _show_blank(value: object) -> str:
    return "" if value is None else show_text(value)


_SIDE_FIELDS = (
    Field("side", "side"),
    Field("name", "run", role="name"),
    Field("count", "steps", show_count, right=True),
    Field("p50_ps", "median", format_ps, right=True),
    Field("p95_ps", "p95", format_ps, right=True, rank=2),
    Field("mean_ps", "mean", format_ps, right=True, rank=1),
    Field("cv", "cv", format_percent, right=True),
)
_GROUP_FIELDS = (
    Field("label", "what", role="name"),
    Field("kind", "kind", _show_blank, rank=3),
    Field("change", "change", _show_blank, rank=2),
    Field("scope", "scope", _show_blank, rank=5, role="tail"),
    Field("counts", "count", right=True, rank=4),
    Field("base_ps", "base", format_ps, right=True, rank=1),
    Field("new_ps", "new", format_ps, right=True, rank=1),
    Field("delta_ps", "difference", _signed_ps, right=True),
    Field("share", "share", lambda value: format_percent(value, 1), right=True),
    Field("bar", "", _show_blank, rank=6),
)
_DIFFERENCE_FIELDS = (
    Field("kind", "kind"),
    Field("what", "what", role="name"),
    Field("base", "base", lambda value: "none" if value is None else clean(value), role="name"),
    Field("new", "new", lambda value: "none" if value is None else clean(value), role="name"),
    Field("weight_ps", "ops concerned changed by", lambda v: "" if v is None else format_ps(v), right=True, rank=1),
)
_CHANGE_FIELDS = (
    Field("change", "change"),
    Field("rule", "rule"),
    Field("title", "title", role="name"),
    Field("base_impact_ps", "base", lambda v: "" if v is None else format_ps(v), right=True),
    Field("new_impact_ps", "new", lambda v: "" if v is None else format_ps(v), right=True),
    Field("message", "message", role="name", rank=1),
)
