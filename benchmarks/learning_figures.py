"""Pictures for learning.py: a preset's curves over an original's, and what its policies are worth."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def read_original(path: Path) -> dict[str, list[np.ndarray]]:
    """Running returns of an original's runs, one array a run, by a label with the number of workers."""
    runs: dict[tuple[str, str], list[float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        kind = next(reader)[0]  # workers or processes
        for workers, seed, _, running_return in reader:
            runs.setdefault((workers, seed), []).append(float(running_return))
    by_label: dict[str, list[np.ndarray]] = {}
    for (workers, _), curve in runs.items():
        by_label.setdefault(f"original, {workers} {kind}", []).append(np.array(curve))
    return by_label


# Mean returns on Pendulum-v1: the optimum by dynamic programming over the reset distribution, and
# what the libraries publish for 1,000,000 (A2C), 100,000 (PPO) and fewer (SAC, TD3) steps.
PENDULUM_LEVELS = {
    "optimum": -138,
    "TD3": -152,
    "SAC": -157,
    "A2C (1,000,000 steps)": -163,
    "PPO (100,000 steps)": -172,
}
COLOURS = ("#b03a2e", "#2471a3", "#1e8449", "#7d3c98", "#b9770e", "#34495e")
Curves = Mapping[str, Sequence[dict[str, np.ndarray]]]
"""metrics of the runs of each row, by its label"""


def over_original(curves: Curves, original: Mapping[str, Sequence[np.ndarray]]) -> Any:
    """Our running returns per episode over an original's: one panel for each number of workers."""
    figure = _figure(7 * len(curves), 5)
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (label, runs) in zip(panels, curves.items(), strict=True):
        ours = _stacked([run["running_return"] for run in runs])
        _band(axes, np.arange(1, ours.shape[1] + 1), ours, COLOURS[1], f"ours: {label}, {len(runs)} seeds")
        theirs = _same_workers(label, original)
        for number, (name, run) in enumerate((name, run) for name, runs_ in theirs.items() for run in runs_):
            first = f"{name}, {len(theirs[name])} runs" if number == 0 else None
            axes.plot(np.arange(1, len(run) + 1), run, color="black", lw=0.6, alpha=0.6, label=first, zorder=1)
        axes.set_title("running return, ours with the median and all between lowest and highest", fontsize=9.5)
        axes.set_xlabel("episode, all workers")
        _finish(axes)
        axes.legend(frameon=False, loc="lower right")
    panels[0].set_ylabel("running return")
    return figure


def learning(curves: Curves, returns: Mapping[str, Sequence[float]], env: str) -> Any:
    """Left the runs' running return over the steps, right what each run's policy is worth."""
    figure = _figure(12, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    for (label, runs), colour in zip(curves.items(), _cycle(len(curves)), strict=True):
        steps = np.linspace(0, min(run["global_step"][-1] for run in runs), 400)
        on_grid = [np.interp(steps, run["global_step"], run["running_return"]) for run in runs]
        _band(left, steps, np.array(on_grid), colour, label)
    left.set_title(f"{env}: running return while training (median, lowest to highest seed)", fontsize=9.5)
    left.set_xlabel("training steps, all workers")
    left.set_ylabel("running return, actions sampled")
    left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _finish(left)
    left.legend(frameon=False, loc="lower right")
    _worth(right, returns, PENDULUM_LEVELS if env == "Pendulum-v1" else {})
    return figure


def _worth(axes: Any, returns: Mapping[str, Sequence[float]], levels: Mapping[str, float]) -> None:
    """A point for each seed, a bar at their mean, and the published levels as lines."""
    for x, (means, colour) in enumerate(zip(returns.values(), _cycle(len(returns)), strict=True)):
        spread = np.linspace(-0.16, 0.16, len(means)) if len(means) > 1 else np.zeros(1)
        axes.plot(x + spread, means, "o", ms=5, color=colour, alpha=0.65, mec="none")
        axes.plot([x - 0.25, x + 0.25], [np.mean(means)] * 2, color=colour, lw=2.5)
        axes.annotate(f"{np.mean(means):.1f}", (x + 0.27, np.mean(means)), va="center", fontsize=9, color=colour)
    for name, level in levels.items():
        axes.axhline(level, color="0.35", lw=0.9, ls="-" if name == "optimum" else (0, (4, 3)), zorder=0)
        axes.annotate(
            f" {level} {name}", (1, level), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color="0.25"
        )
    axes.set_title("return of the policy that is kept (mean action, a point for each seed)", fontsize=9.5)
    axes.set_xticks(range(len(returns)), [label.replace(", ", "\n") for label in returns], fontsize=9)
    axes.set_xlim(-0.5, len(returns) - 0.35)
    axes.set_ylabel("mean return")
    _finish(axes)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    return Figure(figsize=(width, height), layout="constrained")


def _band(axes: Any, x: np.ndarray, runs: np.ndarray, colour: str, label: str) -> None:
    axes.fill_between(x, runs.min(0), runs.max(0), color=colour, alpha=0.25, lw=0, zorder=2)
    axes.plot(x, np.median(runs, 0), color=colour, lw=1.8, label=label, zorder=3)


def _stacked(curves: Sequence[np.ndarray]) -> np.ndarray:
    shortest = min(map(len, curves))
    return np.array([curve[:shortest] for curve in curves])


def _same_workers(label: str, original: Mapping[str, Sequence[np.ndarray]]) -> Mapping[str, Sequence[np.ndarray]]:
    """The original's runs with the number of workers that ``label`` ends with; all if it ran no such."""
    number = label.split()[-2]
    same = {name: runs for name, runs in original.items() if name.split()[-2] == number}
    return same or original


def _cycle(number: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(number)]


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
