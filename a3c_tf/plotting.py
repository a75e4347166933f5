"""Pictures of a run, made from its CSV: no TensorFlow, and no screen unless one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def learning_curve(metrics: dict[str, np.ndarray], title: str) -> Any:
    """A figure of the columns of a ``metrics.csv``: episodes' returns faint, the running return strong."""
    from matplotlib.figure import Figure  # without pyplot: no window, no global state, any thread

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    steps = metrics["global_step"]
    axes.plot(steps, metrics["episode_return"], ".", ms=2.5, color="#4878a8", alpha=0.3, label="episode return")
    axes.plot(steps, metrics["running_return"], color="#b03a2e", lw=1.8, label="running return")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("environment steps, all workers")
    axes.set_ylabel("return of an episode")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    axes.legend(frameon=False, loc="lower right")
    return figure


def show(path: str | Path) -> None:
    """Open a window with a picture that was written; needs a screen, and the main thread."""
    import matplotlib.pyplot as plt

    plt.figure(figsize=(8, 4.5))
    plt.imshow(plt.imread(path))
    plt.axis("off")
    plt.tight_layout()
    plt.show()
