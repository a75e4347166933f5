"""λ-returns: by hand, against the formula of the paper, and by laws."""

from __future__ import annotations

import numpy as np
import pytest

from a3c_tf.algorithms.returns import lambda_returns, n_step_returns


def slow_advantages(rewards, values, gamma: float, gae_lambda: float) -> np.ndarray:
    """Â_t = Σ_k (γλ)^k δ_{t+k}, δ_t = r_t + γ v(s_{t+1}) - v(s_t): equations 12 and 16 of the paper, term by term."""
    deltas = [rewards[t] + gamma * values[t + 1] - values[t] for t in range(len(rewards))]
    return np.array(
        [sum((gamma * gae_lambda) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(deltas))]
    )


def a_rollout(seed: int, length: int = 10) -> tuple[list[float], np.ndarray]:
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=length)), rng.normal(size=length + 1).astype(np.float32)


def test_by_hand() -> None:
    # R_2 = 2 + ½·8 = 6;  R_1 = 0 + ½·(½·4 + ½·6) = 2.5;  R_0 = 1 + ½·(½·2 + ½·2.5) = 2.125
    targets = lambda_returns([1.0, 0.0, 2.0], np.array([2.0, 4.0, 8.0]), gamma=0.5, gae_lambda=0.5)
    np.testing.assert_array_equal(targets, [[2.125], [2.5], [6.0]])
    assert targets.dtype == np.float32


def test_a_terminal_state_is_worth_nothing() -> None:
    targets = lambda_returns([1.0, 3.0], np.array([2.0, 0.0]), gamma=0.5, gae_lambda=0.5)
    np.testing.assert_array_equal(targets, [[1 + 0.5 * (0.5 * 2 + 0.5 * 3)], [3.0]])


@pytest.mark.parametrize("seed", range(5))
def test_lambda_1_equals_n_step_returns(seed: int) -> None:
    rewards, values = a_rollout(seed)
    expected = n_step_returns(rewards, values[-1], 0.95)
    np.testing.assert_array_equal(lambda_returns(rewards, values[1:], 0.95, 1.0), expected)


@pytest.mark.parametrize("seed", range(5))
def test_lambda_0_gives_one_step_targets(seed: int) -> None:
    rewards, values = a_rollout(seed)
    targets = lambda_returns(rewards, values[1:], 0.95, 0.0)
    np.testing.assert_allclose(targets[:, 0], np.array(rewards) + 0.95 * values[1:], rtol=1e-6)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("length", [1, 2, 10])
def test_less_the_values_they_are_the_paper_s_advantages(gae_lambda: float, length: int) -> None:
    rewards, values = a_rollout(7, length)
    targets = lambda_returns(rewards, values[1:], 0.95, gae_lambda)
    expected = slow_advantages(rewards, values, 0.95, gae_lambda)
    np.testing.assert_allclose(targets[:, 0] - values[:-1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_constant_rewards_with_values_to_match_stay_constant(gae_lambda: float) -> None:
    # v = r / (1 - γ) everywhere satisfies the recursion, whatever λ
    worth = 3.0 / (1 - 0.9)
    targets = lambda_returns([3.0] * 20, np.full(20, worth), 0.9, gae_lambda)
    np.testing.assert_allclose(targets, worth, rtol=1e-6)


def test_perfect_values_leave_no_advantage_whatever_lambda() -> None:
    rewards, bootstrap = [1.0, -2.0, 0.5, 3.0], 4.0
    exact = n_step_returns(rewards, bootstrap, 0.9)[:, 0]
    next_values = np.append(exact[1:], bootstrap)
    for gae_lambda in (0.0, 0.4, 1.0):
        np.testing.assert_allclose(lambda_returns(rewards, next_values, 0.9, gae_lambda)[:, 0], exact, rtol=1e-6)
