"""What every program of this package does alike: how it can be stopped, and how it ends."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from a3c_tf.errors import RunError, UsageError

DONE, FAILED, REFUSED, INTERRUPTED, UNREAD, TERMINATED = 0, 1, 2, 130, 141, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came: to be handled like Ctrl-C."""


def exit_code(main: Callable[[], int]) -> int:
    """Run ``main``: 0 it was done, 1 the run failed, 2 it was refused before training, 130 Ctrl-C, 143 SIGTERM,
    141 nobody reads its output any more, as in ``| head``.

    A refusal is one line, and so is a failure that says all in its message. Any other failure keeps its
    traceback: it is the environment's or ours to mend. A first Ctrl-C or SIGTERM stops in good order, a
    second one leaves at once.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("a3c_tf").setLevel(logging.INFO)
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()  # Python would do so after everything, and print a traceback if nobody reads it
    except BaseException as error:
        return _told(error)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(error: BaseException) -> int:
    """Tell of ``error`` and translate it; raises what is not ours to tell."""
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return UNREAD
    notes = getattr(error, "__notes__", [])
    if isinstance(error, RunError) and error.__cause__ is None:
        print("error:", ": ".join([*notes, str(error)]), file=sys.stderr)
        return FAILED
    if notes:  # a worker's: an environment may raise SystemExit(0) or an interrupt of its own
        traceback.print_exception(error)
        return FAILED
    if isinstance(error, UsageError):
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    if isinstance(error, KeyboardInterrupt):
        print("terminated" if isinstance(error, Terminated) else "interrupted", file=sys.stderr)
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    raise error


def _nobody_reads() -> bool:
    """Whether stdout is a pipe with no reader; then nothing more is written there."""
    out = select.poll()
    out.register(sys.stdout.fileno(), 0)
    closed = any(event & (select.POLLERR | select.POLLHUP) for _, event in out.poll(0))
    if closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return closed


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _leave_at_once)
    signal.signal(signal.SIGTERM, _leave_at_once)
    raise (Terminated if number == signal.SIGTERM else KeyboardInterrupt)()


def _leave_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(TERMINATED if number == signal.SIGTERM else INTERRUPTED)
