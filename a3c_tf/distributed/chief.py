"""What the one who keeps a run and the workers of other processes say to each other.

A worker asks and waits for the answer, in JSON: may it run an episode, may it take steps, here is a finished
episode. Weights and gradients do not pass here but through the parameter server.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from a3c_tf.config import Config
from a3c_tf.distributed.parameter_server import Mirror, Packet, number_of_workers, workers_of
from a3c_tf.errors import RunError
from a3c_tf.records import Episode
from a3c_tf.training.ledger import Ledger
from a3c_tf.training.threads import EndedByForceError

LEASE_ROLLOUTS = 20
"""steps of a budget are claimed for this many rollouts at once, so that not every rollout asks"""
START_SECONDS = 180.0
"""how long a process may take to join; importing TensorFlow in many processes at once takes most of it"""
STOP_SECONDS = 4.0
"""how long a process may take to end after a stop was asked for; the trainer waits a second longer"""

MAIN_GUARD = "a program that trains with processes needs `if __name__ == '__main__':` around what it runs"

_log = logging.getLogger("a3c_tf")


class WorkerError(RunError):
    """A worker in another process failed; its traceback there is the cause."""


class RemoteError(Exception):
    """The traceback of another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class HangingProcessError(EndedByForceError):
    """A worker's process did not end when it was asked to, and was killed; the message says which."""


class ServerLostError(RunError):
    """The parameter server is gone: the run is over, and can be resumed."""


class ServerGoneError(Exception):
    """The parameter server is gone, and somebody else tells of it."""


class LostError(Exception):
    """A worker's process is gone; the message says how it ended."""


class RemoteLedger:
    """The run's ledger and counters as a worker in another process has them; ``worker.Counters`` and ``on_episode``.

    ``steps`` are those of all workers, as of the last pull. ``stopped`` is set when the run is to end.
    """

    def __init__(self, ask: Callable[..., Any], config: Config, steps: int, worker_episodes: dict[str, int]) -> None:
        self._ask, self._limited, self._before = ask, config.max_steps is not None, steps
        self._granted = 0
        self.steps, self.stopped, self.worker_episodes = steps, False, worker_episodes

    def told(self, pushed: int, stop: bool) -> None:
        """Take what a pull brought beside the parameters."""
        self.steps, self.stopped = self._before + pushed, stop

    def should_stop(self) -> bool:
        return self.stopped

    def claim_episode(self) -> bool:
        self._granted = 0  # the keeper takes back what is left, or nobody could begin an episode with it
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

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        self._ask("episode", episode, report)


class Channel(Protocol):
    """The keeper's end of a way to the workers of one process."""

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        """(worker, message), or None if none came in time. Raises ``LostError``."""

    def answer(self, worker: int, answer: Any) -> None:
        """Raises ``LostError``."""

    def end(self) -> None:
        """See that the process is gone, within a moment."""

    def where_it_hangs(self) -> str:
        """For the end of a message."""


class Network(Protocol):
    """As much of the global network as the keeper of a run needs; each raises ``ServerLostError``."""

    target: str

    def read(self) -> Packet: ...

    def write(self, learnt: Packet) -> None: ...

    def request_stop(self) -> Any: ...

    def check(self) -> None:
        """Raises ``ServerLostError`` if it is known to be gone."""


class Keeper:
    """The run's books, from what its workers say and what the parameter server counts. Any thread may call.

    ``specs`` are the spaces of the run as JSON, ``before`` its steps before it was resumed; ``episodes`` gives those
    that each worker has finished.
    """

    def __init__(
        self, config: Config, network: Network, mirror: Mirror, specs: str, before: int, episodes: dict[str, int]
    ) -> None:
        self.config, self.network = config, network
        self._mirror, self._specs, self._before, self._episodes = mirror, specs, before, episodes
        self._lock = threading.Lock()
        self._pushed = np.zeros(number_of_workers(config), np.int64)
        self._leased = self._pushed.copy()
        self._restarts = config.restarts
        self.counters: Any = None

    def open(self, ledger: Ledger) -> None:
        """From now on the run's ledger counts."""
        self.counters, self._episodes = ledger, ledger.worker_episodes

    def welcome(self, hello: dict[str, Any]) -> dict[str, Any]:
        """What a process that joins must know. Raises ``RunError`` if its environment is another."""
        if hello["specs"] != self._specs:
            raise RunError(f"a worker process has another environment: {hello['specs']} there, {self._specs} here")
        episodes = dict(self._episodes)
        return {"target": self.network.target, "seed": self.config.seed, "steps": self._before, "episodes": episodes}

    def refresh(self) -> None:
        """Take over what the server has now: all that is learnt, and the steps."""
        with self._lock:
            pushed = self._mirror.take(self.network.read())
            taken = int((pushed - self._pushed).sum())
            self.counters.settle_steps(taken, taken)
            self._pushed = pushed

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        self.refresh()
        self.counters.episode(episode, report)

    def lease_steps(self, worker: int, wanted: int) -> int:
        with self._lock:
            granted = self.counters.claim_steps(wanted)
            self._leased[worker] += granted
            return granted

    def end_lease(self, worker: int) -> None:
        """Give back the steps that a worker claimed and did not take."""
        if self.config.max_steps is not None and self.counters is not None:  # before the run begins nothing is claimed
            self.refresh()
            with self._lock:
                self.counters.settle_steps(int(self._leased[worker] - self._pushed[worker]), 0)
                self._leased[worker] = self._pushed[worker]

    @property
    def is_over(self) -> bool:
        """Whether the whole budget was run."""
        return self.counters is not None and self.counters.used_up

    def may_restart(self) -> bool:
        with self._lock:
            self._restarts -= 1
            return self._restarts >= 0


class WorkerProcess:
    """The workers of one process, as a task of the trainer: answers them until they are done.

    ``start`` starts the process; it is called again if the process was killed. One that is ``far`` is started
    by somebody else, when they like: the run goes on without it.
    """

    def __init__(self, index: int, keeper: Keeper, start: Callable[[], Channel], far: bool = False) -> None:
        workers = workers_of(index, keeper.config)
        self.name = self.place = f"process {index} ({', '.join(f'W_{i}' for i in workers)})"
        self._keeper, self._start, self._far = keeper, start, far
        self._workers, self._running = workers, set(workers)
        self._should_stop: Callable[[], bool] = lambda: False
        self._deadline: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._absent = set(self._running)
        self._join_until = math.inf if self._far else time.monotonic() + START_SECONDS
        self._holding: set[int] = set()
        self._waiting: set[int] = set()
        self._channel = self._start()

    def join(self) -> None:
        """Answer the process until its workers are ready. Raises ``RunError`` if they are not in time, or fail."""
        while self._absent:
            try:
                self._serve_once()
            except LostError as loss:
                raise RunError(f"{self.name} {loss} before it had joined; {MAIN_GUARD}") from None

    def serve(self, should_stop: Callable[[], bool]) -> WorkerProcess:
        """``work`` until ``should_stop``; returns itself."""
        self._should_stop = should_stop
        return self

    def work(self) -> None:
        """Serve the workers until they are done, and start the process again if it was killed."""
        while self._running:
            try:
                self._serve_once()
            except LostError as loss:
                self._mourn(loss)
            except ServerGoneError:
                self._running.clear()
        self._channel.end()

    def _serve_once(self) -> None:
        self._keeper.network.check()
        if self._absent and self._keeper.is_over:
            self._running.clear()
            return
        if self._should_stop():
            self._see_to_the_stop()
        if self._absent and time.monotonic() > self._join_until:
            raise RunError(f"{self.name} has not joined after {START_SECONDS:.0f} s")
        if message := self._channel.receive(0.1 if not self._waiting else 0.02):
            self._handle(message[0], *message[1])
        for worker in [*self._waiting]:
            self._grant_episode(worker)

    def _see_to_the_stop(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + STOP_SECONDS
            self._keeper.network.request_stop()
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
            answer = self._keeper.welcome(what[0])
        elif kind == "ready":
            self._absent.discard(worker)
        elif kind == "claim_episode":
            self._keeper.end_lease(worker)
            self._waiting.add(worker)
            return
        elif kind == "claim_steps":
            answer = self._keeper.lease_steps(worker, what[0])
        elif kind == "abandon_episode":
            self._abandon(worker)
        elif kind == "episode":
            self._holding.discard(worker)
            self._keeper.episode(Episode(*what[0]), what[1])
        elif kind == "done":
            self._running.discard(worker)
            self._keeper.refresh()
            self._keeper.end_lease(worker)
        else:
            self._fail(*what)
            return
        self._channel.answer(worker, answer)

    def _grant_episode(self, worker: int) -> None:
        """Answer a claim: an episode that another worker has may come back, so no is said only at the very end."""
        counters = self._keeper.counters
        if counters is None:
            return  # the run begins when the workers of all processes have joined
        granted = not self._should_stop() and counters.claim_episode()
        if granted or self._keeper.is_over or self._should_stop():
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
        self._channel.end()
        if self._should_stop() or self._keeper.is_over:
            self._running.clear()
        elif self._far:
            _log.warning("%s %s; the others go on, and it may join again", self.name, loss)
            self._running = set(self._workers)
            self._begin()
        elif not self._keeper.may_restart():
            self._running.clear()
            raise RunError(f"{self.name} {loss}, and restarts = {self._keeper.config.restarts} are used up")
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
        """Whoever sees the server end tells of it, once; this raises only if nobody does."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not self._should_stop():
            self._keeper.network.check()
            time.sleep(0.05)
        if not self._should_stop():
            raise ServerLostError(f"the parameter server does not answer a worker: {message.splitlines()[0]}")
