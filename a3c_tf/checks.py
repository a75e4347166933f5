"""What each setting of ``Config`` allows, and which go together."""

from __future__ import annotations

import math
from typing import Any

from a3c_tf.errors import UsageError


def check_settings(config: Any) -> None:
    """Raises ``UsageError`` that names the field, its value and what is allowed."""
    check = _Checks(config)
    _check_the_run(check)
    _check_the_learning(check)
    _check_what_goes_together(config)


def _check_the_run(check: _Checks) -> None:
    config = check.config
    check.that("env", callable(config.env) or _is_text(config.env), "an id or a callable")
    check.that("log_dir", config.log_dir is None or _is_text(config.log_dir), "a path")
    check.whole("seed", 0, 2**31 - 1, optional=True)
    check.whole("processes", 0, 1024)
    check.whole("workers", 1, 1024, optional=True)
    check.whole("restarts", 0)
    check.flag("allow_open_port")
    for budget in ("max_episodes", "max_steps", "max_episode_steps"):
        check.whole(budget, 1, optional=True)
    check.whole("evaluation_interval", 1, optional=True)
    check.whole("evaluation_episodes", 1)
    check.positive("checkpoint_seconds")
    check.whole("checkpoint_episodes", 1)
    check.number("running_return_decay", 0.0, 1.0)


def _check_the_learning(check: _Checks) -> None:
    check.one_of("algorithm", "a3c")
    check.one_of("optimizer", "rmsprop", "adam")
    check.one_of("learning_rate_decay", "none", "linear")
    for size in ("rollout_steps", "actor_hidden", "critic_hidden"):
        check.whole(size, 1)
    for fraction in ("gamma", "gae_lambda", "rmsprop_decay"):
        check.number(fraction, 0.0, 1.0)
    for beta in ("adam_beta1", "adam_beta2"):
        check.number(beta, 0.0, math.nextafter(1.0, 0.0))  # 1 - beta divides
    for weight in ("entropy_coefficient", "sigma_floor"):
        check.number(weight, 0.0)
    check.number("reward_shift")
    for above_0 in ("reward_scale", "actor_learning_rate", "critic_learning_rate"):
        check.positive(above_0)
    if check.config.max_grad_norm is not None:
        check.positive("max_grad_norm")
    for flag in ("bootstrap_at_time_limit", "learner_sees_unclipped_action", "joint_loss", "normalize_observations"):
        check.flag(flag)
    scale = check.config.observation_scale
    fits = isinstance(scale, tuple) and all(isinstance(n, (int, float)) and math.isfinite(n) for n in scale)
    check.that("observation_scale", scale is None or fits, "finite numbers, or None")


def _check_what_goes_together(config: Any) -> None:
    if config.max_episodes is None and config.max_steps is None:
        raise UsageError("max_episodes and max_steps are both None: give at least one, so that the run ends")
    if config.learning_rate_decay == "linear" and config.planned_steps is None:
        raise UsageError("learning_rate_decay = 'linear': needs max_steps, or max_episodes and max_episode_steps")
    if config.observation_scale is not None and config.normalize_observations:
        raise UsageError("observation_scale and normalize_observations = True: expected one of them, not both")
    if config.joint_loss and config.actor_learning_rate != config.critic_learning_rate:
        raise UsageError(
            f"joint_loss = True: expected one learning rate, got actor_learning_rate = {config.actor_learning_rate} "
            f"and critic_learning_rate = {config.critic_learning_rate}"
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


class _Checks:
    """Refuses values outside what a field allows, always in the same words."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def that(self, field: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise UsageError(f"{field} = {getattr(self.config, field)!r}: expected {allowed}")

    def flag(self, field: str) -> None:
        self.that(field, isinstance(getattr(self.config, field), bool), "True or False")

    def one_of(self, field: str, *words: str) -> None:
        self.that(field, getattr(self.config, field) in words, " or ".join(map(repr, words)))

    def whole(self, field: str, low: int, high: int | None = None, optional: bool = False) -> None:
        value = getattr(self.config, field)
        if optional and value is None:
            return
        fits = (
            isinstance(value, int) and not isinstance(value, bool) and low <= value and (high is None or value <= high)
        )
        allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
        self.that(field, fits, allowed + (" or None" if optional else ""))

    def number(self, field: str, low: float = -math.inf, high: float = math.inf) -> None:
        value = getattr(self.config, field)
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        span = f" from {low:g} to {high:g}" if math.isfinite(high) else f" of at least {low:g}" * math.isfinite(low)
        self.that(field, fits and low <= value <= high, f"a finite number{span}")

    def positive(self, field: str) -> None:
        self.number(field, 0.0)
        self.that(field, getattr(self.config, field) > 0, "a number above 0")
