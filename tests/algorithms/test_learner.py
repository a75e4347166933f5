"""What the A3C learner does with a rollout: targets, checks and feeds, with a network whose every answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from a3c_tf.algorithms.a3c import A3CLearner
from a3c_tf.algorithms.calls import NetCalls
from a3c_tf.algorithms.returns import lambda_returns, n_step_returns
from a3c_tf.algorithms.rollouts import NotFiniteError
from a3c_tf.records import Episode, Rollout
from tests.conftest import small_config

REPORT = {"loss/actor": 0.25, "loss/critic": 0.5}
FINISHED = (Episode("W_0", 6.0, 3),)


class FakeNet(NetCalls):
    """Notes every call; the value of an observation is its first number."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[np.ndarray, ...]]] = []
        super().__init__(
            1, self._unasked, self._value, self._update, self._update_and_report, pull_global=self._unasked
        )

    def _unasked(self, *arrays: Any) -> Any:
        raise AssertionError("not the learner's call")

    def _value(self, observations: np.ndarray) -> np.ndarray:
        self._note("value", observations)
        return observations.reshape(len(observations), -1)[:, :1]

    def _update(self, *rollout: np.ndarray) -> None:
        self._note("update", *rollout)

    def _update_and_report(self, *rollout: np.ndarray) -> dict[str, float]:
        self._note("update and report", *rollout)
        return dict(REPORT)

    def _note(self, name: str, *arrays: np.ndarray) -> None:
        assert all(array.dtype == np.float32 for array in arrays), "the fast path does not convert"
        self.calls.append((name, arrays))

    @property
    def fed(self) -> tuple[np.ndarray, ...]:
        """What the one update was fed."""
        ((_, arrays),) = [call for call in self.calls if call[0].startswith("update")]
        return arrays


def a_rollout(steps: int = 3, envs: int = 1, last_discount: float = 0.5, **changes: Any) -> Rollout:
    """Observations count from 10 on, a number for each environment and step; rewards count from 1 on."""
    numbers = 10 + np.arange((steps + 1) * envs, dtype=np.float32).reshape(steps + 1, envs)
    discounts = np.full((steps, envs), 0.5)
    discounts[-1] = last_discount
    rollout = Rollout(
        observations=np.repeat(numbers[:, :, None], 2, axis=2),
        actions=np.arange(steps * envs, dtype=np.float32).reshape(steps, envs, 1),
        rewards=1.0 + np.arange(steps * envs, dtype=np.float64).reshape(steps, envs),
        discounts=discounts,
        episodes=(),
    )
    return rollout._replace(**changes)


def learn(rollout: Rollout, **settings: Any) -> tuple[FakeNet, dict[str, float]]:
    net = FakeNet()
    return net, A3CLearner(small_config(**settings), net, lambda: 0).learn(rollout)


@pytest.mark.parametrize("envs", [1, 3])
def test_a_batch_is_fed_row_by_row_of_the_rollout(envs: int) -> None:
    rollout = a_rollout(envs=envs)
    observations, actions, targets = learn(rollout)[0].fed
    np.testing.assert_array_equal(observations, rollout.observations[:-1].reshape(3 * envs, 2))
    np.testing.assert_array_equal(actions, np.arange(3 * envs)[:, None])
    expected = n_step_returns(rollout.rewards, rollout.discounts, rollout.observations[-1, :, 0])
    np.testing.assert_array_equal(targets, expected.reshape(-1, 1))


def test_the_targets_are_the_n_step_returns_from_the_last_observations_value() -> None:
    """R_2 = 3 + ½·13 = 9.5; R_1 = 2 + ½·9.5 = 6.75; R_0 = 1 + ½·6.75 = 4.375."""
    assert learn(a_rollout())[0].fed[2].ravel().tolist() == [4.375, 6.75, 9.5]


def test_a_terminal_state_is_worth_0_and_its_value_not_asked_for() -> None:
    net, _ = learn(a_rollout(last_discount=0.0))
    assert net.fed[2].ravel().tolist() == [2.75, 3.5, 3.0]
    assert [name for name, _ in net.calls] == ["update"]


def test_the_state_where_only_one_environment_terminated_is_worth_something_in_the_other() -> None:
    discounts = np.array([[0.5, 0.5], [0.0, 0.5]])
    rollout = a_rollout(steps=2, envs=2, discounts=discounts)
    targets = learn(rollout)[0].fed[2].reshape(2, 2)
    np.testing.assert_array_equal(targets, [[1 + 3 / 2, 2 + (4 + 15 / 2) / 2], [3, 4 + 15 / 2]])


@pytest.mark.parametrize("last_discount", [0.5, 0.0])
def test_lambda_below_1_takes_the_value_of_every_next_observation(last_discount: float) -> None:
    rollout = a_rollout(last_discount=last_discount)
    net, _ = learn(rollout, gae_lambda=0.5)
    values = rollout.observations[1:, :, 0]
    np.testing.assert_array_equal(net.calls[0][1][0], rollout.observations[1:, 0])
    np.testing.assert_array_equal(net.fed[2], lambda_returns(rollout.rewards, rollout.discounts, values, 0.5))


def test_a_report_is_made_when_an_episode_ended_with_the_rollout() -> None:
    net, report = learn(a_rollout(episodes=FINISHED))
    assert (net.calls[-1][0], report) == ("update and report", REPORT)
    net, report = learn(a_rollout())
    assert (net.calls[-1][0], report) == ("update", {})


def test_a_decaying_learning_rate_follows_the_steps_of_all_workers() -> None:
    config = small_config(max_episodes=None, max_steps=100, learning_rate_decay="linear")
    for steps, scale in ((0, 1.0), (25, 0.75), (100, 0.0), (120, 0.0)):
        net = FakeNet()
        A3CLearner(config, net, lambda steps=steps: steps).learn(a_rollout())  # type: ignore[misc]
        assert (net.fed[3].shape, float(net.fed[3])) == ((), pytest.approx(scale))


# what is not finite


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("field", "place", "said"),
    [
        ("observations", (0, 0, 0), "observation"),
        ("observations", (2, 0, 1), "observation"),
        ("observations", (3, 0, 0), "observation"),
        ("actions", (1, 0, 0), "action"),
        ("rewards", (1, 0), "reward"),
    ],
)
def test_what_is_not_finite_is_named_and_never_learnt(
    field: str, place: tuple[int, ...], said: str, number: float
) -> None:
    rollout = a_rollout()
    getattr(rollout, field)[place] = number
    net = FakeNet()
    with pytest.raises(NotFiniteError, match=f"expected finite numbers, got {said} {number} in the last 3 steps; "):
        A3CLearner(small_config(), net, lambda: 0).learn(rollout)
    assert not [name for name, _ in net.calls if name.startswith("update")]


def test_of_several_the_first_in_time_is_named() -> None:
    rollout = a_rollout(envs=2)
    rollout.observations[2, 1] = np.nan
    rollout.rewards[1, 0] = np.inf
    with pytest.raises(NotFiniteError, match="got reward inf"):
        learn(rollout)


def test_a_critic_that_diverged_is_named() -> None:
    net = FakeNet()
    net.value = lambda observations: np.full((len(observations), 1), np.nan, np.float32)
    with pytest.raises(NotFiniteError, match=r"got value target nan .* lower critic_learning_rate"):
        A3CLearner(small_config(), net, lambda: 0).learn(a_rollout())


def test_integer_actions_are_learnt_as_they_are() -> None:
    rollout = a_rollout(actions=np.array([[[1]], [[0]], [[2]]], np.int32))
    net = FakeNet()
    net._note = lambda name, *arrays: net.calls.append((name, arrays))  # type: ignore[method-assign]
    A3CLearner(small_config(), net, lambda: 0).learn(rollout)
    assert net.fed[1].dtype == np.int32
    assert net.fed[1].ravel().tolist() == [1, 0, 2]
