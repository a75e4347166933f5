"""The two kinds of errors that a program tells in one line."""

from __future__ import annotations


class UsageError(ValueError):
    """What was asked for cannot be done; the message says what was expected, what came and what to do.

    Raised before any training. Programs print it as one line and exit with 2.
    """


class RunError(Exception):
    """A run that had begun cannot go on; the message says what was found and what to do.

    A note says in which worker. Programs print it as one line and exit with 1.
    """
