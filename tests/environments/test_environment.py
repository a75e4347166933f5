"""gym, gymnasium and a user's own environments, old API and new, behind one protocol."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from a3c_tf.environments.environment import Environment, WrongAnswerError
from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from tests.conftest import ToyEnv, box, run_python

IDS = pytest.mark.parametrize("env_id", ["Pendulum-v1", "gym:Pendulum-v1", "gymnasium:Pendulum-v1"])


class OldEnv(ToyEnv):
    """The API before gym 0.26: seed(), reset() without info, 4-tuples."""

    info: dict[str, Any]

    def __init__(self, **ends: int) -> None:
        super().__init__(**ends)
        self.info = {}

    def seed(self, seed: int) -> list[int]:
        self.seeds.append(seed)
        return [seed]

    def reset(self) -> np.ndarray:  # type: ignore[override]
        self.time, self.episode = 0, self.episode + 1
        return self.observation()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, dict[str, Any]]:  # type: ignore[override]
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated or truncated, self.info


class Answering(ToyEnv):
    """Answers reset and step with whatever it was given; ``...`` stands for the right answer."""

    def __init__(self, reset: Any = ..., step: Any = ...) -> None:
        super().__init__()
        self._reset, self._step = reset, step

    def reset(self, seed: int | None = None) -> Any:
        right = super().reset(seed)
        return right if self._reset is ... else self._reset

    def step(self, action: np.ndarray) -> Any:
        right = super().step(action)
        return right if self._step is ... else self._step


def step(observation: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    return observation, 0.0, False, False, {}


@IDS
def test_an_environment_by_id(env_id: str) -> None:
    env = make_env(env_id)
    assert env.observation_spec.shape == (3,)
    assert (env.action_spec.shape, env.action_spec.low, env.action_spec.high) == ((1,), (-2.0,), (2.0,))
    assert env.time_limit == 200
    observation = env.reset(seed=3)
    assert observation.shape == (3,)
    observation, reward, terminated, truncated = env.step(np.array([0.5], np.float32))
    assert observation.shape == (3,)
    assert isinstance(reward, float)
    assert -17 < reward <= 0
    assert (terminated, truncated) == (False, False)
    env.close()


@IDS
def test_the_time_limit_is_told_and_left_to_the_worker(env_id: str) -> None:
    """As in the original, which takes ``.unwrapped``: with a longer limit of one's own, episodes go on."""
    env = make_env(env_id)
    env.reset(0)
    ends = [env.step(np.zeros(1, np.float32))[2:] for _ in range(250)]
    assert set(ends) == {(False, False)}


@IDS
def test_an_episode_is_a_function_of_its_seed(env_id: str) -> None:
    first, second = make_env(env_id), make_env(env_id)
    second.reset(99)
    np.testing.assert_array_equal(first.reset(5), second.reset(5))
    assert not np.array_equal(first.reset(6), second.reset(5))


def test_both_libraries_give_the_same_pendulum() -> None:
    gym_env, gymnasium_env = make_env("Pendulum-v1"), make_env("gymnasium:Pendulum-v1")
    np.testing.assert_allclose(gym_env.reset(1), gymnasium_env.reset(1), rtol=1e-6)
    for torque in (2.0, -1.0, 0.3):
        action = np.array([torque], np.float32)
        np.testing.assert_allclose(gym_env.step(action)[0], gymnasium_env.step(action)[0], rtol=1e-5)


@pytest.mark.parametrize("make", [ToyEnv, lambda: ToyEnv(), lambda: make_gymnasium()])
def test_an_environment_from_a_callable(make: Callable[[], Any]) -> None:
    env = make_env(make)
    assert env.reset(4).shape == (3,)
    assert len(env.step(np.zeros(1, np.float32))) == 4
    env.close()


def make_gymnasium() -> Any:
    import gymnasium

    return gymnasium.make("Pendulum-v1")


def test_an_environment_made_by_a_callable_keeps_its_own_time_limit() -> None:
    env = make_env(make_gymnasium)
    assert env.time_limit == 200
    env.reset(0)
    assert {env.step(np.zeros(1, np.float32))[2:] for _ in range(201)} == {(False, False)}


def test_what_a_callable_raises_comes_out_as_it_is() -> None:
    def broken() -> Any:
        raise FileNotFoundError("the model is missing")

    with pytest.raises(FileNotFoundError, match="the model is missing"):
        make_env(broken)


def test_the_seed_reaches_the_new_api_and_the_old() -> None:
    for raw in (ToyEnv(), OldEnv()):
        env = Environment(raw, "toy")
        env.reset(11)
        env.reset(12)
        assert raw.seeds == [11, 12]


def test_an_environment_without_any_seed_is_reset_all_the_same() -> None:
    class Seedless(OldEnv):
        seed = property()  # type: ignore[assignment]

    raw = Seedless()
    assert Environment(raw, "seedless").reset(1).shape == (3,)


def test_a_type_error_of_the_environments_own_is_not_taken_for_an_old_api() -> None:
    class Broken(ToyEnv):
        def reset(self, seed: int | None = None) -> Any:
            raise TypeError("unsupported operand type(s) for +: 'int' and 'str'")

    with pytest.raises(TypeError, match="unsupported operand"):
        Environment(Broken(), "broken").reset(1)


def test_the_answer_of_the_new_api() -> None:
    env = Environment(ToyEnv(terminates_at=2), "toy")
    env.reset(0)
    observation, *rest = env.step(np.zeros(1, np.float32))
    np.testing.assert_array_equal(observation, [1, 1, 1])
    assert rest == [1.0, False, False]
    assert env.step(np.zeros(1, np.float32))[1:] == (2.0, True, False)


def test_truncated_is_not_terminated() -> None:
    env = Environment(ToyEnv(truncates_at=1), "toy")
    env.reset(0)
    assert env.step(np.zeros(1, np.float32))[2:] == (False, True)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, (True, False)),
        ({"TimeLimit.truncated": True}, (False, True)),
        ({"TimeLimit.truncated": False}, (True, False)),
    ],
)
def test_the_answer_of_the_old_api(info: dict[str, Any], expected: tuple[bool, bool]) -> None:
    raw = OldEnv(terminates_at=2)
    raw.info = info
    env = Environment(raw, "old")
    np.testing.assert_array_equal(env.reset(0), [0, 0, 0])
    assert env.step(np.zeros(1, np.float32))[2:] == (False, False), "an info without an end ends nothing"
    assert env.step(np.zeros(1, np.float32))[2:] == expected


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2), ()])
def test_the_action_arrives_in_the_shape_of_the_space(shape: tuple[int, ...]) -> None:
    raw = ToyEnv(action_shape=shape)
    env = Environment(raw, "toy")
    env.reset(0)
    flat = np.arange(env.action_spec.size, dtype=np.float32)
    env.step(flat)
    assert raw.actions[0].shape == shape
    np.testing.assert_array_equal(raw.actions[0].ravel(), flat)


def test_a_list_of_numbers_is_an_observation_too() -> None:
    env = Environment(Answering(reset=[1, 2, 3], step=step([4, 5, 6])), "toy")
    np.testing.assert_array_equal(env.reset(0), [1, 2, 3])
    np.testing.assert_array_equal(env.step(np.zeros(1, np.float32))[0], [4, 5, 6])


WRONG_OBSERVATIONS = pytest.mark.parametrize(
    ("observation", "got"),
    [
        pytest.param(np.zeros((3, 1)), r"\(3, 1\)", id="column"),
        pytest.param(np.zeros(4), r"\(4,\)", id="too long"),
        pytest.param(np.float32(1), r"\(\)", id="a number"),
        pytest.param({"position": 1.0}, r"\(\)", id="a dict"),
        pytest.param(None, r"\(\)", id="None"),
        pytest.param([1.0, 2.0, None], r"\(3,\)|object", id="a list with None"),
        pytest.param(np.array([1.0, None, {}], object), "object", id="object array"),
        pytest.param(np.array(["a", "b", "c"]), "<U1|str", id="text array"),
        pytest.param((np.zeros(3), {}), ".", id="(observation, info)"),
        pytest.param([[1.0], [2.0, 3.0]], ".", id="ragged"),
    ],
)


@WRONG_OBSERVATIONS
def test_a_wrong_observation_of_step_is_told_with_expected_and_got(observation: Any, got: str) -> None:
    env = Environment(Answering(step=step(observation)), "mine")
    env.reset(0)
    with pytest.raises(
        ValueError, match=rf"environment mine: step\(\) must return .*observation of shape \(3,\).*got .*({got})"
    ):
        env.step(np.zeros(1, np.float32))


@WRONG_OBSERVATIONS
def test_a_wrong_observation_of_reset_is_told_with_expected_and_got(observation: Any, got: str) -> None:
    env = Environment(Answering(reset=(observation, {})), "mine")
    with pytest.raises(
        ValueError, match=rf"environment mine: reset\(\) must return .*observation of shape \(3,\).*got .*({got})"
    ):
        env.reset(0)


def after(steps: int, answer: Any) -> Environment:
    """An environment whose answer is good for so many steps, and then ``answer``."""
    raw = Answering(step=step(np.zeros(3)))
    env = Environment(raw, "mine")
    env.reset(0)
    for _ in range(steps):
        env.step(np.zeros(1, np.float32))
    raw._step = answer
    return env


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize(
    ("reward", "number"),
    [(1, 1.0), (True, 1.0), (np.float32(0.5), 0.5), (np.array(0.5), 0.5), (np.array([0.5]), 0.5), ([[0.5]], 0.5)],
)
def test_a_reward_of_one_number_is_that_number(steps: int, reward: Any, number: float) -> None:
    answer = after(steps, (np.zeros(3), reward, False, False, {})).step(np.zeros(1, np.float32))
    assert (answer[1], type(answer[1])) == (number, float)


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("reward", [None, "1.0", np.zeros(2), [], {}, 1j, np.array([None]), [[1.0], [2.0, 3.0]]])
def test_any_other_reward_is_refused_at_any_step(steps: int, reward: Any) -> None:
    env = after(steps, (np.zeros(3), reward, False, False, {}))
    with pytest.raises(WrongAnswerError, match=r"environment mine: step\(\) must return a number as reward, got "):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("flag", [True, np.True_, 1, np.array(True), np.array([True])])
def test_a_flag_is_true_in_whatever_form(steps: int, flag: Any) -> None:
    answer = after(steps, (np.zeros(3), 0.0, flag, False, {})).step(np.zeros(1, np.float32))
    assert answer[2:] == (True, False)


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("flag", [None, "False", np.array([True, False]), {}, 0.5])
def test_any_other_flag_is_refused_at_any_step(steps: int, flag: Any) -> None:
    env = after(steps, (np.zeros(3), 0.0, False, flag, {}))
    with pytest.raises(WrongAnswerError, match=r"step\(\) must return True or False after the reward, got "):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("observation", [np.zeros((3, 1)), np.zeros(4), None, np.array(["a", "b", "c"]), {}])
def test_a_wrong_observation_is_refused_at_any_step(observation: Any) -> None:
    env = after(7, (observation, 0.0, False, False, {}))
    with pytest.raises(WrongAnswerError, match=r"must return .*observation of shape \(3,\)"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (np.zeros(3), "ndarray"),
        ((np.zeros(3), 0.0), "2"),
        ((np.zeros(3), 0.0, False), "3"),
        ((np.zeros(3), 0.0, False, False, {}, 1), "6"),
        pytest.param(None, "NoneType", id="None"),
        pytest.param(1.0, "float", id="a number"),
    ],
)
def test_a_wrong_answer_of_step_is_told_with_expected_and_got(answer: Any, got: str) -> None:
    env = Environment(Answering(step=answer), "mine")
    env.reset(0)
    expected = re.escape("environment mine: step() must return (observation, reward, terminated, truncated, info), got")
    with pytest.raises(ValueError, match=f"{expected}.*{got}"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(
    "answer", [(np.zeros(3), {}, 1), (np.zeros(3),), (np.zeros(3), 0.5), (np.zeros(3), 0.0, False, {})]
)
def test_a_wrong_tuple_of_reset_is_told_with_expected_and_got(answer: Any) -> None:
    env = Environment(Answering(reset=answer), "mine")
    expected = re.escape("environment mine: reset() must return an observation or (observation, info), got")
    with pytest.raises(ValueError, match=f"{expected}.*{len(answer)}"):
        env.reset(0)


@pytest.mark.parametrize("part", ["reset", "step", "observation_space", "action_space"])
def test_an_object_that_is_no_environment_is_refused_by_what_it_lacks(part: str) -> None:
    parts = {"reset": None, "step": None, "observation_space": box((3,)), "action_space": box((1,))}
    del parts[part]
    with pytest.raises(UsageError, match=f"expected an object with '{part}', got SimpleNamespace"):
        make_env(lambda: SimpleNamespace(**parts))


def test_unlearnable_spaces_are_refused_with_the_environments_name() -> None:
    import gymnasium

    counting = ToyEnv()
    counting.observation_space = gymnasium.spaces.Discrete(2)
    with pytest.raises(UsageError, match=r"environment .*<lambda>: observation space Discrete\(2\): expected a Box"):
        make_env(lambda: counting)


def test_unbounded_actions_and_dict_observations_are_refused() -> None:
    import gymnasium

    unbounded, dict_env = ToyEnv(), ToyEnv()
    unbounded.action_space = box((1,), -np.inf, np.inf)
    dict_env.observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(0, 1, (2,))})
    with pytest.raises(UsageError, match="finite bounds"):
        make_env(lambda: unbounded)
    with pytest.raises(UsageError, match=r"observation space Dict.*expected a Box.*wrap"):
        make_env(lambda: dict_env)


@pytest.mark.parametrize("env_id", ["Pendulum-v0", "gym:Pendulum-v0", "gymnasium:Pendulum-v0"])
def test_pendulum_v0_is_answered_with_v1(env_id: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(UsageError, match=r"Pendulum-v0.*v1") as refused:
        make_env(env_id)
    assert "\n" not in str(refused.value)
    assert not recwarn.list, "one message is enough"


@pytest.mark.parametrize("env_id", ["NoSuchThing-v0", "gymnasium:NoSuchThing-v3", "Pendulum-v99", "not an id!"])
def test_an_unknown_environment_is_refused_in_one_line(env_id: str) -> None:
    with pytest.raises(UsageError, match=re.escape(env_id.removeprefix("gymnasium:").split("-v")[0])) as refused:
        make_env(env_id)
    assert "\n" not in str(refused.value)


def test_an_unknown_library_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no module 'dm_control'.*'gym:ID', 'gymnasium:ID'"):
        make_env("dm_control:cartpole")


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UsageError, match=r"gymnasium is not installed.*pip install gymnasium"):
        make_env("gymnasium:Pendulum-v1")


def test_close_is_handed_on_and_not_required() -> None:
    raw = ToyEnv()
    Environment(raw, "toy").close()
    assert raw.closed

    class Unclosable(ToyEnv):
        close = property()  # type: ignore[assignment]

    Environment(Unclosable(), "toy").close()


def test_gyms_banner_is_not_printed() -> None:
    program = (
        "from a3c_tf.environments.make import make_env; "
        "make_env('Pendulum-v1').reset(0); make_env('gymnasium:Pendulum-v1')"
    )
    done = run_python("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
