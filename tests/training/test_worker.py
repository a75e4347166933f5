"""One worker's loop, with a network and an environment whose every answer is known: no TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from a3c_tf.algorithms.returns import lambda_returns, n_step_returns
from a3c_tf.environments.environment import Environment
from a3c_tf.records import Episode
from a3c_tf.training.counters import Counters
from a3c_tf.training.worker import Worker
from tests.conftest import ToyEnv, run_python, small_config

VALUE = 50.0


class FakeNet:
    """Notes every call, with copies of what it got; actions are twice the noise, clipped; every value is VALUE."""

    def __init__(self, unclipped: bool = False) -> None:
        self.calls: list[tuple[str, tuple[np.ndarray, ...]]] = []
        self.unclipped = unclipped
        self.actions: list[np.ndarray] = []
        self.reports = 0

    def _note(self, name: str, *arrays: np.ndarray) -> None:
        assert all(array.dtype == np.float32 for array in arrays), "the fast path does not convert"
        self.calls.append((name, tuple(array.copy() for array in arrays)))

    def choose_action(self, observation: np.ndarray, noise: np.ndarray) -> list[np.ndarray]:
        self._note("choose", observation, noise)
        self.actions.append(np.clip(2 * noise, -2, 2))
        return [self.actions[-1], 2 * noise] if self.unclipped else [self.actions[-1]]

    def value(self, observations: np.ndarray) -> list[np.ndarray]:
        self._note("value", observations)
        return [np.full((len(observations), 1), VALUE, np.float32)]

    def update_global(self, *rollout: np.ndarray) -> list[np.ndarray]:
        self._note("update", *rollout)
        return []

    def update_global_and_report(self, *rollout: np.ndarray) -> list[np.ndarray]:
        self._note("update", *rollout)
        self.reports += 1
        return [np.float32(0.25), np.float32(0.5)]

    def pull_global(self) -> list[np.ndarray]:
        self._note("pull")
        return []

    def order(self) -> str:
        """The calls' initials but values: p, c, u."""
        return "".join(name[0] for name, _ in self.calls if name != "value")

    def fed(self, name: str) -> list[tuple[np.ndarray, ...]]:
        return [arrays for called, arrays in self.calls if called == name]


class Run(NamedTuple):
    net: FakeNet
    raw: ToyEnv
    counters: Counters
    episodes: list[Episode]


def run(
    raw: ToyEnv,
    index: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
    shares_cpu: Callable[[float | None], bool] = lambda step_seconds: False,
    **settings: Any,
) -> Run:
    """Let one worker work to its end."""
    config = small_config(**{"reward_shift": 0.0, "reward_scale": 1.0, "gamma": 0.5, **settings})
    net, episodes = FakeNet(config.learner_sees_unclipped_action), []
    counters = Counters(config.max_episodes, config.max_steps, config.running_return_decay)
    worker = Worker(
        index=index, config=config, env=Environment(raw, "toy"), net=net, counters=counters,
        should_stop=should_stop, on_episode=episodes.append, kept=lambda: contextlib.nullcontext(shares_cpu),
    )  # fmt: skip
    worker.work()
    return Run(net, raw, counters, episodes)


def targets(rewards: list[float], bootstrap: float) -> list[float]:
    return n_step_returns(rewards, bootstrap, 0.5).ravel().tolist()


def test_it_pulls_before_its_first_rollout() -> None:
    assert run(ToyEnv(terminates_at=3), max_episodes=1).net.order().startswith("pc")


def test_it_pushes_every_rollout_and_at_the_episodes_end() -> None:
    done = run(ToyEnv(terminates_at=7), max_episodes=2, rollout_steps=3)
    assert done.net.order() == "p" + "cccucccucu" * 2


def test_an_episode_that_ends_with_a_rollout_pushes_once() -> None:
    done = run(ToyEnv(terminates_at=6), max_episodes=1, rollout_steps=3)
    assert done.net.order() == "pcccucccu"


@pytest.mark.parametrize("shared", [(), (False, True, True)])
def test_a_worker_that_shares_its_cpu_asks_for_the_update_that_lets_others_have_it(shared: tuple[bool, ...]) -> None:
    """Otherwise it asks for that one at an episode's end only, when its report is needed."""
    answers = iter(shared)
    done = run(
        ToyEnv(terminates_at=7), max_episodes=1, rollout_steps=3, shares_cpu=lambda seconds: next(answers, False)
    )
    assert done.net.order() == "pcccucccucu"
    assert done.net.reports == (2 if shared else 1)
    assert [(episode.actor_loss, episode.critic_loss) for episode in done.episodes] == [(0.25, 0.5)]


def test_what_is_fed_to_an_update() -> None:
    done = run(ToyEnv(terminates_at=5), max_episodes=2, rollout_steps=3, reward_shift=8.0, reward_scale=8.0)
    updates = done.net.fed("update")
    first_episode, second_episode = [0, 1, 2], [103, 104]
    np.testing.assert_array_equal(updates[0][0], np.repeat(np.float32(first_episode), 3).reshape(3, 3))
    np.testing.assert_array_equal(updates[3][0], np.repeat(np.float32(second_episode), 3).reshape(2, 3))
    actions = np.concatenate(done.net.actions)
    np.testing.assert_array_equal(np.concatenate([actions_fed for _, actions_fed, _ in updates]), actions)
    shifted = [(reward + 8) / 8 for reward in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(updates[0][2].ravel(), targets(shifted, VALUE))
    for observations, actions_fed, value_targets in updates:
        T = len(observations)
        assert (observations.shape, actions_fed.shape, value_targets.shape) == ((T, 3), (T, 1), (T, 1))


def test_the_action_is_chosen_for_the_observation_just_seen() -> None:
    done = run(ToyEnv(terminates_at=5), max_episodes=2, rollout_steps=2)
    seen = [observation[0, 0] for observation, _ in done.net.fed("choose")]
    assert seen == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert {observation.shape for observation, _ in done.net.fed("choose")} == {(1, 3)}


def test_the_environment_gets_the_very_action_that_the_learner_sees() -> None:
    done = run(ToyEnv(terminates_at=50), max_episodes=1)
    taken = np.concatenate(done.raw.actions)
    np.testing.assert_array_equal(taken, np.concatenate([fed[1] for fed in done.net.fed("update")]).ravel())
    assert np.all(np.abs(taken) <= 2)


def test_the_learner_may_see_the_unclipped_action_the_environment_never() -> None:
    done = run(ToyEnv(terminates_at=50), max_episodes=1, learner_sees_unclipped_action=True)
    fed = np.concatenate([fed[1] for fed in done.net.fed("update")])
    np.testing.assert_array_equal(fed, 2 * noise(done))
    assert np.abs(fed).max() > 2
    np.testing.assert_array_equal(np.concatenate(done.raw.actions), np.clip(fed, -2, 2).ravel())


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_the_action_has_the_shape_of_the_space_never_a_batch_of_one(shape: tuple[int, ...]) -> None:
    done = run(ToyEnv(terminates_at=4, action_shape=shape), max_episodes=1)
    assert {action.shape for action in done.raw.actions} == {shape}


@pytest.mark.parametrize(
    ("ends", "bootstrap_at_time_limit", "bootstrap"),
    [
        ({"terminates_at": 2}, False, 0.0),
        ({"terminates_at": 2}, True, 0.0),
        ({"truncates_at": 2}, False, 0.0),
        ({"truncates_at": 2}, True, VALUE),
        ({}, False, 0.0),
        ({}, True, VALUE),
        ({"terminates_at": 2, "truncates_at": 2}, True, 0.0),
    ],
)
def test_the_bootstrap_at_an_episodes_end(
    ends: dict[str, int], bootstrap_at_time_limit: bool, bootstrap: float
) -> None:
    """Without an end of its own, the episode is cut by the setting: step 2."""
    done = run(ToyEnv(**ends), max_episodes=1, max_episode_steps=2, bootstrap_at_time_limit=bootstrap_at_time_limit)
    ((_, _, value_targets),) = done.net.fed("update")
    assert value_targets.ravel().tolist() == targets([1.0, 2.0], bootstrap)


@pytest.mark.parametrize("bootstrap_at_time_limit", [False, True])
def test_within_an_episode_the_bootstrap_is_the_value_of_the_next_observation(bootstrap_at_time_limit: bool) -> None:
    done = run(
        ToyEnv(terminates_at=5), max_episodes=1, rollout_steps=3, bootstrap_at_time_limit=bootstrap_at_time_limit
    )
    assert done.net.fed("update")[0][2].ravel().tolist() == targets([1.0, 2.0, 3.0], VALUE)
    ((observation,),) = done.net.fed("value")
    np.testing.assert_array_equal(observation, [[3, 3, 3]])


@pytest.mark.parametrize(
    ("ends", "last_value"), [({"terminates_at": 3}, 0.0), ({"truncates_at": 3}, VALUE), ({"terminates_at": 9}, VALUE)]
)
def test_lambda_below_1_takes_the_value_of_every_next_observation(ends: dict[str, int], last_value: float) -> None:
    done = run(ToyEnv(**ends), max_episodes=1, rollout_steps=3, gae_lambda=0.5, bootstrap_at_time_limit=True)
    np.testing.assert_array_equal(done.net.fed("value")[0][0], np.repeat([1, 2, 3], 3).reshape(3, 3))
    expected = lambda_returns([1.0, 2.0, 3.0], np.array([VALUE, VALUE, last_value]), 0.5, 0.5)
    np.testing.assert_array_equal(done.net.fed("update")[0][2], expected)


def test_a_decaying_learning_rate_falls_to_0_over_the_planned_steps() -> None:
    done = run(
        ToyEnv(terminates_at=10), max_episodes=2, max_episode_steps=10, rollout_steps=5, learning_rate_decay="linear"
    )
    scales = [fed[3] for fed in done.net.fed("update")]
    np.testing.assert_allclose(scales, [1.0, 0.75, 0.5, 0.25])
    assert {scale.shape for scale in scales} == {()}


def test_at_a_time_limit_the_value_is_that_of_the_last_observation_not_of_the_next_episodes_first() -> None:
    done = run(ToyEnv(), max_episodes=2, max_episode_steps=2, bootstrap_at_time_limit=True)
    assert [observation[0][0, 0] for observation in done.net.fed("value")] == [2, 102]


def test_an_episode_is_cut_at_exactly_the_time_limit() -> None:
    done = run(ToyEnv(), max_episodes=3, max_episode_steps=7, rollout_steps=5)
    assert [episode.length for episode in done.episodes] == [7, 7, 7]
    assert done.counters.steps == 21


def test_without_a_limit_of_ours_the_environments_own_counts() -> None:
    config = small_config(max_episode_steps=None, max_episodes=1)
    episodes: list[Episode] = []
    Worker(
        index=0, config=config, env=Environment(ToyEnv(), "toy", time_limit=4), net=FakeNet(),
        counters=Counters(1, None, 0.9), should_stop=lambda: False, on_episode=episodes.append,
    ).work()  # fmt: skip
    assert episodes[0].length == 4


def test_what_is_told_of_an_episode() -> None:
    done = run(ToyEnv(terminates_at=4), index=5, max_episodes=2, rollout_steps=3, reward_shift=8.0, reward_scale=8.0)
    first = done.episodes[0]
    assert len(done.episodes) == 2
    assert (first.worker, first.length) == ("W_5", 4)
    assert first.episode_return == 1 + 2 + 3 + 4, "raw rewards, neither shifted nor scaled"
    assert (first.actor_loss, first.critic_loss) == (0.25, 0.5)


def test_exactly_the_episodes_of_the_budget() -> None:
    done = run(ToyEnv(terminates_at=3), max_episodes=5)
    assert len(done.episodes) == 5
    assert len(done.raw.actions) == 15


@pytest.mark.parametrize("max_steps", [1, 9, 10, 11, 25])
def test_exactly_the_steps_of_the_budget(max_steps: int) -> None:
    done = run(ToyEnv(terminates_at=7), max_episodes=None, max_steps=max_steps, rollout_steps=5)
    assert len(done.raw.actions) == done.counters.steps == max_steps
    assert sum(len(fed[0]) for fed in done.net.fed("update")) == max_steps, "every step taken is learnt from"
    assert len(done.episodes) == max_steps // 7


def test_an_episode_cut_by_the_budget_is_no_time_limit_but_goes_on() -> None:
    done = run(ToyEnv(), max_episodes=None, max_steps=2)
    assert done.episodes == []
    assert done.net.fed("update")[0][2].ravel().tolist() == targets([1.0, 2.0], VALUE)


def test_a_stop_before_the_start_runs_nothing() -> None:
    done = run(ToyEnv(), should_stop=lambda: True)
    assert done.raw.actions == []
    assert done.counters.claim_episode()


def test_a_stop_within_an_episode_gives_the_episode_back_and_counts_the_steps_taken() -> None:
    raw = ToyEnv(terminates_at=100)
    done = run(raw, should_stop=lambda: len(raw.actions) >= 6, max_episodes=1, rollout_steps=3)
    assert len(raw.actions) == 6
    assert done.counters.steps == 6
    assert done.episodes == []
    assert done.counters.episodes == 0
    assert done.counters.claim_episode()


def noise(done: Run) -> np.ndarray:
    return np.concatenate([noise for _, noise in done.net.fed("choose")])


def test_randomness_is_a_function_of_seed_worker_and_episode() -> None:
    def behaviour(**changes: Any) -> tuple[tuple[int | None, ...], tuple[float, ...]]:
        done = run(ToyEnv(terminates_at=4), **{"max_episodes": 3, "seed": 1, "index": 0, **changes})
        return tuple(done.raw.seeds), tuple(noise(done).ravel().tolist())

    assert behaviour() == behaviour()
    for changed in (behaviour(seed=2), behaviour(index=1)):
        assert not set(changed[0]) & set(behaviour()[0])
        assert not set(changed[1]) & set(behaviour()[1])
    seeds, numbers = behaviour()
    assert len(set(seeds)) == 3, "each episode has a seed of its own"
    assert len(set(numbers)) == len(numbers), "no noise is used twice"


def test_an_episodes_randomness_does_not_depend_on_those_before() -> None:
    """So that a run that is resumed at an episode's boundary goes on as it would have."""
    short, long = run(ToyEnv(terminates_at=4), max_episodes=2), run(ToyEnv(terminates_at=23), max_episodes=2)
    assert short.raw.seeds == long.raw.seeds
    np.testing.assert_array_equal(noise(short)[4:8], noise(long)[23:27])


def test_environment_seeds_are_ones_that_both_libraries_take() -> None:
    done = run(ToyEnv(terminates_at=1), max_episodes=200)
    assert all(isinstance(seed, int) and 0 <= seed < 2**31 for seed in done.raw.seeds)


def test_the_noise_is_standard_normal() -> None:
    numbers = noise(run(ToyEnv(terminates_at=50, action_shape=(4,)), max_episodes=50, rollout_steps=5))
    assert numbers.shape == (2500, 4)
    np.testing.assert_allclose(numbers.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(numbers.std(axis=0), 1, atol=0.05)
    np.testing.assert_allclose(np.corrcoef(numbers.T), np.eye(4), atol=0.1)


def test_an_exception_of_the_environment_comes_out() -> None:
    class Broken(ToyEnv):
        def step(self, action: np.ndarray) -> Any:
            raise ZeroDivisionError("in the physics")

    with pytest.raises(ZeroDivisionError, match="in the physics"):
        run(Broken())


def test_an_observation_that_the_environment_changes_later_is_kept_as_it_was() -> None:
    class Reusing(ToyEnv):
        held = np.zeros(3, np.float32)

        def observation(self) -> np.ndarray:
            self.held[:] = super().observation()
            return self.held

    done = run(Reusing(terminates_at=4), max_episodes=1)
    np.testing.assert_array_equal(done.net.fed("update")[0][0][:, 0], [0, 1, 2, 3])


def test_observations_of_more_dimensions_are_fed_flat() -> None:
    class Image(ToyEnv):
        def __init__(self) -> None:
            super().__init__(terminates_at=2)
            self.observation_space = SimpleNamespace(shape=(2, 3), low=np.zeros((2, 3)), high=np.ones((2, 3)))

        def observation(self) -> np.ndarray:
            return np.arange(6).reshape(2, 3) + self.time

    done = run(Image(), max_episodes=1)
    np.testing.assert_array_equal(done.net.fed("update")[0][0], [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]])


def test_the_worker_knows_no_tensorflow() -> None:
    program = (
        "import sys, a3c_tf.training.worker; print([name for name in sys.modules if name.startswith('tensorflow')])"
    )
    assert run_python("-c", program).stdout == "[]\n"
