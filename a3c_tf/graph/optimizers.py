"""The shared optimizers: one statistics of gradients for all workers, beside the global network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from a3c_tf.config import Config
from a3c_tf.graph.tf1 import tf

Tensor = Any
Operation = Any


class Part(NamedTuple):
    """Variables of a network that one optimizer updates."""

    name: str
    suffix: str
    """what its optimizer's name ends in"""
    params: list[Any]
    """trainable variables"""
    learning_rate: float


class Optimizers:
    """Applies the workers' gradients to the parts of the global network: RMSProp or Adam, one for each part.

    ``learning_rate_scale`` is a scalar if the learning rate decays, else None: the one given, or a placeholder.
    Source: Mnih et al. 2016, section 4 (Shared RMSProp).
    """

    def __init__(self, config: Config, parts: Sequence[Part], learning_rate_scale: Tensor | None = None) -> None:
        self.learning_rate_scale = learning_rate_scale
        if config.learning_rate_decay == "linear" and learning_rate_scale is None:
            self.learning_rate_scale = tf.placeholder(tf.float32, [], "learning_rate_scale")
        self._parts = parts
        self._optimizers = [self._optimizer(config, part) for part in parts]

    def _optimizer(self, config: Config, part: Part) -> Any:
        scale = self.learning_rate_scale
        rate = part.learning_rate if scale is None else part.learning_rate * scale
        if config.optimizer == "adam":
            return TorchAdam(rate, config.adam_beta1, config.adam_beta2, name=f"Adam{part.suffix}")
        # TensorFlow 1's: epsilon 1e-10 inside the root, the mean square starting at ones
        return tf.train.RMSPropOptimizer(rate, config.rmsprop_decay, name=f"RMSProp{part.suffix}")

    def apply(self, gradients: Sequence[Sequence[Tensor]]) -> list[Operation]:
        """The operations that apply the gradients of each part to its variables, in the parts' order."""
        return [
            optimizer.apply_gradients(list(zip(of_part, part.params, strict=True)))
            for optimizer, part, of_part in zip(self._optimizers, self._parts, gradients, strict=True)
        ]


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


def clipped_gradients(
    losses: Sequence[Tensor], parts: Sequence[Part], norm: float | None
) -> tuple[list[list[Tensor]], Tensor]:
    """Gradients of each part's loss, scaled down to the global ``norm`` if there is one; and all before that.

    Returns ([part][variable] gradients, the unscaled ones as one list).
    """
    unscaled = [tf.gradients(loss, part.params) for loss, part in zip(losses, parts, strict=True)]
    scaled = unscaled if norm is None else [tf.clip_by_global_norm(of_part, norm)[0] for of_part in unscaled]
    return scaled, [gradient for of_part in unscaled for gradient in of_part]
