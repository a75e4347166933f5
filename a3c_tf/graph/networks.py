"""The actor's and the critic's networks, and what they see of an observation."""

from __future__ import annotations

from typing import Any

from a3c_tf.config import Config
from a3c_tf.environments.spaces import ObservationSpec
from a3c_tf.errors import UsageError
from a3c_tf.graph.layers import dense
from a3c_tf.graph.tf1 import tf

Tensor = Any


def actor_hidden(observations: Tensor, units: int) -> Tensor:
    """The layer that the policy's heads stand on: [B, N_S] → [B, units]."""
    return dense(observations, units, tf.nn.relu6, "la")


def critic(observations: Tensor, units: int) -> Tensor:
    """The state value: [B, N_S] → v [B, 1]."""
    return dense(dense(observations, units, tf.nn.relu6, "lc"), 1, None, "v")


def flattened(observations: Tensor, spec: ObservationSpec) -> Tensor:
    """[B, …] in the space's shape → [B, N_S]; one dimension is flat already and stays the same tensor."""
    return observations if len(spec.shape) == 1 else tf.reshape(observations, [-1, spec.size], name="flat")


def scaled(observations: Tensor, config: Config) -> Tensor:
    """[B, N_S] times ``config.observation_scale``, if there is one. Raises ``UsageError`` if it does not fit."""
    scale, size = config.observation_scale, observations.shape[1]
    if scale is None:
        return observations
    if len(scale) != size:
        raise UsageError(
            f"observation_scale = {scale}: expected a number for each of the {size} dimensions of an observation, "
            f"got {len(scale)}"
        )
    return tf.multiply(observations, list(scale), name="scaled")
