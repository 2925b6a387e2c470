"""The command ``tpuprof dashboard``, which the core finds by entry point."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys

import click


@click.command("dashboard")
@click.argument("logdir", metavar="[LOGDIR]", required=False, default=".")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on. Default: 8501, or the next free one.")
@click.option("--store", metavar="URL", default="", help="Run store for the page History. Default: that of `history`.")
@click.option(
    "--source-link",
    metavar="TEMPLATE",
    default="",
    envvar="TPUPROF_SOURCE_LINK",
    help="Make links of source lines, such as vscode://file/{path}:{line} or https://HOST/REPO/blob/main/{path}#L{line}.",
)
@click.option("--source-root", metavar="PATH", default="", help="Cut this off source paths before they become links.")
@click.option("--base-path", metavar="PATH", default="", help="Path below which a proxy serves the dashboard.")
@click.option("--allow-host", metavar="NAME", multiple=True, help="Another host name that people reach it by.")
@click.option("--open/--no-open", "browser", default=None, help="Open a browser. Default: where there is a screen.")
def command(
    logdir: str,
    host: str,
    port: int | None,
    store: str,
    source_link: str,
    source_root: str,
    base_path: str,
    allow_host: tuple[str, ...],
    browser: bool | None,
) -> None:
    """Look at runs in a browser: timeline, ops, roofline, collectives, comparisons, plans.

    LOGDIR is a log directory, whose runs are offered, or one run. By default the current directory. The dashboard reads
    and never writes there, and listens on this machine only unless --host says otherwise. Every view has its own
    address, which reproduces it for whoever opens it.
    """
    from tpuprof.errors import MissingDependencyError
    from tpuprof_dashboards.server import Server
    from tpuprof_dashboards.settings import Settings

    settings = Settings(_checked(logdir), store, source_link, source_root)
    if importlib.util.find_spec("streamlit") is None:
        raise MissingDependencyError(
            "The dashboard needs streamlit, which is not installed.",
            hint='Install it: pip install "tpuprof[dashboard]".',
        )
    server = Server(settings, host, port, base_path, allow_host, _has_screen() if browser is None else browser)
    if not server.local:
        click.echo(
            f"tpuprof: warning: {host} is reachable from other machines: whoever reaches it can read every run under "
            f"{settings.logdir}. Nothing asks for a password.",
            err=True,
        )
    if port is not None:
        _check_port(host, port)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(2, 1)  # stdout is for results, and streamlit talks there
    os.execv(sys.executable, server.arguments())


def _checked(logdir: str) -> str:
    """The directory as an absolute path or URL.

    Raises:
        TraceNotFoundError: there is nothing there. An empty directory is fine: a job may be about to fill it.
    """
    from tpuprof.errors import TraceNotFoundError
    from tpuprof.formats.files import as_location, find

    location = as_location(logdir)
    if find(location) is None:
        raise TraceNotFoundError(
            "There is no such file or directory.",
            where=location,
            hint="Give the log directory of a job. `tpuprof demo --logdir DIR` makes one to try with.",
        )
    return location if "://" in location else os.path.abspath(location)


def _check_port(host: str, port: int) -> None:
    """Says that a port is taken; streamlit would only say that it cannot have it.

    Raises:
        UsageError: something listens there, the port is not for this user, or the address is not of this machine.
    """
    from tpuprof.errors import UsageError

    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(
            f"Nothing can listen on port {port} of {host}: {(error.strerror or str(error)).lower()}.",
            hint="Leave out --port for the next free one, or end what listens there.",
        ) from error


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
