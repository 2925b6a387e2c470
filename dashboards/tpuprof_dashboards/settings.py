"""What a dashboard was started with: the same for everyone who looks at it, and never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from tpuprof.errors import UsageError

SCHEMES = ("http", "https", "vscode", "vscode-insiders", "cursor", "zed", "idea", "pycharm")
"""What a link to a source line may begin with; anything else could run code where the link is clicked."""

_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PREFIX = "--settings="


@dataclass(frozen=True, slots=True)
class Settings:
    """What the dashboard shows and links to.

    Args:
        logdir: a log directory, or anything else that stands for runs.
        store: the URL or file of the run store; empty for the default one.
        source_link: a template with ``{path}`` and ``{line}`` that makes a link of a source line; empty for none.
        source_root: what is cut off the beginning of a source path before it goes into the template.
    """

    logdir: str = "."
    store: str = ""
    source_link: str = ""
    source_root: str = ""

    def __post_init__(self) -> None:
        """Refuses a template that makes no link.

        Raises:
            UsageError: it lacks ``{path}``, or begins with a scheme that is not in :data:`SCHEMES`.
        """
        if not self.source_link:
            return
        found = _SCHEME.match(self.source_link)
        if found is None or found["scheme"].lower() not in SCHEMES:
            raise UsageError(
                f"--source-link {self.source_link!r} begins with no known scheme.",
                hint=f"It may begin with {', '.join(f'{scheme}:' for scheme in SCHEMES)}",
            )
        if "{path}" not in self.source_link:
            raise UsageError(
                f"--source-link {self.source_link!r} lacks {{path}}.",
                hint="For example: vscode://file/{path}:{line}",
            )

    def arguments(self) -> list[str]:
        """The settings as arguments of the script."""
        return [_PREFIX + json.dumps(asdict(self))]

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> Settings:
        """The settings of a script's arguments; a bare argument is the log directory."""
        for argument in arguments:
            if argument.startswith(_PREFIX):
                return cls(**json.loads(argument.removeprefix(_PREFIX)))
        return cls(logdir=arguments[0]) if arguments else cls()

    def source_url(self, source: str | None) -> str | None:
        """The link to ``file.py:12``; null without a template or a source.

        Every character of the path that could end it or begin something else is escaped.
        """
        from urllib.parse import quote

        if not self.source_link or not source:
            return None
        path, _, line = source.rpartition(":")
        if not path or not line.isdecimal():
            path, line = source, "1"
        if self.source_root and PurePosixPath(path).is_relative_to(self.source_root):
            path = str(PurePosixPath(path).relative_to(self.source_root))
        return self.source_link.replace("{path}", quote(path)).replace("{line}", line)
