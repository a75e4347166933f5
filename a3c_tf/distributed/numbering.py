"""Which numbers the workers of several processes have."""

from __future__ import annotations

from a3c_tf.config import Config


def number_of_workers(config: Config) -> int:
    """Workers of all processes together."""
    return config.processes * config.worker_count


def workers_of(process: int, config: Config) -> range:
    """The numbers of the workers in one process."""
    return range(process * config.worker_count, (process + 1) * config.worker_count)
