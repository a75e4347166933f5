"""One worker's loop, with a network, a learner and a ledger whose every answer is known: no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from a3c_tf.environments.environment import Environment
from a3c_tf.records import Episode, Rollout
from a3c_tf.training.counters import Counters
from a3c_tf.training.worker import Worker
from tests.conftest import ToyEnv, run_python, small_config

REPORT = {"loss/actor": 0.25}


class FakeNet:
    """Notes every call, with copies of what it got; actions are twice the noise, clipped."""

    noise_size = 1

    def __init__(self, order: list[str], unclipped: bool) -> None:
        self.order, self.unclipped = order, unclipped
        self.fed: list[tuple[np.ndarray, np.ndarray]] = []
        self.actions: list[np.ndarray] = []

    def choose_action(self, observations: np.ndarray, noise: np.ndarray) -> list[np.ndarray]:
        assert observations.dtype == noise.dtype == np.float32, "the fast path does not convert"
        self.order.append("c")
        self.fed.append((observations.copy(), noise.copy()))
        self.actions.append(np.clip(2 * noise, -2, 2))
        return [self.actions[-1], 2 * noise] if self.unclipped else [self.actions[-1]]

    def pull_global(self) -> None:
        self.order.append("p")


class FakeLearner:
    """Keeps the rollouts that it is given."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.rollouts: list[Rollout] = []

    def learn(self, rollout: Rollout) -> dict[str, float]:
        self.order.append("l")
        self.rollouts.append(rollout)
        return dict(REPORT) if rollout.episodes else {}


class FakeLedger(Counters):
    """The budget, and the episodes that are handed in."""

    def __init__(self, max_episodes: int | None, max_steps: int | None, should_stop: Callable[[], bool]) -> None:
        super().__init__(max_episodes, max_steps, running_return_decay=0.9)
        self.should_stop = should_stop  # type: ignore[assignment]
        self.worker_episodes: dict[str, int] = {}
        self.handed_in: list[Episode] = []
        self.reports: list[dict[str, float]] = []

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        self.handed_in.append(episode)
        self.reports.append(report)


class Run(NamedTuple):
    order: str
    """the calls' initials: pull, choose, learn"""
    net: FakeNet
    raw: ToyEnv
    ledger: FakeLedger
    rollouts: list[Rollout]

    @property
    def episodes(self) -> list[Episode]:
        return self.ledger.handed_in

    def joined(self, field: str) -> np.ndarray:
        """A field of all rollouts, one after the other."""
        return np.concatenate([getattr(rollout, field) for rollout in self.rollouts])


def run(
    raw: ToyEnv,
    index: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
    time_limit: int | None = None,
    episodes_before: int = 0,
    **settings: Any,
) -> Run:
    """Let one worker work to its end."""
    config = small_config(**{"reward_shift": 0.0, "reward_scale": 1.0, "gamma": 0.5, **settings})
    order: list[str] = []
    net, learner = FakeNet(order, config.learner_sees_unclipped_action), FakeLearner(order)
    net.noise_size = int(np.prod(raw.action_space.shape))
    ledger = FakeLedger(config.max_episodes, config.max_steps, should_stop)
    ledger.worker_episodes[f"W_{index}"] = episodes_before
    Worker(index, config, Environment(raw, "toy", time_limit), net, learner, ledger).work()
    return Run("".join(order), net, raw, ledger, learner.rollouts)


# the order of things


def test_it_pulls_before_its_first_rollout() -> None:
    assert run(ToyEnv(terminates_at=3), max_episodes=1).order.startswith("pc")


def test_every_rollout_is_learnt_the_last_of_an_episode_too() -> None:
    done = run(ToyEnv(terminates_at=7), max_episodes=2, rollout_steps=3)
    assert done.order == "p" + "ccclccclcl" * 2


def test_an_episode_that_ends_with_a_rollout_is_learnt_once() -> None:
    assert run(ToyEnv(terminates_at=6), max_episodes=1, rollout_steps=3).order == "pccclcccl"


# rollouts


def test_a_rollout_has_the_shapes_and_dtypes_that_it_says() -> None:
    done = run(ToyEnv(terminates_at=5), max_episodes=1, rollout_steps=3)
    for rollout, steps in zip(done.rollouts, (3, 2), strict=True):
        assert (rollout.observations.shape, rollout.observations.dtype) == ((steps + 1, 1, 3), np.float32)
        assert (rollout.actions.shape, rollout.actions.dtype) == ((steps, 1, 1), np.float32)
        assert (rollout.rewards.shape, rollout.rewards.dtype) == ((steps, 1), np.float64)
        assert (rollout.discounts.shape, rollout.discounts.dtype) == ((steps, 1), np.float64)


def test_what_a_rollout_holds() -> None:
    done = run(ToyEnv(terminates_at=5), max_episodes=2, rollout_steps=3, reward_shift=8.0, reward_scale=8.0)
    seen = [rollout.observations[:, 0, 0].tolist() for rollout in done.rollouts]
    assert seen == [[0, 1, 2, 3], [3, 4, 5], [100, 101, 102, 103], [103, 104, 105]]
    np.testing.assert_array_equal(done.joined("actions"), done.net.actions)
    assert done.rollouts[0].rewards.ravel().tolist() == [(reward + 8) / 8 for reward in (1.0, 2.0, 3.0)]


def test_the_action_is_chosen_for_the_observation_just_seen() -> None:
    done = run(ToyEnv(terminates_at=5), max_episodes=2, rollout_steps=2)
    assert [observation[0, 0] for observation, _ in done.net.fed] == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert {observation.shape for observation, _ in done.net.fed} == {(1, 3)}


def test_the_environment_gets_the_very_action_that_the_learner_sees() -> None:
    done = run(ToyEnv(terminates_at=50), max_episodes=1)
    taken = np.concatenate(done.raw.actions)
    np.testing.assert_array_equal(taken, done.joined("actions").ravel())
    assert np.all(np.abs(taken) <= 2)


def test_the_learner_may_see_the_unclipped_action_the_environment_never() -> None:
    done = run(ToyEnv(terminates_at=50), max_episodes=1, learner_sees_unclipped_action=True)
    learnt = done.joined("actions")
    np.testing.assert_array_equal(learnt[:, 0], 2 * noise(done))
    assert np.abs(learnt).max() > 2
    np.testing.assert_array_equal(np.concatenate(done.raw.actions), np.clip(learnt, -2, 2).ravel())


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_the_action_has_the_shape_of_the_space_never_a_batch_of_one(shape: tuple[int, ...]) -> None:
    done = run(ToyEnv(terminates_at=4, action_shape=shape), max_episodes=1)
    assert {action.shape for action in done.raw.actions} == {shape}


@pytest.mark.parametrize(
    ("ends", "bootstrap_at_time_limit", "last_discount"),
    [
        ({"terminates_at": 2}, False, 0.0),
        ({"terminates_at": 2}, True, 0.0),
        ({"truncates_at": 2}, False, 0.0),
        ({"truncates_at": 2}, True, 0.5),
        ({}, False, 0.0),
        ({}, True, 0.5),
        ({"terminates_at": 2, "truncates_at": 2}, True, 0.0),
    ],
)
def test_what_the_state_at_an_episodes_end_is_worth(
    ends: dict[str, int], bootstrap_at_time_limit: bool, last_discount: float
) -> None:
    """Without an end of its own, the episode is cut by the setting: step 2."""
    done = run(ToyEnv(**ends), max_episodes=1, max_episode_steps=2, bootstrap_at_time_limit=bootstrap_at_time_limit)
    assert done.rollouts[0].discounts.ravel().tolist() == [0.5, last_discount]


@pytest.mark.parametrize("bootstrap_at_time_limit", [False, True])
def test_within_an_episode_every_state_has_its_worth(bootstrap_at_time_limit: bool) -> None:
    done = run(
        ToyEnv(terminates_at=5), max_episodes=1, rollout_steps=3, bootstrap_at_time_limit=bootstrap_at_time_limit
    )
    assert done.rollouts[0].discounts.ravel().tolist() == [0.5, 0.5, 0.5]
    assert done.rollouts[1].discounts.ravel().tolist() == [0.5, 0.0]
    assert done.rollouts[0].episodes == ()


def test_at_a_time_limit_the_last_observation_is_the_episodes_own_not_the_next_ones_first() -> None:
    done = run(ToyEnv(), max_episodes=2, max_episode_steps=2, bootstrap_at_time_limit=True)
    assert [rollout.observations[-1, 0, 0] for rollout in done.rollouts] == [2, 102]


def test_a_rollout_is_a_value_that_nobody_writes_into_later() -> None:
    copies: list[Rollout] = []

    class Copying(FakeLearner):
        def learn(self, rollout: Rollout) -> dict[str, float]:
            copies.append(Rollout(*(field.copy() for field in rollout[:4]), rollout.episodes))
            return super().learn(rollout)

    config, order = small_config(max_episodes=3, rollout_steps=3), []  # type: ignore[var-annotated]
    learner = Copying(order)
    env = Environment(ToyEnv(terminates_at=7), "toy")
    Worker(0, config, env, FakeNet(order, False), learner, FakeLedger(3, None, lambda: False)).work()
    for rollout, copy in zip(learner.rollouts, copies, strict=True):
        for now, then in zip(rollout[:4], copy[:4], strict=True):
            np.testing.assert_array_equal(now, then)


def test_an_observation_that_the_environment_changes_later_is_kept_as_it_was() -> None:
    class Reusing(ToyEnv):
        held = np.zeros(3, np.float32)

        def observation(self) -> np.ndarray:
            self.held[:] = super().observation()
            return self.held

    done = run(Reusing(terminates_at=4), max_episodes=1)
    assert done.rollouts[0].observations[:, 0, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_observations_keep_the_shape_of_their_space(shape: tuple[int, ...]) -> None:
    class Shaped(ToyEnv):
        def __init__(self) -> None:
            super().__init__(terminates_at=2)
            self.observation_space = SimpleNamespace(shape=shape, low=np.zeros(shape), high=np.ones(shape))

        def observation(self) -> np.ndarray:
            return np.arange(np.prod(shape, dtype=int)).reshape(shape) + self.time

    (rollout,) = run(Shaped(), max_episodes=1).rollouts
    first = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    np.testing.assert_array_equal(rollout.observations, [[first], [first + 1], [first + 2]])


# limits and budgets


def test_an_episode_is_cut_at_exactly_the_time_limit() -> None:
    done = run(ToyEnv(), max_episodes=3, max_episode_steps=7, rollout_steps=5)
    assert [episode.length for episode in done.episodes] == [7, 7, 7]
    assert done.ledger.steps == 21


def test_without_a_limit_of_ours_the_environments_own_counts() -> None:
    done = run(ToyEnv(), time_limit=4, max_episode_steps=None, max_episodes=1)
    assert done.episodes[0].length == 4


def test_what_is_handed_in_of_an_episode() -> None:
    done = run(ToyEnv(terminates_at=4), index=5, max_episodes=2, rollout_steps=3, reward_shift=8.0, reward_scale=8.0)
    assert done.episodes == [Episode("W_5", 1 + 2 + 3 + 4, 4)] * 2, "raw rewards, neither shifted nor scaled"
    assert done.ledger.reports == [REPORT, REPORT]
    assert [len(rollout.episodes) for rollout in done.rollouts] == [0, 1, 0, 1]


def test_exactly_the_episodes_of_the_budget() -> None:
    done = run(ToyEnv(terminates_at=3), max_episodes=5)
    assert len(done.episodes) == 5
    assert len(done.raw.actions) == 15


@pytest.mark.parametrize("max_steps", [1, 9, 10, 11, 25])
def test_exactly_the_steps_of_the_budget(max_steps: int) -> None:
    done = run(ToyEnv(terminates_at=7), max_episodes=None, max_steps=max_steps, rollout_steps=5)
    assert len(done.raw.actions) == done.ledger.steps == max_steps
    assert len(done.joined("rewards")) == max_steps, "every step taken is learnt from"
    assert len(done.episodes) == max_steps // 7


def test_an_episode_cut_by_the_budget_is_no_time_limit_but_goes_on() -> None:
    done = run(ToyEnv(), max_episodes=None, max_steps=2)
    assert done.episodes == []
    assert done.rollouts[0].discounts.ravel().tolist() == [0.5, 0.5]


def test_a_stop_before_the_start_runs_nothing() -> None:
    done = run(ToyEnv(), should_stop=lambda: True)
    assert done.raw.actions == []
    assert done.ledger.claim_episode()


def test_a_stop_within_an_episode_gives_the_episode_back_and_counts_the_steps_taken() -> None:
    raw = ToyEnv(terminates_at=100)
    done = run(raw, should_stop=lambda: len(raw.actions) >= 6, max_episodes=1, rollout_steps=3)
    assert len(raw.actions) == 6
    assert done.ledger.steps == 6
    assert done.episodes == []
    assert done.ledger.episodes == 0
    assert done.ledger.claim_episode()


# randomness


def noise(done: Run) -> np.ndarray:
    return np.concatenate([noise for _, noise in done.net.fed])


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


def test_a_run_that_goes_on_has_the_randomness_of_the_episodes_to_come() -> None:
    whole, rest = (
        run(ToyEnv(terminates_at=4), max_episodes=3),
        run(ToyEnv(terminates_at=4), episodes_before=2, max_episodes=1),
    )
    assert rest.raw.seeds == whole.raw.seeds[2:]
    np.testing.assert_array_equal(noise(rest), noise(whole)[8:])


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


def test_the_worker_knows_no_tensorflow() -> None:
    program = (
        "import sys, a3c_tf.training.worker; print([name for name in sys.modules if name.startswith('tensorflow')])"
    )
    assert run_python("-c", program).stdout == "[]\n"
