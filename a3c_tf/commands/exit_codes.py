"""What every program of this package does alike: how it can be stopped, and how it ends."""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from a3c_tf.errors import RunError, UsageError, marked_place

if TYPE_CHECKING:
    from types import FrameType

DONE, FAILED, REFUSED, INTERRUPTED, UNREAD, TERMINATED = 0, 1, 2, 130, 141, 143
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []
"""the signal that stops the program, once it came"""


def exit_code(main: Callable[[], int]) -> int:
    """Run ``main``: 0 it was done, 1 the run failed, 2 it was refused before training, 130 Ctrl-C, 143 SIGTERM,
    141 nobody reads its output any more, as in ``| head``.

    A refusal is one line, and so is a failure that says all in its message. Any other failure keeps its
    traceback: it is the environment's or ours to mend. A first Ctrl-C or SIGTERM stops in good order, a
    second one leaves at once, and so does one that comes when ``main`` has ended. To be called last in a
    program: the process stays as it is afterwards.
    """
    _received.clear()
    atexit.register(_on_signals, signal.SIG_IGN)  # for Python takes its handlers away after that
    try:
        try:
            _on_signals(_stop)
            _set_up_logging()
            code = main()
            sys.stdout.flush()  # Python would do so after everything, and print a traceback if nobody reads it
        finally:
            _on_signals(_leave_at_once)
    except BaseException as error:
        return _reported(error)
    return _interrupted() if _received else code  # a library has swallowed the exception


def _on_signals(handler: Any) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _set_up_logging() -> None:
    import logging  # here and not above, because a signal could come meanwhile

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("a3c_tf").setLevel(logging.INFO)


def _reported(error: BaseException) -> int:
    """Report ``error`` and translate it; raises what is not ours to report."""
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return UNREAD
    place = marked_place(error)
    if isinstance(error, RunError) and error.__cause__ is None:
        print(f"error: {place}: {error}" if place else f"error: {error}", file=sys.stderr)
        return FAILED
    if place:  # a worker's: an environment may raise SystemExit(0) or an interrupt of its own
        import traceback

        traceback.print_exception(error)
        return FAILED
    if isinstance(error, UsageError):
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    if _received or isinstance(error, KeyboardInterrupt):  # a library may have raised another exception in its place
        return _interrupted()
    raise error


def _interrupted() -> int:
    terminated = signal.SIGTERM in _received
    print("terminated" if terminated else "interrupted", file=sys.stderr)
    return TERMINATED if terminated else INTERRUPTED


def _nobody_reads() -> bool:
    """Whether stdout is a pipe with no reader; then nothing more is written to it."""
    out = select.poll()
    out.register(sys.stdout.fileno(), 0)
    closed = any(event & (select.POLLERR | select.POLLHUP) for _, event in out.poll(0))
    if closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return closed


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise what stops the program in good order."""
    if _is_importing(frame):  # nothing is begun yet, and an import that is broken off may swallow the exception
        _leave_at_once(number, frame)
    _on_signals(_leave_at_once)
    _received.append(number)
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the program was interrupted within an import."""
    while frame is not None and frame.f_code is not exit_code.__code__:
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _leave_at_once(number: int, frame: FrameType | None) -> NoReturn:
    terminated = number == signal.SIGTERM
    os.write(2, b"terminated\n" if terminated else b"interrupted\n")  # print may be in the middle of another line
    os._exit(TERMINATED if terminated else INTERRUPTED)
