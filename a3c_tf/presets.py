"""Complete settings for environments, by name: what ``Config.preset`` knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a3c_tf.environment_names import env_key
from a3c_tf.errors import UsageError

# What the two environments of Box2D have in common.
_BOX2D: dict[str, Any] = {
    "max_episodes": None,
    "max_episode_steps": None,
    "rollout_steps": 50,
    "gae_lambda": 0.98,
    "bootstrap_at_time_limit": True,
    "reward_shift": 0.0,
    "learner_sees_unclipped_action": True,
    "rmsprop_decay": 0.99,
    "learning_rate_decay": "linear",
    "max_grad_norm": 0.5,
    "normalize_observations": True,
    "evaluation_interval": 50_000,
}
# The first preset that lists an environment is its default. Sources: `classic` is the TensorFlow
# original, whose settings are the defaults of `Config`; `classic-adam` is the PyTorch original; `tuned` is
# ours, for the best policy within `max_steps` (docs/results.md has a row for each setting).
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "classic": {"Pendulum-v1": {}},
    "classic-adam": {
        "Pendulum-v1": {
            "max_episodes": 3000,
            "rollout_steps": 5,
            "reward_shift": 8.1,
            "reward_scale": 8.1,
            "entropy_coefficient": 0.005,
            "sigma_floor": 1e-3,
            "learner_sees_unclipped_action": True,
            "optimizer": "adam",
            "joint_loss": True,
            "actor_learning_rate": 1e-4,
            "critic_learning_rate": 1e-4,
            "adam_beta1": 0.95,
            "running_return_decay": 0.99,
        }
    },
    "tuned": {
        "CartPole-v1": {
            "max_episodes": None,
            "max_steps": 250_000,
            "max_episode_steps": None,
            "rollout_steps": 20,
            "gamma": 0.99,
            "gae_lambda": 0.95,
            "bootstrap_at_time_limit": True,
            "reward_shift": 0.0,
            "reward_scale": 20.0,
            "actor_learning_rate": 1e-3,
            "critic_learning_rate": 1e-3,
            "learning_rate_decay": "linear",
            "rmsprop_decay": 0.99,
            "evaluation_interval": 10_000,
        },
        "Pendulum-v1": {
            "max_episodes": None,
            "max_steps": 300_000,
            "rollout_steps": 5,
            "gamma": 0.95,
            "gae_lambda": 0.9,
            "bootstrap_at_time_limit": True,
            "reward_scale": 16.0,
            "entropy_coefficient": 0.02,
            "learner_sees_unclipped_action": True,
            "rmsprop_decay": 0.99,
            "actor_learning_rate": 4e-4,
            "critic_learning_rate": 3e-3,
            "learning_rate_decay": "linear",
            "max_grad_norm": 2.0,
            "evaluation_interval": 50_000,
            "evaluation_episodes": 50,
        },
        # The car never learns from what it does not see: its velocity is at most 0.07. The wide policy
        # finds the flag by chance; only its mean is played.
        "MountainCarContinuous-v0": {
            "max_episodes": None,
            "max_steps": 300_000,
            "max_episode_steps": None,
            "rollout_steps": 50,
            "gamma": 0.99,
            "gae_lambda": 0.98,
            "bootstrap_at_time_limit": True,
            "reward_shift": 0.0,
            "reward_scale": 10.0,
            "entropy_coefficient": 0.0,
            "learner_sees_unclipped_action": True,
            "rmsprop_decay": 0.99,
            "actor_learning_rate": 1e-3,
            "critic_learning_rate": 3e-3,
            "learning_rate_decay": "linear",
            "observation_scale": (1.0, 14.0),
            "sigma_floor": 1.5,
            "evaluation_interval": 50_000,
            "evaluation_episodes": 100,  # of 20, one in twenty that fails went unseen
        },
        # Long rollouts and a large γ, so that the reward of the landing reaches the approach. Without entropy, at
        # an actor rate of 2e-3, a policy that landed was lost again.
        "LunarLanderContinuous-v3": {
            **_BOX2D,
            "max_steps": 600_000,
            "gamma": 0.995,
            "reward_scale": 20.0,
            "entropy_coefficient": 0.003,
            "actor_learning_rate": 1e-3,
            "critic_learning_rate": 3e-3,
        },
        # It walks after 400,000 steps and may fall back later: the best policy is the result, not the last.
        "BipedalWalker-v3": {
            **_BOX2D,
            "max_steps": 700_000,
            "gamma": 0.99,
            "reward_scale": 10.0,
            "entropy_coefficient": 0.0,
            "actor_learning_rate": 5e-4,
            "critic_learning_rate": 2e-3,
        },
    },
}
# For any other environment: no reward shift, the environment's own time limit, and the bootstrap
# that belongs to a time limit.
GENERAL: dict[str, Any] = {
    "reward_shift": 0.0,
    "reward_scale": 1.0,
    "max_episode_steps": None,
    "bootstrap_at_time_limit": True,
    "gamma": 0.99,
}


def default_preset(env: str | Callable[[], Any]) -> str:
    """The preset of ``env`` unless another is named: the first in ``PRESETS`` that lists it, else `general`."""
    return next((name for name, table in PRESETS.items() if env_key(env) in table), "general")


def preset_settings(name: str, env: str | Callable[[], Any]) -> dict[str, Any]:
    """What preset ``name`` sets for ``env``. Raises ``UsageError`` if there is no such preset, or not for it."""
    if name == "general":
        return GENERAL
    key = env_key(env)
    if name not in PRESETS:
        raise UsageError(f"preset {name!r}: no such preset; there are {', '.join([*PRESETS, 'general'])}")
    if key not in PRESETS[name]:
        raise UsageError(
            f"preset {name!r} has no settings for {key}, only for {', '.join(PRESETS[name])}; use 'general' there"
        )
    return PRESETS[name][key]
