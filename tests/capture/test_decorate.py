"""Captures as decorators."""

import asyncio

import pytest

import tpuprof
from tpuprof.capture import CaptureState
from tpuprof.errors import UsageError


def test_the_first_call_is_captured_and_all_calls_run(new_capture):
    made = new_capture()

    @made
    def train(n):
        """Doc."""
        return made.state, n

    assert train(1) == (CaptureState.RECORDING, 1)
    assert train(2) == (CaptureState.DONE, 2)
    assert train.capture is made
    assert made.path is not None
    assert (train.__name__, train.__doc__) == ("train", "Doc.")


def test_a_call_that_raises_is_captured_and_passes(new_capture):
    made = new_capture()
    with pytest.raises(ZeroDivisionError):
        made(lambda: 1 / 0)()
    assert made.ended_early == "The captured code raised ZeroDivisionError."


def test_a_coroutine_is_captured_until_it_ends(new_capture):
    made = new_capture()

    @made
    async def serve():
        await asyncio.sleep(0)
        return made.state

    assert asyncio.run(serve()) is CaptureState.RECORDING
    assert asyncio.run(serve()) is CaptureState.DONE


def test_what_cannot_be_captured_is_said(new_capture, tmp_path):
    def generator():
        yield 1

    with pytest.raises(UsageError, match=r"generator is a generator: calling it runs nothing .* Capture the loop"):
        new_capture()(generator)
    with pytest.raises(UsageError, match="is not a function"):
        new_capture()(int)
    with pytest.raises(UsageError, match=r"is not called yet. Write @tpuprof.capture\(\), with parentheses"):
        tpuprof.capture(generator)
    with pytest.raises(UsageError, match="budget=3 is not of type Budget"):
        tpuprof.capture(tmp_path, budget=3)
