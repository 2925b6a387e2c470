"""Following what the program does with jax's profiler: its step annotations, and traces of its own.

The annotation class is changed in place, so that every name under which a program or a library imported it is
followed; `restore` takes the changes back.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tpuprof.capture.stepmarks import StepObserver

_METHODS = ("__init__", "__enter__", "__exit__")


class MarkPatch:
    """Tells `observer` of every ``StepTraceAnnotation``, and calls `give_way` before ``start_trace``."""

    def __init__(self, observer: StepObserver, give_way: Callable[[], None]) -> None:
        self._observer = observer
        self._give_way = give_way
        self._annotation: Any = None
        self._own: dict[str, Any] = {}
        self._homes: list[Any] = []  # modules whose start function is ours
        self._original: Any = None
        self._replacement: Any = None

    def apply(self) -> None:
        """Changes the annotation class and the start functions.

        Raises:
            AttributeError, TypeError: this jax has no such class, or it cannot be changed.
        """
        public: Any = importlib.import_module("jax.profiler")
        self._follow_annotation(public.StepTraceAnnotation)
        private: Any = None
        with suppress(ImportError):
            private = importlib.import_module("jax._src.profiler")
        original = public.start_trace
        give_way = self._give_way

        def start_trace(*args: Any, **kwargs: Any) -> Any:
            give_way()
            return original(*args, **kwargs)

        start_trace.__doc__ = original.__doc__
        start_trace.__wrapped__ = original  # pyright: ignore[reportFunctionMemberAccess]
        self._homes = [public]
        # jax.profiler.trace calls the function under its private address.
        if getattr(private, "start_trace", None) is original:
            self._homes.append(private)
        for home in self._homes:
            home.start_trace = start_trace
        self._original, self._replacement = original, start_trace

    def restore(self) -> None:
        """Gives the annotation class and the start functions back, unless others have changed them since."""
        for home in self._homes:
            if home.start_trace is self._replacement:
                home.start_trace = self._original
        self._homes = []
        cls, self._annotation = self._annotation, None
        if cls is None:
            return
        for name in _METHODS:
            if name in self._own:
                setattr(cls, name, self._own[name])
            elif name in vars(cls):
                delattr(cls, name)

    def _follow_annotation(self, cls: Any) -> None:
        observer = self._observer
        make, enter, leave = (getattr(cls, name) for name in _METHODS)
        self._own = {name: vars(cls)[name] for name in _METHODS if name in vars(cls)}

        def made(annotation: Any, *args: Any, **kwargs: Any) -> None:
            observer.before_step()
            make(annotation, *args, **kwargs)

        def entered(annotation: Any) -> Any:
            observer.enter_step()
            return enter(annotation)

        def left(annotation: Any, *error: Any) -> Any:
            try:
                return leave(annotation, *error)
            finally:
                observer.exit_step()

        for name, method in zip(_METHODS, (made, entered, left), strict=True):
            setattr(cls, name, method)
        self._annotation = cls
