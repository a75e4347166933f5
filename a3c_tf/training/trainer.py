"""``train``: build the graph, run the workers' threads under a Coordinator, save, close."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from a3c_tf.algorithms.a3c import A3CGraph, build_graph
from a3c_tf.config import Config
from a3c_tf.distributed.chief import HangingProcessError
from a3c_tf.distributed.parameter_server import Mirror
from a3c_tf.distributed.processes import Crew
from a3c_tf.environments.environment import Environment, make_env
from a3c_tf.environments.spaces import read_specs, write_specs
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.playing.evaluate import BestKeeper
from a3c_tf.records import RunState
from a3c_tf.runs import plotting
from a3c_tf.runs.checkpoint import Checkpointer, find_checkpoints
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder, existing_run, new_run, write_config
from a3c_tf.runs.metrics import Metrics, check_show, display
from a3c_tf.runs.tables import read_columns
from a3c_tf.runs.tensorboard import Events
from a3c_tf.training.affinity import SharedCpu
from a3c_tf.training.ledger import Ledger
from a3c_tf.training.worker import Net, Worker

GRACE_SECONDS = 5.0
"""how long a worker may take to end after a stop was asked for"""

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


class HangingWorkerError(RunError):
    """A worker did not end when it was asked to; the message says which, and where it hangs."""


class Task(Protocol):
    """What runs in a thread of its own until it is done or asked to stop."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str:
        """where it is, for a message"""

    def work(self) -> None: ...


class LastEvaluation:
    """The evaluation of what the whole budget came to, as a task: it can be stopped as a worker can."""

    name = place = "last evaluation"

    def __init__(self, ledger: Ledger) -> None:
        self.work = ledger.last_evaluation


def train(config: Config, show: str = "auto", processes: int | None = None, *, crew: Crew | None = None) -> Result:
    """Train until the budget of ``config`` is used; everything is left in the run folder.

    ``processes`` stands for the setting of that name. A program that starts processes needs
    ``if __name__ == "__main__":`` around the call, for each of them imports it again; ``crew`` is who they are.
    ``show`` is ``auto`` (a progress bar on a terminal, else a line an episode), ``lines`` or ``none``.
    Raises ``UsageError`` for settings that cannot be run, before anything is written; whatever
    exception a worker met, with the worker's name in a note; ``KeyboardInterrupt``. The run is saved in
    each case and can be resumed.
    """
    check_show(show)
    config = config.seeded() if processes is None else config.seeded().replace(processes=processes)
    with contextlib.ExitStack() as closing:
        crew = _crew_for(config, crew)
        envs = _make_envs(config, closing)
        seen = envs[0].observation_spec
        if len(seen.shape) != 1:
            _log.info("observations of shape %s are seen flattened, as %d numbers", seen.shape, seen.size)
        built = build_graph(config, envs[0].observation_spec, envs[0].action_spec)
        run = closing.enter_context(new_run(config))
        with writing(run.path):
            write_specs(run.spaces, envs[0].observation_spec, envs[0].action_spec)
        return _run(config, show, run, built, envs, closing, False, crew)


def resume(run_folder: str | Path, show: str = "auto", *, crew: Crew | None = None, **given: Any) -> Result:
    """Go on with a run from its newest good checkpoint.

    ``given`` are settings as of ``Config``: they must equal the run's, but a budget may be larger. An
    environment that was a callable must be given again. Raises as ``train`` does.
    """
    check_show(show)
    with contextlib.ExitStack() as closing:
        run = closing.enter_context(existing_run(run_folder))
        config = Config.read(run.config).resumed(given)
        crew = _crew_for(config, crew)
        envs = _make_envs(config, closing)
        begun = run.metrics.exists() or bool(find_checkpoints(run.checkpoints))
        if not begun:
            _log.warning("%s was stopped before its first checkpoint and starts from its beginning", run.path)
        _check_spaces(run, envs[0])
        built = build_graph(config, envs[0].observation_spec, envs[0].action_spec)
        return _run(config, show, run, built, envs, closing, begun, crew)


def _run(
    config: Config,
    show: str,
    run: RunFolder,
    built: A3CGraph,
    envs: list[Environment],
    closing: contextlib.ExitStack,
    begun: bool,
    crew: Crew | None,
) -> Result:
    mirror = Mirror(built.shared_variables, config) if crew else None
    if crew:
        crew.gather(config, envs[0].observation_spec, envs[0].action_spec, closing)
    checkpointer = Checkpointer(run.checkpoints, built, config)
    best = BestKeeper(run, built, config, envs[-config.evaluation_episodes :]) if config.evaluation_interval else None
    session, read_weights = _open_session(built, closing)
    checkpointer.bind(session)
    state = _restored(run, config, checkpointer) if begun else _begun(checkpointer)
    if best:
        best.bind(session, state)
    if crew and mirror:
        mirror.bind(session)
        crew.start(mirror, state.steps, state.worker_episodes)
    calls: Sequence[Any] = [] if crew else [net.calls(session, config) for net in built.worker_nets]
    events = Events(run, built.graph_def, config, state.steps, list(built.worker_nets[0].report), read_weights)
    metrics = Metrics(run, events, display(show, config, state), state)
    coordinator = tf.train.Coordinator(clean_stop_exception_types=[])
    ledger = Ledger(config, metrics, checkpointer, best, state, coordinator.should_stop)
    shared_cpu = SharedCpu()
    workers: Sequence[Task]
    if crew:
        workers = crew.tasks(ledger.counters, ledger.episode, ledger.worker_episodes, coordinator.should_stop)
    else:
        workers = _workers(config, envs, calls, ledger, coordinator.should_stop, shared_cpu)

    def look_after() -> None:
        shared_cpu.look_around()
        if checkpointer.is_due():
            metrics.flush()
            checkpointer.save()

    try:
        with _saved_at_the_end(run, config, metrics, checkpointer):
            _run_threads(workers, coordinator, look_after)
            _run_threads([LastEvaluation(ledger)], coordinator, look_after)
            ledger.finish()
            seconds = metrics.wall_time()
    except HangingWorkerError:
        closing.pop_all()  # what a hanging worker may still be using cannot be closed
        raise
    columns = _metrics(run)
    return Result(
        returns=columns["episode_return"],
        running_returns=columns["running_return"],
        steps=ledger.counters.steps,
        evaluation_steps=ledger.evaluation_steps,
        seconds=seconds,
        run_folder=run.path,
    )


def _open_session(
    built: A3CGraph, closing: contextlib.ExitStack
) -> tuple[Session, Callable[[], dict[str, np.ndarray]]]:
    """A session with all variables initialized, and what reads the global network's; the graph is then final."""
    with built.graph.as_default():
        initializer = tf.global_variables_initializer()
        weights = {variable.op.name: variable.read_value() for variable in built.global_net.params}
    built.graph.finalize()
    session = closing.enter_context(contextlib.closing(Session(built.graph)))
    session.run(initializer)
    read = session.call(list(weights.values()))
    return session, lambda: dict(zip(weights, read(), strict=True))


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


def _workers(
    config: Config,
    envs: Sequence[Environment],
    calls: Sequence[Net],
    ledger: Ledger,
    should_stop: Callable[[], bool],
    shared_cpu: SharedCpu,
) -> list[Worker]:
    """The workers of this process, each with an environment and a local network's calls."""
    kept = [shared_cpu.kept] * (config.worker_count > 1)
    episodes_run = [ledger.worker_episodes.get(f"W_{i}", 0) for i in range(len(calls))]
    return [
        Worker(i, config, env, net, ledger.counters, should_stop, ledger.episode, episodes, *kept)
        for i, (env, net, episodes) in enumerate(zip(envs, calls, episodes_run, strict=False))
    ]


def _make_envs(config: Config, closing: contextlib.ExitStack) -> list[Environment]:
    """One for each worker here, at least one to know its spaces, and after them those of the evaluations."""
    number = 1 if config.processes else config.worker_count
    number += config.evaluation_episodes if config.evaluation_interval else 0
    return [closing.enter_context(contextlib.closing(make_env(config.env))) for _ in range(number)]


def _crew_for(config: Config, crew: Crew | None) -> Crew | None:
    """The processes that the settings ask for. Raises ``UsageError`` if they cannot be had here."""
    if not config.processes:
        return None
    crew = crew or Crew()
    crew.check(config)
    return crew


def _check_spaces(run: RunFolder, env: Environment) -> None:
    """Refuse another environment, which may have networks of the same shapes; write what a kill left unwritten."""
    here = env.observation_spec, env.action_spec
    if not run.spaces.exists():
        write_specs(run.spaces, *here)
    for there, spec in zip(read_specs(run.spaces), here, strict=True):
        if there != spec:
            raise UsageError(f"{run.spaces}: of another environment: {there} there and {spec} here")


def _run_threads(tasks: Sequence[Task], coordinator: Any, look_after: Callable[[], None]) -> None:
    """Run each task in a thread of its own until all have ended; raises what the first failure raised."""
    coordinator.clear_stop()
    hanging: list[HangingProcessError] = []
    ended = threading.Semaphore(0)

    def run(task: Task) -> None:
        try:
            _run_task(task, coordinator, hanging)
        finally:
            ended.release()

    # each thread gets its own task by args: a closure over a loop variable could run one task twice
    threads = [threading.Thread(target=run, args=(task,), name=task.name, daemon=True) for task in tasks]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            while not (coordinator.should_stop() or ended.acquire(timeout=0.1)):
                look_after()
    finally:
        coordinator.request_stop()
        _join([thread for thread in threads if thread.ident], coordinator)
        if hanging:  # more than the stop that was asked for
            raise hanging[0]
    coordinator.join(threads)


def _run_task(task: Task, coordinator: Any, hanging: list[HangingProcessError]) -> None:
    try:
        task.work()
    except HangingProcessError as error:
        hanging.append(error)
    except BaseException as error:  # whatever an environment raises ends the run, SystemExit too
        note = f"in {task.place}"
        _log.error("%s: %s: %s", note, type(error).__name__, error)  # the Coordinator keeps only the first
        error.__notes__ = [*getattr(error, "__notes__", []), note]  # type: ignore[attr-defined]  # Python 3.10 has no add_note
        coordinator.request_stop(error)


def _join(threads: list[threading.Thread], coordinator: Any) -> None:
    """Wait for the threads to end. Raises ``HangingWorkerError`` if one takes longer than the grace period."""
    deadline = time.monotonic() + GRACE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    frames = sys._current_frames()
    hanging = [
        f"worker {thread.name} hangs in:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in threads
        if thread.is_alive() and thread.ident in frames
    ]
    if hanging:
        message = f"{GRACE_SECONDS:.0f} s after the stop was asked for, " + "\n".join(hanging)
        try:
            coordinator.join([])
        except BaseException as failure:
            raise HangingWorkerError(message) from failure
        raise HangingWorkerError(message) from None


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
