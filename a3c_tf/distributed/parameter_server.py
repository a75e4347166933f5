"""The global network on a parameter server (TensorFlow's own distributed runtime), and local networks far from it.

A worker acts and computes gradients in a session of its own process. It sends a rollout's gradients and
gets the parameters back as one packet each, in one round trip: with many small tensors a trip would cost
three times as much. A packet is a vector of float32 that holds other types bit by bit.

Source: Dean et al. 2012, section 4.1 (a parameter server with asynchronous workers); Mnih et al. 2016, algorithm S3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from a3c_tf.algorithms.a3c import ACNet, LearningACNet
from a3c_tf.algorithms.build import Networks
from a3c_tf.algorithms.calls import NetCalls, SyncCalls, net_calls
from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.graph.normalization import sums_of
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.session import Call, RemoteSession, Session
from a3c_tf.graph.sync import assign_all
from a3c_tf.graph.tf1 import quiet_deprecations, tf

Tensor = Any
Packet = np.ndarray
"""float32 [n], what ``pack`` makes"""


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of float32, float64 or int64 as one packet."""
    words = [tensor if tensor.dtype == tf.float32 else tf.bitcast(tensor, tf.float32) for tensor in tensors]
    return tf.concat([tf.reshape(word, [-1]) for word in words], axis=0)


def unpack(packet: Tensor, like: Sequence[Any]) -> list[Tensor]:
    """The tensors of a packet, which have the types and static shapes of those in ``like``."""
    parts = tf.split(packet, [_words(each) for each in like])
    return [_restored(part, each) for part, each in zip(parts, like, strict=True)]


def packet_of(like: Sequence[Any]) -> Tensor:
    """A placeholder for a packet of tensors like these."""
    return tf.placeholder(tf.float32, [sum(map(_words, like))], "packet")


def _words(like: Any) -> int:
    return int(np.prod(like.shape.as_list(), dtype=np.int64)) * like.dtype.size // tf.float32.size


def _restored(part: Tensor, like: Any) -> Tensor:
    shape = like.shape.as_list()
    if like.dtype == tf.float32:
        return tf.reshape(part, shape)
    return tf.bitcast(tf.reshape(part, [*shape, like.dtype.size // tf.float32.size]), like.dtype.base_dtype)


def number_of_workers(config: Config) -> int:
    """Workers of all processes together."""
    return config.processes * config.worker_count


def workers_of(process: int, config: Config) -> range:
    """The numbers of the workers in one process."""
    return range(process * config.worker_count, (process + 1) * config.worker_count)


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


SERVER_THREADS = 2
_FAILED_CALLS = (tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_SETTLED_SECONDS = 0.1
"""after which a push whose call failed has been made, if it is made at all"""
_SERVERS: list[Any] = []
"""a server that is forgotten would be destroyed, which TensorFlow does not survive"""


def packet_from(raw: bytes) -> Packet:
    """A packet that came as bytes."""
    return np.frombuffer(raw, np.float32)


class GlobalNetwork:
    """``Global_Net``, the optimizers' statistics and the count of steps, on the server behind ``target``.

    Everybody builds the same graph; the variables are the server's, shared by all sessions there. A call
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
        self._counts_at = sum(map(_words, net.params))
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
    """A call that may be repeated without harm, repeated if it fails in the way that ``pusher`` tells of."""

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
    if _decays(config):
        extras.append(tf.constant(1.0))
    return extras


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
        scale = tf.placeholder(tf.float32, [], "learning_rate_scale") if _decays(self._config) else None
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

    def calls(self, index: int, push_and_pull: Call, pull: Call, told: Callable[[int, bool], None]) -> NetCalls:
        """The callables of worker ``index``; ``told`` hears the steps pushed by all, and whether to stop."""
        net = self.nets[index]
        push, packet, assigns, steps, stop, scale = self._exchanges[index]
        rollout = [*net.rollout, *([] if scale is None else [scale])]
        report = self.session.call([push, *net.report.values()], rollout)
        gradients = self.session.call([push], rollout)
        take = self.session.call([steps, stop], [packet], assigns)

        def taken(answer: list[Packet]) -> list[Any]:
            all_steps, stopped = take(answer[0])
            told(int(all_steps), bool(stopped))
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


def _decays(config: Config) -> bool:
    return config.learning_rate_decay != "none"


class Mirror:
    """The parameter server's state in the graph of the one who keeps the run, who saves and evaluates it there.

    Adds ops to the graph, so it is made before that is finalized.
    """

    def __init__(self, variables: Sequence[Any], session: Session, config: Config) -> None:
        with variables[0].graph.as_default(), tf.device("/cpu:0"), tf.name_scope("mirror"):
            like = [*variables, tf.zeros([number_of_workers(config)], tf.int64)]
            packet = packet_of(like)
            *values, steps = unpack(packet, like)
            assigns = assign_all(variables, values)
            learnt = pack([variable.read_value() for variable in variables])
        self._take = session.call([steps], [packet], assigns)
        self._give = session.call([learnt])

    def take(self, state: Packet) -> np.ndarray:
        """Set the variables to a state as ``GlobalNetwork.read`` has it; returns the steps of each worker [N]."""
        return self._take(state)[0]

    def learnt(self) -> Packet:
        """What is learnt, for ``GlobalNetwork.write``."""
        return self._give()[0]
