"""The commands of ``a3c-tf``: their options (from dataclasses, through tyro) and what they do.

What needs TensorFlow or matplotlib is imported by the command that needs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, Suppress

from a3c_tf.commands import exit_codes, train
from a3c_tf.config import Config
from a3c_tf.environment_names import env_key
from a3c_tf.errors import UsageError
from a3c_tf.presets import PRESETS
from a3c_tf.runs.folder import RunFolder

Flag = FlagCreatePairsOff[bool]
_PRESET_HELP = f"settings to start from: {', '.join(PRESETS)} or general; None: the first that knows the environment"
Run = Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]


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

    @classmethod
    def of(cls, config: Config) -> Settings:
        return cls(**dataclasses.asdict(config.replace(env=config.env_name)))

    def given(self, defaults: Settings) -> dict[str, Any]:
        """What was asked for: the settings that differ from the ``defaults``."""
        before = dataclasses.asdict(defaults)
        return {field: value for field, value in dataclasses.asdict(self).items() if value != before[field]}


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


@dataclasses.dataclass(frozen=True)
class Evaluate:
    run: Run
    """folder of the run"""
    episodes: int = 100
    """episodes to play"""
    seed: int = 0
    """the k-th episode starts from env.reset(seed + k)"""
    sample: Flag = False
    """play samples of the policy instead of its mean or most likely action"""
    best: Flag = False
    """the best policy kept; without --best or --last: the best if there is one, else the last"""
    last: Flag = False
    """the policy at the run's end"""
    env: str | None = None
    """environment to play in; None: the run's own. To be named if it is a module of the current folder"""
    render: Flag = False
    """show the episodes in a window"""

    def __call__(self) -> int:
        from a3c_tf.playing.evaluate import evaluate, load_policy

        _search_here(self.env)
        policy = load_policy(self.run, _which(self.best, self.last))
        result = evaluate(
            policy,
            self.env,
            episodes=self.episodes,
            seed=self.seed,
            sample=self.sample,
            render_mode="human" * self.render or None,
        )
        print(
            f"mean return {result.mean:.1f} ± {result.deviation:.1f} over {self.episodes} episodes "
            f"({result.steps:,} steps), policy of {policy.folder}"
        )
        return exit_codes.DONE


@dataclasses.dataclass(frozen=True)
class Plot:
    runs: Annotated[Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN [RUN …]")]
    """folders of runs; those that differ only in their seed are drawn as one mean with its spread"""
    output: str | None = None
    """picture to write; None: learning_curve.png (policy.png) in the run, or learning_curves.png here for several"""
    policy: Flag = False
    """draw what one run has learnt on Pendulum: action and value over angle and speed"""
    show: Flag = False
    """open a window with the picture"""

    def __call__(self) -> int:
        from a3c_tf.runs import plotting

        if not self.runs:
            raise UsageError("a3c-tf plot: expected at least one run folder")
        if self.policy and len(self.runs) > 1:
            raise UsageError(f"--policy: expected one run, got {len(self.runs)}")
        folder, name = (
            (Path(self.runs[0]), "learning_curve.png") if len(self.runs) == 1 else (Path(), "learning_curves.png")
        )
        target = Path(self.output) if self.output else folder / ("policy.png" if self.policy else name)
        if self.policy:
            figure = plotting.pendulum_policy(_pendulum_policy(self.runs[0]))
        else:
            figure = plotting.learning_curves(self.runs)
        plotting.write(figure, target)
        print(f"picture: {target}")
        if self.show:
            plotting.show(target)
        return exit_codes.DONE


@dataclasses.dataclass(frozen=True)
class Video:
    run: Run
    """folder of the run"""
    output: str | None = None
    """file to write, .mp4 or .gif; None: video.mp4 in the run"""
    episodes: int = 1
    """episodes to film, one after the other"""
    seed: int = 0
    """the k-th episode starts from env.reset(seed + k)"""
    env: str | None = None
    """environment to play in; None: the run's own. To be named if it is a module of the current folder"""
    sample: Flag = False
    """play samples of the policy instead of its mean or most likely action"""
    best: Flag = False
    """the best policy kept; without --best or --last: the best if there is one, else the last"""
    last: Flag = False
    """the policy at the run's end"""

    def __call__(self) -> int:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame then looks for no screen
        _search_here(self.env)
        from a3c_tf.playing.video import film

        target = Path(self.output) if self.output else Path(self.run) / "video.mp4"
        which = _which(self.best, self.last)
        returns = film(self.run, target, self.episodes, self.seed, self.sample, which, self.env)
        print(f"video: {target} (return {', '.join(f'{r:.1f}' for r in returns)})")
        return exit_codes.DONE


@dataclasses.dataclass(frozen=True)
class Export:
    run: Run
    """folder of the run"""
    directory: Annotated[Positional[str], tyro.conf.arg(metavar="DIR")]
    """new folder for the SavedModel"""
    best: Flag = False
    """the best policy kept; without --best or --last: the best if there is one, else the last"""
    last: Flag = False
    """the policy at the run's end"""

    def __call__(self) -> int:
        from a3c_tf.playing.export import export

        export(self.run, self.directory, _which(self.best, self.last))
        print(f"SavedModel: {self.directory}; tf.saved_model.load({self.directory!r}).signatures['serving_default']")
        return exit_codes.DONE


def _search_here(env: str | None) -> None:
    """Let Python find a module of the current folder, if a person named it.

    A run folder names an environment too, and may come from a stranger: what it names is looked for only
    where Python looks by itself.
    """
    if env and ":" in env:
        sys.path.append("")


@dataclasses.dataclass(frozen=True)
class ParameterServer:
    spec: str
    """cluster.json, the same on all hosts"""
    allow_open_port: Flag = False
    """needed: whoever reaches the port can run anything as you (SECURITY.md)"""

    def __call__(self) -> int:
        from a3c_tf.distributed import machines

        machines.serve(machines.Spec.read(self.spec), self.allow_open_port)
        return exit_codes.DONE


@dataclasses.dataclass(frozen=True)
class ClusterWorker:
    spec: str
    """cluster.json, the same on all hosts"""
    task: int
    """number of this worker process, from 0; 0 is the chief and keeps the run folder"""
    resume: Flag = False
    """--task 0: go on with the run in log_dir"""
    verbose: Flag = False
    """a line for each episode instead of the bar"""

    def __call__(self) -> int:
        from a3c_tf.distributed import machines

        result = machines.work(
            machines.Spec.read(self.spec), self.task, self.resume, "lines" if self.verbose else "auto"
        )
        if result:
            train.tell(result)
        return exit_codes.DONE


def _pendulum_policy(run: str) -> Any:
    from a3c_tf.playing.evaluate import load_policy

    policy = load_policy(run)
    if env_key(policy.config.env) != "Pendulum-v1":
        raise UsageError(f"--policy: expected a run on Pendulum-v1, got one on {policy.config.env_name}")
    return policy


_KINDS: dict[str, Callable[..., Any]] = {"evaluate": Evaluate, "plot": Plot, "video": Video, "export": Export}


_ROLES: dict[str, Callable[..., Any]] = {"ps": ParameterServer, "worker": ClusterWorker}


def run(name: str, summary: str, arguments: Sequence[str]) -> int:
    """Run the command ``name``; returns its exit code. Raises ``UsageError`` for what it does not take."""
    if name == "train":
        return _train(summary, arguments)
    if name == "cluster":
        return _cluster(summary, arguments)
    return int(_parse(_KINDS[name], name, summary, arguments)())


def _cluster(summary: str, arguments: Sequence[str]) -> int:
    role, *rest = arguments or ["--help"]
    if role in ("-h", "--help"):
        print(f"usage: a3c-tf cluster ps|worker [OPTIONS]\n\n{summary}\nEach has a --help; see docs/cluster.md.")
        return exit_codes.DONE
    if role not in _ROLES:
        raise UsageError(f"a3c-tf cluster {role}: expected ps or worker")
    return int(_parse(_ROLES[role], f"cluster {role}", summary, rest)())


def _train(summary: str, arguments: Sequence[str]) -> int:
    """The defaults, shown and compared with, are those of the preset, or of the run to go on with."""
    named = _named(arguments, "env", "preset", "resume", "processes")
    env, preset = named.get("env", Settings.env), named.get("preset")
    if "resume" in named:
        base = Config.read(RunFolder.of(named["resume"]).config)
    else:
        processes = int(named["processes"]) if named.get("processes", "").isdigit() else 0  # else _parse tells
        base = Config.preset(preset, env) if preset else Config.for_env(env)
        base = base.replace(processes=processes)
    _search_here(named.get("env"))
    defaults = Settings.of(base)
    asked = _parse(Train, "train", summary, arguments, Train(defaults))
    given = asked.settings.given(defaults)
    if not asked.resume:
        given["env"] = env
        if processes := asked.settings.processes:
            given["processes"] = processes
    return train.train(given, asked.preset, asked.resume, asked.verbose, asked.show)


def _parse(kind: Callable[..., Any], name: str, summary: str, arguments: Sequence[str], *default: Any) -> Any:
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            command, unknown = tyro.cli(
                kind,
                prog=f"a3c-tf {name}",
                description=summary,
                args=list(arguments),
                return_unknown_args=True,
                **({"default": default[0]} if default else {}),
            )
    except SystemExit as leave:
        if leave.code:
            raise UsageError(f"a3c-tf {name}: {_first_sentences(told.getvalue())}") from None
        raise
    if unknown:
        raise UsageError(f"a3c-tf {name}: {unknown[0]}: no such option{_nearest(unknown[0], command)}")
    return command


def _named(arguments: Sequence[str], *names: str) -> dict[str, str]:
    """The values of a few options, needed before the others' defaults are known."""
    found = {}
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=True):
        option, equals, value = argument.partition("=")
        if option.removeprefix("--") in names and (equals or not following.startswith("--")):
            found[option.removeprefix("--")] = value if equals else following
    return found


def _first_sentences(box: str) -> str:
    """tyro's message without its frame: what stands above the first ruling, on one line."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    ruling = next((i for i, line in enumerate(lines) if re.fullmatch(r"[─╰╯]+", line)), len(lines))
    return " ".join(lines[:ruling])


def _nearest(option: str, command: Any) -> str:
    names = [
        field.name for part in (command, getattr(command, "settings", command)) for field in dataclasses.fields(part)
    ]
    near = difflib.get_close_matches(option.split("=")[0].strip("-").replace("-", "_"), names, 1)
    return (
        f"; did you mean --{near[0].replace('_', '-')}?"
        if near
        else f"; see a3c-tf {type(command).__name__.lower()} --help"
    )


def _which(best: bool, last: bool) -> str | None:
    if best and last:
        raise UsageError("--best and --last: expected one of them")
    return "best" if best else "last" if last else None
