"""What a preset learns: runs it over seeds, writes a Markdown table and a picture with the spread.

python benchmarks/learning.py --preset tuned --seeds 0-9 --workers 1 2 4 --jobs 2 --out runs/tuned

Each run is a process's own and leaves its run folder in --out, with the figures of its policy in
result.json. Called again, it goes on where it was stopped: what is there is not run again. The policy is
the one that ``load_policy`` gives, played with the mean action from starts that no training sees.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import learning_figures
import numpy as np

from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.config import Config
from a3c_tf.environment_names import env_key
from a3c_tf.errors import UsageError
from a3c_tf.runs.tables import read_columns

FIRST_START = 10_000
"""seed of the first evaluation episode: used in neither training nor selection"""
BUDGET = ("max_episodes", "max_steps")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table: the same settings over all seeds."""

    label: str
    configs: list[Config]
    results: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    folders: list[Path] = dataclasses.field(default_factory=list)

    def of(self, name: str) -> list[float]:
        return [result[name] for result in self.results]

    def metrics(self) -> list[dict[str, np.ndarray]]:
        """The columns of each run's metrics.csv."""
        return [read_columns(folder / "metrics.csv", "running_return") for folder in self.folders]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="tuned", help="(default: %(default)s)")
    parser.add_argument("--env", default="Pendulum-v1", help="(default: %(default)s)")
    parser.add_argument("--seeds", default="0-9", type=seeds, help="as 0-9 or 0,3,5 (default: 0-9)")
    parser.add_argument("--workers", default=[1], type=int, nargs="+", help="a row each (default: 1)")
    parser.add_argument("--episodes", type=int, help="max_episodes, in place of the preset's")
    parser.add_argument("--steps", type=int, help="max_steps, in place of the preset's")
    parser.add_argument("--set", default=[], type=setting, nargs="+", metavar="NAME=VALUE", help="other changes")
    parser.add_argument("--ablate", action="store_true", help="a row for each setting put back to classic's")
    parser.add_argument("--jobs", default=1, type=int, help="runs at a time (default: 1)")
    parser.add_argument("--plays", default=500, type=int, help="episodes that judge a policy (default: 500)")
    parser.add_argument("--out", required=True, type=Path, help="folder of the runs, table.md and figure.png")
    parser.add_argument("--figure", type=Path, help="the picture's file (default: figure.png in --out)")
    parser.add_argument(
        "--report",
        nargs=2,
        metavar=("FILE", "SECTION"),
        help="also put the tables into a document, between <!-- SECTION --> and <!-- end of SECTION -->",
    )
    parser.add_argument(
        "--over",
        type=Path,
        help="curves of an original to lay ours over: original_curves.csv or original_adam_curves.csv",
    )
    return parser.parse_args()


def seeds(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(seed) for seed in text.split(",")]


def setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:  # a word
        return name, value


def make_rows(arguments: argparse.Namespace) -> list[Row]:
    """The rows of the table, each with a configuration for each seed."""
    changes = dict(arguments.set)
    for name, value in zip(BUDGET, (arguments.episodes, arguments.steps), strict=True):
        if value is not None:
            changes[name] = value
    variants = [(arguments.preset, changes)]
    if arguments.ablate:
        variants += ablations(arguments.preset, arguments.env, changes)
    rows = []
    for label, settings in variants:
        for workers in arguments.workers:
            seeded = [{**settings, "workers": workers, "seed": seed} for seed in arguments.seeds]
            configs = [Config.preset(arguments.preset, arguments.env, **each) for each in seeded]
            rows.append(Row(f"{label}, {who(configs[0])}", configs))
    return rows


def who(config: Config) -> str:
    """Who trains: "1 worker", "2 workers", "2 processes"."""
    if config.processes:
        of = f" of {config.workers} workers" if config.worker_count > 1 else ""
        return f"{config.processes} {'process' if config.processes == 1 else 'processes'}{of}"
    return f"{config.workers} {'worker' if config.workers == 1 else 'workers'}"


def ablations(preset: str, env: str, changes: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """For each setting that differs from the original's: a label, and the changes that put it back."""
    ours, original = Config.preset(preset, env, workers=1, **changes), Config(workers=1)
    skipped = ("env", "preset_name", *BUDGET, *changes)
    variants = []
    for field in dataclasses.fields(Config):
        was, now = getattr(original, field.name), getattr(ours, field.name)
        if was != now and field.name not in skipped:
            variants.append((f"`{field.name}` {now} → {was}", {**changes, field.name: was}))
    return variants


def run_all(rows: list[Row], out: Path, jobs: int, plays: int) -> None:
    """Run what is not there yet, ``jobs`` at a time, and collect the results of all."""
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            asked = [[pool.submit(run_one, config, out, plays) for config in row.configs] for row in rows]
            for row, futures in zip(rows, asked, strict=True):
                for future in futures:
                    folder = future.result()
                    row.folders.append(folder)
                    row.results.append(json.loads((folder / "result.json").read_text(encoding="utf-8")))
                    print(f"{row.label}, {folder.name}: {row.results[-1]['mean']:.1f}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run_one(config: Config, out: Path, plays: int) -> Path:
    """Train and judge one configuration, unless it is there; returns its folder, made in one piece."""
    folder = out / folder_name(config)
    if folder.exists():
        if Config.read(folder / "config.json").replace(log_dir=None) != config:
            raise UsageError(f"{folder}: holds a run with other settings; name another --out")
        return folder
    from a3c_tf.api import train
    from a3c_tf.playing.evaluate import evaluate
    from a3c_tf.playing.policy import load_policy

    with tempfile.TemporaryDirectory(dir=out, prefix="unfinished-") as unfinished:
        run = Path(unfinished) / "run"
        result = train(config.replace(log_dir=str(run)), show="none")
        played = evaluate(load_policy(run), episodes=plays, seed=FIRST_START)
        figures = {
            "mean": played.mean,
            "deviation": played.deviation,
            "steps": result.steps,
            "evaluation_steps": result.evaluation_steps,
            "seconds": result.seconds,
        }
        (run / "result.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        run.rename(folder)
    return folder


def folder_name(config: Config) -> str:
    """Names every setting that is not the preset's, so that two configurations never share a folder."""
    preset = Config.preset(config.preset_name, config.env, workers=config.workers, seed=config.seed)
    changes = [
        f"-{field.name}={getattr(config, field.name)}"
        for field in dataclasses.fields(Config)
        if getattr(config, field.name) != getattr(preset, field.name)
    ]
    return f"{config.preset_name}-{env_key(config.env)}{''.join(changes)}-workers={config.workers}-seed={config.seed}"


def table(rows: Sequence[Row]) -> str:
    titles = ["", "seeds", "mean return", "deviation over seeds", "worst seed", "training steps"]
    lines = [[*titles, "evaluation steps", "seconds a run"]]
    for row in rows:
        means = row.of("mean")
        deviation = statistics.stdev(means) if len(means) > 1 else 0.0
        numbers = [f"{statistics.mean(means):.1f}", f"{deviation:.1f}", f"{min(means):.1f}"]
        counts = [f"{statistics.mean(row.of(name)):,.0f}" for name in ("steps", "evaluation_steps", "seconds")]
        lines.append([row.label, str(len(means)), *numbers, *counts])
    return markdown(lines)


def curve_table(rows: Sequence[Row], original: dict[str, list[np.ndarray]]) -> str:
    """Running return at some episodes, ours beside the original's: the median over runs, and lowest to highest."""
    ours = {row.label: [run["running_return"] for run in row.metrics()] for row in rows}
    length = min(len(curve) for curves in [*ours.values(), *original.values()] for curve in curves)
    marks = [mark for mark in (500, 1000, 2000, 3000) if mark <= length]
    lines = [["running return", "runs", *(f"episode {mark}" for mark in marks), "mean over the last 100"]]
    for label, curves in [*original.items(), *ours.items()]:
        columns = [[curve[mark - 1] for curve in curves] for mark in marks]
        columns.append([float(curve[length - 100 : length].mean()) for curve in curves])
        cells = [f"{statistics.median(c):.0f} ({min(c):.0f} to {max(c):.0f})" for c in columns]
        lines.append([label, str(len(curves)), *cells])
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    rule = "|" + " --- |" + " ---: |" * (len(lines[0]) - 1)
    return "\n".join([head, rule, *body]) + "\n"


def put_into(document: Path, section: str, text: str) -> None:
    """Replace what stands between a section's two marks. Raises ``UsageError`` if they are not there."""
    before, begin, rest = document.read_text(encoding="utf-8").partition(f"<!-- {section} -->\n")
    _, end, after = rest.partition(f"<!-- end of {section} -->\n")
    if not (begin and end):
        raise UsageError(f"{document}: expected the lines <!-- {section} --> and <!-- end of {section} -->")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def provenance() -> str:
    """The command and the versions that made the figures."""
    packages = ("tensorflow", "gym", "numpy")
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    command = f"python benchmarks/learning.py {shlex.join(sys.argv[1:])}"
    return f"    {command}\n\nPython {platform.python_version()}, {versions}, {os.cpu_count()} CPUs\n"


def main() -> int:
    arguments = parse_arguments()
    rows = make_rows(arguments)
    original = learning_figures.read_original(arguments.over) if arguments.over else {}
    run_all(rows, arguments.out, arguments.jobs, arguments.plays)
    parts = [provenance(), table(rows)]
    if original:
        parts.append(curve_table(rows, original))
    (arguments.out / "table.md").write_text("\n".join(parts), encoding="utf-8")
    if arguments.report:
        put_into(Path(arguments.report[0]), arguments.report[1], "\n".join(parts))
    print("\n" + "\n".join(parts))
    curves = {row.label: row.metrics() for row in rows}
    if original:
        figure = learning_figures.over_original(curves, original)
    else:
        figure = learning_figures.learning(curves, {row.label: row.of("mean") for row in rows}, env_key(arguments.env))
    picture = arguments.figure or arguments.out / "figure.png"
    figure.savefig(picture, dpi=130)
    print(f"picture: {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
