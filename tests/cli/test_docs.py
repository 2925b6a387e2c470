"""The reference pages are made from the code: they cannot go stale, and nothing is left out."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click
import pytest

from tpuprof.cli.commands import COMMANDS
from tpuprof.tables.schemas import TABLES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make", DOCS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "sidecar.md", "tables.md", "hardware.md"])
def test_pages_are_current(make: ModuleType, page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == make.PAGES[page](), "run: python docs/make.py"


def test_every_command_and_option_is_documented_with_a_help_text() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name, (module, short) in COMMANDS.items():
        section = text.partition(f"\n## tpuprof {name}\n")[2].partition("\n## ")[0]
        assert short in section
        for parameter in import_module(module).command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help
                assert all(f"{option}" in section for option in (*parameter.opts, *parameter.secondary_opts))


def test_every_table_and_column_is_documented() -> None:
    text = (DOCS / "tables.md").read_text(encoding="utf-8")
    for schema in TABLES.values():
        section = text.partition(f"\n## {schema.name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{column.name}` |" in section for column in schema)


def test_the_picture_is_an_svg_that_loads_nothing(make: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import xml.etree.ElementTree as ElementTree

    import tpuprof
    from tests.report.fake import fake_trace

    monkeypatch.setitem(vars(tpuprof), "load", lambda run: fake_trace(4))
    svg = make.picture("anything")
    text = " ".join(ElementTree.fromstring(svg).itertext())
    assert "matmul" in text
    assert "collective" in text
    assert "@font-face" not in svg
    assert "url(http" not in svg
