"""One worker's loop: act, collect a rollout, push, pull. It knows no TensorFlow."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from a3c_tf.algorithms.returns import lambda_returns, n_step_returns
from a3c_tf.config import Config
from a3c_tf.environments.environment import Environment
from a3c_tf.errors import RunError
from a3c_tf.records import Episode


class Net(Protocol):
    """The four calls that a worker needs of its network; each returns a list of arrays."""

    choose_action: Callable[..., list[np.ndarray]]
    """(observation [1, N_S], noise [1, N_A]) → [action for the environment [1, N_A], …, action for the learner]"""
    value: Callable[..., list[np.ndarray]]
    """(observations [B, N_S]) → [v [B, 1]]"""
    update_global: Callable[..., list[np.ndarray]]
    """(observations [T, N_S], actions [T, N_A], value targets [T, 1]) → []: push, then pull.

    With a decaying learning rate its scale, a scalar, is the fourth argument."""
    update_global_and_report: Callable[..., list[np.ndarray]]
    """the same → [actor loss, critic loss, …], scalars; other workers may have this CPU meanwhile"""
    pull_global: Callable[..., list[np.ndarray]]
    """() → []"""


class Budget(Protocol):
    """What is left to run, as ``counters.Counters`` hands it out; in another process, what asks there."""

    steps: int

    def claim_episode(self) -> bool: ...

    def claim_steps(self, wanted: int) -> int: ...

    def settle_steps(self, claimed: int, taken: int) -> None: ...

    def abandon_episode(self) -> None: ...


class NotFiniteError(RunError, FloatingPointError):
    """A rollout holds NaN or an infinity; it was not learnt."""


def _not_kept() -> AbstractContextManager[Callable[[float | None], bool]]:
    return contextlib.nullcontext(lambda step_seconds: False)


class Worker:
    """Runs episodes with its own environment and local network until the budget or a stop ends it.

    ``work`` raises what the environment raises, and ``NotFiniteError`` for numbers that are not finite.

    ``episodes_run`` are those that it has finished already, in a run that goes on. ``kept`` is entered for the
    steps of an episode; what it gives is called with the environment's ``step_seconds`` before each rollout, and
    tells whether the worker shares a CPU with others.

    Source: Mnih et al. 2016, algorithm S3.
    """

    def __init__(
        self,
        index: int,
        config: Config,
        env: Environment,
        net: Net,
        counters: Budget,
        should_stop: Callable[[], bool],
        on_episode: Callable[[Episode], None],
        episodes_run: int = 0,
        kept: Callable[[], AbstractContextManager[Callable[[float | None], bool]]] = _not_kept,
    ) -> None:
        self.name = f"W_{index}"
        self.episodes_run = episodes_run
        self.length = 0
        assert config.seed is not None, "draw a seed with Config.seeded()"
        self._seed = config.seed
        self._index = index
        self._config = config
        self._env = env
        self._net = net
        self._counters = counters
        self._should_stop = should_stop
        self._on_episode = on_episode
        self._kept = kept
        self._time_limit = config.max_episode_steps or env.time_limit
        steps, n_s, n_a = config.rollout_steps, env.observation_spec.size, env.action_spec.size
        self.buffer_s = np.zeros((steps + 1, n_s), np.float32)
        self.buffer_a: np.ndarray = np.zeros((steps, n_a), env.action_spec.dtype)
        self.buffer_r: list[float] = []
        self._noise = np.zeros((steps, n_a), np.float32)
        # rows [1, n] of the buffers, sliced once: they are fed and filled at each step
        self._rows_s = [self.buffer_s[t : t + 1] for t in range(steps + 1)]
        self._rows_noise = [self._noise[t : t + 1] for t in range(steps)]

    def work(self) -> None:
        """Run to the end. The first pull gives every worker the same start (the original's had none)."""
        self._net.pull_global()
        while not self._should_stop() and self._counters.claim_episode():
            self._run_episode()

    def _run_episode(self) -> None:
        seed, rng = episode_randomness(self._seed, self._index, self.episodes_run)
        self.length = 0
        self.buffer_s[0] = self._env.reset(seed).ravel()
        episode_return, ended = 0.0, False
        with self._kept() as keep:
            while not ended:
                claimed = 0 if self._should_stop() else self._counters.claim_steps(self._config.rollout_steps)
                if claimed == 0:
                    self._counters.abandon_episode()
                    return
                shares_cpu = keep(self._env.step_seconds)
                rng.standard_normal(dtype=np.float32, out=self._noise)
                terminated, ended = self._collect(claimed)
                losses = self._learn(terminated, ended, shares_cpu)
                episode_return += sum(self.buffer_r)
                self._counters.settle_steps(claimed, len(self.buffer_r))
        self.episodes_run += 1
        self._on_episode(Episode(self.name, episode_return, self.length, losses[0], losses[1], tuple(losses[2:])))

    def _collect(self, steps: int) -> tuple[bool, bool]:
        """Fill the buffers with up to ``steps`` steps; returns (terminated, ended).

        An episode that is cut by its time limit has ended but not terminated.
        """
        choose_action, step = self._net.choose_action, self._env.step
        self.buffer_r.clear()
        for t in range(steps):
            actions = choose_action(self._rows_s[t], self._rows_noise[t])
            observation, reward, terminated, truncated = step(actions[0][0])
            self.buffer_a[t] = actions[-1]
            self.buffer_s[t + 1] = observation.ravel()
            self.buffer_r.append(reward)
            self.length += 1
            if terminated or truncated or self.length == self._time_limit:
                return terminated, True
        return False, False

    def _learn(self, terminated: bool, ended: bool, shares_cpu: bool) -> list[float]:
        """Push the rollout's gradients and pull; the losses and what else is reported if the episode ended.

        A worker that shares its CPU always has the update reported: for that call it lets the others have the CPU.
        """
        taken = len(self.buffer_r)
        worthless = terminated or (ended and not self._config.bootstrap_at_time_limit)
        buffer_v_target = self._value_targets(taken, worthless)
        self._check_finite(taken, buffer_v_target)
        update = self._net.update_global_and_report if ended or shares_cpu else self._net.update_global
        losses = update(self.buffer_s[:taken], self.buffer_a[:taken], buffer_v_target, *self._learning_rate_scale())
        self.buffer_s[0] = self.buffer_s[taken]
        return [float(loss) for loss in losses]

    def _value_targets(self, taken: int, worthless: bool) -> np.ndarray:
        """Targets [T, 1] of the rollout; ``worthless`` says that nothing is to be had after its last step."""
        config = self._config
        rewards = [(reward + config.reward_shift) / config.reward_scale for reward in self.buffer_r]
        if config.gae_lambda == 1:  # only the last value counts
            v_s_ = 0.0 if worthless else self._net.value(self._rows_s[taken])[0][0, 0]
            return n_step_returns(rewards, v_s_, config.gamma)
        next_values = self._net.value(self.buffer_s[1 : taken + 1])[0][:, 0]
        if worthless:
            next_values[-1] = 0.0
        return lambda_returns(rewards, next_values, config.gamma, config.gae_lambda)

    def _check_finite(self, taken: int, value_targets: np.ndarray) -> None:
        """Called before the push, so that nothing wrong is ever learnt."""
        # weights that are NaN spoil every action and value alike: one of each is enough to look at
        sample = sum(self.buffer_r) + float(self.buffer_a[taken - 1, 0]) + float(value_targets[0, 0])
        if not (math.isfinite(sample) and np.isfinite(self.buffer_s[: taken + 1]).all()):
            self._raise_not_finite(taken, value_targets)

    def _raise_not_finite(self, taken: int, value_targets: np.ndarray) -> None:
        """Tell what was not finite first: one thing spoils the other."""
        diverged = "the policy diverged: lower actor_learning_rate"
        found = [("observation", self.buffer_s[0], "mend the environment")]
        for t in range(taken):
            found.append(("action", self.buffer_a[t], diverged))
            found.append(("reward", np.array(self.buffer_r[t]), "mend the environment"))
            found.append(("observation", self.buffer_s[t + 1], "mend the environment"))
        found.append(("value target", value_targets, "the critic diverged: lower critic_learning_rate"))
        for field, numbers, advice in found:
            if not np.isfinite(numbers).all():
                first = numbers[~np.isfinite(numbers)][0]
                raise NotFiniteError(
                    f"expected finite numbers, got {field} {first} in the last {taken} steps; {advice}"
                )

    @property
    def place(self) -> str:
        """Where the worker is, for a message."""
        return f"worker {self.name}, its episode {self.episodes_run}, step {self.length}"

    def _learning_rate_scale(self) -> tuple[np.ndarray, ...]:
        """What is fed beside the rollout: the part of the learning rate that is left, if it decays."""
        if self._config.learning_rate_decay == "none":
            return ()
        return (np.array(self._config.learning_rate_scale(self._counters.steps), np.float32),)


def episode_randomness(seed: int, worker: int, episode: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the exploration's generator for one worker's ``episode``.

    Both follow from the three numbers alone, so a run that is resumed goes on as it would have.
    """
    sequence = np.random.SeedSequence([seed, worker, episode])
    return int(sequence.generate_state(1)[0] >> 1), np.random.Generator(np.random.PCG64(sequence))
