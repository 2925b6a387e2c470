"""The profiler behind a small protocol, and jax's profiler as its one real implementation.

jax's own ``stop_trace`` collects the trace, writes it, and converts it to JSON; the conversion takes most of
the time. Where this jax lets us reach the running session, only the bytes are taken. The session is still
started by the public function, so that everybody else who asks jax sees that a session is running.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tpuprof.capture.compiles import compile_log
from tpuprof.capture.environment import Environment, observe
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.process import git_look
from tpuprof.errors import CaptureError, MissingDependencyError, ProfilerBusyError

_BUSY_TEXTS = ("ALREADY_EXISTS", "already been started", "Another profiling session", "Only one profile")
_OTHER_HOLDERS = (
    "profile-guided recompilation (JAX_ENABLE_PGLE)",
    "a client of jax.profiler.start_server",
    "another library that drives the same profiler",
)


class Profiler(Protocol):
    """What a capture needs from a profiler. Calls come in the order prepare, drain, start, drain, stop."""

    def prepare(self) -> Environment:
        """Brings the backends up: a session that starts before them has no device rows."""
        ...

    def drain(self) -> None:
        """Waits until the devices have done what they were given."""
        ...

    def start(self, options: CaptureOptions, logdir: Path) -> None:
        """Starts the session.

        Raises:
            ProfilerBusyError: somebody else's session is running.
        """
        ...

    def stop(self) -> bytes:
        """Ends the session, whatever happens, and returns the serialised XSpace.

        Raises:
            ProfilerBusyError: the session never recorded, because somebody else's was running.
            CaptureError: there is no trace.
        """
        ...

    def check_devices(self) -> None:
        """Proves that the devices still work after the end of the session.

        Raises:
            CaptureError: they do not.
        """
        ...


class JaxProfiler:
    """jax's profiler in this process."""

    def __init__(self) -> None:
        self._session: Any = None
        self._staging: str | None = None

    def prepare(self) -> Environment:
        """Brings the backends up and describes them."""
        jax = _import("jax")
        compile_log.watch()
        git_look.start()
        return observe(jax)

    def drain(self) -> None:
        """Waits for all live arrays, the transfers of every local device, and pending side effects."""
        jax = _import("jax")
        # Results that are still awaited are alive; donated ones may be deleted while we look.
        for array in jax.live_arrays():
            with suppress(Exception):
                if not array.is_deleted():
                    array.block_until_ready()
        _touch_devices(jax)
        jax.effects_barrier()

    def check_devices(self) -> None:
        """Sends every local device a number, as a program's next step would."""
        try:
            _touch_devices(_import("jax"))
        except Exception as error:
            raise CaptureError(
                "The devices fail since the profiler was stopped.",
                why=f"{_line(error)}.",
                hint="Known of some drivers: capture without device tracing, or update the driver.",
            ) from error

    def start(self, options: CaptureOptions, logdir: Path) -> None:
        """Starts jax's session, unless one is running already."""
        profiler = _import("jax.profiler")
        holders = _holders()
        if holders:
            raise _busy(holders)
        state = _private_state()
        if state is None:
            self._staging = tempfile.mkdtemp(prefix="tpuprof-staging-")
        try:
            profiler.start_trace(self._staging or str(logdir), profiler_options=_profile_options(profiler, options))
        except CaptureError:
            self._drop_staging()
            raise
        except Exception as error:
            self._drop_staging()
            if _says_busy(error):
                raise _busy(_OTHER_HOLDERS) from error
            raise CaptureError("The jax profiler did not start.", why=f"{_line(error)}.") from error
        except BaseException:  # Ctrl-C shows when the session has begun, and would leave it running for ever
            self._abandon(state)
            raise
        self._session = None if state is None else state.profile_session

    def stop(self) -> bytes:
        """Ends our session and takes its bytes; leaves other people's sessions alone."""
        try:
            data = self._stop_staged() if self._staging is not None else self._stop_session()
        except CaptureError:
            raise
        except Exception as error:
            if _says_busy(error):
                raise _busy(_OTHER_HOLDERS) from error
            raise CaptureError("The jax profiler did not deliver a trace.", why=f"{_line(error)}.") from error
        finally:
            self._session = None
            self._drop_staging()
        if not data:
            raise CaptureError(
                "The jax profiler delivered an empty trace.",
                why="A trace above 2 GB cannot be serialised.",
                hint="Capture fewer steps, or fewer chips with tpu_num_chips_to_profile_per_task.",
            )
        return data

    def _stop_session(self) -> bytes:
        state = _private_state()
        with state.lock:
            session = state.profile_session
            if session is None or session is not self._session:
                raise CaptureError(
                    "The profiler session of this capture was ended by other code.",
                    why="jax.profiler.stop_trace was called while the capture was running.",
                )
            try:
                return bytes(session.stop())
            finally:  # also after a failure, or every later session of the process would be refused
                state.reset()
                with suppress(Exception):
                    importlib.import_module("jax._src.profiler").clear_metadata()

    def _stop_staged(self) -> bytes:
        staging = Path(self._staging or "")
        stop_trace = _import("jax.profiler").stop_trace
        getattr(stop_trace, "__wrapped__", stop_trace)()  # a program's own calls are kept from our session
        return b"".join(path.read_bytes() for path in sorted(staging.rglob("*.xplane.pb"))[:1])

    def _abandon(self, state: Any) -> None:
        with suppress(Exception):
            if state is None:
                self._stop_staged()
            else:
                self._session = state.profile_session
                self._stop_session()
        self._session = None
        self._drop_staging()

    def _drop_staging(self) -> None:
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging = None


def _touch_devices(jax: Any) -> None:
    with jax.transfer_guard("allow"):  # a program may forbid transfers to itself
        for device in jax.local_devices():
            jax.device_put(0, device).block_until_ready()


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"Capturing needs jax, and {error.name} is not installed.",
            hint='Install it: pip install "tpuprof[capture]".',
        ) from error


def _private_state() -> Any:
    """jax's record of the running session where it has the parts that we use; None in a jax that differs."""
    try:
        state: Any = importlib.import_module("jax._src.profiler")._profile_state
        session_type: Any = importlib.import_module("jax._src.lib")._profiler.ProfilerSession
    except (ImportError, AttributeError):
        return None
    parts = (hasattr(state, name) for name in ("lock", "profile_session", "reset"))
    return state if all(parts) and hasattr(session_type, "stop") else None


def _profile_options(profiler: Any, options: CaptureOptions) -> Any:
    make = getattr(profiler, "ProfileOptions", None)
    if make is None:
        raise CaptureError("This jax has no profiler options.", hint="Install jax 0.6.2 or newer.")
    made = make()
    made.host_tracer_level = options.host_tracer_level
    made.python_tracer_level = options.python_tracer_level
    made.enable_hlo_proto = options.enable_hlo_proto
    if options.advanced:
        made.advanced_configuration = dict(options.advanced)
    return made


def _holders() -> tuple[str, ...]:
    """Who seems to hold the profiler, asked from the profiler itself; empty when nobody does."""
    state = _private_state()
    if state is not None and state.profile_session is not None:
        return (f"jax.profiler.start_trace with the log directory {getattr(state, 'log_dir', None)}",)
    # A session that was started below jax shows only in that annotations are being recorded. jax's own second
    # session would start without a word and fail at its end.
    try:
        annotation: Any = importlib.import_module("jax.profiler").TraceAnnotation
        recording = bool(annotation.is_enabled())
    except (ImportError, AttributeError, TypeError):
        return ()
    return _OTHER_HOLDERS if recording else ()


def _busy(holders: tuple[str, ...]) -> ProfilerBusyError:
    return ProfilerBusyError(
        "The profiler of this process is held by another session.",
        why=f"Likely holder: {', or '.join(holders)}.",
        hint="Capture again when it has ended, or switch it off.",
    )


def _says_busy(error: Exception) -> bool:
    return any(text in str(error) for text in _BUSY_TEXTS)


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.') if text else 'no message'}"
