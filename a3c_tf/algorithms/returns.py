"""Value targets from a rollout: pure NumPy, no graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def n_step_returns(rewards: Sequence[float], bootstrap: float, gamma: float) -> np.ndarray:
    """Discounted returns of one rollout by the backward recursion R ← r + γ R.

    ========== ======= =====================================================
    symbol     shape   meaning
    ========== ======= =====================================================
    rewards    [T]     rewards r_0 … r_{T-1} as the learner sees them
    bootstrap  scalar  v(s_T), or 0 if s_T is terminal
    gamma      scalar  discount factor
    result     [T, 1]  float32 value targets, a column like the critic's v
    ========== ======= =====================================================

    Source: Mnih et al. 2016, algorithm S3 (the inner loop over i).
    """
    targets = np.empty((len(rewards), 1), np.float32)
    accumulated = float(bootstrap)
    for t in range(len(rewards) - 1, -1, -1):
        # float64 inside, rounded once at the end: as the original's list of Python floats
        accumulated = rewards[t] + gamma * accumulated
        targets[t, 0] = accumulated
    return targets


def lambda_returns(rewards: Sequence[float], next_values: np.ndarray, gamma: float, gae_lambda: float) -> np.ndarray:
    """λ-returns of one rollout: R_t = r_t + γ ((1 - λ) v(s_{t+1}) + λ R_{t+1}), from R_T = v(s_T).

    ============ ======= ============================================================
    symbol       shape   meaning
    ============ ======= ============================================================
    rewards      [T]     rewards r_0 … r_{T-1} as the learner sees them
    next_values  [T]     v(s_1) … v(s_T); the last one 0 if s_T is terminal
    gamma        scalar  discount factor
    gae_lambda   scalar  λ = 1 gives ``n_step_returns``, λ = 0 one-step targets
    result       [T, 1]  float32 value targets
    ============ ======= ============================================================

    R_t - v(s_t) is the generalized advantage estimate Σ (γλ)^k δ_{t+k}, so with these targets the
    graph's TD error is that advantage. Source: Schulman et al. 2016 (arXiv 1506.02438), equation 16.
    """
    targets = np.empty((len(rewards), 1), np.float32)
    accumulated = float(next_values[-1])
    for t in range(len(rewards) - 1, -1, -1):
        accumulated = rewards[t] + gamma * ((1 - gae_lambda) * float(next_values[t]) + gae_lambda * accumulated)
        targets[t, 0] = accumulated
    return targets
