"""Environments of one's own: by module and name, by a callable, and what is said of those that cannot be learnt."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gym
import gymnasium
import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.commands import cli, exit_codes
from a3c_tf.environment_names import name_of
from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.evaluate import evaluate
from a3c_tf.playing.policy import load_policy
from tests.conftest import ToyEnv, box, small_config, toy_env

MODULE = """
import gymnasium, gym, numpy as np

class Valley(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2, 3))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros((2, 3), np.float32), {}
    def step(self, action):
        self.steps += 1
        return np.full((2, 3), 0.1, np.float32), 1.0, self.steps == 4, False, {}

class Makers:
    @staticmethod
    def valley():
        return Valley()

class OldValley(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2, 3))
    action_space = gym.spaces.Box(-1, 1, (1,))
    reset, step = Valley.reset, Valley.step

gymnasium.register("Valley-v3", Valley, max_episode_steps=9)
gym.register("OldValley-v0", "own_valley:OldValley", max_episode_steps=8)
not_callable = 3
"""


@pytest.fixture
def own_valley(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_valley.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "needs_more.py").write_text("import a_package_that_is_not_there", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_valley", None)
    gymnasium.registry.pop("Valley-v3", None)
    gym.envs.registration.registry.pop("OldValley-v0", None)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("own_valley:Valley-v3", 9),
        ("own_valley:OldValley-v0", 8),
        ("gymnasium:own_valley:Valley-v3", 9),
        ("gym:own_valley:OldValley-v0", 8),
        ("own_valley:Valley", None),
        ("own_valley:Makers.valley", None),
    ],
)
def test_every_way_to_name_ones_own(own_valley: None, name: str, limit: int | None) -> None:
    env = make_env(name)
    assert (env.reset(0).shape, env.time_limit) == ((2, 3), limit)
    assert env.step(np.zeros(1, np.float32))[1] == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_valley:Nothing-v0", "module own_valley registers no 'Nothing-v0' with gym or gymnasium"),
        ("own_valley:nothing", "module own_valley has no callable 'nothing' that makes one"),
        ("own_valley:not_callable", "no callable 'not_callable'"),
        ("no_such_module:make", "there is no module 'no_such_module' to import; expected an id, 'gym:ID'"),
        ("gymnasum:Pendulum-v1", "no module 'gymnasum'"),
        ("own_valley:<lambda>", "was a callable that cannot be found by its name; give it again"),
    ],
)
def test_names_that_lead_nowhere_are_answered_in_one_line(own_valley: None, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as refused:
        make_env(name)
    assert "\n" not in str(refused.value)


def test_a_module_that_needs_another_says_which(own_valley: None) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        make_env("needs_more:make")


@pytest.mark.parametrize("space", ["Dict", "Tuple", "MultiDiscrete", "MultiBinary", "unbounded"])
def test_actions_that_cannot_be_learnt_are_told_before_training(space: str, tmp_path: Path) -> None:
    spaces = gymnasium.spaces
    made: dict[str, tuple[Any, str]] = {
        "Dict": (spaces.Dict({"a": spaces.Discrete(2)}), "so that its actions are one array of numbers"),
        "Tuple": (spaces.Tuple([spaces.Discrete(2)]), "so that its actions are one array of numbers"),
        "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), "one Discrete number stands for each combination"),
        "MultiBinary": (spaces.MultiBinary(3), "one Discrete number stands for each combination"),
        "unbounded": (box((1,), -np.inf, np.inf), "RescaleAction or give its Box finite bounds"),
    }

    def make() -> ToyEnv:
        env = ToyEnv()
        env.action_space = made[space][0]
        return env

    with pytest.raises(UsageError, match=made[space][1]) as refused:
        train(small_config(env=make, log_dir=str(tmp_path / "run")))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_observations_of_any_shape_are_flattened_with_a_note(
    own_valley: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "a3c_tf"):
        result = train(small_config(env="own_valley:Valley", log_dir=str(tmp_path / "run")), show="none")
    assert "observations of shape (2, 3) are seen flattened, as 6 numbers" in caplog.messages
    assert load_policy(result.run_folder)(np.zeros((2, 3))).shape == (1,)


def test_a_callable_with_a_name_is_found_again(tmp_path: Path) -> None:
    folder = train(small_config(env=toy_env, log_dir=str(tmp_path / "run")), show="none").run_folder
    assert len(resume(folder, "none", max_episodes=4).returns) == 4
    assert evaluate(load_policy(folder), episodes=1).steps == 5


def test_a_callable_without_one_must_be_given_again(tmp_path: Path) -> None:
    make = lambda: ToyEnv(terminates_at=5)  # noqa: E731
    folder = train(small_config(env=make, log_dir=str(tmp_path / "run")), show="none").run_folder
    again = "was a callable that cannot be found by its name; give it again, as in resume"
    with pytest.raises(UsageError, match=again):
        resume(folder, "none", max_episodes=4)
    with pytest.raises(UsageError, match=again):
        evaluate(load_policy(folder), episodes=1)
    with pytest.raises(UsageError, match="env: the run to resume has"):
        resume(folder, "none", max_episodes=4, env=toy_env)
    assert len(resume(folder, "none", max_episodes=4, env=make).returns) == 4
    assert evaluate(load_policy(folder), make, episodes=1).steps == 5


def test_an_object_that_makes_environments_has_its_class_for_a_name() -> None:
    class Maker:
        def __call__(self) -> ToyEnv:
            return ToyEnv()

    assert name_of(Maker()).endswith("Maker>")
    assert "<" in name_of(Maker())


def test_what_a_run_folder_names_is_not_looked_for_in_the_current_folder(
    toy_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stranger's run must not bring the code that it names; a person may name it."""
    shutil.copytree(toy_run.run_folder, tmp_path / "run")
    code = "from tests.conftest import toy_env as make; print('code ran')"
    for module in (tmp_path / "stranger.py", tmp_path / "run" / "stranger.py"):
        module.write_text(code, encoding="utf-8")
    (tmp_path / "stranger").mkdir()  # a folder is a package as well
    config = tmp_path / "run" / "config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setattr(exit_codes.signal, "signal", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for name in ("stranger:make", "run.stranger:make"):
        config.write_text(json.dumps({**settings, "env": name}), encoding="utf-8")
        commands = (
            ["evaluate", "run", "--episodes", "1"],
            ["video", "run", "--output", "film.gif"],
            ["train", "--resume", "run", "--episodes", "11"],
        )
        for command in commands:
            assert cli.main(command) == 2
            out, err = capfd.readouterr()
            assert "code ran" not in out
            assert err.endswith(f"name it: --env {name}\n")
            assert err.count("\n") == 1
    assert cli.main(["evaluate", "run", "--episodes", "1", "--env", "stranger:make"]) == 0
    assert "code ran" in capfd.readouterr().out
