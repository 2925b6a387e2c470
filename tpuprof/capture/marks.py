"""Following what the program does with jax's profiler: its step annotations, and traces of its own.

The annotation class is changed in place, so that every name under which a program or a library imported it is
followed; `restore` takes the changes back.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tpuprof.capture.stepmarks import StepObserver

_METHODS = ("__init__", "__enter__", "__exit__")


class MarkPatch:
    """Tells `observer` of every ``StepTraceAnnotation``, and keeps traces of the program apart from ours.

    Args:
        observer: hears of every step.
        give_way: called before ``start_trace``.
        recording: whether the running session is ours. Then ``stop_trace`` answers as it would without us, that
            there is none, and does not end it: programs call it to be sure, and others write what it collects.
    """

    def __init__(self, observer: StepObserver, give_way: Callable[[], None], recording: Callable[[], bool]) -> None:
        self._observer = observer
        self._give_way = give_way
        self._recording = recording
        self._annotation: Any = None
        self._own: dict[str, Any] = {}
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # module, name, its function, ours

    def apply(self) -> None:
        """Changes the annotation class and the functions that start and stop traces.

        Raises:
            AttributeError, TypeError: this jax has no such class, or it cannot be changed.
        """
        public: Any = importlib.import_module("jax.profiler")
        self._follow_annotation(public.StepTraceAnnotation)
        start, stop = public.start_trace, public.stop_trace
        give_way, recording = self._give_way, self._recording

        @functools.wraps(start)
        def start_trace(*args: Any, **kwargs: Any) -> Any:
            give_way()
            return start(*args, **kwargs)

        @functools.wraps(stop)
        def stop_trace(*args: Any, **kwargs: Any) -> Any:
            if recording():
                raise RuntimeError("No profile started")
            return stop(*args, **kwargs)

        self._replace(public, "start_trace", start, start_trace)
        self._replace(public, "stop_trace", stop, stop_trace)

    def restore(self) -> None:
        """Gives the annotation class and the functions back, unless others have changed them since."""
        for home, name, original, replacement in self._replaced:
            if getattr(home, name) is replacement:
                setattr(home, name, original)
        self._replaced = []
        cls, self._annotation = self._annotation, None
        if cls is None:
            return
        for name in _METHODS:
            if name in self._own:
                setattr(cls, name, self._own[name])
            elif name in vars(cls):
                delattr(cls, name)

    def _replace(self, public: Any, name: str, original: Any, replacement: Any) -> None:
        homes = [public]
        with suppress(ImportError):  # jax.profiler.trace calls the functions under their private address
            private: Any = importlib.import_module("jax._src.profiler")
            homes += [private] if getattr(private, name, None) is original else []
        for home in homes:
            setattr(home, name, replacement)
            self._replaced.append((home, name, original, replacement))

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
