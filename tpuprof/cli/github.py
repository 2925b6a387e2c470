"""Where a result for GitHub Actions goes: annotations to stdout, the summary to the file of the step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tpuprof.cli.output import Output
from tpuprof.errors import UsageError


def step_summary(output: Output) -> str | None:
    """The file of the step's summary, if the result is for GitHub and goes nowhere else."""
    wanted = output.form == "github" and output.path is None
    return (os.environ.get("GITHUB_STEP_SUMMARY") or None) if wanted else None


def write_github(document: dict[str, Any], output: Output, path: str, summary: Callable[[], str]) -> None:
    """Writes the annotations of a document to stdout and appends its summary to the file.

    Raises:
        UsageError: the file cannot be written.
    """
    from tpuprof.report.github import report_annotations

    output.write(report_annotations(document))
    try:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(summary())
    except OSError as error:
        raise UsageError(
            f"The step summary cannot be written: {error.strerror}.",
            where=path,
            hint="Unset GITHUB_STEP_SUMMARY to print it instead.",
        ) from error
    output.note(f"appended the summary to {path}")
