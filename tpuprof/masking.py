"""Command lines without their secrets: what is stored beside a trace may be passed on to other people.

Used when a capture writes its sidecar, inside the user's program, and by redaction; hence free of dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"

# The last word of a name decides: `--hf-token`, `API_KEY`, `dbPassword`; not `--max-tokens` or `--tokenizer`.
_SECRET_NAME = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|pwd|credentials?|authorization|auth|bearer|cookie"
    r"|(?:api|access|private|secret|account|signing|encryption|license|ssh|wandb)[-_.]?key)\Z",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][\w.\-]*)\s*[=:]\s*(?P<value>.+)\Z", re.DOTALL)
_SECRET_VALUE = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|hf_[A-Za-z0-9]{16,}|xox[a-z]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|ya29\.[\w.-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)
_URL_PASSWORD = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/@:]*:)[^\s/@]+(?=@)")
# Inside a longer argument: the query of an address, a JSON text, a list of settings. A name is only looked for where
# a word begins: from each of its letters the search would take minutes for an argument of a megabyte.
_INNER = re.compile(r"(?P<head>(?<![\w.\-])(?P<name>[\w.\-]+)[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&#}]+)")


def mask_arguments(arguments: Iterable[str]) -> list[str]:
    """The arguments with secret-looking values replaced by ``***``: options, assignments, addresses, tokens.

    Meant to err on the safe side; it cannot know every secret.
    """
    masked: list[str] = []
    value_is_secret = False
    for argument in arguments:
        if value_is_secret and not argument.startswith("--"):
            masked.append(MASK)
            value_is_secret = False
            continue
        bare = argument.lstrip("-")
        value_is_secret = argument.startswith("-") and _SECRET_NAME.search(bare) is not None
        masked.append(_mask_one(argument, bare))
    return masked


def mask_text(text: str) -> str:
    """A text of words, such as a flags variable, masked word by word."""
    return " ".join(mask_arguments(text.split()))


def mask_credentials(text: str) -> str:
    """A text as it is, but for tokens of well-known services and passwords within addresses."""
    return _SECRET_VALUE.sub(MASK, _URL_PASSWORD.sub(rf"\g<head>{MASK}", text))


def _mask_one(argument: str, bare: str) -> str:
    dashes = argument[: len(argument) - len(bare)]
    match = _ASSIGNMENT.match(bare)
    if match is not None and _SECRET_NAME.search(match["name"]):
        return f"{dashes}{bare[: match.start('value')]}{MASK}"
    text = _INNER.sub(_mask_inner, _URL_PASSWORD.sub(rf"\g<head>{MASK}", argument))
    return _SECRET_VALUE.sub(MASK, text)


def _mask_inner(match: re.Match[str]) -> str:
    return f"{match['head']}{MASK}" if _SECRET_NAME.search(match["name"]) else match[0]
