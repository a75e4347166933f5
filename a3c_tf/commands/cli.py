"""``a3c-tf``: the commands, and their help, which appears at once. What a command needs is imported when it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from a3c_tf.commands import exit_codes
from a3c_tf.errors import UsageError

COMMANDS = {
    "train": ("train_options", "Train a policy; everything is left in a run folder."),
    "evaluate": ("play", "Play a trained policy and print its mean return ± the standard deviation over episodes."),
    "plot": ("play", "Draw the learning curves of runs, or the policy that one has learnt."),
    "video": ("play", "Film a trained policy, without a screen."),
    "export": ("play", "Write a trained policy as a SavedModel that plain TensorFlow 2 loads."),
    "cluster": ("cluster", "Train on several machines: be the parameter server, or one of the workers."),
}
"""(module, summary) of each"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns the exit code, as ``programs`` says."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    return exit_codes.exit_code(lambda: _run(*arguments))


def _run(name: str | None = None, *arguments: str) -> int:
    if name in (None, "-h", "--help"):
        print(_help())
        return exit_codes.DONE if name else exit_codes.REFUSED
    if name == "--version":
        from a3c_tf import __version__

        print(__version__)
        return exit_codes.DONE
    if name not in COMMANDS:
        raise UsageError(f"a3c-tf {name}: no such command; there are {', '.join(COMMANDS)}")
    module, summary = COMMANDS[name]
    return int(importlib.import_module(f"a3c_tf.commands.{module}").run(name, summary, arguments))


def _help() -> str:
    lines = [f"  {name:9} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: a3c-tf COMMAND [OPTIONS]",
            "",
            "A3C in TensorFlow 1 graph style on TensorFlow 2.",
            "",
            *lines,
            "",
            "a3c-tf COMMAND --help shows a command's options. Examples:",
            "  a3c-tf train --env Pendulum-v1 --preset classic --workers 2 --seed 0 --log-dir runs/pendulum",
            "  a3c-tf evaluate runs/pendulum",
        ]
    )
