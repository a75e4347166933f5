"""Layers: activations and initial values."""

from __future__ import annotations

from typing import Any

import numpy as np

from a3c_tf.graph import networks
from a3c_tf.graph.tf1 import tf


def outputs(build: Any, inputs: np.ndarray, bias: float) -> np.ndarray:
    """Outputs of a net whose kernels are 1 and whose biases are ``bias``."""
    with tf.Graph().as_default(), tf.variable_scope("net", use_resource=True), tf.Session() as session:
        placeholder = tf.placeholder(tf.float32, [None, inputs.shape[1]])
        built = build(placeholder)
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            session.run(variable.assign(tf.fill(variable.shape, bias if "bias" in variable.op.name else 1.0)))
        return session.run(built, {placeholder: inputs})


def test_a_dense_layer() -> None:
    made = outputs(lambda x: networks.dense(x, 2, None, "layer"), np.array([[1.0, 2.0, 3.0]]), bias=-10.0)
    np.testing.assert_array_equal(made, [[-4, -4]])


def test_the_actors_hidden_layer_is_relu6() -> None:
    inputs = np.array([[-1.0], [0.5], [5.0], [7.0]])
    made = outputs(lambda x: networks.actor_hidden(x, 2), inputs, bias=0.0)
    np.testing.assert_array_equal(made, [[0, 0], [0.5, 0.5], [5, 5], [6, 6]])


def test_the_critic_is_relu6_then_linear() -> None:
    made = outputs(lambda x: networks.critic(x, 3), np.array([[-9.0], [2.0], [100.0]]), bias=-1.0)
    np.testing.assert_array_equal(made, [[-1], [3 * 1 - 1], [3 * 6 - 1]])
