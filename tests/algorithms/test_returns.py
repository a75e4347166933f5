"""Value targets of [T, B] rollouts: by hand, against the papers' sums written out, by laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3c_tf.algorithms.returns import lambda_returns, n_step_returns

NUMBERS = st.floats(-100, 100, width=32)
SEEDS, LENGTHS, WIDTHS = st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 4)


def column(numbers: list[float]) -> np.ndarray:
    return np.array(numbers, np.float64)[:, None]


def a_rollout(seed: int, steps: int, envs: int, terminal: float = 0.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards and discounts [T, B], some of them 0, and the values [T + 1, B]."""
    rng = np.random.default_rng(seed)
    discounts = np.where(rng.random((steps, envs)) < terminal, 0.0, 0.95)
    return rng.normal(size=(steps, envs)), discounts, rng.normal(size=(steps + 1, envs)).astype(np.float32)


def slow_return(rewards: np.ndarray, discounts: np.ndarray, bootstrap: float, t: int) -> float:
    """R_t = Σ_k d_t … d_{t+k-1} r_{t+k} + d_t … d_{T-1} v(s_T)."""
    T = len(rewards)
    terms = [np.prod(discounts[t : t + k]) * rewards[t + k] for k in range(T - t)]
    return float(sum(terms) + np.prod(discounts[t:]) * bootstrap)


def slow_advantage(rewards: np.ndarray, discounts: np.ndarray, values: np.ndarray, gae_lambda: float, t: int) -> float:
    """Â_t = Σ_k λᵏ d_t … d_{t+k-1} δ_{t+k}, δ_t = r_t + d_t v(s_{t+1}) - v(s_t): equations 12 and 16 of the paper."""
    deltas = rewards + discounts * values[1:] - values[:-1]
    weights = [gae_lambda**k * np.prod(discounts[t : t + k]) for k in range(len(rewards) - t)]
    return float(np.dot(weights, deltas[t:]))


# n-step returns


def test_by_hand() -> None:
    targets = n_step_returns(column([1, 0, 2]), column([0.5, 0.5, 0.5]), np.array([8.0]))
    np.testing.assert_array_equal(targets, [[2.5], [3.0], [6.0]])
    assert targets.dtype == np.float32


def test_by_hand_of_two_environments_of_which_one_terminates_within() -> None:
    rewards, discounts = np.array([[1.0, 1.0], [0.0, 4.0], [2.0, 2.0]]), np.array([[0.5, 0.5], [0.5, 0.0], [0.5, 0.5]])
    targets = n_step_returns(rewards, discounts, np.array([8.0, 6.0]))
    np.testing.assert_array_equal(targets, [[2.5, 3.0], [3.0, 4.0], [6.0, 5.0]])


@given(SEEDS, LENGTHS, WIDTHS)
@settings(max_examples=60, deadline=None)
def test_as_the_sum_written_out(seed: int, steps: int, envs: int) -> None:
    rewards, discounts, values = a_rollout(seed, steps, envs)
    targets = n_step_returns(rewards, discounts, values[-1])
    slow = [[slow_return(rewards[:, b], discounts[:, b], values[-1, b], t) for b in range(envs)] for t in range(steps)]
    np.testing.assert_allclose(targets, slow, rtol=1e-5, atol=1e-6)


@given(NUMBERS, st.floats(0, 0.99), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_a_constant_reward_is_worth_r_over_1_minus_gamma_everywhere(reward: float, gamma: float, steps: int) -> None:
    worth = reward / (1 - gamma)
    targets = n_step_returns(np.full((steps, 1), reward), np.full((steps, 1), gamma), np.array([worth]))
    np.testing.assert_allclose(targets, worth, rtol=1e-5, atol=1e-5)


def test_nothing_after_a_terminal_state_counts() -> None:
    rewards, discounts = np.array([[1.0], [3.0], [1e6]]), np.array([[0.5], [0.0], [0.5]])
    np.testing.assert_array_equal(n_step_returns(rewards, discounts, np.array([1e6]))[:2], [[2.5], [3.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bootstrap_as_the_network_gives_it(dtype: type) -> None:
    targets = n_step_returns(column([1, 0, 2]), np.full((3, 1), 0.5), np.array([8], dtype))
    np.testing.assert_array_equal(targets, [[2.5], [3.0], [6.0]])


# λ-returns


def test_lambda_returns_by_hand() -> None:
    """R_2 = 2 + ½·8 = 6; R_1 = 0 + ½·(½·4 + ½·6) = 2.5; R_0 = 1 + ½·(½·2 + ½·2.5) = 2.125."""
    targets = lambda_returns(column([1, 0, 2]), np.full((3, 1), 0.5), column([2, 4, 8]), gae_lambda=0.5)
    np.testing.assert_array_equal(targets, [[2.125], [2.5], [6.0]])
    assert targets.dtype == np.float32


def test_a_terminal_state_is_worth_nothing() -> None:
    targets = lambda_returns(column([1, 3]), column([0.5, 0]), column([2, 1e6]), gae_lambda=0.5)
    np.testing.assert_array_equal(targets, [[1 + 0.5 * (0.5 * 2 + 0.5 * 3)], [3.0]])


@given(SEEDS, LENGTHS, WIDTHS, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_less_the_values_they_are_the_papers_advantages(seed: int, steps: int, envs: int, gae_lambda: float) -> None:
    rewards, discounts, values = a_rollout(seed, steps, envs)
    ours = lambda_returns(rewards, discounts, values[1:], gae_lambda) - values[:-1]
    slow = [
        [slow_advantage(rewards[:, b], discounts[:, b], values[:, b], gae_lambda, t) for b in range(envs)]
        for t in range(steps)
    ]
    np.testing.assert_allclose(ours, slow, rtol=1e-4, atol=1e-5)


@given(SEEDS, LENGTHS, WIDTHS)
@settings(max_examples=40, deadline=None)
def test_lambda_1_gives_the_n_step_returns_and_lambda_0_one_step_targets(seed: int, steps: int, envs: int) -> None:
    rewards, discounts, values = a_rollout(seed, steps, envs)
    all_steps = lambda_returns(rewards, discounts, values[1:], 1.0)
    np.testing.assert_array_equal(all_steps, n_step_returns(rewards, discounts, values[-1]))
    one_step = lambda_returns(rewards, discounts, values[1:], 0.0)
    np.testing.assert_allclose(one_step, rewards + discounts * values[1:], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.4, 1.0])
def test_perfect_values_leave_no_advantage_whatever_lambda(gae_lambda: float) -> None:
    rewards, discounts, bootstrap = column([1, -2, 0.5, 3]), np.full((4, 1), 0.9), np.array([4.0])
    exact = n_step_returns(rewards, discounts, bootstrap)
    next_values = np.append(exact[1:], bootstrap[None], axis=0)
    np.testing.assert_allclose(lambda_returns(rewards, discounts, next_values, gae_lambda), exact, rtol=1e-6)


# both


@given(SEEDS, LENGTHS, WIDTHS)
@settings(max_examples=40, deadline=None)
def test_environments_side_by_side_do_not_know_each_other(seed: int, steps: int, envs: int) -> None:
    rewards, discounts, values = a_rollout(seed, steps, envs)
    for b in range(envs):
        alone = rewards[:, b : b + 1], discounts[:, b : b + 1]
        together = n_step_returns(rewards, discounts, values[-1])[:, b : b + 1]
        np.testing.assert_array_equal(n_step_returns(*alone, values[-1, b : b + 1]), together)
        together = lambda_returns(rewards, discounts, values[1:], 0.7)[:, b : b + 1]
        np.testing.assert_array_equal(lambda_returns(*alone, values[1:, b : b + 1], 0.7), together)


def test_what_is_given_stays_as_it_is() -> None:
    rewards, discounts, values = a_rollout(0, 5, 3)
    copies = rewards.copy(), discounts.copy(), values.copy()
    lambda_returns(rewards, discounts, values[1:], 0.5)
    n_step_returns(rewards, discounts, values[-1])
    for given_, copy in zip((rewards, discounts, values), copies, strict=True):
        np.testing.assert_array_equal(given_, copy)
