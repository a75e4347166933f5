"""Shows a person how training goes: a progress bar, a line an episode, or nothing."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from tqdm import tqdm

from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.records import Episode, FinishedEpisode, RunState


class Display(Protocol):
    """Shows a person how training goes."""

    def episode(self, episode: Episode, count: FinishedEpisode) -> None: ...

    def close(self) -> None: ...


class PlainLines:
    """One line an episode, in the original's form: ``W_0 Ep: 12 | Ep_r: -1043``."""

    def episode(self, episode: Episode, count: FinishedEpisode) -> None:
        print(f"{episode.worker} Ep: {count.episode} | Ep_r: {int(count.running_return)}", flush=True)

    def close(self) -> None:
        pass


class ProgressBar:
    """A bar over the budget, with the running return and steps per second."""

    def __init__(self, config: Config, state: RunState) -> None:
        self._by_steps = config.max_episodes is None
        self._bar = tqdm(
            total=config.max_steps if self._by_steps else config.max_episodes,
            initial=state.steps if self._by_steps else state.episodes,
            unit="step" if self._by_steps else "episode",
            mininterval=0.2,
            dynamic_ncols=True,
            bar_format="{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} {unit}s [{elapsed}<{remaining}{postfix}]",
        )
        self._started, self._first_step = time.monotonic(), state.steps

    def episode(self, episode: Episode, count: FinishedEpisode) -> None:
        speed = (count.global_step - self._first_step) / (time.monotonic() - self._started)
        postfix = f"running return {count.running_return:.0f}, {speed:,.0f} steps/s"
        self._bar.set_postfix_str(postfix, refresh=False)
        self._bar.update((count.global_step if self._by_steps else count.episode + 1) - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class Nothing:
    """Shows nothing."""

    def episode(self, episode: Episode, count: FinishedEpisode) -> None:
        pass

    def close(self) -> None:
        pass


def check_show(show: str) -> None:
    """Raises ``UsageError`` if ``show`` is none of the words that ``display`` takes."""
    if show not in ("auto", "lines", "none"):
        raise UsageError(f"show = {show!r}: expected 'auto', 'lines' or 'none'")


def display(show: str, config: Config, state: RunState) -> Display:
    """``auto``: a bar on a terminal, else lines; ``lines``; ``none``."""
    if show == "none":
        return Nothing()
    return ProgressBar(config, state) if show == "auto" and sys.stderr.isatty() else PlainLines()
