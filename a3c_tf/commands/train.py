"""A training as a program runs it: from what a person gave to where things are."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from a3c_tf.commands.exit_codes import DONE
from a3c_tf.config import Config

if TYPE_CHECKING:
    from a3c_tf.training.trainer import Result


def train(given: dict[str, Any], preset: str | None, resume: str | None, verbose: bool, show: bool) -> int:
    """Train with the settings ``given``, or go on with the run ``resume``, and say where things are.

    ``verbose`` prints a line an episode; ``show`` opens a window with the curve at the end.
    """
    display = "lines" if verbose else "auto"
    if not resume:
        config = Config.preset(preset, **given) if preset else Config.for_env(**given)
    elif preset:
        given = {**given, "preset_name": preset}
    first = "tensorflow" not in sys.modules
    from a3c_tf import api  # loads TensorFlow, so wrong settings are told before

    if first:
        gc.freeze()  # what was loaded stays to the end: Python need not search it for garbage, not even then
    result = api.resume(resume, display, **given) if resume else api.train(config, display)
    tell(result)
    if show:
        from a3c_tf.runs import plotting

        plotting.show(result.run_folder / "learning_curve.png")
    return DONE


def tell(result: Result) -> None:
    """Say what a run came to and where things are."""
    learnt = f"; running return {result.running_returns[-1]:.0f}" if len(result.returns) else ""
    print(
        f"{len(result.returns)} episodes, {result.steps:,} steps in {result.seconds:.1f} s{learnt}\n"
        f"curve:       {result.run_folder / 'learning_curve.png'}\n"
        f"metrics:     {result.run_folder / 'metrics.csv'}\n"
        f"checkpoints: {result.run_folder / 'checkpoints'}\n"
        f"graph:       tensorboard --logdir {result.run_folder}"
    )
