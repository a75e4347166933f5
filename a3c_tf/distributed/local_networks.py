"""The local networks of workers whose global network is on a parameter server.

A worker acts and computes gradients in a session of its own process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from a3c_tf.algorithms.a3c import LearningACNet
from a3c_tf.algorithms.build import Networks
from a3c_tf.algorithms.calls import NetCalls, SyncCalls, net_calls
from a3c_tf.config import Config
from a3c_tf.distributed.numbering import number_of_workers
from a3c_tf.distributed.packets import Packet, pack, packet_of, unpack
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.graph.normalization import sums_of
from a3c_tf.graph.session import Call, Session
from a3c_tf.graph.sync import assign_all
from a3c_tf.graph.tf1 import quiet_deprecations, tf


class LocalNetworks:
    """The local networks ``W_i`` of the workers in one process, and their callables.

    ``calls(i, …)`` are those that a worker needs; what goes to the global network and comes back is a packet.
    """

    def __init__(
        self, config: Config, observations: ObservationSpec, actions: AnyActionSpec, workers: Sequence[int]
    ) -> None:
        self._config, self.networks = config, Networks(config, observations, actions)
        graph = tf.Graph()
        with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
            nets = [self.networks.learning_net(i) for i in workers]
            initializer = tf.global_variables_initializer()
            built = [self._build_exchange(net, i) for i, net in zip(workers, nets, strict=True)]
        graph.finalize()
        self.session = Session(graph)
        self.session.run(initializer)
        self.nets = dict(zip(workers, nets, strict=True))
        self._exchanges = dict(zip(workers, built, strict=True))

    def _build_exchange(self, net: LearningACNet, index: int) -> tuple[Any, ...]:
        number = number_of_workers(self._config)
        scale = (
            tf.placeholder(tf.float32, [], "learning_rate_scale")
            if self._config.learning_rate_decay != "none"
            else None
        )
        with tf.name_scope("sync"):
            taken = tf.cast(tf.shape(net.s)[0], tf.int64)
            outgoing = [
                *(each for of_part in net.gradients for each in of_part),
                taken * tf.one_hot(index, number, dtype=tf.int64),
            ]
            if net.statistics:
                outgoing.append(sums_of(net.flat_s))
            if scale is not None:
                outgoing.append(scale)
            push = pack(outgoing)
            like = [*net.params, tf.zeros([number], tf.int64), tf.zeros([], tf.int64)]
            packet = packet_of(like)
            *parameters, steps, stop = unpack(packet, like)
            return push, packet, assign_all(net.params, parameters), tf.reduce_sum(steps), stop, scale

    def calls(self, index: int, push_and_pull: Call, pull: Call, on_pull: Callable[[int, bool], None]) -> NetCalls:
        """The callables of worker ``index``; ``on_pull`` gets the steps pushed by all, and whether to stop."""
        net = self.nets[index]
        push, packet, assigns, steps, stop, scale = self._exchanges[index]
        rollout = [*net.rollout, *([] if scale is None else [scale])]
        report = self.session.call([push, *net.report.values()], rollout)
        gradients = self.session.call([push], rollout)
        take = self.session.call([steps, stop], [packet], assigns)

        def taken(answer: list[Packet]) -> list[Any]:
            all_steps, stopped = take(answer[0])
            on_pull(int(all_steps), bool(stopped))
            return []

        def update_global_and_report(*arrays: np.ndarray) -> list[Any]:
            outgoing, *losses = report(*arrays)
            taken(push_and_pull(outgoing))
            return losses

        sync_calls = SyncCalls(
            update_global=lambda *arrays: taken(push_and_pull(gradients(*arrays)[0])),
            update_global_and_report=update_global_and_report,
            pull_global=lambda: taken(pull()),
        )
        return net_calls(net, self.session, sync_calls)
