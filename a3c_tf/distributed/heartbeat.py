"""Signs of life between the processes of a cluster, counted on the parameter server."""

from __future__ import annotations

import time

from a3c_tf.distributed.mailboxes import CALL_SECONDS, Mailboxes
from a3c_tf.graph.tf1 import tf

BEAT_SECONDS = 1.0
LOST_SECONDS = 15.0
"""after this long without a sign of life a process counts as lost: longer than it lives without the server"""
SILENT_SECONDS = 8.0
"""after this long without an answer the parameter server counts as lost"""


class Heartbeat:
    """Signs of life: gives those of process ``own``, and sees those of the chief, process 0."""

    def __init__(self, mailboxes: Mailboxes, own: int | None) -> None:
        self._mailboxes, self._seen = mailboxes, mailboxes.life()[0]
        self._since = [time.monotonic()] * len(self._seen)
        self._own = None if own is None else [int(i == own) for i in range(len(self._seen))]
        self._begun = False
        self.over = False

    def look(self) -> None:
        if self._own:
            self._mailboxes.beat(self._own)
        beats, (over,) = self._mailboxes.life()
        now = time.monotonic()
        self._since = [
            now if new != old else since for new, old, since in zip(beats, self._seen, self._since, strict=True)
        ]
        self._seen, self.over, self._begun = beats, bool(over), self._begun or beats[0] > 0

    def look_with_retries(self) -> None:
        """Look until there is an answer. Raises ``tf.errors.OpError`` if the server was silent for too long."""
        begun = time.monotonic()
        while True:
            try:
                self.look()
                return
            except tf.errors.OpError:
                if time.monotonic() - begun > SILENT_SECONDS - CALL_SECONDS:
                    raise
                time.sleep(0.2)

    def silent(self, process: int) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self._since[process]

    @property
    def chief_is_lost(self) -> bool:
        return self._begun and self.silent(0) > LOST_SECONDS
