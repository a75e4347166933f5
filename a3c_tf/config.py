"""Every setting of a run, with its unit and its source."""

from __future__ import annotations

import dataclasses
import json
import math
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from a3c_tf.checks import check_settings
from a3c_tf.cpus import usable_cpus
from a3c_tf.environment_names import name_of
from a3c_tf.errors import RunError, UsageError
from a3c_tf.presets import PRESETS, default_preset, preset_settings

__all__ = ["PRESETS", "Config", "RunError", "UsageError"]


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of one training run; the defaults are the TensorFlow original's on Pendulum.

    Raises ``UsageError`` that names the field, the value and what is allowed.
    """

    env: str | Callable[[], Any] = "Pendulum-v1"
    """environment: an id of gym, `gymnasium:ID`, or in Python a callable that makes one"""
    preset_name: str = "classic"
    """the preset that these settings started from"""
    algorithm: str = "a3c"
    """what is trained: a3c"""
    seed: int | None = None
    """seed of weights, environments and exploration; without one a fresh seed is drawn and written down"""

    processes: int = 0
    """worker processes around a parameter server (TensorFlow's distributed runtime); 0: none, only threads"""
    workers: int | None = None
    """worker threads, in each process if there are several; None: one for each CPU, or 1 with `processes`"""
    restarts: int = 3
    """how many times, in all, a worker process that was killed is started again"""
    allow_open_port: bool = False
    """whether the parameter server may listen on the machine's own network, open to all who reach it (SECURITY.md)"""
    max_episodes: int | None = 2000
    """budget: episodes of all workers together"""
    max_steps: int | None = None
    """budget: environment steps of all workers together"""
    max_episode_steps: int | None = 200
    """steps after which an episode is cut; None: the environment's own limit"""

    rollout_steps: int = 10
    """steps between two updates (t_max in the paper, algorithm S3)"""
    gamma: float = 0.9
    """discount factor"""
    gae_lambda: float = 1.0
    """λ of the value targets (generalized advantage estimation); 1: n-step returns"""
    bootstrap_at_time_limit: bool = False
    """whether an episode cut by its time limit bootstraps from v(s'); the original takes 0"""
    reward_shift: float = 8.0
    """the learner sees (reward + reward_shift) / reward_scale"""
    reward_scale: float = 8.0
    """the learner sees (reward + reward_shift) / reward_scale"""
    entropy_coefficient: float = 0.01
    """weight of the policy's entropy in the actor's objective (β in the paper, section 4)"""

    learner_sees_unclipped_action: bool = False
    """whether the learner gets the sample itself; the environment always gets it clipped to its bounds"""

    optimizer: str = "rmsprop"
    """rmsprop or adam; its statistics are shared by all workers"""
    actor_learning_rate: float = 1e-4
    """step size for the actor"""
    critic_learning_rate: float = 1e-3
    """step size for the critic"""
    learning_rate_decay: str = "none"
    """none, or linear: both step sizes fall to 0 over the planned steps"""
    joint_loss: bool = False
    """one optimizer and one loss, actor's + critic's, for both networks"""
    max_grad_norm: float | None = None
    """gradients are scaled down to this global norm: actor and critic each, or together with joint_loss"""
    rmsprop_decay: float = 0.9
    """decay of RMSProp's running mean of squared gradients (TensorFlow 1's default)"""
    adam_beta1: float = 0.9
    """decay of Adam's running mean of gradients"""
    adam_beta2: float = 0.999
    """decay of Adam's running mean of squared gradients"""

    normalize_observations: bool = False
    """whether the networks see observations shifted and scaled by their running mean and deviation"""
    actor_hidden: int = 200
    """units of the actor's hidden layer"""
    critic_hidden: int = 100
    """units of the critic's hidden layer"""
    observation_scale: tuple[float, ...] | None = None
    """the networks see the observation times these numbers, one for each of its dimensions; None: as it is"""
    sigma_floor: float = 1e-4
    """added to the policy's standard deviation, which never falls below it"""

    evaluation_interval: int | None = None
    """environment steps between two evaluations of the mean action, which keep the best policy; None: none"""
    evaluation_episodes: int = 20
    """episodes of one evaluation, always from the same starts"""

    checkpoint_seconds: float = 60.0
    """seconds after which the run is saved again"""
    checkpoint_episodes: int = 100
    """episodes after which the run is saved again, if that is sooner"""
    running_return_decay: float = 0.9
    """running return = decay · old + (1 - decay) · new"""
    log_dir: str | None = None
    """run folder; None: runs/<environment>-<time>"""

    def __post_init__(self) -> None:
        if self.observation_scale is not None and hasattr(self.observation_scale, "__iter__"):  # JSON knows no tuple
            object.__setattr__(self, "observation_scale", tuple(self.observation_scale))
        check_settings(self)

    @classmethod
    def preset(cls, name: str, env: str | Callable[[], Any] = "Pendulum-v1", **changes: Any) -> Config:
        """The complete settings of preset ``name`` for ``env``, with ``changes`` on top.

        Raises ``UsageError`` for an unknown preset, a preset that does not know the environment, and
        changes that are not settings.
        """
        _check_known(changes)
        return cls(**{**preset_settings(name, env), "env": env, "preset_name": name, **changes})

    @classmethod
    def for_env(cls, env: str | Callable[[], Any] = "Pendulum-v1", **changes: Any) -> Config:
        """The default preset of ``env``: the first in ``PRESETS`` that lists it, else `general`."""
        return cls.preset(default_preset(env), env, **changes)

    def replace(self, **changes: Any) -> Config:
        """A copy with ``changes``, checked as a new one is."""
        return dataclasses.replace(self, **changes)

    def settled(self) -> Config:
        """These settings with what they leave open decided: a fresh seed if there is none, the number of workers."""
        seed = secrets.randbelow(2**31) if self.seed is None else self.seed
        return self.replace(seed=seed, workers=self.worker_count)

    @property
    def worker_count(self) -> int:
        """Workers of one process: those asked for, or one for each usable CPU, or 1 with ``processes``."""
        return self.workers or (1 if self.processes else usable_cpus())

    @property
    def planned_steps(self) -> int | None:
        """Steps that the budget comes to, as far as the settings say; the learning rate's schedule runs over them."""
        by_episodes = (
            self.max_episodes * self.max_episode_steps if self.max_episodes and self.max_episode_steps else None
        )
        return min((steps for steps in (self.max_steps, by_episodes) if steps is not None), default=None)

    def learning_rate_scale(self, steps: int) -> float:
        """What is left of the learning rates after ``steps`` steps of all workers: 1 unless they decay."""
        if self.learning_rate_decay == "none":
            return 1.0
        assert self.planned_steps is not None
        return max(0.0, 1 - steps / self.planned_steps)

    @property
    def env_name(self) -> str:
        """The id, or ``module:name`` of a callable."""
        return self.env if isinstance(self.env, str) else name_of(self.env)

    def resumed(self, given: dict[str, Any]) -> Config:
        """These settings, read from a run, with what is ``given`` for going on with it.

        What equals them is accepted; a budget may be larger, and the workers may be other processes or
        threads. Raises ``UsageError`` for anything else.
        """
        _check_known(given)
        changes: dict[str, Any] = {}
        free = {"processes", "restarts", "allow_open_port", *(["workers"] if "processes" in given else [])}
        for field, value in given.items():
            own = getattr(self, field)
            if field == "env" and callable(value):
                changes[field] = value
                if name_of(value) != self.env_name:
                    raise _different(field, self.env_name, name_of(value))
            elif field in ("max_episodes", "max_steps"):
                if (own or math.inf) > (value or math.inf):
                    raise _different(field, own, f"{value}: a smaller budget")
                changes[field] = value
            elif field in free:
                changes[field] = value
            elif value != own:
                raise _different(field, own, value)
        return self.replace(**changes)

    def to_json(self) -> str:
        """The settings as JSON text; a callable environment is written as its name."""
        return json.dumps({**dataclasses.asdict(self.replace(env=self.env_name))}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, env: str | Callable[[], Any]) -> Config:
        """Settings from what ``to_json`` made, with the environment itself in place of its name."""
        return cls(**{**json.loads(text), "env": env})

    @classmethod
    def read(cls, path: str | Path) -> Config:
        """Settings from the ``config.json`` of a run. Raises ``UsageError`` if it is not one."""
        try:
            return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: expected the settings of a run: {error}") from None


def _check_known(settings: dict[str, Any]) -> None:
    unknown = sorted(set(settings) - {field.name for field in dataclasses.fields(Config)})
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: no such setting; see the fields of a3c_tf.Config")


def _different(field: str, saved: Any, given: Any) -> UsageError:
    return UsageError(f"{field}: the run to resume has {saved}, got {given}; only the budget may differ, and grow")
