"""Where results go: the output options that every command shares, and the one place that writes."""

from __future__ import annotations

import functools
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.failures import FOUND, say, silence
from tpuprof.errors import OutputExistsError, UsageError

if TYPE_CHECKING:
    from tpuprof.report.screen import Colors, Screen

DEFAULT_WIDTH = 100
_NARROWEST = 40
_SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".md": "md", ".html": "html", ".sarif": "sarif"}
_SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Output:
    """The output options of one call.

    Args:
        form: the format, already decided.
        path: the file to write; null for stdout.
        verbose: how often ``-v`` was given.
        fail_on: the lowest severity for which the exit code is 1, or ``never``.
    """

    form: str
    path: Path | None = None
    force: bool = False
    quiet: bool = False
    verbose: int = 0
    no_color: bool = False
    fail_on: str = "never"

    def screen(self) -> Screen:
        """What text for people is made for: the terminal, or a file or pipe of fixed width without colours."""
        from tpuprof.report.screen import Screen

        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        plain = self.path is None and not _can_draw(encoding)
        return Screen(width=_width(), color=self._colors(), plain=plain)

    def whole_screen(self) -> Screen:
        """The same for facts that are looked up, where a file or pipe, which has no width, gets tables uncut."""
        screen = self.screen()
        cut = (self.path is None and _is_terminal()) or os.environ.get("COLUMNS", "").isdecimal()
        return screen if cut else replace(screen, whole=True)

    def note(self, text: str) -> None:
        """A message for people on stderr."""
        if not self.quiet:
            say(text)

    def detail(self, text: str) -> None:
        """A message for people who asked for more with ``-v``."""
        if self.verbose and not self.quiet:
            say(text)

    def check(self) -> None:
        """Fails early, before any work, if the file cannot be written.

        Raises:
            OutputExistsError: it exists and ``--force`` was not given.
            UsageError: its directory does not exist, or it is a directory.
        """
        if self.path is None:
            return
        if self.path.is_dir():
            raise UsageError("The output is a directory.", where=str(self.path), hint="Name a file with -o.")
        if self.path.exists() and not self.force and not _is_special(self.path):
            raise OutputExistsError(
                "The output file exists.", where=str(self.path), hint="Give --force to replace it, or another -o."
            )
        if not self.path.absolute().parent.is_dir():
            raise UsageError(
                "The directory of the output file does not exist.", where=str(self.path), hint="Create it first."
            )

    def write(self, text: str) -> None:
        """Writes the result: to the file in one stroke, or to stdout.

        Raises:
            OutputExistsError: the file exists and ``--force`` was not given.
            UsageError: the file cannot be written.
        """
        if self.path is None:
            _to_stdout(text, utf8=self.form != "table")
            return
        self.write_bytes(self.path, text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, path: Path, data: bytes) -> None:
        """Writes data to a file in one stroke; raises as ``write``."""
        self.check()
        try:
            _replace(path, data)
        except OSError as error:
            raise UsageError(
                f"The output file cannot be written: {error.strerror}.",
                where=str(path),
                hint="Check the directory's permissions and free space, or name another file with -o.",
            ) from error
        self.note(f"wrote {path}")

    def finish(self, severities: Iterable[str]) -> None:
        """Ends the command: exit code 1 if one of the severities reaches ``--fail-on``."""
        if self.fail_on == "never":
            return
        least = _SEVERITIES.index(self.fail_on)
        count = sum(_SEVERITIES.index(severity) >= least for severity in severities)
        if count:
            entries = "entry is" if count == 1 else "entries are"
            self.note(f"{count} {entries} at or above --fail-on {self.fail_on}")
            raise click.exceptions.Exit(FOUND)

    def _colors(self) -> Colors | None:
        """The terminal's colours by the usual environment variables."""
        if self.path is not None or self.no_color or os.environ.get("NO_COLOR"):
            return None
        if not os.environ.get("FORCE_COLOR") and (not _is_terminal() or os.environ.get("TERM") == "dumb"):
            return None
        if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
            return "truecolor"
        return "256" if "256" in os.environ.get("TERM", "") else "standard"


def output_options(formats: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the output options to a command, which receives them as ``output``.

    Without formats the command decides by itself what it writes, and calls ``output.check``.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def collected(**values: Any) -> None:
            path = values.pop("output_path")
            chosen = None if path is None or path == "-" else Path(path)
            asked = (values.pop("form"), values.pop("as_json")) if formats else ("data", False)
            form = _choose_format(*asked, chosen, formats)
            taken = {name: values.pop(name) for name in ("force", "quiet", "verbose", "no_color", "fail_on")}
            output = Output(form=form, path=chosen, **taken)
            if formats:
                output.check()
            function(output=output, **values)

        decorated: Callable[..., None] = collected
        for option in reversed(_options(formats)):
            decorated = option(decorated)
        return decorated

    return decorate


def _options(formats: tuple[str, ...]) -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    choice = [
        click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            help="Format of the result. Default: by the suffix of -o, else table.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Same as --format json."),
    ]
    return [
        *(choice if formats else []),
        click.option(
            "-o", "--output", "output_path", metavar="FILE", help="Write the result to FILE instead of stdout."
        ),
        click.option("--force", is_flag=True, help="Replace FILE if it exists."),
        click.option(
            "--fail-on",
            type=click.Choice([*_SEVERITIES, "never"]),
            default="never",
            show_default=True,
            help="Exit with 1 if a quality entry or finding is at least this severe.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="No messages on stderr but errors."),
        click.option("-v", "--verbose", count=True, help="More messages on stderr."),
        click.option("--no-color", is_flag=True, help="No colours; so does the environment variable NO_COLOR."),
        click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks."),
    ]


def _choose_format(form: str | None, as_json: bool, path: Path | None, formats: tuple[str, ...]) -> str:
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} contradict each other.", hint="Give only one of them.")
    if form is not None or as_json:
        return form or "json"
    by_suffix = _SUFFIXES.get(path.suffix.lower()) if path is not None else None
    return by_suffix if by_suffix in formats else "table"


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(int(columns), _NARROWEST)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, _NARROWEST)
    except (AttributeError, OSError, ValueError):
        return DEFAULT_WIDTH


def _can_draw(encoding: str) -> bool:
    try:
        "█▇━╸■·×…".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _to_stdout(text: str, utf8: bool) -> None:
    """Documents are UTF-8 whatever the locale; text for people is in the terminal's encoding."""
    encoding = "utf-8" if utf8 else getattr(sys.stdout, "encoding", None) or "utf-8"
    data = text.encode(encoding, "backslashreplace" if utf8 else "replace")
    if sys.stdout is None:  # closed by the caller (``>&-``): the exit code is all that is wanted
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        silence(sys.stdout)  # the reader has seen enough (``| head``); the exit code is still that of the result
    except OSError as error:
        silence(sys.stdout)
        raise UsageError(f"The result cannot be written: {error.strerror}.", where="stdout") from error


def _is_special(path: Path) -> bool:
    """Whether it is a device or a pipe, such as /dev/stdout: written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _replace(path: Path, data: bytes) -> None:
    """The file appears complete or not at all; an old one's permissions remain."""
    if _is_special(path):
        path.write_bytes(data)
        return
    target = path.resolve()  # a symbolic link stays one
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
