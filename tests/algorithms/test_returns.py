"""Value targets: by hand, against a slow transcription, by a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3c_tf.algorithms.returns import lambda_returns, n_step_returns

NUMBERS = st.floats(-100, 100, width=32)
DISCOUNTS = st.floats(0, 1)


def test_by_hand() -> None:
    np.testing.assert_array_equal(n_step_returns([1, 0, 2], 8.0, 0.5), np.array([[2.5], [3.0], [6.0]]))


def test_the_result_is_a_float32_column_like_the_critics_value() -> None:
    targets = n_step_returns([1.0, 2.0, 3.0, 4.0], 0.5, 0.9)
    assert targets.shape == (4, 1)
    assert targets.dtype == np.float32


def test_a_single_step() -> None:
    np.testing.assert_allclose(n_step_returns([3.0], 10.0, 0.9), [[12.0]])


def test_without_discount_the_targets_are_sums_and_without_future_they_are_the_rewards() -> None:
    np.testing.assert_array_equal(n_step_returns([1.0, 2.0, 3.0], 4.0, 1.0).ravel(), [10.0, 9.0, 7.0])
    np.testing.assert_array_equal(n_step_returns([1.0, 2.0, 3.0], 4.0, 0.0).ravel(), [1.0, 2.0, 3.0])


@given(st.lists(NUMBERS, min_size=1, max_size=20), NUMBERS, DISCOUNTS)
@settings(max_examples=60, deadline=None)
def test_as_the_sum_written_out(rewards: list[float], bootstrap: float, gamma: float) -> None:
    """R_t = Σ_k γᵏ r_{t+k} + γ^{T-t} v(s_T)."""
    T = len(rewards)
    slow = [sum(gamma**k * rewards[t + k] for k in range(T - t)) + gamma ** (T - t) * bootstrap for t in range(T)]
    np.testing.assert_allclose(n_step_returns(rewards, bootstrap, gamma).ravel(), slow, rtol=1e-5, atol=1e-3)


@given(NUMBERS, st.floats(0, 0.99), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_a_constant_reward_is_worth_r_over_1_minus_gamma_everywhere(reward: float, gamma: float, steps: int) -> None:
    worth = reward / (1 - gamma)
    np.testing.assert_allclose(n_step_returns([reward] * steps, worth, gamma).ravel(), worth, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bootstrap", [np.float32(8), np.float64(8), 8])
def test_a_bootstrap_as_the_network_gives_it(bootstrap: float) -> None:
    np.testing.assert_array_equal(n_step_returns([1, 0, 2], bootstrap, 0.5).ravel(), [2.5, 3.0, 6.0])


def test_lambda_returns_by_hand() -> None:
    """R_2 = 2 + .5·8; R_1 = 0 + .5(.5·4 + .5·6); R_0 = 1 + .5(.5·2 + .5·2.5)."""
    targets = lambda_returns([1, 0, 2], np.array([2.0, 4.0, 8.0]), 0.5, 0.5)
    np.testing.assert_array_equal(targets, [[2.125], [2.5], [6.0]])
    assert targets.dtype == np.float32


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=20), NUMBERS, DISCOUNTS, DISCOUNTS)
@settings(max_examples=60, deadline=None)
def test_lambda_returns_less_the_values_are_the_generalized_advantages(
    steps: list[tuple[float, float, float]], bootstrap: float, gamma: float, gae_lambda: float
) -> None:
    """Σ_k (γλ)ᵏ δ_{t+k} with δ_t = r_t + γ v(s_{t+1}) - v(s_t), written out."""
    rewards, values = [step[0] for step in steps], [step[1] for step in steps]
    next_values = [*values[1:], bootstrap]
    T = len(rewards)
    deltas = [rewards[t] + gamma * next_values[t] - values[t] for t in range(T)]
    slow = [sum((gamma * gae_lambda) ** k * deltas[t + k] for k in range(T - t)) for t in range(T)]
    ours = lambda_returns(rewards, np.array(next_values, np.float32), gamma, gae_lambda).ravel() - values
    np.testing.assert_allclose(ours, slow, rtol=1e-4, atol=1e-2)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20), DISCOUNTS)
@settings(max_examples=40, deadline=None)
def test_lambda_1_gives_the_n_step_returns_and_lambda_0_one_step_targets(
    steps: list[tuple[float, float]], gamma: float
) -> None:
    rewards, next_values = (np.array(column) for column in zip(*steps, strict=True))
    all_steps = lambda_returns(rewards, next_values, gamma, 1.0)
    np.testing.assert_allclose(all_steps, n_step_returns(rewards, next_values[-1], gamma), rtol=1e-5, atol=1e-3)
    one_step = lambda_returns(rewards, next_values, gamma, 0.0)
    np.testing.assert_allclose(one_step.ravel(), rewards + gamma * next_values, rtol=1e-5, atol=1e-3)


def test_lambda_returns_leave_the_values_as_they_are() -> None:
    next_values = np.array([2.0, 4.0, 8.0], np.float32)
    lambda_returns([1, 0, 2], next_values, 0.5, 0.5)
    np.testing.assert_array_equal(next_values, [2, 4, 8])
