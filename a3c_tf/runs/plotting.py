"""Pictures of runs, made from their files: no TensorFlow, and no screen unless one is asked for."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.runs.files import written_whole
from a3c_tf.runs.folder import RunFolder
from a3c_tf.runs.tables import read_columns

_log = logging.getLogger("a3c_tf")
_COLORS = ("#b03a2e", "#2e6fb0", "#3a8f4d", "#8e5aa8", "#c98a1b", "#4a4a4a")


class PlayedPolicy(Protocol):
    """What a picture needs of a policy, for flat observations [K, N_S] float32."""

    def act(self, observations: np.ndarray) -> np.ndarray: ...

    def value(self, observations: np.ndarray) -> np.ndarray: ...


def learning_curves(folders: Sequence[str | Path]) -> Any:
    """A figure of runs' returns over steps, read from their CSV files.

    A run by itself: episodes' returns faint, the running return strong, its evaluations as points. Runs
    that differ only in their seed: the mean of their running returns ± the standard deviation.
    Raises ``UsageError`` for a folder that is no run.
    """
    runs = [RunFolder.of(folder) for folder in folders]
    if len(runs) == 1:
        return _curve_of(runs[0])
    figure, axes = _curve_axes()
    _draw_groups(axes, _by_settings(runs))
    axes.set_title("running return", fontsize=11)
    axes.legend(frameon=False, loc="best")
    return figure


def learning_curve(metrics: dict[str, np.ndarray], title: str, evaluations: dict[str, np.ndarray] | None = None) -> Any:
    """A figure of the columns of a run's ``metrics.csv`` and, if it has one, its ``evaluations.csv``."""
    figure, axes = _curve_axes()
    steps = metrics["global_step"]
    axes.plot(steps, metrics["episode_return"], ".", ms=2.5, color="#4878a8", alpha=0.3, label="episode return")
    axes.plot(steps, metrics["running_return"], color=_COLORS[0], lw=1.8, label="running return")
    if evaluations:
        label = "evaluation without exploration"
        axes.plot(evaluations["global_step"], evaluations["mean_return"], "k.-", lw=0.6, ms=5, label=label)
    axes.set_title(title, fontsize=11)
    axes.legend(frameon=False, loc="best")
    return figure


def pendulum_policy(policy: PlayedPolicy) -> Any:
    """A figure of a Pendulum policy: its torque and its state value over the pole's angle and speed."""
    angles, speeds = np.linspace(-np.pi, np.pi, 181), np.linspace(-8, 8, 161)
    angle, speed = (grid.ravel() for grid in np.meshgrid(angles, speeds))
    observations = np.stack([np.cos(angle), np.sin(angle), speed], axis=1).astype(np.float32)
    figure, (left, right) = _figure((10, 4.2), columns=2)
    pictures = (
        (left, policy.act(observations), "torque of the mean action (N m)", {"cmap": "RdBu_r", "vmin": -2, "vmax": 2}),
        (right, policy.value(observations), "state value (rewards as the learner sees them)", {"cmap": "viridis"}),
    )
    for axes, numbers, title, colors in pictures:
        shown = numbers.reshape(len(speeds), len(angles))
        image = axes.pcolormesh(np.degrees(angles), speeds, shown, shading="nearest", rasterized=True, **colors)
        figure.colorbar(image, ax=axes)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("angle from upright (degrees)")
        axes.set_ylabel("angular speed (rad/s)")
        axes.set_xticks([-180, -90, 0, 90, 180])
    return figure


def write(figure: Any, path: str | Path) -> None:
    """Write a figure as the kind of picture that the name ends in. Raises ``UsageError`` if that cannot be."""
    target = Path(path)
    if target.suffix[1:] not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"picture {path}: expected a name that ends in .png, .pdf or .svg")
    try:
        with written_whole(target) as new:
            figure.savefig(new, dpi=130, format=target.suffix[1:])
    except OSError as error:
        raise UsageError(f"picture {path}: cannot be written: {error.strerror or error}") from None


def show(path: str | Path) -> None:
    """Open a window with a picture that was written, in the main thread; without a screen only say so."""
    import matplotlib.pyplot as plt

    plt.figure(figsize=(8, 4.5))
    if plt.get_backend().lower() == "agg":  # what is left where no window can be opened
        _log.warning("no window can be opened: there is no screen, or no package that draws on it; see %s", path)
        return
    plt.imshow(plt.imread(path))
    plt.axis("off")
    plt.tight_layout()
    plt.show()


def _figure(size: tuple[float, float], columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # without pyplot: no window, no global state, any thread

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(1, columns)


def _curve_axes() -> tuple[Any, Any]:
    figure, axes = _figure((8, 4.5))
    axes.set_xlabel("environment steps, all workers")
    axes.set_ylabel("return (sum of an episode's rewards)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    return figure, axes


def _curve_of(run: RunFolder) -> Any:
    config, metrics = Config.read(run.config), read_columns(run.metrics, "running_return")
    steps = int(metrics["global_step"][-1]) if metrics["global_step"].size else 0
    workers = "1 worker" if config.worker_count == 1 else f"{config.worker_count} workers"
    title = f"{config.env_name}, preset {config.preset_name}, seed {config.seed}, {workers}, {steps:,} steps"
    evaluations = read_columns(run.evaluations, "mean_return") if run.evaluations.is_file() else None
    return learning_curve(metrics, title, evaluations)


def _draw_groups(axes: Any, groups: dict[Config, list[RunFolder]]) -> None:
    names = _telling_names(list(groups))
    for i, (config, runs) in enumerate(groups.items()):
        curves = [read_columns(run.metrics, "running_return") for run in runs]
        if any(curve["global_step"].size == 0 for curve in curves):
            raise UsageError(f"{names[config]}: expected runs with episodes; one has finished none yet")
        steps = np.linspace(
            max(curve["global_step"][0] for curve in curves), min(curve["global_step"][-1] for curve in curves), 400
        )
        returns = np.stack([np.interp(steps, curve["global_step"], curve["running_return"]) for curve in curves])
        mean, deviation, color = returns.mean(axis=0), returns.std(axis=0), _COLORS[i % len(_COLORS)]
        spread = f", mean of {len(runs)} runs ± deviation" if len(runs) > 1 else ""
        axes.plot(steps, mean, color=color, lw=1.8, label=names[config] + spread)
        axes.fill_between(steps, mean - deviation, mean + deviation, color=color, alpha=0.2, lw=0)


def _by_settings(runs: list[RunFolder]) -> dict[Config, list[RunFolder]]:
    """The runs, grouped by all their settings but the seed and the folder."""
    groups: dict[Config, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault(Config.read(run.config).replace(seed=None, log_dir=None), []).append(run)
    return groups


def _telling_names(configs: list[Config]) -> dict[Config, str]:
    """A name for each of some settings: environment and preset, and whatever else they differ in."""
    always = ("env", "preset_name")
    fields = [field.name for field in dataclasses.fields(Config)]
    differing = [field for field in fields if len({getattr(config, field) for config in configs}) > 1]
    presets_tell = len({config.preset_name for config in configs}) == len(configs)
    more = [] if presets_tell else [field for field in differing if field not in always]
    return {
        config: ", ".join(
            [config.env_name, config.preset_name, *(f"{field} {getattr(config, field)}" for field in more)]
        )
        for config in configs
    }
