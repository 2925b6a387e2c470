"""Texts without what names people and machines, so that a run can be shown to others.

One mechanism for everything that leaves: reports, tables, timelines and traces. Paths keep their last part, hosts and
users get numbers that are the same wherever they occur, e-mail and network addresses and command lines go. What
describes the program stays: names of ops, scopes, functions and source files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tpuprof.masking import mask_credentials, mask_text

EMAIL, ADDRESS, URL, ARGUMENTS = "[email]", "[address]", "[url]", "[arguments removed]"
BLOB = "[data removed]"
_COMMAND_KEYS = frozenset({"command", "command_line", "cmdline", "argv", "args"})
_ENVIRONMENT_KEYS = frozenset({"environment", "env", "flags", "xla_flags"})
PATH_KEYS = frozenset(
    {"source", "source_file", "source_stack", "source_info", "_src", "file", "files", "path", "paths", "directory"}
)
"""Names of stats and JSON keys whose texts are paths, with or without a line number."""

_SUFFIX = (
    r"(?:py[ci]?|ipynb|pex|cc|cpp|cxx|cu|cuh|[chm]|hpp|so|go|rs|java|js|ts|txt|log|md|html|csv|tsv|parquet|pb|json|jsonl"
    r"|gz|zip|tar|ya?ml|toml|cfg|ini|sh|hlo|mlir|np[yz]|pkl|ckpt|gin|textproto|pbtxt)"
)
_PART = r"[^\s/\\\"'<>|:,;(){}\[\]=*?$]+"
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,30}://(?P<rest>[^\s\"'<>|,;)\]}]*)")
_QUOTED = re.compile(
    r"(?P<quote>[\"'])(?:[A-Za-z]:)?[/\\](?!(?:device|host):)[^\"'\n]*[/\\](?P<base>[^\"'/\\\n]*)(?P=quote)"
)
_WHOLE = re.compile(rf"(?:[A-Za-z]:[/\\]|[/~])(?!(?:device|host):)[^\n]*[/\\](?P<base>[^/\\\n]+\.{_SUFFIX}(?::\d+)*)\Z")
_WINDOWS = re.compile(rf"(?<![\w/])(?:[A-Za-z]:[\\/]|\\\\)(?:{_PART}[\\/]+)*(?P<base>{_PART})?")
# Not after a word, a bracket or a hyphen: name scopes are written with slashes too.
_ABSOLUTE = re.compile(rf"(?<![\w)\]}}*.%/\\-])(?:~[\w.-]*)?/(?!(?:device|host):)/*(?:{_PART}/+)+(?P<base>{_PART})?")
# Home directories are told by their name, whatever stands before them.
_HOMES = re.compile(rf"(?<![\w/])/(?:home|Users)/+(?:{_PART}/+)*(?P<base>{_PART})?")
_HOME = re.compile(rf"(?<![\w./])~[\w.-]*/+(?P<base>{_PART})?")
_RELATIVE = re.compile(rf"(?<![\w/.\\-])(?:\.{{0,2}}/)?(?:[\w.+-]+[/\\])+(?P<base>[\w.+-]+\.{_SUFFIX})(?![\w/])")
# A program with options: what follows the first of them may be anything.
_COMMAND = re.compile(
    r"(?P<program>(?:(?:^|(?<=\s))(?:\S*[/\\])?(?:i?python[\d.]*|bash|sh|zsh|env|sudo|srun|torchrun|mpirun)"
    r"|(?<!\S)\S+\.(?:py|sh|pex|par|exe|bin))(?:\s+[^\s-]\S*){0,3}?)\s+--?[A-Za-z][^\n]*"
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = re.compile(
    r"(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){5,7}[0-9A-Fa-f]{1,4}"
    r"|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,5}::(?:[0-9A-Fa-f]{1,4}:){0,5}[0-9A-Fa-f]{1,4})(?![\w:])"
)
_INTERNAL = re.compile(
    r"(?<![\w.-])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:internal|local|localdomain|lan|corp)(?![\w.-])"
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}")
_BY_BASE = (_QUOTED, _WINDOWS, _ABSOLUTE, _HOMES, _HOME, _RELATIVE)

_HOME_USER = re.compile(r"(?<!\w)[/\\](?:home|Users)[/\\]+(?P<user>[^\s/\\\"'<>|:,;]{1,64})(?=[/\\]|\Z)")
_USERS_USER = re.compile(rf"(?<![\w)])users/(?P<user>[\w.-]{{1,64}})/(?:[\w.+-]+/)*[\w.+-]+\.{_SUFFIX}(?!\w)")
# Accounts that name nobody, and host names that name no machine.
_NOBODY = frozenset({"root", "user", "users", "runner", "ubuntu", "jupyter", "shared", "public", "default", "jovyan"})
_NOWHERE = frozenset({"", "localhost", "host", "unknown", "cpu", "gpu", "tpu", "device", "metadata"})


@dataclass(frozen=True, slots=True)
class Redactor:
    """What replaces what; make one with ``make_redactor``.

    The same text always becomes the same text, whatever came before it.

    Args:
        names: known host and user names with what stands for them, longest first.
    """

    names: tuple[tuple[str, str], ...]
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _memory: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = "|".join(re.escape(name) for name, _ in self.names)
        pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{known})(?![A-Za-z0-9])") if known else None
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_memory", {})

    def text(self, text: str) -> str:
        """The text without paths, hosts, users, addresses, and long encoded data."""
        found = self._memory.get(text)
        if found is None:
            found = self._memory[text] = self._redacted(text)
        return found

    def path(self, text: str) -> str:
        """A text that is known to hold one path per line: the last part of each, with its line number."""
        return "\n".join(self.text(re.split(r"[/\\]", line.rstrip("/\\"))[-1]) for line in text.split("\n"))

    def value(self, key: str, text: str) -> str:
        """A text under a name: of a stat, a column or a JSON key."""
        if key.lower() in PATH_KEYS:
            return self.path(text)
        if key.lower() in _COMMAND_KEYS:
            first, *others = text.split() or [""]
            return " ".join([self.path(first), *([ARGUMENTS] if others else [])])
        return self.text(text)

    def json(self, value: Any, key: str = "") -> Any:
        """Nested JSON data: every text in it, and keys that are host names."""
        if isinstance(value, str):
            return self.value(key, value)
        if isinstance(value, Mapping):
            inside = key if key.lower() in _ENVIRONMENT_KEYS else ""
            return {
                self._key(name): self._setting(item) if inside and isinstance(item, str) else self.json(item, str(name))
                for name, item in cast("Mapping[Any, Any]", value).items()
            }
        if isinstance(value, list | tuple):
            items = cast("list[Any]", value)
            if key.lower() in _COMMAND_KEYS and items and all(isinstance(item, str) for item in items):
                return [self.path(items[0]), *([ARGUMENTS] if len(items) > 1 else [])]
            return [self.json(item, key) for item in items]
        return value

    def bytes_(self, data: bytes, key: str = "") -> bytes:
        """Bytes that hold UTF-8 text; invalid ones become replacement marks."""
        text = data.decode("utf-8", "replace")
        changed = self.value(key, text)
        return data if changed == text else changed.encode()

    def knows(self, data: bytes) -> bool:
        """Whether a known host or user name occurs anywhere in the bytes."""
        return any(name.encode() in data for name, _ in self.names)

    def _key(self, key: Any) -> str:
        text = str(key)
        return text if re.fullmatch(r"[a-z][a-z0-9_]*", text) and text not in dict(self.names) else self.text(text)

    def _setting(self, text: str) -> str:
        return self.text(mask_text(text))

    def _redacted(self, text: str) -> str:
        if len(text) >= 256:
            text = _BASE64.sub(BLOB, text)
        if "@" in text or "://" in text or len(text) >= 16:
            text = mask_credentials(text)
        if " -" in text:
            text = _COMMAND.sub(rf"\g<program> {ARGUMENTS}", text)
        if "/" in text or "\\" in text:
            text = _URL.sub(_last_of_url, text)
            whole = _WHOLE.match(text)
            text = whole["base"] if whole else text
            for pattern in _BY_BASE:
                text = pattern.sub(_base, text)
        if "@" in text:
            text = _EMAIL.sub(EMAIL, text)
        if self._pattern is not None:
            replacements = dict(self.names)
            text = self._pattern.sub(lambda match: replacements[match[0]], text)
        if "." in text:
            text = _INTERNAL.sub(ADDRESS, _IPV4.sub(ADDRESS, text))
        return _IPV6.sub(ADDRESS, text) if text.count(":") > 1 else text


def make_redactor(hosts: Iterable[str], texts: Iterable[str] = ()) -> Redactor:
    """A redactor that knows these hosts, and the users whose home directories the texts name.

    Hosts are ``host-1``, ``host-2`` … in the order given; a full name and its first part are one host. Users are
    ``user-1`` … in alphabetical order.
    """
    found: dict[str, str] = {}
    count = 0
    for host in hosts:
        short = host.partition(".")[0]
        if host in found or host.lower() in _NOWHERE:
            continue
        if short not in found:
            count += 1
        label = found.get(short) or f"host-{count}"
        found[host] = label
        if short.lower() not in _NOWHERE and not short.isdigit():
            found.setdefault(short, label)
    users = {
        match["user"] for text in texts for pattern in (_HOME_USER, _USERS_USER) for match in pattern.finditer(text)
    }
    named = sorted(user for user in users if user.lower() not in _NOBODY and not user.startswith("."))
    for number, user in enumerate(named, 1):
        found.setdefault(user, f"user-{number}")
    return Redactor(tuple(sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def _base(match: re.Match[str]) -> str:
    base = match["base"]
    if not base:  # the path ends with a slash: its last directory
        parts = [part for part in re.split(r"[/\\]+", match[0].strip("\"'")) if part]
        base = parts[-1] if parts else ""
    quote = match.groupdict().get("quote") or ""
    return f"{quote}{base}{quote}"


def _last_of_url(match: re.Match[str]) -> str:
    path = match["rest"].partition("?")[0].partition("#")[0].rstrip("/")
    return path.rsplit("/", 1)[1] if "/" in path else URL
