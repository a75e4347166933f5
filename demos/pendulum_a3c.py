"""Train A3C on Pendulum and leave the learning curve, the metrics and TensorBoard's files in a run folder.

python demos/pendulum_a3c.py --workers 2 --seed 0
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

from a3c_tf.commands import exit_codes, train
from a3c_tf.config import Config
from a3c_tf.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Refuses in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def parse_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", help="id of gym, or gymnasium:ID (default: Pendulum-v1)")
    parser.add_argument("--preset", help="settings to start from (default: classic on Pendulum-v1)")
    parser.add_argument("--episodes", type=whole, help="episodes of all workers together (classic: 2000)")
    parser.add_argument(
        "--workers", type=whole, help="worker threads (default: one for each CPU, or one in each of several processes)"
    )
    parser.add_argument("--processes", type=whole, help="worker processes around a parameter server (default: none)")
    parser.add_argument(
        "--seed", type=whole, help="seed of weights, environments and exploration (default: a fresh one)"
    )
    parser.add_argument("--log-dir", help="run folder (default: runs/<environment>-<time>)")
    parser.add_argument("--resume", metavar="RUN", help="go on with the run in this folder")
    parser.add_argument("--verbose", action="store_true", help="a line for each episode instead of the bar")
    parser.add_argument("--show", action="store_true", help="open a window with the curve at the end")
    arguments, unknown = parser.parse_known_args()
    if unknown:
        options = ", ".join(re.findall(r"--[a-z-]+", parser.format_usage()))
        raise UsageError(f"{unknown[0]}: no such option; there are {options}")
    return arguments


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {
        "env": arguments.env,
        "max_episodes": arguments.episodes,
        "workers": arguments.workers,
        "processes": arguments.processes,
        "seed": arguments.seed,
        "log_dir": arguments.log_dir,
    }
    return {name: value for name, value in given.items() if value is not None}


def main() -> int:
    arguments = parse_arguments()
    given = given_settings(arguments)
    if arguments.resume:
        preset = {"preset_name": arguments.preset} if arguments.preset else {}
        return train.resume(arguments.resume, given | preset, arguments.verbose, arguments.show)
    config = Config.preset(arguments.preset, **given) if arguments.preset else Config.for_env(**given)
    return train.train(config, arguments.verbose, arguments.show)


if __name__ == "__main__":
    sys.exit(exit_codes.exit_code(main))
