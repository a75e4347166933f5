"""``train``: build the graph, run the workers' threads under a Coordinator, save, close."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.acnet import build_graph
from a3c_tf.checkpoint import Checkpointer
from a3c_tf.config import Config
from a3c_tf.counters import Counters
from a3c_tf.envs import Environment, make_env
from a3c_tf.evaluate import BestKeeper
from a3c_tf.metrics import Metrics, display
from a3c_tf.plotting import learning_curve, read_metrics
from a3c_tf.runs import RunFolder
from a3c_tf.session import Session
from a3c_tf.spaces import write_specs
from a3c_tf.tf1 import tf
from a3c_tf.worker import Episode, Worker

_log = logging.getLogger("a3c_tf")


@dataclasses.dataclass(frozen=True)
class Result:
    """What a training run came to."""

    returns: np.ndarray
    """return of each episode [N], float64, in the order they finished"""
    running_returns: np.ndarray
    """running return after each episode [N], float64"""
    steps: int
    """environment steps of all workers"""
    evaluation_steps: int
    """environment steps of the evaluations that chose the best policy"""
    seconds: float
    """wall time of the training itself, without building and saving"""
    run_folder: Path


def train(config: Config, show: str = "auto") -> Result:
    """Train until the budget of ``config`` is used; everything is left in the run folder.

    ``show`` is ``auto`` (a progress bar on a terminal, else a line an episode), ``lines`` or ``none``.
    Raises ``UsageError`` for settings that cannot be run, before anything is written, and whatever
    exception a worker met, with the worker's name in a note.
    """
    config = config.seeded()
    with contextlib.ExitStack() as closing:
        shown = display(show, config)
        envs = _make_envs(config, config.workers, closing)
        built = build_graph(config, envs[0].observation_spec, envs[0].action_spec)
        run = RunFolder.create(config)
        write_specs(run.spaces, envs[0].observation_spec, envs[0].action_spec)
        checkpointer = Checkpointer(run, built)
        best = None
        if config.evaluation_interval:
            best = BestKeeper(run, built, config, _make_envs(config, config.evaluation_episodes, closing))
        with built.graph.as_default():
            initializer = tf.global_variables_initializer()
        built.graph.finalize()
        session = closing.enter_context(contextlib.closing(Session(built.graph)))
        session.run(initializer)
        metrics = closing.enter_context(contextlib.closing(Metrics(run, built.graph, shown)))

        ledger = _Ledger(config, session, metrics, best)
        coordinator = tf.train.Coordinator(clean_stop_exception_types=[])
        workers = [
            Worker(i, config, env, net.calls(session, config), ledger.counters, coordinator.should_stop, ledger.episode)
            for i, (env, net) in enumerate(zip(envs, built.worker_nets, strict=True))
        ]
        started = time.monotonic()
        try:
            _run_threads(workers, coordinator)
            ledger.evaluate()
        finally:
            seconds = time.monotonic() - started
            checkpointer.save(session, ledger.counters.steps)
    _draw(run, config)
    return ledger.result(seconds, run.path)


def _make_envs(config: Config, number: int, closing: contextlib.ExitStack) -> list[Environment]:
    return [closing.enter_context(contextlib.closing(make_env(config.env))) for _ in range(number)]


class _Ledger:
    """Takes the workers' finished episodes one at a time: counts, records and remembers them."""

    def __init__(self, config: Config, session: Session, metrics: Metrics, best: BestKeeper | None) -> None:
        self.counters = Counters(config.max_episodes, config.max_steps, config.running_return_decay)
        self._session = session
        self._metrics = metrics
        self._best = best
        self._interval = config.evaluation_interval or 0
        self._next_evaluation = self._interval
        self._lock = threading.Lock()
        self._evaluating = threading.Lock()
        self._returns: list[float] = []
        self._running_returns: list[float] = []

    def episode(self, told: Episode) -> None:
        """Called by a worker between two of its episodes."""
        with self._lock:  # so that rows stand in the order of their numbers
            count = self.counters.finish_episode(told.episode_return)
            self._returns.append(told.episode_return)
            self._running_returns.append(count.running_return)
            self._metrics.episode(told, count)
            due = self._best is not None and count.global_step >= self._next_evaluation
            if due:
                self._next_evaluation += self._interval
        if due:
            self.evaluate()

    def evaluate(self) -> None:
        """Evaluate the policy if this run keeps the best one; the other workers go on meanwhile."""
        if self._best is not None:
            with self._evaluating:
                self._best.evaluate(self._session, self.counters.steps)

    def result(self, seconds: float, run_folder: Path) -> Result:
        return Result(
            returns=np.array(self._returns),
            running_returns=np.array(self._running_returns),
            steps=self.counters.steps,
            evaluation_steps=self._best.steps if self._best else 0,
            seconds=seconds,
            run_folder=run_folder,
        )


def _run_threads(workers: list[Worker], coordinator: Any) -> None:
    """Run each worker in a thread of its own until all have ended; raises what the first failure raised."""
    threads = [
        # bound to its own worker by args: a closure over a loop variable could run one worker twice
        threading.Thread(target=_run_worker, args=(worker, coordinator), name=worker.name, daemon=True)
        for worker in workers
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive() and not coordinator.should_stop():
                thread.join(timeout=0.1)
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=5)


def _run_worker(worker: Worker, coordinator: Any) -> None:
    try:
        worker.work()
    except BaseException as error:  # whatever an environment raises ends the run, SystemExit too
        note = f"in worker {worker.name}, its episode {worker.episodes_run}, step {worker.length}"
        _log.error("%s: %s: %s", note, type(error).__name__, error)  # the Coordinator keeps only the first
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(note)
        coordinator.request_stop(error)


def _draw(run: RunFolder, config: Config) -> None:
    metrics = read_metrics(run.metrics)
    steps = int(metrics["global_step"][-1]) if metrics["global_step"].size else 0
    title = f"{config.env_name}, preset {config.preset_name}, seed {config.seed}, {config.workers} workers"
    learning_curve(metrics, f"{title}, {steps:,} steps").savefig(run.learning_curve, dpi=130)
