"""What a run tells while it trains: rows in metrics.csv, scalars in TensorBoard, lines or a bar."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from typing import Protocol

from tqdm import tqdm

from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.records import Episode, FinishedEpisode, RunState
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder
from a3c_tf.runs.tables import begin, cut_back
from a3c_tf.runs.tensorboard import Events

_log = logging.getLogger("a3c_tf")
CSV_FIELDS = ("wall_time", "global_step", "episode", "worker", "episode_return", "running_return", "episode_length")


class Display(Protocol):
    """Shows a person how training goes."""

    def episode(self, episode: Episode, count: FinishedEpisode) -> None: ...

    def close(self) -> None: ...


class Metrics:
    """Writes each finished episode where it belongs. One caller at a time.

    A run that goes on from ``state`` appends: rows after it are cut off first, for they will be told again.
    """

    def __init__(self, run: RunFolder, events: Events, display: Display, state: RunState) -> None:
        self._started = time.monotonic() - state.wall_time
        self._events, self._display = events, display
        self._run = run
        with writing(run.path):
            begin(run.metrics, CSV_FIELDS)
            kept = cut_back(run.metrics, "episode", state.episodes - 1)
            if kept != state.episodes:
                _log.warning("%s: %d rows are left of the run's %d episodes", run.metrics, kept, state.episodes)
            self._csv = run.metrics.open("a", encoding="utf-8", newline="")

    def wall_time(self) -> float:
        """Seconds of training since the start, those before a resume included."""
        return time.monotonic() - self._started

    def episode(self, episode: Episode, count: FinishedEpisode, report: dict[str, float]) -> None:
        """Record one finished episode, as a row with the fields of ``CSV_FIELDS``.

        ``wall_time`` is in seconds since the start, ``global_step`` and ``episode_length`` are in
        environment steps, returns in the environment's own rewards. ``report`` is its last rollout's, for TensorBoard.
        """
        with writing(self._run.metrics):
            self._csv.write(
                f"{self.wall_time():.3f},{count.global_step},{count.episode},{episode.worker},"
                f"{episode.episode_return!r},{count.running_return!r},{episode.length}\n"
            )
            self._csv.flush()
        self._events.episode(episode, count, report)
        self._display.episode(episode, count)

    def flush(self) -> None:
        """Write what is held back; to be called before a checkpoint that counts it.

        TensorFlow's save flushes the events' file as well, but passes over its errors.
        """
        self._events.flush()

    def close(self) -> None:
        """Each is closed, whatever becomes of the others; once more does nothing."""
        with writing(self._run.path), contextlib.ExitStack() as parts:
            for part in (self._csv, self._events, self._display):
                parts.callback(part.close)


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
