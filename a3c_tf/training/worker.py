"""One worker's loop: act, collect a rollout, have it learnt. It knows no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.records import Episode, Rollout


class Environment(Protocol):
    """What a worker needs of its environment."""

    @property
    def observation_spec(self) -> ObservationSpec: ...

    @property
    def action_spec(self) -> AnyActionSpec: ...

    @property
    def time_limit(self) -> int | None: ...

    def reset(self, seed: int) -> np.ndarray: ...

    @property
    def step(self) -> Callable[[np.ndarray], tuple[np.ndarray, float, bool, bool]]: ...


class Net(Protocol):
    """What a worker needs of its local network: of ``NetCalls``, which gives the shapes."""

    @property
    def noise_size(self) -> int: ...

    @property
    def choose_action(self) -> Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]]: ...

    @property
    def pull_global(self) -> Callable[[], Any]: ...


class Learner(Protocol):
    """Learns rollouts."""

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Push and pull; returns what is reported, if an episode ended with the rollout."""


class Ledger(Protocol):
    """Where workers claim what they may run and hand in what they have run."""

    steps: int
    """steps of all workers"""
    worker_episodes: dict[str, int]
    """episodes that each worker has finished, in a run that goes on"""

    def should_stop(self) -> bool: ...

    def claim_episode(self) -> bool: ...

    def claim_steps(self, wanted: int) -> int: ...

    def settle_steps(self, claimed: int, taken: int) -> None: ...

    def abandon_episode(self) -> None: ...

    def episode(self, episode: Episode, report: dict[str, float]) -> None: ...


class Worker:
    """Runs episodes with its own environment and local network until the budget or a stop ends it.

    ``work`` raises what the environment and the learner raise. Source: Mnih et al. 2016, algorithm S3.
    """

    def __init__(
        self, index: int, config: Config, env: Environment, net: Net, learner: Learner, ledger: Ledger
    ) -> None:
        self.name = f"W_{index}"
        self.length = 0
        assert config.seed is not None, "draw one with Config.settled()"
        self._index, self._config, self._env = index, config, env
        self._net, self._learner, self._ledger = net, learner, ledger
        self.episodes_run = ledger.worker_episodes.get(self.name, 0)
        self._time_limit = config.max_episode_steps or env.time_limit
        self._in_episode, self._return, self._claimed = False, 0.0, 0
        steps, observations, actions = config.rollout_steps, env.observation_spec, env.action_spec
        self._observations = np.zeros((steps + 1, 1, *observations.shape), np.float32)
        self._actions: np.ndarray = np.zeros((steps, 1, actions.size), actions.dtype)
        self._noise = np.zeros((steps, 1, net.noise_size), np.float32)
        # sliced once, because each is used at every step: what the network is fed, and where the answer goes
        self._fed = list(zip(self._observations, self._noise, strict=False))
        self._seen = self._observations[:, 0]
        self._discounts = np.full((steps, 1), config.gamma)

    @property
    def place(self) -> str:
        """Where the worker is, for a message."""
        return f"worker {self.name}, its episode {self.episodes_run}, step {self.length}"

    def work(self) -> None:
        """Run to the end. The first pull gives every worker the same start (the original's had none)."""
        self._net.pull_global()
        while (rollout := self.collect()) is not None:
            report = self._learner.learn(rollout)
            self._ledger.settle_steps(self._claimed, len(rollout.rewards))
            for episode in rollout.episodes:
                self.episodes_run += 1
                self._ledger.episode(episode, report)

    def collect(self) -> Rollout | None:
        """Act for up to ``rollout_steps`` steps, to the episode's end at most.

        None if the budget is used up or a stop was asked for.
        """
        while self._in_episode or self._begin_episode():
            self._claimed = 0 if self._ledger.should_stop() else self._ledger.claim_steps(self._config.rollout_steps)
            if self._claimed:
                return self._act(self._claimed)
            self._ledger.abandon_episode()
            self._in_episode = False
        return None

    def _begin_episode(self) -> bool:
        """Claim an episode and reset the environment; False if there is none left to run."""
        if self._ledger.should_stop() or not self._ledger.claim_episode():
            return False
        assert self._config.seed is not None
        seed, self._rng = episode_randomness(self._config.seed, self._index, self.episodes_run)
        self.length, self._return, self._in_episode = 0, 0.0, True
        self._seen[0] = self._env.reset(seed)
        return True

    def _act(self, steps: int) -> Rollout:
        """Take up to ``steps`` steps. An episode that is cut by its time limit has ended but not terminated."""
        choose_action, step, seen, taken = self._net.choose_action, self._env.step, self._seen, self._actions
        self._rng.standard_normal(dtype=np.float32, out=self._noise)
        rewards: list[float] = []
        for t, fed in enumerate(self._fed[:steps]):
            actions = choose_action(*fed)
            seen[t + 1], reward, terminated, truncated = step(actions[0][0])
            taken[t] = actions[-1]
            rewards.append(reward)
            self.length += 1
            if terminated or truncated or self.length == self._time_limit:
                self._in_episode = False
                break
        self._return += sum(rewards)
        return self._rollout(rewards, terminated)

    def _rollout(self, rewards: list[float], terminated: bool) -> Rollout:
        """What is in the buffers, as a value: copies, because the next rollout is written over them."""
        config, taken, ended = self._config, len(rewards), not self._in_episode
        discounts = self._discounts[:taken]
        if terminated or (ended and not config.bootstrap_at_time_limit):
            discounts = discounts.copy()
            discounts[-1] = 0.0
        shift, scale = config.reward_shift, config.reward_scale
        rollout = Rollout(
            self._observations[: taken + 1].copy(),
            self._actions[:taken].copy(),
            np.array([(reward + shift) / scale for reward in rewards])[:, None],
            discounts,
            (Episode(self.name, self._return, self.length),) if ended else (),
        )
        seen = self._seen
        seen[0] = seen[taken]
        return rollout


def episode_randomness(seed: int, worker: int, episode: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the exploration's generator for one worker's ``episode``.

    Both follow from the three numbers alone, so a run that is resumed goes on as it would have.
    """
    sequence = np.random.SeedSequence([seed, worker, episode])
    return int(sequence.generate_state(1)[0] >> 1), np.random.Generator(np.random.PCG64(sequence))
