"""A training as a program runs it: from what a person gave to where things are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from a3c_tf.commands.exit_codes import DONE
from a3c_tf.config import Config

if TYPE_CHECKING:
    from a3c_tf.training.trainer import Result


def train(config: Config, verbose: bool, show: bool) -> int:
    """Train, and say where things are.

    ``verbose`` prints a line an episode; ``show`` opens a window with the curve at the end.
    """
    return _reported(lambda api: api.train(config, _display(verbose)), show)


def resume(run_folder: str, given: dict[str, Any], verbose: bool, show: bool) -> int:
    """Go on with a run, with the settings ``given`` for that. The rest is as of ``train``."""
    return _reported(lambda api: api.resume(run_folder, _display(verbose), **given), show)


def _display(verbose: bool) -> str:
    return "lines" if verbose else "auto"


def _reported(training: Callable[[Any], Result], show: bool) -> int:
    first = "tensorflow" not in sys.modules
    from a3c_tf import api  # loads TensorFlow, so wrong settings are refused before

    if first:
        gc.freeze()  # what was loaded stays to the end: Python need not search it for garbage, not even then
    result = training(api)
    report(result)
    if show:
        from a3c_tf.runs import plotting

        plotting.show(result.run_folder / "learning_curve.png")
    return DONE


def report(result: Result) -> None:
    """Say what a run came to and where things are."""
    learnt = f"; running return {result.running_returns[-1]:.0f}" if len(result.returns) else ""
    print(
        f"{len(result.returns)} episodes, {result.steps:,} steps in {result.seconds:.1f} s{learnt}\n"
        f"curve:       {result.run_folder / 'learning_curve.png'}\n"
        f"metrics:     {result.run_folder / 'metrics.csv'}\n"
        f"checkpoints: {result.run_folder / 'checkpoints'}\n"
        f"graph:       tensorboard --logdir {result.run_folder}"
    )
