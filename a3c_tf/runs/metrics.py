"""Records each finished episode: a row in metrics.csv, scalars in TensorBoard, and the display."""

from __future__ import annotations

import contextlib
import logging
import time

from a3c_tf.records import Episode, FinishedEpisode, RunState
from a3c_tf.runs.display import Display
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder
from a3c_tf.runs.tables import begin, cut_back
from a3c_tf.runs.tensorboard import Events

_log = logging.getLogger("a3c_tf")
CSV_FIELDS = ("wall_time", "global_step", "episode", "worker", "episode_return", "running_return", "episode_length")


class Metrics:
    """Writes each finished episode where it belongs. One caller at a time.

    A run that goes on from ``state`` appends: rows after it are cut off first, for their episodes are run again.
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
