"""Names for parts of a program: on the host's timeline, and on the ops that are traced meanwhile."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from tpuprof.capture.checking import instance
from tpuprof.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def annotate(name: str, **facts: str | int | float | bool) -> Annotation:
    """Gives a part of the program a name: ``with annotate("attention", layer=3): …`` or ``@annotate("attention")``.

    What runs inside shows on its thread in the trace, as a host event with the facts as its stats. What jax *traces*
    inside, as part of a jitted function, gets the name as a scope: it is a level of the column ``scope`` of the ops,
    on the device, and of ``tpuprof scopes``. Without jax nothing happens. Outside a capture it costs a few
    microseconds.

    Raises:
        UsageError: the name is empty or no text, or a fact has a type that a trace cannot hold.
    """
    instance("name", name, str)
    if not name:
        raise UsageError("An annotation needs a name.", hint='Write tpuprof.annotate("attention").')
    for key, value in facts.items():
        if not isinstance(value, str | int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{key}={value!r} cannot be a fact of an annotation.", hint="Use texts and numbers.")
    return Annotation(name, facts)


class Annotation:
    """The context manager and decorator behind `annotate`; can be entered again and again, also inside itself."""

    __slots__ = ("_facts", "_name", "_open")

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self._name = name
        self._facts = facts
        self._open: list[tuple[Any, Any]] = []

    def __enter__(self) -> Annotation:
        jax = sys.modules.get("jax")
        if jax is None:
            self._open.append((None, None))
            return self
        event = jax.profiler.TraceAnnotation(self._name, **self._facts)
        scope = jax.named_scope(self._name)
        event.__enter__()
        try:
            scope.__enter__()
        except BaseException:
            event.__exit__(None, None, None)
            raise
        self._open.append((event, scope))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        event, scope = self._open.pop()
        if scope is not None:
            scope.__exit__(kind, error, traceback)
            event.__exit__(kind, error, traceback)

    def __call__(self, function: F) -> F:
        """The function, annotated in every call."""
        name, facts = self._name, self._facts

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with Annotation(name, facts):  # one per call: calls may overlap in threads
                return function(*args, **kwargs)

        return cast("F", annotated)
