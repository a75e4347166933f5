"""What TensorBoard shows of a run: the graph, scalars over the global step, histograms, the settings."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from a3c_tf.config import Config
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Episode, FinishedEpisode
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder

SCALARS_SECONDS = 0.25
"""time between two reports on the learner: written for each episode, they would cost more than they show"""
HISTOGRAMS_SECONDS = 30.0
_WRITE_ERRORS = (OSError, tf.errors.OpError, LookupError, RuntimeError)
"""what a FileWriter raises if the disk is full or gone depends on the system's error number"""


class Events:
    """A run's event file. One caller at a time.

    ``graph_def`` is the graph as built; ``read_weights`` gives the global network's variables by name. A run
    that goes on from ``steps`` leaves the earlier files as they are.
    """

    def __init__(
        self,
        run: RunFolder,
        graph_def: Any,
        config: Config,
        steps: int,
        read_weights: Callable[[], dict[str, np.ndarray]],
    ) -> None:
        self._config, self._read_weights = config, read_weights
        self._writing = functools.partial(writing, run.path, _WRITE_ERRORS)
        # a FileWriter refuses to be made in eager mode
        with self._writing(), tf.Graph().as_default():
            self._writer = tf.summary.FileWriter(str(run.path), flush_secs=10, filename_suffix=_suffix(run))
            self._writer.add_event(tf.Event(graph_def=graph_def.SerializeToString(), wall_time=time.time()))
            if steps:  # TensorBoard then drops what earlier files have of later steps
                self._writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), steps + 1)
            self._writer.add_summary(tf.Summary(value=[_settings_page(config)]), steps)
            self._add_histograms(steps)
            self._writer.flush()  # TensorBoard shows the graph from the first second
        self._last_time, self._last_step = time.monotonic(), steps
        self._scalars_due, self._closed = 0.0, False

    def episode(self, episode: Episode, count: FinishedEpisode, report: dict[str, float]) -> None:
        """Write a finished episode; now and then the learner's numbers too, and seldom the weights."""
        now = time.monotonic()
        scalars = {
            "episode/return": episode.episode_return,
            "episode/running_return": count.running_return,
            "episode/length": episode.length,
        }
        if now >= self._scalars_due:
            scalars |= report | self._learner(count, now)
        values = [tf.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        with self._writing():
            self._writer.add_summary(tf.Summary(value=values), count.global_step)
            if now - self._last_histograms >= HISTOGRAMS_SECONDS:
                self._add_histograms(count.global_step)

    def flush(self) -> None:
        """Write what is held back. Any thread may call."""
        with self._writing():
            self._writer.flush()

    def close(self) -> None:
        """Write what is left; once more does nothing."""
        with self._writing():
            if not self._closed:
                self._closed = True
                self._add_histograms(self._last_step)
            self._writer.close()

    def _learner(self, count: FinishedEpisode, now: float) -> dict[str, float]:
        steps, seconds = count.global_step - self._last_step, now - self._last_time
        self._last_time, self._last_step, self._scalars_due = now, count.global_step, now + SCALARS_SECONDS
        scale = self._config.learning_rate_scale(count.global_step)
        return {
            "learning_rate/actor": self._config.actor_learning_rate * scale,
            "learning_rate/critic": self._config.critic_learning_rate * scale,
            "steps_per_second": steps / seconds,
        }

    def _add_histograms(self, step: int) -> None:
        self._last_histograms = time.monotonic()
        weights = {name: numbers for name, numbers in self._read_weights().items() if np.isfinite(numbers).all()}
        values = [_histogram(name, numbers) for name, numbers in weights.items()]
        self._writer.add_summary(tf.Summary(value=values), step)


def _suffix(run: RunFolder) -> str:
    """Ends this file's name: it differs from those begun within the same second, and sorts after them."""
    earlier = len(list(run.path.glob("events.out.tfevents.*")))
    return f".{earlier:04}" if earlier else ""


def _histogram(tag: str, numbers: np.ndarray) -> Any:
    """Made in Python, so that the graph holds no summary operations."""
    counts, edges = np.histogram(numbers, bins=30)
    histogram = tf.HistogramProto(
        min=numbers.min(),
        max=numbers.max(),
        num=numbers.size,
        sum=numbers.sum(),
        sum_squares=np.square(numbers).sum(),
        bucket_limit=edges[1:].tolist(),
        bucket=counts.tolist(),
    )
    return tf.Summary.Value(tag=tag, histo=histogram)


def _settings_page(config: Config) -> Any:
    """The settings as a table for TensorBoard's text page."""
    settings = dataclasses.asdict(config.replace(env=config.env_name))
    rows = ["| setting | value |", "|---|---|", *(f"| {field} | {value} |" for field, value in settings.items())]
    metadata = tf.SummaryMetadata(plugin_data=tf.SummaryMetadata.PluginData(plugin_name="text"))
    return tf.Summary.Value(tag="settings", metadata=metadata, tensor=tf.make_tensor_proto("\n".join(rows)))
