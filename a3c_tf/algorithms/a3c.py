"""A3C: an actor and a critic, their losses and gradients, and what a worker's rollout teaches them.

``ACNet`` is the global network. Each class after it adds one thing to the one before: to act, to have
gradients, to push and pull. ``A3CLearner`` is one step of learning, from a rollout to the push.

Source: Mnih et al. 2016, algorithm S3, section 4 (losses) and section 9 (continuous actions).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from a3c_tf.algorithms.calls import NetCalls
from a3c_tf.algorithms.returns import lambda_returns, n_step_returns
from a3c_tf.algorithms.rollouts import batch, check_finite
from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.graph import networks, sync
from a3c_tf.graph.normalization import ObservationStatistics
from a3c_tf.graph.optimizers import Optimizers, Part, clipped_gradients
from a3c_tf.graph.policies import policy_for
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Rollout

Tensor = Any
Operation = Any


class ACNet:
    """An actor and a critic in one scope.

    ============  ==========  ===========================================================================
    attribute     shape       meaning
    ============  ==========  ===========================================================================
    s             [B, …]      observations in the space's shape (placeholder ``S``, unless a tensor is given)
    flat_s        [B, N_S]    the same, flat
    v             [B, 1]      state values
    policy                    the distribution over actions, on the actor's last layer
    a_params                  the actor's variables
    c_params                  the critic's variables
    statistics                of the observations, if they are normalized, else None
    params                    all variables made while the network is built, the trainable ones first
    parts                     what one optimizer updates: actor and critic, or both with ``joint_loss``
    ============  ==========  ===========================================================================

    All tensors are float32, but discrete actions int32.
    """

    def __init__(
        self,
        scope: str,
        observations: ObservationSpec,
        actions: AnyActionSpec,
        config: Config,
        s: Tensor | None = None,
    ) -> None:
        self.scope, self.config = scope, config
        self._observations, self._actions = observations, actions
        with tf.variable_scope(scope, use_resource=True):
            self.s = tf.placeholder(tf.float32, [None, *observations.shape], "S") if s is None else s
            self._build()

    def _build(self) -> None:
        """Build everything in the scope; each class after this one adds to it."""
        config = self.config
        self.flat_s = networks.flattened(self.s, self._observations)
        self.statistics = ObservationStatistics(self._observations.size) if config.normalize_observations else None
        seen = self.statistics.normalized(self.flat_s) if self.statistics else networks.scaled(self.flat_s, config)
        with tf.variable_scope("actor"):
            self.policy = policy_for(networks.actor_hidden(seen, config.actor_hidden), self._actions)
        with tf.variable_scope("critic"):
            self.v = networks.critic(seen, config.critic_hidden)
        self.a_params = self._variables(tf.GraphKeys.TRAINABLE_VARIABLES, "actor/")
        self.c_params = self._variables(tf.GraphKeys.TRAINABLE_VARIABLES, "critic/")
        # now, before an optimizer makes its slots in the same scope
        self.params = self._variables(tf.GraphKeys.TRAINABLE_VARIABLES)
        self.params += [v for v in self._variables(tf.GraphKeys.GLOBAL_VARIABLES) if not v.trainable]
        self.parts = self._parts()

    def _variables(self, collection: str, below: str = "") -> list[Any]:
        prefix = f"{self.scope}/{below}"
        return [variable for variable in tf.get_collection(collection) if variable.op.name.startswith(prefix)]

    def _parts(self) -> list[Part]:
        """Raises ``ValueError`` for a trainable variable that would never be updated."""
        config = self.config
        trainable = self._variables(tf.GraphKeys.TRAINABLE_VARIABLES)
        if config.joint_loss:
            return [Part("actor and critic", "", trainable, config.actor_learning_rate)]
        ours = {variable.ref() for variable in (*self.a_params, *self.c_params)}
        if others := [variable.op.name for variable in trainable if variable.ref() not in ours]:
            raise ValueError(f"{others[0]}: belongs to neither actor nor critic: expected joint_loss = True")
        return [
            Part("actor", "A", self.a_params, config.actor_learning_rate),
            Part("critic", "C", self.c_params, config.critic_learning_rate),
        ]


class ActingACNet(ACNet):
    """A network that chooses actions: a trained policy's, or an evaluation's.

    ============  ==========  ===========================================================================
    attribute     shape       meaning
    ============  ==========  ===========================================================================
    noise         [B, N_A]    standard normal numbers that the samples are made from (placeholder)
    sample        [B, N_A]    sampled actions
    A             [B, N_A]    sampled actions, clipped to the bounds
    ============  ==========  ===========================================================================
    """

    def _build(self) -> None:
        super()._build()
        self.policy.wrap(self.config.sigma_floor)
        with tf.name_scope("choose_a"):
            self.sample, self.noise = self.policy.sample()
            self.A = self.policy.clip(self.sample)


class LearningACNet(ActingACNet):
    """A network with losses and gradients.

    =============  ==========  ==========================================================================
    attribute      shape       meaning
    =============  ==========  ==========================================================================
    a_his          [B, N_A]    the actions taken (placeholder ``A``)
    v_target       [B, 1]      value targets (placeholder ``Vtarget``)
    rollout                    the three placeholders that a rollout is fed to
    a_loss c_loss  scalar      mean over the batch of -exp_v, and of the squared TD error
    exp_v          [B, 1]      log π(a|s) · TD error + β · entropy
    gradients                  [part][variable] as pushed, scaled down to ``max_grad_norm``
    report         scalars     what is reported of a rollout, by the name that TensorBoard shows it under
    =============  ==========  ==========================================================================
    """

    def _build(self) -> None:
        super()._build()
        self.a_his = tf.placeholder(self._actions.dtype, [None, self._actions.size], "A")
        self.v_target = tf.placeholder(tf.float32, [None, 1], "Vtarget")
        self.rollout = [self.s, self.a_his, self.v_target]
        self._build_losses()
        with tf.name_scope("local_grad"):
            losses = [self.a_loss + self.c_loss] if self.config.joint_loss else [self.a_loss, self.c_loss]
            self.gradients, unscaled = clipped_gradients(losses, self.parts, self.config.max_grad_norm)
        with tf.name_scope("report"):
            self.report = {
                "loss/actor": self.a_loss,
                "loss/critic": self.c_loss,
                **self.policy.report(),
                "value/mean": tf.reduce_mean(self.v),
                "gradient/norm": tf.linalg.global_norm(unscaled),
            }

    def _build_losses(self) -> None:
        td = tf.subtract(self.v_target, self.v, name="TD_error")
        with tf.name_scope("c_loss"):
            self.c_loss = tf.reduce_mean(tf.square(td))
        with tf.name_scope("a_loss"):
            # the critic learns from c_loss alone: no gradient through the advantage
            exp_v = self.policy.log_prob(self.a_his) * tf.stop_gradient(td)
            self.exp_v = self.config.entropy_coefficient * self.policy.entropy() + exp_v
            self.a_loss = tf.reduce_mean(-self.exp_v)

    @property
    def a_grads(self) -> list[Tensor]:
        """The actor's gradients, one for each of ``a_params``."""
        return self._gradients_of(self.a_params)

    @property
    def c_grads(self) -> list[Tensor]:
        """The critic's gradients, one for each of ``c_params``."""
        return self._gradients_of(self.c_params)

    def _gradients_of(self, params: list[Any]) -> list[Tensor]:
        gradients = [gradient for of_part in self.gradients for gradient in of_part]
        variables = [variable.ref() for part in self.parts for variable in part.params]
        return [gradients[variables.index(variable.ref())] for variable in params]


class WorkerACNet(LearningACNet):
    """``W_i``: a network beside the global one, in the same graph, with push and pull between them.

    =====================  =============================================================================
    attribute              meaning
    =====================  =============================================================================
    update_a_op            pushes the actor's gradients to the global network
    update_c_op            pushes the critic's; with ``joint_loss`` the same operation
    pull_a_params_op       an operation for each of the actor's variables: copies the global one's value to it
    pull_c_params_op       the same for the critic
    pull_op                all that is pulled, a copy of the observations' statistics among them
    push_then_pull_op      pushes all that is pushed, then pulls
    learning_rate_scale    placeholder of what is left of a decaying learning rate, or None
    =====================  =============================================================================
    """

    def __init__(
        self,
        scope: str,
        observations: ObservationSpec,
        actions: AnyActionSpec,
        config: Config,
        global_ac: ACNet,
        optimizers: Optimizers,
    ) -> None:
        super().__init__(scope, observations, actions, config)
        with tf.name_scope("sync"):
            self.pull_op = sync.pull(self, global_ac)
            updates, pushed = sync.push(self.gradients, self.flat_s, global_ac, optimizers)
            self.push_then_pull_op = sync.push_then_pull(pushed, self, global_ac)
        self.update_a_op, self.update_c_op = updates[0], updates[-1]
        self.learning_rate_scale = optimizers.learning_rate_scale

    @property
    def pull_a_params_op(self) -> list[Operation]:
        return self._pulls_of(self.a_params)

    @property
    def pull_c_params_op(self) -> list[Operation]:
        return self._pulls_of(self.c_params)

    def _pulls_of(self, params: list[Any]) -> list[Operation]:
        variables = [variable.ref() for variable in self.params]
        return [self.pull_op[variables.index(variable.ref())] for variable in params]


class A3CLearner:
    """Learns a worker's rollouts: reckons the value targets, pushes the gradients and pulls.

    ``global_steps`` gives the steps of all workers so far, which a decaying learning rate follows.
    """

    def __init__(self, config: Config, net: NetCalls, global_steps: Callable[[], int]) -> None:
        self._config, self._net, self._global_steps = config, net, global_steps

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Push and pull; returns the report, by TensorBoard's names, if an episode ended with the rollout.

        Raises ``NotFiniteError``, before anything is pushed, for numbers that are not finite.
        """
        targets = self.value_targets(rollout)
        check_finite(rollout, targets)
        update = self._net.update_global_and_report if rollout.episodes else self._net.update_global
        fed = (batch(rollout.observations[:-1]), batch(rollout.actions), targets.reshape(-1, 1))
        return update(*fed, *self._learning_rate_scale()) or {}

    def value_targets(self, rollout: Rollout) -> np.ndarray:
        """Targets [T, B] float32: n-step returns, or λ-returns with ``gae_lambda`` below 1."""
        rewards, discounts, gae_lambda = rollout.rewards, rollout.discounts, self._config.gae_lambda
        if gae_lambda == 1:  # only the last value counts, and not even that after a terminal state
            if any(discounts[-1].tolist()):
                bootstrap = self._net.value(rollout.observations[-1])[:, 0]
            else:
                bootstrap = np.zeros(discounts.shape[1])
            return n_step_returns(rewards, discounts, bootstrap)
        next_values = self._net.value(batch(rollout.observations[1:])).reshape(rewards.shape)
        return lambda_returns(rewards, discounts, next_values, gae_lambda)

    def _learning_rate_scale(self) -> tuple[np.ndarray, ...]:
        """What is fed beside the rollout: the part of the learning rate that is left, if it decays."""
        if self._config.learning_rate_decay == "none":
            return ()
        return (np.array(self._config.learning_rate_scale(self._global_steps()), np.float32),)
