"""The A3C graph: one global network, one local network for each worker, push and pull between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, action_spec, observation_spec
from a3c_tf.errors import UsageError
from a3c_tf.graph import networks
from a3c_tf.graph.normalization import ObservationStatistics
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.policies import policy_for
from a3c_tf.graph.tf1 import quiet_deprecations, tf

Tensor = Any
Operation = Any
Call = Callable[..., list[Any]]

GLOBAL_NET_SCOPE = "Global_Net"


class ACNet:
    """An actor and a critic in one scope. What it can do depends on what it is given.

    Alone it is a network (the global one), with ``acts`` one that chooses actions; with ``global_ac`` it
    is a local copy that acts and pulls, and with ``optimizers`` too it learns and pushes: a worker's.
    With ``learns`` it acts and has gradients, and the global network is somewhere else.

    =============  ==========  ==================================================================
    attribute      shape       meaning
    =============  ==========  ==================================================================
    s              [B, N_S]    observations (placeholder ``S``, unless a tensor is given)
    v              [B, 1]      state values
    noise          [B, N_A]    standard normal numbers that the samples are made from
    sample         [B, N_A]    sampled actions
    A              [B, N_A]    sampled actions, clipped to the bounds
    a_his          [B, N_A]    the actions taken (placeholder ``A``)
    v_target       [B, 1]      value targets (placeholder ``Vtarget``)
    a_loss c_loss  scalar      mean over the batch of -exp_v, and of the squared TD error
    exp_v          [B, 1]      log π(a|s) · TD error + β · entropy
    =============  ==========  ==================================================================

    ``a_params``/``c_params`` and ``a_grads``/``c_grads`` are the actor's and the critic's variables and
    local gradients; ``update_a_op``/``update_c_op`` push the gradients to the global network and
    ``pull_a_params_op``/``pull_c_params_op`` copy its variables here. All are float32, but discrete actions int32.
    ``pull_op`` is those and, if observations are normalized, a copy of their statistics.

    Source: Mnih et al. 2016, algorithm S3, section 4 (losses) and section 9 (continuous actions).
    """

    def __init__(
        self,
        scope: str,
        observations: ObservationSpec,
        actions: AnyActionSpec,
        config: Config,
        global_ac: ACNet | None = None,
        optimizers: Optimizers | None = None,
        acts: bool = False,
        s: Tensor | None = None,
        learns: bool = False,
    ) -> None:
        self.scope = scope
        with tf.variable_scope(scope, use_resource=True):
            self.s = tf.placeholder(tf.float32, [None, observations.size], "S") if s is None else s
            self._build_networks(observations, actions, config)
            learns = learns or optimizers is not None
            if acts or global_ac or learns:
                self._build_acting(config)
            if learns:
                self.a_his = tf.placeholder(actions.dtype, [None, actions.size], "A")
                self.v_target = tf.placeholder(tf.float32, [None, 1], "Vtarget")
                self._build_losses(config)
                self._build_gradients(config)
                self._build_report()
        if global_ac:
            with tf.name_scope("sync"):
                self._build_pull(global_ac)
                if optimizers:
                    self._build_push(global_ac, optimizers)

    def _build_networks(self, observations: ObservationSpec, actions: AnyActionSpec, config: Config) -> None:
        self.statistics = ObservationStatistics(observations.size) if config.normalize_observations else None
        seen = self.s
        if self.statistics:
            seen = self.statistics.normalized(self.s)
        elif config.observation_scale is not None:
            seen = _scaled(self.s, observations, config.observation_scale)
        with tf.variable_scope("actor"):
            self.policy = policy_for(networks.actor_hidden(seen, config.actor_hidden), actions)
        with tf.variable_scope("critic"):
            self.v = networks.critic(seen, config.critic_hidden)
        self.a_params = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, f"{self.scope}/actor/")
        self.c_params = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, f"{self.scope}/critic/")

    @property
    def params(self) -> list[Any]:
        """All variables of the scope: what makes the policy and its value."""
        return [*self.a_params, *self.c_params, *([self.statistics.sums] if self.statistics else [])]

    def _build_acting(self, config: Config) -> None:
        self.policy.wrap(config.sigma_floor)
        with tf.name_scope("choose_a"):
            self.sample, self.noise = self.policy.sample()
            self.A = self.policy.clip(self.sample)

    def _build_losses(self, config: Config) -> None:
        td = tf.subtract(self.v_target, self.v, name="TD_error")
        with tf.name_scope("c_loss"):
            self.c_loss = tf.reduce_mean(tf.square(td))
        with tf.name_scope("a_loss"):
            # the critic learns from c_loss alone: no gradient through the advantage
            exp_v = self.policy.log_prob(self.a_his) * tf.stop_gradient(td)
            self.exp_v = config.entropy_coefficient * self.policy.entropy() + exp_v
            self.a_loss = tf.reduce_mean(-self.exp_v)

    def _build_gradients(self, config: Config) -> None:
        split = len(self.a_params)
        with tf.name_scope("local_grad"):
            if config.joint_loss:
                self.loss = self.a_loss + self.c_loss
                self._unclipped = tf.gradients(self.loss, self.a_params + self.c_params)
                grads = _clipped(self._unclipped, config.max_grad_norm)
                self.a_grads, self.c_grads = grads[:split], grads[split:]
            else:
                actor, critic = tf.gradients(self.a_loss, self.a_params), tf.gradients(self.c_loss, self.c_params)
                self._unclipped = actor + critic
                self.a_grads = _clipped(actor, config.max_grad_norm)
                self.c_grads = _clipped(critic, config.max_grad_norm)

    def _build_report(self) -> None:
        """What is told of a rollout, each scalar by the name that TensorBoard shows it under."""
        with tf.name_scope("report"):
            self.report = {
                "loss/actor": self.a_loss,
                "loss/critic": self.c_loss,
                **self.policy.report(),
                "value/mean": tf.reduce_mean(self.v),
                "gradient/norm": tf.linalg.global_norm(self._unclipped),
            }

    def _build_pull(self, global_ac: ACNet) -> None:
        with tf.name_scope("pull"):
            self.pull_a_params_op = _copy_all(self.a_params, global_ac.a_params)
            self.pull_c_params_op = _copy_all(self.c_params, global_ac.c_params)
            self.pull_op = [*self.pull_a_params_op, *self.pull_c_params_op]
            if self.statistics and global_ac.statistics:
                self.pull_op += _copy_all([self.statistics.sums], [global_ac.statistics.sums])

    def _build_push(self, global_ac: ACNet, optimizers: Optimizers) -> None:
        with tf.name_scope("push"):
            self.update_a_op, self.update_c_op = optimizers.apply(
                list(zip(self.a_grads, global_ac.a_params, strict=True)),
                list(zip(self.c_grads, global_ac.c_params, strict=True)),
            )
            self.learning_rate_scale = optimizers.learning_rate_scale
            pushed = [self.update_a_op, self.update_c_op]
            if global_ac.statistics:
                pushed.append(global_ac.statistics.add(self.s))
        # Run together without an order, a pull may read a variable before its push. These assigns
        # come after the push; sync/pull stays free of it, so that a pull alone needs no feed.
        with tf.name_scope("push_then_pull"), tf.control_dependencies(pushed):
            self.push_then_pull_op = tf.group(*_copy_all(self.params, global_ac.params))

    def acting_calls(self, session: Door, config: Config) -> tuple[Call, Call]:
        """``choose_action`` and ``value`` of ``NetCalls``, on a session of this network's graph."""
        actions = [self.A, self.sample] if config.learner_sees_unclipped_action else [self.A]
        return session.call(actions, [self.s, self.noise]), session.call([self.v], [self.s])

    def calls(self, session: Door, config: Config) -> NetCalls:
        """A local network's callables on a session of its graph.

        Where there are other workers, the update that reports is made so that its CPU is theirs meanwhile.
        """
        rollout = [self.s, self.a_his, self.v_target]
        if self.learning_rate_scale is not None:
            rollout.append(self.learning_rate_scale)
        return NetCalls(
            *self.acting_calls(session, config),
            update_global=session.call([], rollout, [self.push_then_pull_op]),
            update_global_and_report=session.call(
                list(self.report.values()), rollout, [self.push_then_pull_op], in_pool=config.worker_count > 1
            ),
            pull_global=session.call([], [], self.pull_op),
        )


class Door(Protocol):
    """What a network needs of a session, whatever runs behind it."""

    def call(
        self, fetches: Sequence[Any], feeds: Sequence[Any] = (), targets: Sequence[Any] = (), in_pool: bool = False
    ) -> Call:
        """A callable from an array for each of ``feeds`` to an array for each of ``fetches``.

        ``in_pool`` asks for another thread than the caller's to execute it.
        """


@dataclasses.dataclass(frozen=True)
class NetCalls:
    """The four calls of a local network, as ``worker.Net`` describes them."""

    choose_action: Call
    value: Call
    update_global: Call
    update_global_and_report: Call
    pull_global: Call


def _scaled(s: Tensor, observations: ObservationSpec, scale: tuple[float, ...]) -> Tensor:
    if len(scale) != observations.size:
        raise UsageError(
            f"observation_scale = {scale}: expected a number for each of the {observations.size} dimensions of an "
            f"observation, got {len(scale)}"
        )
    return tf.multiply(s, list(scale), name="scaled")


def _clipped(gradients: list[Tensor], norm: float | None) -> list[Tensor]:
    return gradients if norm is None else tf.clip_by_global_norm(gradients, norm)[0]


def assign_all(targets: Sequence[Any], values: Sequence[Tensor]) -> list[Operation]:
    """Operations that set variables to values; they return nothing, so nothing is copied."""
    return [target.assign(value, read_value=False) for target, value in zip(targets, values, strict=True)]


def _copy_all(targets: Sequence[Any], sources: Sequence[Any]) -> list[Operation]:
    return assign_all(targets, [source.read_value() for source in sources])


@dataclasses.dataclass(frozen=True)
class A3CGraph:
    """A built graph and its networks; ``worker_nets[i]`` has the scope ``W_i``."""

    graph: Any
    global_net: ACNet
    worker_nets: list[ACNet]
    graph_def: Any
    """the graph as built, before anything that saves or evaluates is added: what TensorBoard shows"""
    shared_variables: list[Any]
    """the global network's variables and the optimizers' statistics: all that is learnt"""


def build_graph(config: Config, observation_space: Any, action_space: Any) -> A3CGraph:
    """Build ``Global_Net`` and ``W_0`` … for ``config.worker_count`` workers in a graph of their own.

    The spaces are gym's or gymnasium's. Raises ``UsageError`` for spaces that the networks do not fit,
    unbounded actions among them. The graph is still open: finalize it before the first worker runs.
    """
    observations, actions = observation_spec(observation_space), action_spec(action_space)
    graph = tf.Graph()
    with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
        tf.set_random_seed(config.seed)
        global_net = ACNet(GLOBAL_NET_SCOPE, observations, actions, config)
        optimizers = Optimizers(config)
        worker_nets = [
            ACNet(f"W_{i}", observations, actions, config, global_net, optimizers) for i in range(config.worker_count)
        ]
        local = {variable.ref() for net in worker_nets for variable in net.params}
        shared = [variable for variable in tf.global_variables() if variable.ref() not in local]
    return A3CGraph(graph, global_net, worker_nets, graph.as_graph_def(add_shapes=True), shared)
