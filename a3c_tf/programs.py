"""What every program of this package does alike: how it can be stopped, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from a3c_tf.config import UsageError

DONE, FAILED, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came: to be handled like Ctrl-C."""


def exit_code(main: Callable[[], int]) -> int:
    """Run ``main``: 0 it was done, 1 the run failed, 2 it was refused before training, 130 Ctrl-C, 143 SIGTERM.

    A refusal is one line. A failure keeps its traceback: it is the environment's or ours to mend. A
    first Ctrl-C or SIGTERM stops in good order, a second one leaves at once.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("a3c_tf").setLevel(logging.INFO)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        return main()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except Terminated:
        print("terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _leave_at_once)
    signal.signal(signal.SIGTERM, _leave_at_once)
    raise (Terminated if number == signal.SIGTERM else KeyboardInterrupt)()


def _leave_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(TERMINATED if number == signal.SIGTERM else INTERRUPTED)
