"""What a dashboard is started with."""

from __future__ import annotations

import pytest
from tpuprof_dashboards.settings import Settings

from tpuprof.errors import UsageError


def test_settings_travel_as_arguments() -> None:
    settings = Settings("/logs", "sqlite:///x.db", "vscode://file/{path}:{line}", "/root")
    assert Settings.of_arguments(settings.arguments()) == settings
    assert Settings.of_arguments(["/logs"]) == Settings("/logs")
    assert Settings.of_arguments([]) == Settings()


def test_a_source_line_becomes_a_link() -> None:
    settings = Settings(source_link="https://example.org/blob/main/{path}#L{line}", source_root="/home/me/repo")
    assert settings.source_url("/home/me/repo/model/mlp.py:42") == "https://example.org/blob/main/model/mlp.py#L42"
    assert settings.source_url("other/mlp.py") == "https://example.org/blob/main/other/mlp.py#L1"
    assert settings.source_url(None) is None
    assert Settings().source_url("mlp.py:1") is None


def test_a_hostile_path_stays_a_path() -> None:
    settings = Settings(source_link="https://example.org/{path}#L{line}")
    url = settings.source_url('x"><script>?a=1#{line}.py:7')
    assert url == "https://example.org/x%22%3E%3Cscript%3E%3Fa%3D1%23%7Bline%7D.py#L7"


@pytest.mark.parametrize("template", ["javascript:alert({path})", "data:text/html,{path}", "{path}", "/local/{path}"])
def test_a_template_that_could_run_something_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="no known scheme"):
        Settings(source_link=template)


def test_a_template_without_a_path_is_refused() -> None:
    with pytest.raises(UsageError, match=r"lacks \{path\}"):
        Settings(source_link="https://example.org/")
