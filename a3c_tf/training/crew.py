"""The ways to run workers: the contract of a crew, and the one whose workers are threads of this process."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Protocol

from a3c_tf.algorithms.build import Graph
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.config import Config
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.graph.session import Session
from a3c_tf.records import RunState
from a3c_tf.training.affinity import CpuSharing, SharedCpu
from a3c_tf.training.ledger import Ledger
from a3c_tf.training.threads import Task
from a3c_tf.training.worker import Worker

Spaces = tuple[ObservationSpec, AnyActionSpec]


@dataclasses.dataclass(frozen=True)
class Training:
    """A training that is about to begin: its variables are initialized, or restored, and its graph is open."""

    config: Config
    graph: Graph
    session: Session
    state: RunState
    """where it goes on from"""


class Crew(Protocol):
    """How workers run. The trainer calls these in this order."""

    def check(self, config: Config) -> None:
        """Raises ``UsageError`` if they cannot run on this machine, before anything is written or started."""

    def open(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        """Make environments, processes, connections; they end with ``closing``. Returns the environments' spaces."""

    def start(self, training: Training) -> None:
        """Get ready to run, from where the training stands."""

    def tasks(self, ledger: Ledger) -> Sequence[Task]:
        """What runs the workers, each in a thread of its own; they claim from the ledger and report to it."""

    def look_after(self) -> None:
        """Called every 0.1 s while the tasks run."""


class ThreadCrew:
    """Workers as threads of this process, each with an environment and a local network of the one graph."""

    def check(self, config: Config) -> None:
        """Threads can be had everywhere."""

    def open(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        self._envs = [
            closing.enter_context(contextlib.closing(make_env(config.env))) for _ in range(config.worker_count)
        ]
        return self._envs[0].observation_spec, self._envs[0].action_spec

    def start(self, training: Training) -> None:
        self._training = training
        self._nets = [worker_calls(net, training.session) for net in training.graph.worker_nets]
        self._shared_cpu = SharedCpu()

    def tasks(self, ledger: Ledger) -> list[Worker]:
        return [self._worker(i, ledger) for i in range(len(self._envs))]

    def _worker(self, index: int, ledger: Ledger) -> Worker:
        config, env, net = self._training.config, self._envs[index], self._nets[index]
        learner_of = self._training.graph.networks.learner
        if len(self._envs) == 1:
            return Worker(index, config, env, net, learner_of(net, lambda: ledger.steps), ledger)
        sharing = CpuSharing(self._shared_cpu, env, net)
        learner = learner_of(sharing.net, lambda: ledger.steps)
        return Worker(index, config, sharing.env, sharing.net, learner, ledger)

    def look_after(self) -> None:
        self._shared_cpu.look_around()
