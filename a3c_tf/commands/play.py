"""``a3c-tf evaluate``, ``plot``, ``video`` and ``export``: what is done with a run.

What needs TensorFlow or matplotlib is imported by the command that needs it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from a3c_tf.commands import exit_codes
from a3c_tf.commands.parsing import Flag, Run, parse, search_here
from a3c_tf.environment_names import env_key
from a3c_tf.errors import UsageError


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
        from a3c_tf.playing.evaluate import evaluate
        from a3c_tf.playing.policy import load_policy

        search_here(self.env)
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
        search_here(self.env)
        from a3c_tf.playing.policy import load_policy
        from a3c_tf.playing.video import film

        target = Path(self.output) if self.output else Path(self.run) / "video.mp4"
        policy = load_policy(self.run, _which(self.best, self.last))
        returns = film(policy, target, self.env, self.episodes, self.seed, self.sample).returns
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


_KINDS: dict[str, Callable[..., Any]] = {"evaluate": Evaluate, "plot": Plot, "video": Video, "export": Export}


def run(name: str, summary: str, arguments: Sequence[str]) -> int:
    """Run the command ``name``; returns its exit code. Raises ``UsageError`` for what it does not take."""
    return int(parse(_KINDS[name], name, summary, arguments)())


def _pendulum_policy(run: str) -> Any:
    from a3c_tf.playing.policy import load_policy

    policy = load_policy(run)
    if env_key(policy.config.env) != "Pendulum-v1":
        raise UsageError(f"--policy: expected a run on Pendulum-v1, got one on {policy.config.env_name}")
    return policy


def _which(best: bool, last: bool) -> str | None:
    if best and last:
        raise UsageError("--best and --last: expected one of them")
    return "best" if best else "last" if last else None
