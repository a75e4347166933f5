"""The shared optimizers: one statistics of gradients for all workers, beside the global network."""

from __future__ import annotations

from typing import Any

from a3c_tf.config import Config
from a3c_tf.graph.tf1 import tf

GradsAndVars = list[tuple[Any, Any]]


class Optimizers:
    """Applies the workers' gradients to the global network: RMSProp or Adam, one each or one for both.

    ``learning_rate_scale`` is a scalar if the learning rate decays, else None: the one given, or a placeholder.
    Source: Mnih et al. 2016, section 4 (Shared RMSProp).
    """

    def __init__(self, config: Config, learning_rate_scale: Any = None) -> None:
        self.learning_rate_scale = learning_rate_scale
        if config.learning_rate_decay == "linear" and learning_rate_scale is None:
            self.learning_rate_scale = tf.placeholder(tf.float32, [], "learning_rate_scale")
        self._joint = config.joint_loss
        if self._joint:
            self._actor = self._critic = self._build(config, config.actor_learning_rate, "")
        else:
            self._actor = self._build(config, config.actor_learning_rate, "A")
            self._critic = self._build(config, config.critic_learning_rate, "C")

    def _build(self, config: Config, learning_rate: float, suffix: str) -> Any:
        rate = learning_rate if self.learning_rate_scale is None else learning_rate * self.learning_rate_scale
        if config.optimizer == "adam":
            return TorchAdam(rate, config.adam_beta1, config.adam_beta2, name=f"Adam{suffix}")
        # TensorFlow 1's: epsilon 1e-10 inside the root, the mean square starting at ones
        return tf.train.RMSPropOptimizer(rate, config.rmsprop_decay, name=f"RMSProp{suffix}")

    def apply(self, actor: GradsAndVars, critic: GradsAndVars) -> tuple[Any, Any]:
        """The operations that push the actor's and the critic's gradients; with a joint loss one and the same."""
        if self._joint:
            update = self._actor.apply_gradients(actor + critic)
            return update, update
        return self._actor.apply_gradients(actor), self._critic.apply_gradients(critic)


class TorchAdam(tf.train.AdamOptimizer):
    """Adam with epsilon added to the bias-corrected root, as PyTorch and the paper's algorithm 1 have it.

    TensorFlow adds epsilon to the uncorrected root, which is the same with an epsilon of
    ε √(1 - β₂ᵗ). Source: Kingma and Ba 2015 (arXiv 1412.6980), section 2.
    """

    _EPSILON = 1e-8

    def _prepare(self) -> None:
        super()._prepare()
        _, beta2_power = self._get_beta_accumulators()
        self._epsilon_t = self._EPSILON * tf.sqrt(1 - beta2_power)
