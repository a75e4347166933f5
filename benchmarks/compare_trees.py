"""Whether two checkouts of this project train alike, to the last bit.

python benchmarks/compare_trees.py BEFORE AFTER            with the Python that runs it; a minute
python benchmarks/compare_trees.py BEFORE AFTER --steps 50000

Each checkout trains every recipe below with one worker and a seed, through its own ``python -m a3c_tf train``.
The rows of ``metrics.csv`` and ``evaluations.csv`` (``wall_time`` aside) and every tensor of the last checkpoint,
optimizer slots and the run's state among them, and of the best policy are compared. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.graph.tf1 import tf

RECIPES = {
    "classic": ("classic", "Pendulum-v1", ()),
    "classic-adam": ("classic-adam", "Pendulum-v1", ()),
    "tuned, Pendulum": ("tuned", "Pendulum-v1", ()),
    "tuned, CartPole": ("tuned", "CartPole-v1", ()),
    "normalized observations": ("general", "Pendulum-v1", ("--normalize-observations",)),
    "scaled observations": ("tuned", "MountainCarContinuous-v0", ()),
}


def train(tree: Path, recipe: str, folder: Path, steps: int) -> None:
    preset, env, more = RECIPES[recipe]
    options = {"env": env, "preset": preset, "workers": 1, "seed": 3, "max-steps": steps, "log-dir": folder}
    options["evaluation-interval"] = steps // 3
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    subprocess.run(
        [sys.executable, "-m", "a3c_tf", "train", *words, *more],
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=folder.parent,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def contents(run: Path) -> dict[str, Any]:
    """All that a run came to, by name, without the times."""
    found: dict[str, Any] = {}
    for table in ("metrics.csv", "evaluations.csv"):
        with (run / table).open(newline="") as file:
            rows = [{k: v for k, v in row.items() if k != "wall_time"} for row in csv.DictReader(file)]
        found[table] = rows
    for folder in ("checkpoints", "best"):
        # the last one: those before it are of whatever step it was when it was time to save
        steps = [int(index.stem.rpartition("-")[2]) for index in (run / folder).glob("*.index")]
        reader = tf.train.load_checkpoint(str(run / folder / f"model.ckpt-{max(steps)}"))
        for name in reader.get_variable_to_shape_map():
            found[f"{folder} {name}"] = reader.get_tensor(name)
    return {name: _without_time(value) for name, value in found.items()}


def _without_time(value: Any) -> Any:
    if isinstance(value, bytes):  # the run's state, JSON
        return {name: number for name, number in json.loads(value or b"{}").items() if name != "wall_time"}
    return value


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    found = [f"only in one of them: {name}" for name in sorted(set(before) ^ set(after))]
    return found + [name for name in sorted(set(before) & set(after)) if not _same(before[name], after[name])]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs=2, metavar="TREE", help="a checkout of this project")
    parser.add_argument("--steps", type=int, default=4000, help="environment steps of each training")
    given = parser.parse_args()
    failed = False
    for recipe in RECIPES:
        with tempfile.TemporaryDirectory() as scratch:
            runs = [Path(scratch, name) for name in ("before", "after")]
            for tree, run in zip(given.trees, runs, strict=True):
                train(tree.resolve(), recipe, run, given.steps)
            before, after = (contents(run) for run in runs)
        found = differences(before, after)
        failed |= bool(found)
        rows, tensors = len(before["metrics.csv"]), sum(isinstance(value, np.ndarray) for value in before.values())
        print(
            f"{recipe}: {rows} episodes, {tensors} tensors: {'; '.join(found) or 'the same to the last bit'}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
