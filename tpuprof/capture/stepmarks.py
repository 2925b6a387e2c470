"""Marking steps: where one training or serving step begins and ends.

Marks end up in the trace as jax's own step annotations, and are counted, which is how the launcher finds the
steps that it was asked for. Outside a capture a mark costs about a microsecond; without jax it only counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from tpuprof.errors import UsageError

T = TypeVar("T")


class StepObserver(Protocol):
    """Somebody who wants to know of every step of this process."""

    def before_step(self) -> None:
        """A step is about to begin; its annotation does not exist yet."""
        ...

    def enter_step(self) -> None:
        """A step has begun."""
        ...

    def exit_step(self) -> None:
        """A step has ended."""
        ...


def step(step_num: int | None = None) -> StepMark:
    """Marks one step: ``with tpuprof.step(i): …``.

    Args:
        step_num: the number shown in the trace; None takes the number of marks before this one.
    """
    return StepMark(step_num)


def steps(
    iterable: Iterable[T], start: int = 0, *, logdir: str | os.PathLike[str] | None = None, **arguments: Any
) -> Iterator[T]:
    """Yields the items; the loop's body runs inside a step for each, numbered from `start`.

    Waiting for the next item lies between two steps.

    Args:
        iterable: what to loop over.
        start: number of the first step in the trace. Schedules count from 0 all the same.
        logdir: captures into this log directory by way of `Profiler`, until the loop ends; None only marks.
        arguments: those of `Profiler`, such as ``schedule``.

    Raises:
        UsageError: an argument of `Profiler` is wrong, or is given without `logdir`.
    """
    if logdir is None:
        if arguments:
            raise UsageError(f"{next(iter(arguments))}= needs a log directory.", hint="Give logdir=, too.")
        return _marked(iterable, start)
    from tpuprof.capture.loop import Profiler

    return _profiled(Profiler(logdir, **arguments), iterable, start)


def _marked(iterable: Iterable[T], start: int) -> Iterator[T]:
    for number, item in enumerate(iterable, start):
        with StepMark(number):
            yield item


def _profiled(profiler: Any, iterable: Iterable[T], start: int) -> Iterator[T]:
    with profiler:
        yield from _marked(iterable, start)


def step_count() -> int:
    """How many marks have begun in this process."""
    return _count


class StepMark:
    """The context manager behind `step`."""

    __slots__ = ("_annotation", "_step_num")

    def __init__(self, step_num: int | None = None) -> None:
        self._step_num = step_num
        self._annotation: Any = None

    def __enter__(self) -> None:
        global _count
        observers = _observers
        for observer in observers:
            observer.before_step()
        number = _count if self._step_num is None else self._step_num
        _count += 1
        annotate = _annotate if _annotate is not None else _find_annotation()
        if annotate is not None:
            # What jax's StepTraceAnnotation does; that class itself may carry the launcher's own counting.
            self._annotation = annotation = annotate("train", _r=1, step_num=number)
            annotation.__enter__()
        for observer in observers:
            observer.enter_step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        annotation = self._annotation
        if annotation is not None:
            self._annotation = None
            annotation.__exit__(kind, error, traceback)
        for observer in _observers:
            observer.exit_step()


def observe_steps(observer: StepObserver) -> None:
    """Has `observer` hear of every step from now on."""
    global _observers
    if observer not in _observers:
        _observers = (*_observers, observer)


def leave_steps(observer: StepObserver) -> None:
    """Ends `observe_steps`."""
    global _observers
    _observers = tuple(one for one in _observers if one is not observer)


_count = 0
_observers: tuple[StepObserver, ...] = ()
_annotate: Any = None


def _find_annotation() -> Any:
    """jax's annotation class once the program has imported jax; never imports it."""
    global _annotate
    _annotate = getattr(sys.modules.get("jax.profiler"), "TraceAnnotation", None)
    return _annotate
