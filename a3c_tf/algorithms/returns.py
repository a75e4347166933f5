"""Value targets of a rollout: pure NumPy, no graph. T steps of B environments side by side."""

from __future__ import annotations

from typing import Any

import numpy as np


def n_step_returns(rewards: np.ndarray, discounts: np.ndarray, bootstrap: np.ndarray) -> np.ndarray:
    """Discounted returns by the backward recursion R_t = r_t + d_t R_{t+1}, from R_T = v(s_T).

    ========== ======= ===================================================================
    symbol     shape   meaning
    ========== ======= ===================================================================
    rewards    [T, B]  float64, rewards r_0 … r_{T-1} as the learner sees them
    discounts  [T, B]  float64, γ; 0 where the state after the step is worth 0
    bootstrap  [B]     v(s_T), finite
    result     [T, B]  float32 value targets
    ========== ======= ===================================================================

    Source: Mnih et al. 2016, algorithm S3 (the inner loop over i).
    """
    targets, discount_of = _steps(rewards), _steps(discounts)
    later = bootstrap.item() if bootstrap.size == 1 else bootstrap
    for t in reversed(range(len(targets))):
        # float64 inside, rounded once at the end: as the original's list of Python floats
        later = targets[t] = targets[t] + discount_of[t] * later
    return np.array(targets, np.float32).reshape(rewards.shape)


def lambda_returns(
    rewards: np.ndarray, discounts: np.ndarray, next_values: np.ndarray, gae_lambda: float
) -> np.ndarray:
    """λ-returns R_t = r_t + d_t ((1 - λ) v(s_{t+1}) + λ R_{t+1}), from R_T = v(s_T).

    ============ ======= =================================================================
    symbol       shape   meaning
    ============ ======= =================================================================
    rewards      [T, B]  float64, rewards r_0 … r_{T-1} as the learner sees them
    discounts    [T, B]  float64, γ; 0 where the state after the step is worth 0
    next_values  [T, B]  v(s_1) … v(s_T), finite
    gae_lambda   scalar  λ = 1 gives ``n_step_returns``, λ = 0 one-step targets
    result       [T, B]  float32 value targets
    ============ ======= =================================================================

    R_t - v(s_t) is the generalized advantage estimate Σ (γλ)^k δ_{t+k}, so with these targets the
    graph's TD error is that advantage. Source: Schulman et al. 2016 (arXiv 1506.02438), equation 16.
    """
    targets, discount_of, value_of = _steps(rewards), _steps(discounts), _steps(next_values.astype(np.float64))
    later = value_of[-1]
    for t in reversed(range(len(targets))):
        later = targets[t] = targets[t] + discount_of[t] * ((1 - gae_lambda) * value_of[t] + gae_lambda * later)
    return np.array(targets, np.float32).reshape(rewards.shape)


def _steps(array: np.ndarray) -> list[Any]:
    """The rows [B] of an array [T, B]: of one environment plain floats, with which Python reckons faster."""
    return array.ravel().tolist() if array.shape[1] == 1 else list(array)
