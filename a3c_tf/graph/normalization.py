"""Running mean and deviation of observations, shared by all workers and saved with the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from a3c_tf.graph.tf1 import tf

Tensor = Any

_REACH = 10.0
"""normalized observations are kept within ± this many deviations"""


class ObservationStatistics:
    """Count, Σx and Σx² of the observations seen, in the variable ``normalization/sums`` [1 + 2 N_S].

    Sums in float64 rather than Welford's means: taking in a rollout is then one addition to one variable,
    which is atomic, so that workers need no lock and lose nothing of each other's. It begins as if one
    observation of mean 0 and square 1 had been seen.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        first = np.concatenate([[1.0], np.zeros(size), np.ones(size)])
        with tf.variable_scope("normalization"):
            self.sums = tf.get_variable(
                "sums", [1 + 2 * size], tf.float64, initializer=tf.constant_initializer(first), trainable=False
            )

    def normalized(self, observations: Tensor) -> Tensor:
        """(x - mean) / deviation, clipped: [B, N_S] → [B, N_S] float32."""
        with tf.name_scope("normalize"):
            count, sums, squares = tf.split(self.sums.read_value(), [1, self._size, self._size])
            mean = sums / count
            deviation = tf.sqrt(tf.maximum(squares / count - tf.square(mean), 1e-12))
            scaled = (observations - tf.cast(mean, tf.float32)) / tf.cast(deviation, tf.float32)
            return tf.clip_by_value(scaled, -_REACH, _REACH)

    def add(self, observations: Tensor) -> Any:
        """The operation that takes in observations [B, N_S]."""
        with tf.name_scope("take_in"):
            return self.sums.assign_add(sums_of(observations), read_value=False)


def sums_of(observations: Tensor) -> Tensor:
    """Count, Σx and Σx² of observations [B, N_S]: float64 [1 + 2 N_S], to be added to ``sums``."""
    seen = tf.cast(observations, tf.float64)
    count = tf.cast(tf.shape(seen)[:1], tf.float64)
    return tf.concat([count, tf.reduce_sum(seen, axis=0), tf.reduce_sum(tf.square(seen), axis=0)], axis=0)
