"""The pages of rules: what a finding or a quality entry means and what to do about it.

Rules ``TPU1nn`` stand for quality entries, one each, and have their pages here, as have the rules ``TPU6nn`` of
comparisons and the gate; the pages of all other rules come with the analyzers that use them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tpuprof.analysis import Analyzer
from tpuprof.errors import UsageError
from tpuprof.registry import Outcome, discover

_HEAD = re.compile(r"# (?P<rule>TPU\d{3}) (?:(?P<quality>[a-z0-9_]+): )?(?P<title>\S.*)\Z")


@dataclass(frozen=True, slots=True)
class Page:
    """A rule's page.

    Args:
        rule: ``TPUnnn``.
        title: a few words.
        text: Markdown below the title.
        quality: the id of the quality entry that the rule stands for, null for findings.
    """

    rule: str
    title: str
    text: str
    quality: str | None = None


@cache
def quality_pages() -> tuple[Page, ...]:
    """The pages of the quality entries, by rule."""
    return _pages("quality.md")


@cache
def comparison_pages() -> tuple[Page, ...]:
    """The pages of the rules of comparisons and of the gate, by rule."""
    return _pages("comparison.md")


def analyzer_page(analyzer: Analyzer, rule: str) -> Page:
    """The page of a rule that an analyzer declares.

    Raises:
        UsageError: there is none, or it does not begin with ``# TPUnnn title``.
    """
    try:
        text = resources.files(analyzer.pages).joinpath(f"{rule}.md").read_text(encoding="utf-8")
    except (OSError, ImportError) as error:
        raise UsageError(
            f"The rule {rule} of the analyzer {analyzer.name!r} has no page.",
            where=f"{analyzer.pages}/{rule}.md",
            hint="Add it to the package; it begins with '# TPUnnn title'.",
        ) from error
    page = _parse(text)
    if page.rule != rule:
        raise UsageError(f"The page of {rule} is about {page.rule}.", where=f"{analyzer.pages}/{rule}.md")
    return page


def all_pages(analyzers: Iterable[Analyzer | Outcome] | None = None) -> tuple[Page, ...]:
    """The pages of quality entries, of comparisons and of the rules of analyzers (null: the installed ones), by rule.

    Rules of which an analyzer brings no page are left out: a missing page is its fault, not the reader's.
    """
    pages = {page.rule: page for page in (*quality_pages(), *comparison_pages())}
    for analyzer in discover() if analyzers is None else analyzers:
        if isinstance(analyzer, Outcome):
            continue
        for rule in analyzer.rules:
            try:
                pages.setdefault(rule, analyzer_page(analyzer, rule))
            except UsageError:
                continue
    return tuple(pages[rule] for rule in sorted(pages))


def find_page(name: str, pages: Iterable[Page]) -> Page:
    """The page of a rule (``TPU401``, in any case) or of a quality entry (``truncated``).

    Raises:
        UsageError: there is none; near names are given.
    """
    known = list(pages)
    for page in known:
        if name.upper() == page.rule or name.lower() == page.quality:
            return page
    names = [word for page in known for word in (page.rule, page.quality) if word]
    near = difflib.get_close_matches(name, names, n=3) or difflib.get_close_matches(name.upper(), names, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Without a name, tpuprof explain lists all rules."
    raise UsageError(f"There is no rule {name!r}.", hint=hint)


def _pages(name: str) -> tuple[Page, ...]:
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return tuple(_parse(section) for section in re.split(r"^(?=# TPU)", text, flags=re.MULTILINE)[1:])


def _parse(section: str) -> Page:
    head, _, text = section.partition("\n")
    match = _HEAD.match(head.strip())
    if match is None:
        raise UsageError(f"A page begins with {head[:80]!r}.", hint="It must begin with '# TPUnnn title'.")
    return Page(match["rule"], match["title"], text.strip() + "\n", match["quality"])
