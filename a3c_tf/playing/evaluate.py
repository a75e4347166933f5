"""Plays a policy over many episodes, side by side, and measures its returns."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from a3c_tf.config import Config
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.policy import Policy

Act = Callable[[np.ndarray], np.ndarray]
"""observations [K, …] float32 → actions [K, N_A] within the bounds, or numbers of discrete ones [K, 1]"""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Returns of the episodes of an evaluation."""

    returns: np.ndarray
    """[episodes] float64, sums of the environment's own rewards"""
    steps: int
    """environment steps that it took"""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def deviation(self) -> float:
        """Standard deviation over the episodes."""
        return float(self.returns.std())


def evaluate(
    policy: Policy,
    env: str | Callable[[], Any] | None = None,
    episodes: int = 100,
    seed: int = 0,
    sample: bool = False,
    render_mode: str | None = None,
) -> Evaluation:
    """Play ``episodes`` episodes, the k-th from ``env.reset(seed=seed + k)``, with environments of its own.

    ``env`` is the run's own unless one is given. ``sample`` plays samples in place of the mean action.
    With ``render_mode`` ``human`` the episodes are played one after the other, in a window.
    """
    if episodes < 1:
        raise UsageError(f"episodes = {episodes}: expected a whole number of at least 1")
    config = policy.config
    rng = np.random.default_rng(seed) if sample else None
    seeds = range(seed, seed + episodes)
    returns: list[float] = []
    steps = 0
    if render_mode == "human":
        _prepare_window()
    envs = [make_env(env or config.env, render_mode) for _ in range(1 if render_mode else min(episodes, 20))]
    try:
        with drawing():
            for first in range(0, episodes, len(envs)):
                played = play(lambda s: policy.act(s, rng), envs, seeds[first : first + len(envs)], config)
                returns.extend(played.returns)
                steps += played.steps
    finally:
        for each in envs:
            each.close()
    return Evaluation(np.array(returns), steps)


def _prepare_window() -> None:
    """Make gym's environments open a window, or fail; to be called before pygame is loaded."""
    # OpenGL drivers and TensorFlow each bring an LLVM, and crash where they meet
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    if sys.platform == "linux":  # without a screen it would draw where nobody sees it
        os.environ.setdefault("SDL_VIDEODRIVER", "wayland,x11" if os.environ.get("WAYLAND_DISPLAY") else "x11")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # gym's environments open a sound device and use none


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Around what draws: a missing package or screen, which gym's environments find late, is a ``UsageError``."""
    try:
        yield
    except Exception as error:
        missing = type(error).__name__ == "DependencyNotInstalled"  # gym has one and gymnasium another
        if missing or type(error).__module__ == "pygame":
            help_ = "pip install 'a3c-tf[render]'" if missing else "a3c-tf video films without a screen"
            raise UsageError(f"cannot be drawn: {' '.join(str(error).split())}; {help_}") from None
        raise


def play(
    act: Act,
    envs: list[Environment],
    seeds: Sequence[int],
    config: Config,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[], Any] = lambda: None,
) -> Evaluation:
    """One episode for each seed, side by side, so that one call chooses the actions of all.

    What is played when ``should_stop`` says so is of no use: the episodes are cut. ``watch`` is called
    after the resets and after the steps of all.
    """
    returns = np.zeros(len(seeds))
    observations = np.stack([env.reset(seed) for env, seed in zip(envs, seeds, strict=False)])
    observations = observations.astype(np.float32)
    time_limit = config.max_episode_steps or envs[0].time_limit
    playing, length, steps = list(range(len(seeds))), 0, 0
    watch()
    while playing and not should_stop():
        actions = act(observations[playing])
        length, steps = length + 1, steps + len(playing)
        still = []
        for k, action in zip(playing, actions, strict=True):
            observation, reward, terminated, truncated = envs[k].step(action)
            observations[k] = observation
            returns[k] += reward
            if not (terminated or truncated or length == time_limit):
                still.append(k)
        playing = still
        watch()
    return Evaluation(returns, steps)
