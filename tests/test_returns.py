"""Value targets: by hand, against a slow transcription, by a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3c_tf.returns import n_step_returns

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
