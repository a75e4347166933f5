"""The global network on a parameter server: TensorFlow's own distributed runtime.

A worker elsewhere sends a rollout's gradients and gets the parameters back as one packet each, in one round trip.

Source: Dean et al. 2012, section 4.1 (a parameter server with asynchronous workers); Mnih et al. 2016, algorithm S3.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from a3c_tf.algorithms.a3c import ACNet
from a3c_tf.algorithms.build import Networks
from a3c_tf.config import Config
from a3c_tf.distributed.numbering import number_of_workers
from a3c_tf.distributed.packets import Packet, Tensor, pack, packet_of, unpack, words
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.session import Call, RemoteSession
from a3c_tf.graph.sync import assign_all
from a3c_tf.graph.tf1 import quiet_deprecations, tf

SERVER_THREADS = 2
_FAILED_CALLS = (tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_SETTLED_SECONDS = 0.1
"""after which a push whose call failed has been made, if it is made at all"""
_SERVERS: list[Any] = []
"""a server that is forgotten would be destroyed, which TensorFlow does not survive"""


def serve(address: str) -> str:
    """Start the parameter server at ``host:port``, port 0 for any that is free; returns its target.

    It listens on all interfaces, whatever the host, and ends only with its process. Raises
    ``tf.errors.OpError`` if the port is in use.
    """
    settings = tf.ConfigProto(
        device_count={"GPU": 0}, intra_op_parallelism_threads=1, inter_op_parallelism_threads=SERVER_THREADS
    )
    spec = tf.train.ClusterSpec({"ps": [address]})
    server = tf.train.Server(spec, job_name="ps", task_index=0, config=settings)
    _SERVERS.append(server)
    return str(server.target)


class GlobalNetwork:
    """``Global_Net``, the optimizers' statistics and the count of steps, on the server behind ``target``.

    Everybody builds the same graph; the variables are the server's, shared by all its sessions. A call
    that takes longer than ``timeout`` seconds raises ``tf.errors.OpError``.

    ``push_and_pull`` takes a local network's packet and returns one of parameters, ``pull`` only returns it.
    ``read`` returns the state: all that is learnt, then the steps pushed by each worker; ``write`` sets what
    is learnt and begins a run, ``request_stop`` is seen by every worker at its next push.
    """

    def __init__(
        self, target: str, config: Config, observations: ObservationSpec, actions: AnyActionSpec, timeout: float
    ) -> None:
        graph = tf.Graph()
        with graph.as_default(), graph.device("/job:ps/task:0/cpu:0"), quiet_deprecations():
            net = Networks(config, observations, actions).global_net()
            counts = Counts(number_of_workers(config))
            with tf.name_scope("sync/push"):  # Adam's powers bear the name that they have in one process
                packet, pushed = self._build_push(net, counts, config)
            self.shared = [v for v in tf.global_variables() if v is not counts.steps and v is not counts.stop]
            with tf.name_scope("pull"):
                parameters = [*net.params, counts.steps, counts.stop]
                pulled = pack([variable.read_value() for variable in parameters])
            with tf.name_scope("push_then_pull"), tf.control_dependencies(pushed):
                answer = pack([variable.read_value() for variable in parameters])
            with tf.name_scope("state"):
                state = pack([variable.read_value() for variable in [*self.shared, counts.steps]])
                given = packet_of(self.shared)
                begin = assign_all(self.shared, unpack(given, self.shared))
            stop = counts.stop.assign(1, read_value=False)
            start = [counts.steps.initializer, counts.stop.initializer]
            tf.no_op("no_op")  # the price of a trip alone, for benchmarks
        graph.finalize()
        self.session = session = RemoteSession(target, graph, timeout)
        self.push_and_pull = session.call([answer], [packet])
        self.pull = repeatable(session.call([pulled]))
        self.request_stop = repeatable(session.call([], [], [stop]))
        self._read, self._write = repeatable(session.call([state])), repeatable(session.call([], [given], begin))
        self._start = repeatable(session.call([], [], start))
        self._counts_at = sum(map(words, net.params))
        self.packet_size, self.learnt_size = int(packet.shape[0]), int(given.shape[0])

    def _build_push(self, net: ACNet, counts: Counts, config: Config) -> tuple[Tensor, list[Any]]:
        like = [*(variable for part in net.parts for variable in part.params), counts.steps, *_extras(net, config)]
        packet = packet_of(like)
        tensors = iter(unpack(packet, like))
        gradients = [[next(tensors) for _ in part.params] for part in net.parts]
        pushed = [counts.steps.assign_add(next(tensors), read_value=False)]
        if net.statistics:
            pushed.append(net.statistics.sums.assign_add(next(tensors), read_value=False))
        pushed += Optimizers(config, net.parts, next(tensors, None)).apply(gradients)
        return packet, pushed

    def pusher(self, worker: int) -> Call:
        """``push_and_pull`` for one worker, which pushes exactly once whatever becomes of the call.

        One call in some ten thousands fails within TensorFlow: its worker service finds that it has "received the
        request twice". Whether the push was made is then seen by the steps counted for this worker.
        """
        push, pull, place = self.push_and_pull, self.pull, self._counts_at + 2 * worker

        def counted_in(answer: list[Packet]) -> int:
            return int(answer[0][place : place + 2].view(np.int64)[0])

        counted = counted_in(pull())

        def push_once(packet: Packet) -> list[Packet]:
            nonlocal counted
            try:
                answer = push(packet)
            except _FAILED_CALLS:
                time.sleep(_SETTLED_SECONDS)
                answer = pull()
                if counted_in(answer) == counted:
                    answer = push(packet)
            counted = counted_in(answer)
            return answer

        return push_once

    def read(self) -> Packet:
        return self._read()[0]

    def write(self, learnt: Packet) -> None:
        self._start()
        self._write(learnt)


def repeatable(call: Call) -> Call:
    """A call that may be repeated without harm, repeated if it fails in the way that ``pusher`` describes."""

    def again(*arrays: Any) -> list[Any]:
        try:
            return call(*arrays)
        except tf.errors.AbortedError:
            return call(*arrays)

    return again


class Counts:
    """What is counted beside the global network: ``steps`` [N] int64, pushed by each worker; ``stop``, 1 to end."""

    def __init__(self, workers: int) -> None:
        with tf.variable_scope("run", use_resource=True):
            zeros = tf.zeros_initializer()
            self.steps = tf.get_variable("steps", [workers], tf.int64, zeros, trainable=False)
            self.stop = tf.get_variable("stop", [], tf.int64, zeros, trainable=False)


def _extras(net: ACNet, config: Config) -> list[Any]:
    """What some settings send beside the gradients: the sums of the observations, the learning rate's scale."""
    extras = [net.statistics.sums] if net.statistics else []
    if config.learning_rate_decay != "none":
        extras.append(tf.constant(1.0))
    return extras
