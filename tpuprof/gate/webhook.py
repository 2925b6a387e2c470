"""Posting JSON to an address that the user gave."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tpuprof._version import __version__
from tpuprof.errors import UsageError

TIMEOUT_S = 10.0
ATTEMPTS = 3
_WAIT_S = 0.5
_AGAIN = (408, 425, 429)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An answer that sends elsewhere is a failure: the user named one place, and it may hold a secret."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Follows nothing."""
        return


def check_url(url: str) -> str:
    """The address, if it can be posted to.

    Raises:
        UsageError: it is not one of http or https, or has no host. The message does not repeat it, since addresses
            of webhooks hold secrets.
    """
    hint = "Give an address such as https://hooks.example/…"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError("The webhook's address cannot be read.", where="--webhook", hint=hint) from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise UsageError("The webhook's address is no http or https address.", where="--webhook", hint=hint)
    if any(ord(letter) <= 32 or ord(letter) > 126 for letter in url):
        raise UsageError("The webhook's address holds blanks or other characters that have no place in one.", hint=hint)
    return url


def shown(url: str) -> str:
    """The scheme and host of an address, without what may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"


def post(
    url: str,
    payload: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
) -> str | None:
    """Posts JSON; null if it was taken, else why not.

    An answer 2xx is success. What may pass (no connection, time-outs, 408, 425, 429, 5xx) is tried again after a wait
    that doubles; any other answer is final.

    Args:
        url: the address.
        payload: what to post.
        timeout_s: how long one attempt may take.
        attempts: how many there are at most.
        sleep: how to wait.
    """
    data = json.dumps(payload, allow_nan=False).encode()
    address, user = _parted(url)
    headers = {"Content-Type": "application/json", "User-Agent": f"tpuprof/{__version__}", **user}
    failure = "it was not tried"
    for attempt in range(attempts):
        if attempt:
            sleep(_WAIT_S * 2 ** (attempt - 1))
        request = urllib.request.Request(address, data=data, headers=headers, method="POST")
        answer = _within(timeout_s, request)
        if answer is None:
            return None
        failure, final = answer
        if final:
            return failure
    return failure


def _parted(url: str) -> tuple[str, dict[str, str]]:
    """The address without user and password, and the header that names them: urllib would look up all as a host."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    name, colon, password = user.partition(":")
    token = base64.b64encode(f"{unquote(name)}{colon or ':'}{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {token}"}


def _within(timeout_s: float, request: urllib.request.Request) -> tuple[str, bool] | None:
    """One attempt. Its time is measured here, because time-outs of sockets begin anew with each byte that comes in."""
    answers: list[tuple[str, bool] | None] = []
    attempt = threading.Thread(target=lambda: answers.append(_attempt(request, timeout_s)), daemon=True)
    attempt.start()
    attempt.join(timeout_s)
    return answers[0] if answers else ("no answer (TimeoutError)", False)


def _attempt(request: urllib.request.Request, timeout_s: float) -> tuple[str, bool] | None:
    """Null if it was taken, else why not and whether that is final."""
    opener = urllib.request.build_opener(_NoRedirects())
    try:
        with opener.open(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code}", error.code < 500 and error.code not in _AGAIN
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"no answer ({type(reason).__name__})", False  # the text of an error may repeat the address
