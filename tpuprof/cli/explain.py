"""The command ``tpuprof explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.report.render import TABLE_FORMATS

if TYPE_CHECKING:
    from tpuprof.report.listing import Result
    from tpuprof.rules import Page


@click.command("explain")
@click.argument("rule", required=False)
@output_options(TABLE_FORMATS)
def command(rule: str | None, output: Output) -> None:
    """Explain a rule: what a finding means, what to try, when it is wrong.

    RULE is a finding's rule, such as TPU401, or the id of a quality entry, such as truncated. Without it, all rules
    are listed.
    """
    from tpuprof.report.render import render_result
    from tpuprof.rules import all_pages, find_page

    pages = all_pages()
    if rule is None:
        output.write(render_result(_listed(pages), output.form, output.screen() if output.form == "table" else None))
        return
    page = find_page(rule, pages)
    if output.form in ("table", "md"):
        output.write(_text(page, markdown=output.form == "md"))
    else:
        output.write(render_result(_listed((page,)), output.form))


def _text(page: Page, markdown: bool) -> str:
    """The page; for a terminal without the marks of headings and code, which say nothing there."""
    about = f" (quality entry `{page.quality}`)" if page.quality else ""
    text = f"# {page.rule} {page.title}{about}\n\n{page.text}"
    if markdown:
        return text
    return "".join(line.lstrip("# ") if line.startswith("#") else line for line in text.splitlines(True)).replace(
        "`", ""
    )


def _listed(pages: tuple[Page, ...]) -> Result:
    from tpuprof.report.build import SCHEMA_VERSION
    from tpuprof.report.listing import Field, Listing, Result

    rows: list[dict[str, Any]] = [
        {
            "rule": page.rule,
            "about": "quality" if page.quality else "finding",
            "quality": page.quality,
            "title": page.title,
            "text": page.text,
        }
        for page in pages
    ]
    fields = (Field("rule", "rule"), Field("about", "about", rank=1), Field("title", "title", role="name"))
    document = {"schema_version": SCHEMA_VERSION, "command": "explain", "rules": rows}
    listing = Listing("Rules: tpuprof explain RULE shows a page", "rule", fields, rows, len(rows))
    return Result(document, "rules", ("rule", "about", "quality", "title"), (listing,))
