"""What the one who keeps a run and the workers of other processes say to each other.

A worker asks and waits for the answer, in JSON: may it run an episode, may it take steps, here is a finished
episode. Weights and gradients do not pass here but through the parameter server.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from a3c_tf.cluster import Mirror, Packet, number_of_workers
from a3c_tf.config import Config, RunError
from a3c_tf.counters import Counters
from a3c_tf.worker import Episode

LEASE_ROLLOUTS = 20
"""steps of a budget are claimed for this many rollouts at once, so that not every rollout asks"""
START_SECONDS = 180.0
"""how long a process may take to join; importing TensorFlow in many processes at once takes most of it"""
STOP_SECONDS = 4.0
"""how long a process may take to end after a stop was asked for; the trainer waits a second longer"""

_log = logging.getLogger("a3c_tf")


class WorkerError(RunError):
    """A worker in another process failed; its traceback there is the cause."""


class RemoteTraceback(Exception):
    """The traceback of another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ServerLostError(RunError):
    """The parameter server is gone: the run is over, and can be resumed."""


class LostError(Exception):
    """A worker's process is gone; the message says how it ended."""


class RemoteLedger:
    """The run's ledger and counters as a worker in another process has them; ``worker.Counters`` and ``on_episode``.

    ``steps`` are those of all workers, as of the last pull. ``stopped`` is set when the run is to end.
    """

    def __init__(self, ask: Callable[..., Any], config: Config, steps: int) -> None:
        self._ask, self._limited, self._before = ask, config.max_steps is not None, steps
        self._granted = 0
        self.steps, self.stopped = steps, False

    def told(self, pushed: int, stop: bool) -> None:
        """Take what a pull brought beside the parameters."""
        self.steps, self.stopped = self._before + pushed, stop

    def should_stop(self) -> bool:
        return self.stopped

    def claim_episode(self) -> bool:
        return bool(self._ask("claim_episode"))

    def claim_steps(self, wanted: int) -> int:
        if not self._limited:
            return wanted
        if self._granted == 0:
            self._granted = int(self._ask("claim_steps", wanted * LEASE_ROLLOUTS))
        return min(wanted, self._granted)

    def settle_steps(self, claimed: int, taken: int) -> None:
        """The server counted them with the push; what was claimed in vain stays with this worker."""
        if self._limited:
            self._granted -= taken

    def abandon_episode(self) -> None:
        self._ask("abandon_episode")

    def episode(self, told: Episode) -> None:
        self._ask("episode", *told)


class Channel(Protocol):
    """The keeper's end of a way to the workers of one process."""

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        """(worker, message), or None if none came in time. Raises ``LostError``."""

    def answer(self, worker: int, answer: Any) -> None:
        """Raises ``LostError``."""

    def end(self) -> str:
        """See that the process is gone, within a moment; where it hung if it did not go by itself, else empty."""


class Network(Protocol):
    """As much of the global network as the keeper of a run needs; each raises ``ServerLostError``."""

    def read(self) -> Packet: ...

    def write(self, learnt: Packet) -> None: ...

    def request_stop(self) -> Any: ...

    def check(self) -> None:
        """Raises ``ServerLostError`` if it is known to be gone."""


class Keeper:
    """The run's books, from what its workers say and what the parameter server counts. Any thread may call.

    ``before`` are the steps of the run before it was resumed; ``episodes`` gives those that each worker has finished.
    """

    def __init__(self, config: Config, network: Network, mirror: Mirror, before: int, episodes: dict[str, int]) -> None:
        self.config, self.network, self.before, self.episodes = config, network, before, episodes
        self._mirror = mirror
        self._lock = threading.Lock()
        self._pushed = np.zeros(number_of_workers(config), np.int64)
        self._leased = self._pushed.copy()
        self._restarts = config.restarts

    def open(self, counters: Counters, on_episode: Callable[[Episode], None], episodes: dict[str, int]) -> None:
        """From now on the run's ledger counts."""
        self.counters, self._on_episode, self.episodes = counters, on_episode, episodes

    def refresh(self) -> None:
        """Take over what the server has now: all that is learnt, and the steps."""
        with self._lock:
            pushed = self._mirror.take(self.network.read())
            taken = int((pushed - self._pushed).sum())
            self.counters.settle_steps(taken, taken)
            self._pushed = pushed

    def episode(self, told: Episode) -> None:
        self.refresh()
        self._on_episode(told)

    def lease_steps(self, worker: int, wanted: int) -> int:
        with self._lock:
            granted = self.counters.claim_steps(wanted)
            self._leased[worker] += granted
            return granted

    def end_lease(self, worker: int) -> None:
        """Give back the steps that a worker claimed and did not take."""
        self.refresh()
        with self._lock:
            if self.config.max_steps is not None:
                self.counters.settle_steps(int(self._leased[worker] - self._pushed[worker]), 0)
            self._leased[worker] = self._pushed[worker]

    def may_restart(self) -> bool:
        with self._lock:
            self._restarts -= 1
            return self._restarts >= 0


class WorkerProcess:
    """The workers of one process, as a task of the trainer: answers them until they are done.

    ``start`` starts the process, or waits for it; ``restarts`` says whether it can be called again.
    """

    def __init__(self, index: int, keeper: Keeper, start: Callable[[], Channel]) -> None:
        self._workers = range(index * keeper.config.workers, (index + 1) * keeper.config.workers)
        self.name = self.place = f"process {index} ({', '.join(f'W_{i}' for i in self._workers)})"
        self._keeper, self._start = keeper, start
        self._channel = start()
        self._running: set[int] = set()
        self._holding: set[int] = set()
        self._waiting: set[int] = set()

    def join(self, seconds: float, welcome: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer the process until all its workers are ready. Raises ``RunError`` if they are not in time."""
        deadline = time.monotonic() + seconds
        self._welcome, ready = welcome, 0
        while ready < len(self._workers):
            if time.monotonic() > deadline:
                raise RunError(f"{self.name} has not joined after {seconds:.0f} s")
            self._keeper.network.check()
            try:
                ready += self._join_step()
            except LostError as loss:
                raise RunError(f"{self.name} {loss} before it had joined") from None
        self._running = set(self._workers)

    def _join_step(self) -> int:
        """Handle what comes next; 1 if a worker is ready."""
        match self._channel.receive(0.1):
            case worker, ["hello", told]:
                self._channel.answer(worker, self._welcome(told))
            case worker, ["ready"]:
                self._channel.answer(worker, True)
                return 1
            case _, ["failed", *what]:
                self._raise_failure(*what)
        return 0

    def serve(self, should_stop: Callable[[], bool]) -> WorkerProcess:
        """``work`` until ``should_stop``; returns itself."""
        self._should_stop = should_stop
        return self

    def work(self) -> None:
        """Serve the workers, and start the process again if it was killed."""
        self._deadline: float | None = None
        while self._running:
            try:
                self._serve_once()
            except LostError as loss:
                self._mourn(loss)
        self._channel.end()

    def _serve_once(self) -> None:
        self._keeper.network.check()
        if self._should_stop():
            self._see_to_the_stop()
        if message := self._channel.receive(0.1 if not self._waiting else 0.02):
            self._handle(message[0], *message[1])
        for worker in [*self._waiting]:
            self._grant_episode(worker)

    def _see_to_the_stop(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + STOP_SECONDS
            self._keeper.network.request_stop()
        elif time.monotonic() > self._deadline:
            self._running.clear()
            where = self._channel.end()
            raise RunError(f"{STOP_SECONDS:.0f} s after the stop was asked for, {self.name} hangs in:\n{where}")

    def _handle(self, worker: int, kind: str, *what: Any) -> None:
        if kind == "claim_episode":
            self._waiting.add(worker)
        elif kind == "claim_steps":
            self._channel.answer(worker, self._keeper.lease_steps(worker, what[0]))
        elif kind == "abandon_episode":
            self._abandon(worker)
            self._channel.answer(worker, True)
        elif kind == "episode":
            name, episode_return, length, actor_loss, critic_loss, more = what
            self._holding.discard(worker)
            self._keeper.episode(Episode(name, episode_return, length, actor_loss, critic_loss, tuple(more)))
            self._channel.answer(worker, True)
        elif kind == "done":
            self._running.discard(worker)
            self._keeper.end_lease(worker)
            self._channel.answer(worker, True)
        else:
            self._raise_failure(*what)

    def _grant_episode(self, worker: int) -> None:
        """Answer a claim: an episode that another worker has may come back, so no is said only at the very end."""
        counters = self._keeper.counters
        granted = not self._should_stop() and counters.claim_episode()
        if granted or counters.used_up or self._should_stop():
            self._waiting.discard(worker)
            if granted:
                self._holding.add(worker)
            self._channel.answer(worker, granted)

    def _abandon(self, worker: int) -> None:
        self._holding.discard(worker)
        self._keeper.counters.abandon_episode()
        self._keeper.refresh()

    def _mourn(self, loss: LostError) -> None:
        """Give back what a lost process held, and start another."""
        self._keeper.network.check()
        for worker in [*self._holding]:
            self._abandon(worker)
        for worker in self._running:
            self._keeper.end_lease(worker)
        self._waiting.clear()
        self._channel.end()
        if self._should_stop():
            self._running.clear()
        elif not self._keeper.may_restart():
            raise RunError(f"{self.name} {loss}, and restarts = {self._keeper.config.restarts} are used up")
        else:
            _log.warning("%s %s; it is started again", self.name, loss)
            self._channel = self._start()
            self.join(START_SECONDS, self._welcome)

    def _raise_failure(self, kind: str, message: str, text: str | None, place: str, lost_server: bool) -> None:
        if lost_server:
            self._wait_for_the_servers_end(message)
            self._running.clear()
            return
        self._running.clear()
        self.place = place
        if text is None:
            raise WorkerError(message)
        raise WorkerError(f"{kind}: {message}") from RemoteTraceback(text)

    def _wait_for_the_servers_end(self, message: str) -> None:
        """The process that watches the server tells of its end, once; this raises only if nobody does."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not self._should_stop():
            self._keeper.network.check()
            time.sleep(0.05)
        if not self._should_stop():
            raise ServerLostError(message)

