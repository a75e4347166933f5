"""Layers from plain variables: ``tf.layers`` is gone under Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a3c_tf.graph.tf1 import tf

Tensor = Any


def dense(inputs: Tensor, units: int, activation: Callable[[Tensor], Tensor] | None, name: str) -> Tensor:
    """A fully connected layer: [B, n] → [B, units], float32, variables ``name/kernel`` and ``name/bias``.

    Kernels start from N(0, 0.1) and biases from 0, as in the original.
    """
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[1], units], initializer=tf.random_normal_initializer(0.0, 0.1))
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        return outputs if activation is None else activation(outputs)
