"""Train A3C on Pendulum and leave the learning curve, the metrics and TensorBoard's files in a run folder.

python demos/pendulum_a3c.py --workers 2 --seed 0
"""

from __future__ import annotations

import argparse
import sys

from a3c_tf.config import Config
from a3c_tf.programs import exit_code


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Pendulum-v1", help="id of gym, or gymnasium:ID (default: %(default)s)")
    parser.add_argument("--preset", help="settings to start from (default: classic on Pendulum-v1)")
    parser.add_argument("--episodes", type=int, help="episodes of all workers together (classic: 2000)")
    parser.add_argument("--workers", type=int, help="worker threads (default: one for each CPU)")
    parser.add_argument("--seed", type=int, help="seed of weights, environments and exploration (default: a fresh one)")
    parser.add_argument("--log-dir", help="run folder (default: runs/<environment>-<time>)")
    parser.add_argument("--verbose", action="store_true", help="a line for each episode instead of the bar")
    parser.add_argument("--show", action="store_true", help="open a window with the curve at the end")
    return parser.parse_args()


def make_config(arguments: argparse.Namespace) -> Config:
    given = {
        "max_episodes": arguments.episodes,
        "workers": arguments.workers,
        "seed": arguments.seed,
        "log_dir": arguments.log_dir,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if arguments.preset is None:
        return Config.for_env(arguments.env, **changes)
    return Config.preset(arguments.preset, arguments.env, **changes)


def main() -> int:
    arguments = parse_arguments()
    config = make_config(arguments)
    from a3c_tf.trainer import train  # loads TensorFlow, so wrong settings are told before

    result = train(config, show="lines" if arguments.verbose else "auto")
    print(
        f"{len(result.returns)} episodes, {result.steps:,} steps in {result.seconds:.1f} s; "
        f"running return {result.running_returns[-1]:.0f}\n"
        f"curve:       {result.run_folder / 'learning_curve.png'}\n"
        f"metrics:     {result.run_folder / 'metrics.csv'}\n"
        f"checkpoints: {result.run_folder / 'checkpoints'}\n"
        f"graph:       tensorboard --logdir {result.run_folder}"
    )
    if arguments.show:
        from a3c_tf import plotting

        plotting.show(result.run_folder / "learning_curve.png")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
