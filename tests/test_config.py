"""Settings: the original's numbers, presets, and wrong values named."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from a3c_tf.config import Config
from a3c_tf.cpus import usable_cpus
from a3c_tf.errors import UsageError
from a3c_tf.presets import PRESETS
from tests.conftest import ToyEnv, small_config

ORIGINAL = {
    "env": "Pendulum-v1",
    "max_episode_steps": 200,
    "max_episodes": 2000,
    "rollout_steps": 10,
    "gamma": 0.9,
    "entropy_coefficient": 0.01,
    "actor_learning_rate": 0.0001,
    "critic_learning_rate": 0.001,
    "reward_shift": 8.0,
    "reward_scale": 8.0,
    "bootstrap_at_time_limit": False,
    "actor_hidden": 200,
    "critic_hidden": 100,
    "sigma_floor": 1e-4,
    "rmsprop_decay": 0.9,
    "running_return_decay": 0.9,
}


@pytest.mark.parametrize("config", [Config(), Config.preset("classic"), Config.for_env()], ids=["()", "preset", "env"])
def test_the_default_is_the_original(config: Config) -> None:
    assert {name: getattr(config, name) for name in ORIGINAL} == ORIGINAL
    assert config.preset_name == "classic"
    assert config.workers is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("env", ""),
        ("env", 3),
        ("seed", -1),
        ("seed", 2**31),
        ("seed", 1.5),
        ("workers", 0),
        ("workers", -2),
        ("workers", 1.0),
        ("workers", True),
        ("max_episodes", 0),
        ("max_episodes", -1),
        ("max_steps", 0),
        ("max_steps", "many"),
        ("max_episode_steps", 0),
        ("rollout_steps", 0),
        ("actor_hidden", 0),
        ("critic_hidden", -5),
        ("gamma", 1.01),
        ("gamma", -0.1),
        ("gamma", math.nan),
        ("rmsprop_decay", 2),
        ("running_return_decay", -1),
        ("entropy_coefficient", -0.01),
        ("entropy_coefficient", math.inf),
        ("sigma_floor", -1e-4),
        ("reward_shift", math.inf),
        ("reward_scale", 0),
        ("reward_scale", -8),
        ("actor_learning_rate", 0),
        ("critic_learning_rate", "fast"),
        ("bootstrap_at_time_limit", 1),
        ("log_dir", ""),
        ("gae_lambda", 1.5),
        ("optimizer", "sgd"),
        ("learning_rate_decay", "cosine"),
        ("joint_loss", None),
        ("learner_sees_unclipped_action", "yes"),
        ("max_grad_norm", 0),
        ("adam_beta1", 1.0),
        ("adam_beta2", 1.0),
    ],
)
def test_a_wrong_value_is_refused_by_field_value_and_what_is_allowed(field: str, value: Any) -> None:
    with pytest.raises(UsageError) as refused:
        Config(**{field: value})
    message = str(refused.value)
    assert message.startswith(f"{field} = {value!r}: expected ")
    assert "\n" not in message
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": 0},
        {"gamma": 1},
        {"entropy_coefficient": 0},
        {"max_episodes": None, "max_steps": 1},
        {"max_episode_steps": None},
        {"seed": 2**31 - 1},
        {"reward_shift": -3},
    ],
)
def test_values_at_the_edge_are_allowed(changes: dict[str, Any]) -> None:
    assert Config(**changes)


def test_a_run_without_any_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="max_episodes and max_steps"):
        Config(max_episodes=None)


def test_settings_cannot_be_changed_in_place_and_a_copy_is_checked() -> None:
    config = Config(seed=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 2  # type: ignore[misc]
    assert config.replace(workers=3) == Config(seed=1, workers=3)
    with pytest.raises(UsageError, match="workers = 0"):
        config.replace(workers=0)


def test_a_seed_is_drawn_only_where_none_is_given() -> None:
    assert Config(seed=7).settled().seed == 7
    drawn = {Config().settled().seed for _ in range(5)}
    assert len(drawn) > 1
    assert all(isinstance(seed, int) and seed >= 0 for seed in drawn)


def test_the_number_of_workers_is_decided_with_the_seed() -> None:
    assert Config().settled().workers == Config().worker_count == usable_cpus()
    assert Config(processes=3).settled().workers == Config(processes=3).worker_count == 1
    assert Config(processes=3, workers=2).settled().workers == 2
    assert Config().replace(processes=3).worker_count == 1


def test_a_preset_takes_changes_on_top() -> None:
    config = Config.preset("classic", workers=2, gamma=0.95)
    assert (config.workers, config.gamma, config.reward_shift) == (2, 0.95, 8.0)


@pytest.mark.parametrize("env", ["Pendulum-v1", "gym:Pendulum-v1", "gymnasium:Pendulum-v1"])
def test_a_preset_knows_the_environment_of_either_library(env: str) -> None:
    assert Config.for_env(env).preset_name == "classic"
    assert Config.for_env(env).env == env


def test_an_unknown_preset_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match=r"'best': no such preset; there are .*classic.*general"):
        Config.preset("best")


def test_a_preset_without_settings_for_the_environment_is_refused_with_those_it_has() -> None:
    with pytest.raises(UsageError, match=r"classic.*Other-v0.*Pendulum-v1"):
        Config.preset("classic", "Other-v0")


def test_the_pytorch_original() -> None:
    config = Config.preset("classic-adam")
    assert (config.optimizer, config.joint_loss, config.learner_sees_unclipped_action) == ("adam", True, True)
    assert (config.actor_learning_rate, config.critic_learning_rate) == (1e-4, 1e-4)
    assert (config.adam_beta1, config.adam_beta2) == (0.95, 0.999)
    assert (config.rollout_steps, config.max_episodes, config.max_episode_steps) == (5, 3000, 200)
    assert (config.reward_shift, config.reward_scale) == (8.1, 8.1)
    assert (config.entropy_coefficient, config.sigma_floor, config.gamma) == (0.005, 0.001, 0.9)
    assert (config.running_return_decay, config.bootstrap_at_time_limit) == (0.99, False)


def test_a_schedule_needs_to_know_how_many_steps_there_will_be() -> None:
    with pytest.raises(UsageError, match=r"learning_rate_decay = 'linear': needs max_steps"):
        Config(learning_rate_decay="linear", max_episode_steps=None)
    assert Config(learning_rate_decay="linear", max_steps=5, max_episode_steps=None)


def test_a_joint_loss_has_one_learning_rate() -> None:
    with pytest.raises(UsageError, match=r"joint_loss.*0\.1.*0\.2"):
        Config(joint_loss=True, actor_learning_rate=0.1, critic_learning_rate=0.2)


def test_unknown_settings_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="colour, shape: no such setting"):
        Config.preset("classic", shape=1, colour="red")


@pytest.mark.parametrize("env", ["Other-v0", ToyEnv])
def test_elsewhere_the_general_settings_do_not_shift_rewards_and_respect_time_limits(env: Any) -> None:
    config = Config.for_env(env, workers=2)
    assert config.preset_name == "general"
    assert (config.reward_shift, config.reward_scale) == (0.0, 1.0)
    assert config.bootstrap_at_time_limit
    assert config.max_episode_steps is None
    assert (config.env, config.workers) == (env, 2)


def test_settings_written_down_are_read_back(tmp_path: Path) -> None:
    config = small_config(gamma=0.123, log_dir="somewhere", max_steps=99)
    path = tmp_path / "config.json"
    path.write_text(config.to_json(), encoding="utf-8")
    assert Config.read(path) == config


def test_a_callable_environment_is_written_down_by_its_name() -> None:
    assert json.loads(Config(env=ToyEnv).to_json())["env"] == "tests.conftest:ToyEnv"
    assert Config(env=ToyEnv).env_name == "tests.conftest:ToyEnv"
    assert Config().env_name == "Pendulum-v1"


def test_every_setting_tells_what_it_is() -> None:
    source = (Path(__file__).parent.parent / "a3c_tf" / "config.py").read_text(encoding="utf-8")
    for field in dataclasses.fields(Config):
        declaration = source.split(f"\n    {field.name}: ", 1)[1]
        assert declaration.split("\n")[1].startswith('    """'), f"{field.name} has no description below it"


def test_an_observation_scale_is_read_back_as_it_was(tmp_path: Path) -> None:
    config = Config(workers=1, seed=0, observation_scale=(1.0, 14.0))
    (tmp_path / "config.json").write_text(config.to_json())
    assert Config.read(tmp_path / "config.json") == config
    with pytest.raises(UsageError, match=r"observation_scale = .*: expected finite numbers"):
        Config(observation_scale=(1.0, math.nan))


@pytest.mark.parametrize("env", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_tuned_keeps_to_its_budget_and_is_nobodys_default_on_pendulum(env: str) -> None:
    config = Config.preset("tuned", env)
    assert config.max_steps == config.planned_steps == 300_000
    assert Config.for_env(env).preset_name == ("classic" if env == "Pendulum-v1" else "tuned")


@pytest.mark.parametrize("env", PRESETS["tuned"])
def test_tuned_keeps_the_best_policy(env: str) -> None:
    assert Config.preset("tuned", env).evaluation_interval is not None
