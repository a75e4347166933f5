"""The one factory of networks, and the graph of a run: a global network and a local one for each worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from a3c_tf.algorithms import a3c
from a3c_tf.algorithms.calls import NetCalls
from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, action_spec, observation_spec
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.tf1 import quiet_deprecations, tf

GLOBAL_NET_SCOPE = "Global_Net"


class Algorithm(NamedTuple):
    """What the file of an algorithm has to offer."""

    net: type[a3c.ACNet]
    """its global network"""
    acting_net: type[a3c.ActingACNet]
    """one that chooses actions"""
    learning_net: type[a3c.LearningACNet]
    """one with losses and gradients, whose global network is elsewhere"""
    worker_net: type[a3c.WorkerACNet]
    """one that pushes to and pulls from a global network in the same graph"""
    learner: type[a3c.A3CLearner]
    """what it does with a rollout"""


ALGORITHMS = {
    "a3c": Algorithm(a3c.ACNet, a3c.ActingACNet, a3c.LearningACNet, a3c.WorkerACNet, a3c.A3CLearner),
}
"""by the name that ``config.algorithm`` gives"""


@dataclasses.dataclass(frozen=True)
class Networks:
    """Makes the networks of ``config.algorithm`` for an environment's spaces, in the default graph."""

    config: Config
    observations: ObservationSpec
    actions: AnyActionSpec

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.config.algorithm]

    def global_net(self) -> a3c.ACNet:
        return self.algorithm.net(GLOBAL_NET_SCOPE, *self._spaces)

    def acting_net(self, scope: str = GLOBAL_NET_SCOPE, s: Any = None) -> a3c.ActingACNet:
        """``s`` are observations [B, …] in the space's shape; without them the network has a placeholder."""
        return self.algorithm.acting_net(scope, *self._spaces, s)

    def learning_net(self, worker: int) -> a3c.LearningACNet:
        return self.algorithm.learning_net(f"W_{worker}", *self._spaces)

    def worker_net(self, worker: int, global_net: a3c.ACNet, optimizers: Optimizers) -> a3c.WorkerACNet:
        return self.algorithm.worker_net(f"W_{worker}", *self._spaces, global_net, optimizers)

    def learner(self, calls: NetCalls, global_steps: Callable[[], int]) -> a3c.A3CLearner:
        return self.algorithm.learner(self.config, calls, global_steps)

    @property
    def _spaces(self) -> tuple[ObservationSpec, AnyActionSpec, Config]:
        return self.observations, self.actions, self.config


@dataclasses.dataclass(frozen=True)
class Graph:
    """A built graph and its networks; ``worker_nets[i]`` has the scope ``W_i``."""

    graph: Any
    networks: Networks
    global_net: a3c.ACNet
    worker_nets: list[a3c.WorkerACNet]
    graph_def: Any
    """the graph as built, before anything that saves or evaluates is added: what TensorBoard shows"""
    shared_variables: list[Any]
    """the global network's variables and the optimizers' statistics: all that is learnt"""


def build_graph(config: Config, observation_space: Any, action_space: Any) -> Graph:
    """Build ``Global_Net`` and ``W_0`` … for ``config.worker_count`` workers in a graph of their own.

    The spaces are gym's or gymnasium's. Raises ``UsageError`` for spaces that the networks do not fit,
    unbounded actions among them. The graph is still open: finalize it before the first worker runs.
    """
    networks = Networks(config, observation_spec(observation_space), action_spec(action_space))
    graph = tf.Graph()
    with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
        tf.set_random_seed(config.seed)
        global_net = networks.global_net()
        optimizers = Optimizers(config, global_net.parts)
        worker_nets = [networks.worker_net(i, global_net, optimizers) for i in range(config.worker_count)]
        local = {variable.ref() for net in worker_nets for variable in net.params}
        shared = [variable for variable in tf.global_variables() if variable.ref() not in local]
    return Graph(graph, networks, global_net, worker_nets, graph.as_graph_def(add_shapes=True), shared)
