"""What the chief and the workers of other processes say to each other, and what can happen on the way.

A worker asks in JSON, and waits for the answer: it claims an episode, claims steps, reports a finished episode.
Weights and gradients take another way, through the parameter server.
"""

from __future__ import annotations

from typing import Any, Protocol

from a3c_tf.errors import RunError
from a3c_tf.training.threads import EndedByForceError


class WorkerError(RunError):
    """A worker in another process failed; its traceback in that process is the cause."""


class RemoteError(Exception):
    """The traceback of another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class HangingProcessError(EndedByForceError):
    """A worker's process did not end when it was asked to, and was killed; the message says which."""


class ServerLostError(RunError):
    """The parameter server is gone: the run is over, and can be resumed."""


class ServerGoneError(Exception):
    """The parameter server is gone, and another thread reports it."""


class ProcessLostError(Exception):
    """A worker's process is gone; the message says how it ended."""


class Channel(Protocol):
    """The chief's end of a way to the workers of one process."""

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        """(worker, message), or None if none came in time. Raises ``ProcessLostError``."""

    def answer(self, worker: int, answer: Any) -> None:
        """Raises ``ProcessLostError``."""

    def end(self) -> None:
        """See that the process is gone, within a moment."""

    def where_it_hangs(self) -> str:
        """For the end of a message."""
