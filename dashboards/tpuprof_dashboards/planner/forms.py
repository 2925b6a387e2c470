"""Forms whose content is in the URL: one filter holds all fields, so that a link asks the same question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlencode

import click
import streamlit as st

from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.planner.commands import NOT_OFFERED

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["text", "choice", "flag"]
_COLUMNS = 3
_ACRONYMS = frozenset(
    {"dcn", "gpu", "hbm", "hlo", "kv", "mfu", "mla", "mlp", "moe", "mxu", "pcie", "sla", "tpot", "ttft", "usd"}
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Args:
        name: of the command's parameter.
        label: what stands above it.
        kind: a line of text, one of a few, or on and off.
        default: its value at first; ``1`` and empty for flags.
        options: of a choice.
        help: what it means.
        placeholder: what stands in an empty line.
        more: whether it is one of those that most people leave alone.
    """

    name: str
    label: str
    kind: Kind = "text"
    default: str = ""
    options: tuple[str, ...] = ()
    help: str = ""
    placeholder: str = ""
    more: bool = False


def show_form(page: Page, name: str, fields: Sequence[Field], button: str) -> dict[str, str]:
    """Draws the form and returns the values that were last sent: at first the defaults, or what the URL says."""
    values = _values(fields, page.get(name))
    with st.form(f"planner.{name}", border=True):
        _grid(name, [field for field in fields if not field.more], values)
        more = [field for field in fields if field.more]
        if more:
            changed = sum(values[field.name] != field.default for field in more)
            with st.expander(f"More options{f' ({changed} set)' if changed else ''}"):
                _grid(name, more, values)
        st.form_submit_button(button, type="primary", on_click=_store, args=(name, tuple(fields)))
    return values


def fields_of(
    command: click.Command,
    chosen: Sequence[str] = (),
    defaults: Mapping[str, str] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> list[Field]:
    """The fields of a command's parameters: first those of ``chosen``, then the rest as further ones.

    Args:
        command: of the command line.
        chosen: names of parameters to show first; empty for all in the command's order.
        defaults: values that the fields begin with, where the command has none.
        choices: what may be chosen for parameters that are texts for the command.
    """
    usual, offered = dict(defaults or {}), dict(choices or {})
    order = {name: at for at, name in enumerate(chosen)}
    parameters = [p for p in command.params if p.name and p.name not in NOT_OFFERED]
    parameters.sort(key=lambda p: order.get(p.name or "", len(order)))
    return [
        _field(parameter, usual.get(parameter.name or "", ""), offered.get(parameter.name or "", ()),
               more=bool(chosen) and parameter.name not in order)
        for parameter in parameters
    ]  # fmt: skip


def _field(parameter: click.Parameter, default: str, choices: Sequence[str], *, more: bool) -> Field:
    name = parameter.name or ""
    label = _label(name)
    if isinstance(parameter, click.Argument) and not choices:
        label = label.upper()
    text = str(getattr(parameter, "help", "") or "")
    if getattr(parameter, "is_flag", False):
        return Field(name, label, "flag", default, (), text, more=more)
    options = tuple(choices) or (
        tuple(map(str, parameter.type.choices)) if isinstance(parameter.type, click.Choice) else ()
    )
    own = "" if parameter.required or not _is_plain(parameter.default) else str(parameter.default)
    if options:
        empty = () if parameter.required or default else ("",)
        return Field(
            name, label, "choice", default or (own if own in options else ""), (*empty, *options), text, more=more
        )
    required = "needed" if parameter.required else own
    return Field(name, label, "text", default, (), text, required, more)


def _label(name: str) -> str:
    """The name of a parameter as words."""
    words = [word.upper() if word in _ACRONYMS else word for word in name.removesuffix("_name").split("_")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _values(fields: Sequence[Field], text: str) -> dict[str, str]:
    """The fields' values of a filter; what the form does not have is left out, what it lacks is the default."""
    given = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200)) if text else {}
    values: dict[str, str] = {}
    for field in fields:
        value = given.get(field.name, field.default)[:500]
        values[field.name] = value if field.kind != "choice" or value in field.options else field.default
    return values


def _grid(name: str, fields: Sequence[Field], values: Mapping[str, str]) -> None:
    columns = st.columns(_COLUMNS)
    for at, field in enumerate(fields):
        key = _key(name, field)
        with columns[at % _COLUMNS]:
            if field.kind == "flag":
                st.session_state[key] = values[field.name] == "1"
                st.checkbox(field.label, key=key, help=field.help or None)
            elif field.kind == "choice":
                st.session_state[key] = values[field.name] if values[field.name] in field.options else field.options[0]
                st.selectbox(
                    field.label, field.options, key=key, help=field.help or None, format_func=lambda o: o or "default"
                )
            else:
                st.session_state[key] = values[field.name]
                st.text_input(field.label, key=key, placeholder=field.placeholder, help=field.help or None)


def _key(name: str, field: Field) -> str:
    return f"planner.{name}.{field.name}"


def _store(name: str, fields: tuple[Field, ...]) -> None:
    """Puts what was sent into the URL; defaults need no place there."""
    sent: dict[str, str] = {}
    for field in fields:
        value = st.session_state.get(_key(name, field))
        text = ("1" if value else "") if isinstance(value, bool) else str(value or "").strip()
        if text != field.default:
            sent[field.name] = text
    update(**{name: urlencode(sent)})
