"""Captures as decorators: one call of a function is captured, all calls run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from tpuprof.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class Once(Protocol):
    """A context manager that can be entered once, such as a capture."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


def captured_call(capture: Once, function: F) -> F:
    """The function, with its first call inside `capture`, which becomes its attribute ``capture``.

    Raises:
        UsageError: it is no function, or a generator: its work is not done when it is called.
    """
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"{function!r} is not a function.", hint="Decorate a function that runs the steps to capture.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator: calling it runs nothing that could be captured.",
            hint="Capture the loop that consumes it.",
        )
    unused = [capture]

    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            once = unused.pop()  # of several threads exactly one gets it
        except IndexError:
            return function(*args, **kwargs)
        with once:
            return function(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        try:
            once = unused.pop()
        except IndexError:
            return await function(*args, **kwargs)
        with once:
            return await function(*args, **kwargs)

    wrapper: Any = functools.wraps(function)(awaited if inspect.iscoroutinefunction(function) else plain)
    wrapper.capture = capture
    return cast("F", wrapper)
