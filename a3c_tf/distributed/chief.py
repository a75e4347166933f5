"""The chief: it keeps the run, and grants its budget to workers in other processes."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import numpy as np

from a3c_tf.config import Config
from a3c_tf.distributed.mirror import Mirror
from a3c_tf.distributed.numbering import number_of_workers
from a3c_tf.distributed.packets import Packet
from a3c_tf.errors import RunError
from a3c_tf.records import Episode
from a3c_tf.training.ledger import Ledger


class Network(Protocol):
    """As much of the global network as the chief needs; each raises ``ServerLostError``."""

    target: str

    def read(self) -> Packet: ...

    def write(self, learnt: Packet) -> None: ...

    def request_stop(self) -> Any: ...

    def check(self) -> None:
        """Raises ``ServerLostError`` if it is known to be gone."""


class Chief:
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
            raise RunError(f"a worker process has another environment: expected {self._specs}, got {hello['specs']}")
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
