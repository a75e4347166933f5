"""``a3c-tf train``: an option for each setting, with the defaults of the preset or of the run to go on with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Suppress

from a3c_tf.commands import train
from a3c_tf.commands.parsing import Flag, parse, parse_known, search_here
from a3c_tf.config import Config
from a3c_tf.presets import PRESETS, default_preset, preset_settings
from a3c_tf.runs.folder import RunFolder

_PRESET_HELP = f"settings to start from: {', '.join(PRESETS)} or general; None: the first that knows the environment"


@dataclasses.dataclass(frozen=True)
class Settings(Config):
    """The defaults shown are those of the preset; `--preset NAME --help` shows another's."""

    env: str = "Pendulum-v1"
    """environment: an id of gym, `gymnasium:ID`, `module:ID`, or `module:factory`"""
    preset_name: Suppress[str] = "classic"
    max_episodes: Annotated[int | None, tyro.conf.arg(aliases=["--episodes"])] = 2000
    """budget: episodes of all workers together"""

    def __post_init__(self) -> None:
        """Checked when a ``Config`` is made of them."""

    def given(self, defaults: Settings) -> dict[str, Any]:
        """What was asked for: the settings that differ from the ``defaults``."""
        before = dataclasses.asdict(defaults)
        return {field: value for field, value in dataclasses.asdict(self).items() if value != before[field]}


@dataclasses.dataclass(frozen=True)
class Start:
    """The options that decide what the others' defaults are."""

    env: str = Settings.env
    preset: str | None = None
    resume: str | None = None

    def defaults(self) -> Settings:
        if self.resume:
            saved = Config.read(RunFolder.of(self.resume).config)
            return Settings(**{**dataclasses.asdict(saved), "env": saved.env_name})
        preset = self.preset or default_preset(self.env)
        return Settings(**{**preset_settings(preset, self.env), "env": self.env, "preset_name": preset})


@dataclasses.dataclass(frozen=True)
class Train:
    settings: OmitArgPrefixes[Settings]
    preset: Annotated[str | None, tyro.conf.arg(help=_PRESET_HELP)] = None
    resume: str | None = None
    """go on with the run in this folder"""
    verbose: Flag = False
    """a line for each episode instead of the bar"""
    show: Flag = False
    """open a window with the curve at the end"""


def run(name: str, summary: str, arguments: Sequence[str]) -> int:
    """Train as asked; returns the exit code. Raises ``UsageError`` for what cannot be done."""
    start = parse_known(Start, name, arguments)
    search_here(start.env)
    defaults = start.defaults()
    asked = parse(Train, name, summary, arguments, Train(defaults))
    if not asked.resume:
        return train.train(Config(**dataclasses.asdict(asked.settings)), asked.verbose, asked.show)
    given = asked.settings.given(defaults) | ({"preset_name": asked.preset} if asked.preset else {})
    return train.resume(asked.resume, given, asked.verbose, asked.show)
