"""Build sdist and wheel, install the wheel in a clean virtual environment for each Python named, and use it there.

python tests/smoke.py python3.10 python3.11 python3.12 python3.13
python tests/smoke.py python3.12 --with tensorflow==2.20.0

Takes some minutes for each, and downloads what `pip install` does. `make smoke` is the first of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRAIN = ["a3c-tf", "train", "--workers", "2", "--seed", "0", "--log-dir", "run"]
LIGHT = """
import sys, a3c_tf
assert a3c_tf.__file__.startswith(sys.prefix), a3c_tf.__file__
assert "tensorflow" not in sys.modules
"""
PLAYED = """
import tensorflow as tf, a3c_tf
play = tf.saved_model.load("model").signatures["serving_default"]
action = play(observation=tf.constant([[1.0, 0.0, 0.0]]))["action"].numpy()[0]
assert abs(action - a3c_tf.load_policy("run")([1.0, 0.0, 0.0])) < 1e-5
"""
# what is run, and what it must print
STEPS: list[tuple[list[str], str]] = [
    (["python", "-c", LIGHT], ""),
    (["a3c-tf", "--help"], "usage: a3c-tf COMMAND"),
    ([*TRAIN, "--episodes", "4"], "4 episodes, 800 steps"),
    (["a3c-tf", "train", "--resume", "run", "--episodes", "6"], "6 episodes, 1,200 steps"),
    (["a3c-tf", "evaluate", "run", "--episodes", "2"], "over 2 episodes"),
    (["a3c-tf", "plot", "run"], "picture: run/learning_curve.png"),
    (["a3c-tf", "export", "run", "model"], "SavedModel: model"),
    (["python", "-c", PLAYED], ""),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreters, by name or path")
    parser.add_argument("--with", dest="pins", nargs="+", default=[], help="versions to install the wheel with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = _built(Path(folder))
        for number, python in enumerate(arguments.pythons):
            place = Path(folder) / str(number)
            subprocess.run([python, "-m", "venv", place / "venv"], check=True)
            _pip(place / "venv", wheel, *arguments.pins)
            _use(place)
    return 0


def _built(folder: Path) -> Path:
    """The wheel, made from the sdist as ``python -m build`` does."""
    venv.create(folder / "build", with_pip=True)
    _pip(folder / "build", "build")
    _run([folder / "build" / "bin" / "python", "-m", "build", "--outdir", folder / "dist", ROOT], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert len([*(folder / "dist").glob("*.tar.gz")]) == 1
    return wheel


def _use(place: Path) -> None:
    for (program, *arguments), printed in STEPS:
        out = _run([place / "venv" / "bin" / program, *arguments], place)
        assert printed in out, f"{program} {arguments}: expected {printed!r} in:\n{out}"
    versions = _run([place / "venv" / "bin" / "pip", "list", "--format", "freeze"], place).split()
    told = [
        line for line in versions if line.partition("==")[0] in ("tensorflow", "numpy", "gym", "tyro", "matplotlib")
    ]
    python = _run([place / "venv" / "bin" / "python", "--version"], place).strip()
    print(f"{python}: works with {', '.join(told)}", flush=True)


def _pip(folder: Path, *what: Path | str) -> None:
    _run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *what], folder)


def _run(command: list[Path | str], folder: Path) -> str:
    """What the command prints. It sees none of this repository but what was installed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
