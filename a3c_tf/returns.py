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
