"""Decorators: the calls of a function inside a capture, or as steps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from tpuprof.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class Context(Protocol):
    """A context manager, such as a capture or a mark of a step."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


def captured_call(capture: Context, function: F) -> F:
    """The function, with its first call inside `capture`, which becomes its attribute ``capture``.

    Raises:
        UsageError: it is no function, or a generator.
    """
    unused = [capture]

    def once() -> Context:
        try:
            return unused.pop()  # of several threads exactly one gets it
        except IndexError:
            return nullcontext()

    wrapper: Any = wrapped_calls(function, once)
    wrapper.capture = capture
    return cast("F", wrapper)


def wrapped_calls(function: F, context: Callable[[], Context]) -> F:
    """The function, with every call inside what `context` makes for it; a coroutine until it ends.

    Raises:
        UsageError: it is no function, or a generator: its work is not done when it is called.
    """
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"{function!r} is not a function.", hint="Decorate a function that runs a step, or several.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"{function.__qualname__} is a generator: calling it runs nothing that could be captured.",
            hint="Capture the loop that consumes it.",
        )

    def plain(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with context():
            return await function(*args, **kwargs)

    return cast("F", functools.wraps(function)(awaited if inspect.iscoroutinefunction(function) else plain))
