"""Builds the graph, restores, runs a crew's workers under a Coordinator, saves and closes."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.algorithms.build import Graph, build_graph
from a3c_tf.config import Config
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import RunState
from a3c_tf.runs import plotting
from a3c_tf.runs.checkpoint import Checkpointer, find_checkpoints
from a3c_tf.runs.display import display
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder, existing_run, new_run, read_spaces, write_config, write_spaces
from a3c_tf.runs.metrics import Metrics
from a3c_tf.runs.tables import read_columns
from a3c_tf.runs.tensorboard import Events
from a3c_tf.training.best import BestKeeper
from a3c_tf.training.crew import Crew, Spaces, Training
from a3c_tf.training.ledger import Ledger
from a3c_tf.training.threads import HangingWorkerError, run_tasks

_log = logging.getLogger("a3c_tf")


@dataclasses.dataclass(frozen=True)
class Result:
    """What a training run came to, from its first start on."""

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


class LastEvaluation:
    """The evaluation of what the whole budget came to, as a task: it can be stopped as a worker can."""

    name = place = "last evaluation"

    def __init__(self, ledger: Ledger) -> None:
        self.work = ledger.last_evaluation


@dataclasses.dataclass(frozen=True)
class _Start:
    """What a run begins with, or goes on with."""

    config: Config
    run: RunFolder
    graph: Graph
    evaluation_envs: list[Environment]
    begun: bool
    """whether there is a checkpoint to go on from"""


def run_new(config: Config, crew: Crew, show: str) -> Result:
    """Begin a run of ``config``, which has a seed; returns when its budget is used. See ``api.train``."""
    with contextlib.ExitStack() as closing:
        crew.check(config)
        spaces = crew.open(config, closing)
        envs = _evaluation_envs(config, closing)
        graph = _graph(config, spaces)
        run = closing.enter_context(new_run(config))
        with writing(run.path):
            write_spaces(run, *spaces)
        return _train(_Start(config, run, graph, envs, begun=False), crew, show, closing)


def go_on(run_folder: str | Path, given: dict[str, Any], crew_of: Callable[[Config], Crew], show: str) -> Result:
    """Go on with a run from its newest good checkpoint. See ``api.resume``."""
    with contextlib.ExitStack() as closing:
        run = closing.enter_context(existing_run(run_folder))
        config = Config.read(run.config).resumed(given)
        crew = crew_of(config)
        crew.check(config)
        spaces = crew.open(config, closing)
        envs = _evaluation_envs(config, closing)
        begun = run.metrics.exists() or bool(find_checkpoints(run.checkpoints))
        if not begun:
            _log.warning("%s was stopped before its first checkpoint and starts from its beginning", run.path)
        _check_spaces(run, spaces)
        return _train(_Start(config, run, _graph(config, spaces), envs, begun), crew, show, closing)


def _train(start: _Start, crew: Crew, show: str, closing: contextlib.ExitStack) -> Result:
    config, run, graph = start.config, start.run, start.graph
    session = _open_session(graph, closing)
    checkpointer = Checkpointer(run.checkpoints, graph, session, config)
    state = _restored(run, config, checkpointer) if start.begun else _begun(checkpointer)
    best = BestKeeper(run, graph, session, start.evaluation_envs, state) if config.evaluation_interval else None
    crew.start(Training(config, graph, session, state))
    events = Events(run, graph.graph_def, config, state.steps, _weights_reader(graph, session))
    metrics = Metrics(run, events, display(show, config, state), state)
    graph.graph.finalize()
    coordinator = tf.train.Coordinator(clean_stop_exception_types=[])
    ledger = Ledger(config, metrics, checkpointer, best, state, coordinator.should_stop)

    def look_after() -> None:
        crew.look_after()
        if checkpointer.is_due():
            metrics.flush()
            checkpointer.save()

    try:
        with _saved_at_the_end(run, config, metrics, checkpointer):
            run_tasks(crew.tasks(ledger), coordinator, look_after)
            run_tasks([LastEvaluation(ledger)], coordinator, look_after)
            ledger.finish()
            seconds = metrics.wall_time()
    except HangingWorkerError:
        closing.pop_all()  # what a hanging worker may still be using cannot be closed
        raise
    columns = _metrics(run)
    returns, running_returns = columns["episode_return"], columns["running_return"]
    return Result(returns, running_returns, ledger.steps, ledger.evaluation_steps, seconds, run.path)


def _graph(config: Config, spaces: Spaces) -> Graph:
    seen = spaces[0]
    if len(seen.shape) != 1:
        _log.info("observations of shape %s are seen flattened, as %d numbers", seen.shape, seen.size)
    return build_graph(config, *spaces)


def _evaluation_envs(config: Config, closing: contextlib.ExitStack) -> list[Environment]:
    number = config.evaluation_episodes if config.evaluation_interval else 0
    return [closing.enter_context(contextlib.closing(make_env(config.env))) for _ in range(number)]


def _open_session(graph: Graph, closing: contextlib.ExitStack) -> Session:
    """A session with the variables initialized; the graph may still grow."""
    with graph.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = closing.enter_context(contextlib.closing(Session(graph.graph)))
    session.run(initializer)
    return session


def _weights_reader(graph: Graph, session: Session) -> Callable[[], dict[str, np.ndarray]]:
    """What reads the global network's variables, by name."""
    with graph.graph.as_default():
        weights = {variable.op.name: variable.read_value() for variable in graph.global_net.params}
    read = session.call(list(weights.values()))
    return lambda: dict(zip(weights, read(), strict=True))


def _begun(checkpointer: Checkpointer) -> RunState:
    """The state of a new run, saved before its first step."""
    state = RunState()
    checkpointer.snapshot(state)
    checkpointer.save()
    return state


def _restored(run: RunFolder, config: Config, checkpointer: Checkpointer) -> RunState:
    """The state of a run that goes on, its budget perhaps larger now."""
    state = checkpointer.restore()
    with writing(run.config):
        write_config(run, config)
    return state


def _check_spaces(run: RunFolder, spaces: Spaces) -> None:
    """Refuse another environment, which may have networks of the same shapes; write what a kill left unwritten."""
    if not run.spaces.exists():
        write_spaces(run, *spaces)
    for expected, got in zip(read_spaces(run), spaces, strict=True):
        if got != expected:
            raise UsageError(f"{run.spaces}: of another environment: expected {expected}, got {got}")


@contextlib.contextmanager
def _saved_at_the_end(run: RunFolder, config: Config, metrics: Metrics, checkpointer: Checkpointer) -> Iterator[None]:
    """Save, close and draw however the run ends; a failure to do so never hides the run's own."""

    def leave() -> None:
        with contextlib.ExitStack() as parts:  # each is done, whatever becomes of the others
            parts.callback(_draw, run)
            parts.callback(checkpointer.save)
            parts.callback(metrics.close)

    try:
        yield
        leave()
    except BaseException:  # Ctrl-C while leaving too: then once more
        try:
            leave()
            go_on = run.resume_command(config.env_name)
            _log.warning("the run is saved at step %d; to go on: %s", checkpointer.saved_step, go_on)
        except Exception as error:
            _log.error("the run's last checkpoint is of step %d: %s", checkpointer.saved_step, error)
        raise


def _metrics(run: RunFolder) -> dict[str, np.ndarray]:
    try:
        return read_columns(run.metrics, "running_return")
    except UsageError as error:  # somebody took it away while the run went on
        raise RunError(str(error)) from None


def _draw(run: RunFolder) -> None:
    try:
        plotting.write(plotting.learning_curves([run.path]), run.learning_curve)
    except UsageError as error:
        raise RunError(str(error)) from None
