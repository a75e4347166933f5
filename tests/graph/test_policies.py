"""The Normal policy against its formulas written in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from a3c_tf.environments.spaces import ActionSpec
from a3c_tf.graph.policies import NormalPolicy
from a3c_tf.graph.tf1 import tf

FOUR = ActionSpec((4,), (-1.0, -2.0, 0.0, -7.0), (1.0, 2.0, 3.0, -5.0))
LOW, HIGH = np.array(FOUR.low), np.array(FOUR.high)
FLOOR = 1e-4


class Built:
    """A policy on a hidden layer of two units, with heads whose biases are set and whose kernels are 0."""

    def __init__(self, space: ActionSpec) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.variable_scope("actor", use_resource=True):
            self.hidden = tf.placeholder(tf.float32, [None, 2], "hidden")
            self.policy = NormalPolicy(self.hidden, space)
            self.policy.wrap(FLOOR)
            self.actions = tf.placeholder(tf.float32, [None, space.size])
            self.log_prob, self.entropy = self.policy.log_prob(self.actions), self.policy.entropy()
            self.sample, self.noise = self.policy.sample()
            self.clipped = self.policy.clip(self.actions)
            self.variables = {variable.op.name: variable for variable in tf.global_variables()}
            self.session = tf.Session(graph=self.graph)
            self.session.run(tf.global_variables_initializer())
        for name, variable in self.variables.items():
            if name.endswith("kernel"):
                self.set(name, np.zeros(variable.shape))

    def set(self, name: str, value: Any) -> None:
        variable = self.variables[name]
        value = np.broadcast_to(value, variable.shape)
        self.session.run(variable.initializer, {variable.initializer.inputs[1]: value})

    def heads(self, mu_bias: Any, sigma_bias: Any) -> tuple[np.ndarray, np.ndarray]:
        """mu and sigma [N_A] for biases before their activations."""
        self.set("actor/mu/bias", mu_bias)
        self.set("actor/sigma/bias", sigma_bias)
        mu, sigma = self.session.run([self.policy.mu, self.policy.sigma], {self.hidden: np.zeros((1, 2))})
        return mu[0], sigma[0]

    def run(self, tensor: Any, actions: np.ndarray) -> np.ndarray:
        return self.session.run(tensor, {self.hidden: np.zeros((len(actions), 2)), self.actions: actions})


@pytest.fixture(scope="module")
def make() -> Iterator[Callable[[ActionSpec], Built]]:
    made: dict[ActionSpec, Built] = {}
    yield lambda space: made.setdefault(space, Built(space))
    for built in made.values():
        built.session.close()


@pytest.fixture
def four(make: Callable[[ActionSpec], Built]) -> Built:
    return make(FOUR)


def test_log_probabilities_are_summed_over_the_dimensions(four: Built) -> None:
    mu, sigma = four.heads([0.1, -0.2, 0.3, 1.0], [0.0, 1.0, -1.0, 2.0])
    actions = np.random.default_rng(0).uniform(LOW, HIGH, (6, 4)).astype(np.float32)
    each = -((actions - mu) ** 2) / (2 * sigma**2) - np.log(sigma) - np.log(2 * np.pi) / 2
    ours = four.run(four.log_prob, actions)
    assert ours.shape == (6, 1)
    np.testing.assert_allclose(ours, each.sum(axis=1, keepdims=True), rtol=1e-5)


def test_entropy_is_summed_over_the_dimensions(four: Built) -> None:
    _, sigma = four.heads(0.0, [0.0, 1.0, -1.0, 2.0])
    ours = four.run(four.entropy, np.zeros((3, 4)))
    assert ours.shape == (3, 1)
    np.testing.assert_allclose(ours, np.full((3, 1), np.log(sigma * np.sqrt(2 * np.pi * np.e)).sum()), rtol=1e-5)


def test_mu_goes_from_bound_to_bound_and_starts_in_the_middle(four: Built) -> None:
    np.testing.assert_allclose(four.heads(0.0, 0.0)[0], (LOW + HIGH) / 2, atol=1e-6)
    np.testing.assert_allclose(four.heads(50.0, 0.0)[0], HIGH, rtol=1e-6)
    np.testing.assert_allclose(four.heads(-50.0, 0.0)[0], LOW, rtol=1e-6, atol=1e-6)
    expected = (LOW + HIGH) / 2 + np.tanh(0.5) * (HIGH - LOW) / 2
    np.testing.assert_allclose(four.heads(0.5, 0.0)[0], expected, rtol=1e-5)


def test_with_symmetric_bounds_mu_is_tanh_times_the_bound(make: Callable[[ActionSpec], Built]) -> None:
    pendulum = make(ActionSpec((1,), (-2.0,), (2.0,)))
    np.testing.assert_allclose(pendulum.heads(0.7, 0.0)[0], [2 * np.tanh(0.7)], rtol=1e-6)


def test_sigma_is_softplus_above_a_floor(four: Built) -> None:
    np.testing.assert_allclose(four.heads(0.0, 0.0)[1], np.log(2) + FLOOR, rtol=1e-6)
    np.testing.assert_allclose(four.heads(0.0, 30.0)[1], 30 + FLOOR, rtol=1e-6)


def test_sigma_at_its_floor_keeps_everything_finite(four: Built) -> None:
    mu, sigma = four.heads(0.0, -1000.0)
    np.testing.assert_allclose(sigma, FLOOR)
    assert np.all(np.isfinite(four.run(four.log_prob, np.array([mu, mu + 1]))))
    assert np.all(np.isfinite(four.run(four.entropy, mu[None])))


def test_samples_are_made_of_the_noise_fed(four: Built) -> None:
    mu, sigma = four.heads(0.3, -1.0)
    noise = np.random.default_rng(1).standard_normal((5, 4))
    ours = four.session.run(four.sample, {four.hidden: np.zeros((5, 2)), four.noise: noise})
    np.testing.assert_allclose(ours, mu + sigma * noise, rtol=1e-5)


def test_actions_are_clipped_each_to_its_own_bounds(four: Built) -> None:
    actions = np.array([[-9.0, 9.0, 1.0, -6.0], [0.5, -9.0, -9.0, 9.0]])
    np.testing.assert_allclose(four.run(four.clipped, actions), np.clip(actions, LOW, HIGH))
