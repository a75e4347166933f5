"""Action distributions: the actor's heads, and what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from a3c_tf.environments.spaces import ActionSpec, AnyActionSpec, DiscreteSpec
from a3c_tf.graph.layers import dense
from a3c_tf.graph.tf1 import tf

Tensor = Any


class NormalPolicy:
    """A Normal distribution over a Box, its dimensions independent of each other.

    ``hidden`` is the actor's last hidden layer [B, H]. Built inside the scope ``actor``, it makes the
    heads mu (tanh) and sigma (softplus); ``distribution`` wraps them to actions. Source: Mnih et al.
    2016, section 9 (Continuous Action Control), which puts softplus on the variance; the original
    puts it on the standard deviation, as this one does.
    """

    def __init__(self, hidden: Tensor, space: ActionSpec) -> None:
        # Rows, of a single action's shape: with equal shapes TensorFlow takes a shorter way than with
        # shapes that it must broadcast, and actions are chosen one at a time.
        self._low = np.array([space.low], np.float32)
        self._high = np.array([space.high], np.float32)
        self.mu = dense(hidden, space.size, tf.nn.tanh, "mu")
        self.sigma = dense(hidden, space.size, tf.nn.softplus, "sigma")

    def wrap(self, sigma_floor: float) -> None:
        """Stretch mu to the bounds and keep sigma above ``sigma_floor`` (scope ``wrap_a_out``)."""
        centre, reach = (self._high + self._low) / 2, (self._high - self._low) / 2
        with tf.name_scope("wrap_a_out"):
            self.mu = self.mu * reach
            if centre.any():  # symmetric bounds, as in the original, need no shift
                self.mu = self.mu + centre
            self.sigma = self.sigma + np.full_like(reach, sigma_floor)
        self._normal = tf.distributions.Normal(self.mu, self.sigma)
        self._normal.batch_shape_tensor()  # nothing needs it; the original's graph shows it

    @property
    def mode(self) -> Tensor:
        """The most likely actions [B, N_A]; they lie within the bounds."""
        return self.mu

    def log_prob(self, actions: Tensor) -> Tensor:
        """log π(a|s) [B, 1] of actions [B, N_A], summed over dimensions."""
        return tf.reduce_sum(self._normal.log_prob(actions), axis=1, keepdims=True)

    def entropy(self) -> Tensor:
        """The distribution's entropy [B, 1] in nats, summed over dimensions."""
        return tf.reduce_sum(self._normal.entropy(), axis=1, keepdims=True)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Unbounded samples [B, N_A] and the placeholder of the standard normal noise they are made from.

        The noise is fed, so that exploration is a function of the run's seed alone: an op that
        draws its own would start its stream anew in each session.
        """
        with tf.name_scope(f"{self._normal.name}sample/"):
            noise = tf.placeholder(tf.float32, self.mu.shape, "noise")
            return self.mu + self.sigma * noise, noise

    def clip(self, actions: Tensor) -> Tensor:
        """Actions [B, N_A] moved to the nearest point within the bounds."""
        return tf.clip_by_value(actions, self._low, self._high)

    def report(self) -> dict[str, Tensor]:
        """Scalars worth watching, by the names that TensorBoard shows."""
        return {"policy/entropy": tf.reduce_mean(self.entropy()), "policy/sigma": tf.reduce_mean(self.sigma)}


class CategoricalPolicy:
    """A distribution over ``space.n`` actions, numbered from 0; actions are int32 [B, 1], ``mode`` the most likely.

    ``hidden`` is the actor's last hidden layer [B, H]. Built inside the scope ``actor``, it makes the head
    logits [B, n]. Source: Mnih et al. 2016, section 5 (a softmax output).
    """

    def __init__(self, hidden: Tensor, space: DiscreteSpec) -> None:
        self.logits = dense(hidden, space.n, None, "logits")

    def wrap(self, sigma_floor: float) -> None:
        """Turn the logits into probabilities (scope ``wrap_a_out``); there is no sigma to keep up."""
        with tf.name_scope("wrap_a_out"):
            self.probabilities = tf.nn.softmax(self.logits)
            self.mode = tf.expand_dims(tf.argmax(self.logits, axis=1, output_type=tf.int32), 1)

    def log_prob(self, actions: Tensor) -> Tensor:
        """log π(a|s) [B, 1] of actions [B, 1]."""
        labels = tf.squeeze(actions, axis=1)
        return -tf.expand_dims(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.logits), 1)

    def entropy(self) -> Tensor:
        """The distribution's entropy [B, 1] in nats."""
        return -tf.reduce_sum(self.probabilities * tf.nn.log_softmax(self.logits), axis=1, keepdims=True)

    def sample(self) -> tuple[Tensor, Tensor]:
        """Actions [B, 1] and the placeholder of the standard normal noise [B, 1] they are made from.

        The noise is what a Normal policy is fed, so that a worker need not know which it has: its place
        in the normal distribution, uniform in [0, 1], is looked up among the cumulated probabilities.
        """
        with tf.name_scope("sample"):
            noise = tf.placeholder(tf.float32, [None, 1], "noise")
            uniform = 0.5 * tf.erfc(-noise * np.float32(np.sqrt(0.5)))
            below = tf.cumsum(self.probabilities[:, :-1], axis=1) <= uniform
            return tf.reduce_sum(tf.cast(below, tf.int32), axis=1, keepdims=True), noise

    def clip(self, actions: Tensor) -> Tensor:
        """Nothing to clip: every sample is an action."""
        return actions

    def report(self) -> dict[str, Tensor]:
        """Scalars worth watching, by the names that TensorBoard shows."""
        return {"policy/entropy": tf.reduce_mean(self.entropy())}


def policy_for(hidden: Tensor, space: AnyActionSpec) -> NormalPolicy | CategoricalPolicy:
    """The policy that fits an action space, its heads on the layer ``hidden`` [B, H]."""
    return CategoricalPolicy(hidden, space) if isinstance(space, DiscreteSpec) else NormalPolicy(hidden, space)
