"""The workers of one process, as the chief serves them: joining, answers, loss, restart and stop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from a3c_tf.distributed.channels import (
    Channel,
    HangingProcessError,
    ProcessLostError,
    RemoteError,
    ServerGoneError,
    ServerLostError,
    WorkerError,
)
from a3c_tf.distributed.chief import Chief
from a3c_tf.distributed.numbering import workers_of
from a3c_tf.errors import RunError
from a3c_tf.records import Episode

START_SECONDS = 180.0
"""how long a process may take to join; importing TensorFlow in many processes at once takes most of it"""
STOP_SECONDS = 4.0
"""how long a process may take to end after a stop was asked for; the trainer waits a second longer"""
_MAIN_GUARD = "a program that trains with processes needs `if __name__ == '__main__':` around what it runs"

_log = logging.getLogger("a3c_tf")


class WorkerProcess:
    """The workers of one process, as a task of the trainer: answers them until they are done.

    ``start`` starts the process; it is called again if the process was killed. One that is ``external`` is started
    by somebody else, when they like: the run goes on without it.
    """

    def __init__(self, index: int, chief: Chief, start: Callable[[], Channel], external: bool = False) -> None:
        workers = workers_of(index, chief.config)
        self.name = self.place = f"process {index} ({', '.join(f'W_{i}' for i in workers)})"
        self._chief, self._start, self._external = chief, start, external
        self._workers, self._running = workers, set(workers)
        self._should_stop: Callable[[], bool] = lambda: False
        self._deadline: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._absent = set(self._running)
        self._join_until = math.inf if self._external else time.monotonic() + START_SECONDS
        self._holding: set[int] = set()
        self._waiting: set[int] = set()
        self._channel = self._start()

    def join(self) -> None:
        """Answer the process until its workers are ready. Raises ``RunError`` if they are not in time, or fail."""
        while self._absent:
            try:
                self._serve_once()
            except ProcessLostError as loss:
                raise RunError(f"{self.name} {loss} before it had joined; {_MAIN_GUARD}") from None

    def serve(self, should_stop: Callable[[], bool]) -> WorkerProcess:
        """``work`` until ``should_stop``; returns itself."""
        self._should_stop = should_stop
        return self

    def work(self) -> None:
        """Serve the workers until they are done, and start the process again if it was killed."""
        while self._running:
            try:
                self._serve_once()
            except ProcessLostError as loss:
                self._on_process_lost(loss)
            except ServerGoneError:
                self._running.clear()
        self._channel.end()

    def _serve_once(self) -> None:
        self._chief.network.check()
        if self._absent and self._chief.is_over:
            self._running.clear()
            return
        if self._should_stop():
            self._enforce_the_stop()
        if self._absent and time.monotonic() > self._join_until:
            raise RunError(f"{self.name} has not joined after {START_SECONDS:.0f} s")
        if message := self._channel.receive(0.1 if not self._waiting else 0.02):
            self._handle(message[0], *message[1])
        for worker in [*self._waiting]:
            self._grant_episode(worker)

    def _enforce_the_stop(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + STOP_SECONDS
            self._chief.network.request_stop()
        if self._absent:
            self._running.clear()  # it has nothing to lose
        elif self._running and time.monotonic() > self._deadline:
            self._running.clear()
            raise HangingProcessError(
                f"{STOP_SECONDS:.0f} s after the stop was asked for, {self.name} hangs{self._channel.where_it_hangs()}"
            )

    def _handle(self, worker: int, kind: str, *what: Any) -> None:
        answer: Any = True
        if worker in self._absent and kind not in ("hello", "ready", "failed"):
            answer = "given up"
        elif kind == "hello":
            answer = self._chief.welcome(what[0])
        elif kind == "ready":
            self._absent.discard(worker)
        elif kind == "claim_episode":
            self._chief.end_lease(worker)
            self._waiting.add(worker)
            return
        elif kind == "claim_steps":
            answer = self._chief.lease_steps(worker, what[0])
        elif kind == "abandon_episode":
            self._abandon(worker)
        elif kind == "episode":
            self._holding.discard(worker)
            self._chief.episode(Episode(*what[0]), what[1])
        elif kind == "done":
            self._running.discard(worker)
            self._chief.refresh()
            self._chief.end_lease(worker)
        else:
            self._fail(*what)
            return
        self._channel.answer(worker, answer)

    def _grant_episode(self, worker: int) -> None:
        """Answer a claim: an episode that another worker has may come back, so no is said only at the very end."""
        counters = self._chief.counters
        if counters is None:
            return  # the run begins when the workers of all processes have joined
        granted = not self._should_stop() and counters.claim_episode()
        if granted or self._chief.is_over or self._should_stop():
            self._waiting.discard(worker)
            if granted:
                self._holding.add(worker)
            self._channel.answer(worker, granted)

    def _abandon(self, worker: int) -> None:
        self._holding.discard(worker)
        self._chief.counters.abandon_episode()
        self._chief.refresh()

    def _on_process_lost(self, loss: ProcessLostError) -> None:
        """Give back what a lost process held, and start another."""
        self._chief.network.check()
        for worker in [*self._holding]:
            self._abandon(worker)
        for worker in self._running:
            self._chief.end_lease(worker)
        self._channel.end()
        if self._should_stop() or self._chief.is_over:
            self._running.clear()
        elif self._external:
            _log.warning("%s %s; the others go on, and it may join again", self.name, loss)
            self._running = set(self._workers)
            self._begin()
        elif not self._chief.may_restart():
            self._running.clear()
            raise RunError(f"{self.name} {loss}, and restarts = {self._chief.config.restarts} are used up")
        else:
            _log.warning("%s %s; it is started again", self.name, loss)
            self._begin()

    def _fail(self, kind: str, message: str, text: str | None, place: str, lost_server: bool) -> None:
        self._running.clear()
        self._absent.clear()
        if lost_server:
            self._wait_for_the_servers_end(message)
            return
        self.place = place
        if text is None:
            raise WorkerError(message)
        raise WorkerError(f"{kind}: {message}") from RemoteError(text)

    def _wait_for_the_servers_end(self, message: str) -> None:
        """Whoever sees the server end reports it, once; this raises only if nobody does."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not self._should_stop():
            self._chief.network.check()
            time.sleep(0.05)
        if not self._should_stop():
            raise ServerLostError(f"the parameter server does not answer a worker: {message.splitlines()[0]}")
