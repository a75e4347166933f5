"""The two kinds of errors that a program reports in one line, and where a worker's error came from."""

from __future__ import annotations

_PLACE = "a3c_tf_place"


class UsageError(ValueError):
    """What was asked for cannot be done; the message says what was expected, what came and what to do.

    Raised before any training. Programs print it as one line and exit with 2.
    """


class RunError(Exception):
    """A run that had begun cannot go on; the message says what was found and what to do.

    A note says in which worker. Programs print it as one line and exit with 1.
    """


def mark_place(error: BaseException, place: str) -> None:
    """Mark ``error`` as one that ended the run in ``place``, as in "in worker W_0, its episode 2, step 8".

    A note says it to those who read a traceback (Python 3.11 and later).
    """
    # not setattr: an environment's exception may be a frozen dataclass
    BaseException.__setattr__(error, _PLACE, place)
    BaseException.__setattr__(error, "__notes__", [*getattr(error, "__notes__", []), place])


def marked_place(error: BaseException) -> str | None:
    """The place that ``error`` was marked with, or None for one that did not come from a worker."""
    return vars(error).get(_PLACE)
