"""Action distributions: the actor's heads, and what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from a3c_tf.networks import dense
from a3c_tf.spaces import ActionSpec
from a3c_tf.tf1 import tf

Tensor = Any


class NormalPolicy:
    """A Normal distribution over a Box, its dimensions independent of each other.

    ``hidden`` is the actor's last hidden layer [B, H]. Built inside the scope ``actor``, it makes the
    heads mu (tanh) and sigma (softplus); ``distribution`` wraps them to actions. Source: Mnih et al.
    2016, section 9 (Continuous Action Control), which puts softplus on the variance; the original
    puts it on the standard deviation, as here.
    """

    def __init__(self, hidden: Tensor, space: ActionSpec) -> None:
        self._low = np.array(space.low, np.float32)
        self._high = np.array(space.high, np.float32)
        self.mu = dense(hidden, space.size, tf.nn.tanh, "mu")
        self.sigma = dense(hidden, space.size, tf.nn.softplus, "sigma")

    def wrap(self, sigma_floor: float) -> None:
        """Stretch mu to the bounds and keep sigma above ``sigma_floor`` (scope ``wrap_a_out``)."""
        centre, reach = (self._high + self._low) / 2, (self._high - self._low) / 2
        with tf.name_scope("wrap_a_out"):
            self.mu = self.mu * reach
            if centre.any():  # symmetric bounds, as in the original, need no shift
                self.mu = self.mu + centre
            self.sigma = self.sigma + sigma_floor
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
