"""How streamlit is started: which options it gets, and what it looks like."""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import dataclass
from pathlib import Path

from tpuprof.palette import CHROME, LOOKS
from tpuprof_dashboards.settings import Settings

SCRIPT = Path(__file__).parent / "launch" / "script.py"

_OPTIONS = {
    "browser.gatherUsageStats": "false",  # nothing is sent anywhere
    "client.showErrorDetails": "none",  # a traceback is for the terminal
    "client.toolbarMode": "viewer",
    "global.showWarningOnDirectExecution": "false",
    "runner.magicEnabled": "false",
    "server.enableStaticServing": "false",
    "server.enableXsrfProtection": "true",
    "server.fileWatcherType": "none",
    "server.maxUploadSize": "1",  # nothing takes uploads
    "server.showEmailPrompt": "false",
}


@dataclass(frozen=True, slots=True)
class Server:
    """One dashboard server.

    Args:
        settings: what it shows.
        host: the address it listens on.
        port: the port; null for streamlit's own, or the next free one.
        base_path: the path below which a proxy serves it.
        allowed: names besides those of this machine by which it is reached.
        browser: open a browser when it is ready.
    """

    settings: Settings
    host: str = "127.0.0.1"
    port: int | None = None
    base_path: str = ""
    allowed: tuple[str, ...] = ()
    browser: bool = False

    @property
    def local(self) -> bool:
        """True if only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    def arguments(self) -> list[str]:
        """The command line."""
        options = {**_OPTIONS, **_look(), "server.address": self.host, "server.headless": str(not self.browser).lower()}
        if self.port is not None:
            options["server.port"] = str(self.port)
        if self.base_path:
            options["server.baseUrlPath"] = self.base_path
        listed = [f"--{name}={value}" for name, value in options.items()]
        # A page of another site could have its own name resolve to this machine; such a name is refused.
        names = ("localhost", "127.0.0.1", "[::1]", *self.allowed) if self.local else self.allowed
        listed += [f"--server.allowedHosts={name}" for name in names]
        return [
            sys.executable,
            "-m",
            "tpuprof_dashboards.start",
            "run",
            str(SCRIPT),
            *listed,
            "--",
            *self.settings.arguments(),
        ]


def _look() -> dict[str, str]:
    """The colours of the palette as themes, so that pages, charts and reports look alike."""
    options = {
        "theme.baseFontSize": "14",
        "theme.baseRadius": "small",
        "theme.metricValueFontSize": "1.5rem",
        "theme.showWidgetBorder": "true",
        "theme.headingFontSizes": "1.55rem,1.2rem,1.05rem,1rem,1rem,1rem",
    }
    for at, theme in enumerate(("light", "dark")):
        colors = {
            "primaryColor": (LOOKS["matmul"].light, "#8f83f0")[at],
            "backgroundColor": CHROME["page"][at],
            "secondaryBackgroundColor": _six(CHROME["card"][at]),
            "textColor": CHROME["ink"][at],
            "borderColor": CHROME["line"][at],
            "dataframeBorderColor": CHROME["line"][at],
            "linkColor": ("#2f5fa8", "#8ab4f8")[at],
        }
        options |= {f"theme.{theme}.{name}": value for name, value in colors.items()}
    return options


def _six(color: str) -> str:
    """``#fff`` as ``#ffffff``."""
    return "#" + "".join(digit * 2 for digit in color[1:]) if len(color) == 4 else color
