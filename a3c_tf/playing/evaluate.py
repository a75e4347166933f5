"""Playing a trained policy: load it, measure it, and keep the best one while training."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from a3c_tf.algorithms.build import Graph, Networks
from a3c_tf.config import Config
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.errors import UsageError
from a3c_tf.graph import sync
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.records import RunState
from a3c_tf.runs import checkpoint
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder, read_spaces
from a3c_tf.runs.tables import begin, cut_back, read_columns

Act = Callable[[np.ndarray], np.ndarray]
"""observations [K, …] float32 → actions [K, N_A] within the bounds, or numbers of discrete ones [K, 1]"""
_SCORE = "mean_return"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Returns of the episodes of an evaluation."""

    returns: np.ndarray
    """[episodes] float64, sums of the environment's own rewards"""
    steps: int
    """environment steps that it took"""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def deviation(self) -> float:
        """Standard deviation over the episodes."""
        return float(self.returns.std())


class SavedPolicy(NamedTuple):
    """Where a run keeps a policy, and what it needs to be played."""

    config: Config
    observations: ObservationSpec
    actions: AnyActionSpec
    folder: Path
    """folder of its weights"""


class Policy:
    """A trained policy: ``policy(observation)`` is the action, as the environment's spaces have it.

    The mean action (of discrete ones the most likely, an int) by default; with ``rng`` (a
    ``numpy.random.Generator``) a sample. Any thread may call.
    """

    def __init__(self, saved: SavedPolicy) -> None:
        self.config, self.folder = saved.config, saved.folder
        self._observations, self._actions = saved.observations, saved.actions
        graph = tf.Graph()
        with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
            net = Networks(saved.config, saved.observations, saved.actions).acting_net()
        self._session = Session(graph)
        checkpoint.load_weights(saved.folder, net.params, self._session)
        self._mode = self._session.call([net.policy.mode], [net.s])
        self._value = self._session.call([net.v], [net.s])
        self._sample = self._session.call([net.A], [net.s, net.noise])

    def __call__(self, observation: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray | int:
        batch = np.asarray(observation, np.float32).reshape(1, *self._observations.shape)
        return self._actions.to_raw(self.act(batch, rng)[0])

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for observations [K, …], as ``Act`` says."""
        if rng is None:
            return self._mode(observations)[0]
        noise = rng.standard_normal((len(observations), self._actions.size), np.float32)
        return self._sample(observations, noise)[0]

    def value(self, observations: np.ndarray) -> np.ndarray:
        """The critic's values [K] of observations [K, …] float32, in rewards as the learner sees them."""
        return self._value(observations)[0][:, 0]


def load_policy(run: str | Path, which: str | None = None) -> Policy:
    """The policy of a run folder: the best one kept, else the last; ``which`` asks for ``best`` or ``last``.

    No environment is needed. Raises ``UsageError`` if the folder is no run or has no such policy.
    """
    return Policy(saved_policy(run, which))


def saved_policy(run: str | Path, which: str | None = None) -> SavedPolicy:
    """Find the policy that ``load_policy`` loads; raises as that does."""
    folder = RunFolder(Path(run))
    if not (folder.config.is_file() and folder.spaces.is_file()):
        raise UsageError(f"{run}: expected the folder of a run, with config.json and spaces.json")
    if which not in (None, "best", "last"):
        raise UsageError(f"which = {which!r}: expected 'best', 'last' or None")
    best = bool(checkpoint.find_checkpoints(folder.best)) if which is None else which == "best"
    specs = read_spaces(folder)
    return SavedPolicy(Config.read(folder.config), *specs, folder.best if best else folder.checkpoints)


def evaluate(
    policy: Policy,
    env: str | Callable[[], Any] | None = None,
    episodes: int = 100,
    seed: int = 0,
    sample: bool = False,
    render_mode: str | None = None,
) -> Evaluation:
    """Play ``episodes`` episodes, the k-th from ``env.reset(seed=seed + k)``, with environments of its own.

    ``env`` is the run's own unless one is given. ``sample`` plays samples in place of the mean action.
    With ``render_mode`` ``human`` the episodes are played one after the other, in a window.
    """
    if episodes < 1:
        raise UsageError(f"episodes = {episodes}: expected a whole number of at least 1")
    config = policy.config
    rng = np.random.default_rng(seed) if sample else None
    seeds = range(seed, seed + episodes)
    returns: list[float] = []
    steps = 0
    if render_mode == "human":
        _prepare_window()
    envs = [make_env(env or config.env, render_mode) for _ in range(1 if render_mode else min(episodes, 20))]
    try:
        with drawing():
            for first in range(0, episodes, len(envs)):
                played = play(lambda s: policy.act(s, rng), envs, seeds[first : first + len(envs)], config)
                returns.extend(played.returns)
                steps += played.steps
    finally:
        for each in envs:
            each.close()
    return Evaluation(np.array(returns), steps)


def _prepare_window() -> None:
    """Make gym's environments open a window, or fail; to be called before pygame is loaded."""
    # OpenGL drivers and TensorFlow each bring an LLVM, and crash where they meet
    os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    if sys.platform == "linux":  # without a screen it would draw where nobody sees it
        os.environ.setdefault("SDL_VIDEODRIVER", "wayland,x11" if os.environ.get("WAYLAND_DISPLAY") else "x11")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # gym's environments open a sound device and use none


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Around what draws: a missing package or screen, which gym's environments find out late, is told in a line."""
    try:
        yield
    except Exception as error:
        missing = type(error).__name__ == "DependencyNotInstalled"  # gym has one and gymnasium another
        if missing or type(error).__module__ == "pygame":
            help_ = "pip install 'a3c-tf[render]'" if missing else "a3c-tf video films without a screen"
            raise UsageError(f"cannot be drawn: {' '.join(str(error).split())}; {help_}") from None
        raise


def play(
    act: Act,
    envs: list[Environment],
    seeds: Sequence[int],
    config: Config,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[], Any] = lambda: None,
) -> Evaluation:
    """One episode for each seed, side by side, so that one call chooses the actions of all.

    What is played when ``should_stop`` says so is of no use: the episodes are cut. ``watch`` is called
    after the resets and after the steps of all.
    """
    returns = np.zeros(len(seeds))
    observations = np.stack([env.reset(seed) for env, seed in zip(envs, seeds, strict=False)])
    observations = observations.astype(np.float32)
    time_limit = config.max_episode_steps or envs[0].time_limit
    playing, length, steps = list(range(len(seeds))), 0, 0
    watch()
    while playing and not should_stop():
        actions = act(observations[playing])
        length, steps = length + 1, steps + len(playing)
        still = []
        for k, action in zip(playing, actions, strict=True):
            observation, reward, terminated, truncated = envs[k].step(action)
            observations[k] = observation
            returns[k] += reward
            if not (terminated or truncated or length == time_limit):
                still.append(k)
        playing = still
        watch()
    return Evaluation(returns, steps)


class BestKeeper:
    """Evaluates the global policy now and then and keeps the best one in ``best/``.

    It acts on a local network of its own, so what it measures is what it saves, while the workers go on.
    Its starts are seeds that no worker uses. Adds ops to the graph, so it is made before that is finalized.
    """

    def __init__(
        self, run: RunFolder, graph: Graph, session: Session, envs: list[Environment], state: RunState
    ) -> None:
        self._run, self._session, self._envs, self._config = run, session, envs, graph.networks.config
        with graph.graph.as_default(), graph.graph.device("/cpu:0"), quiet_deprecations():
            net = graph.networks.acting_net("Evaluation")
            with tf.name_scope("sync"):
                pull_op = sync.pull(net, graph.global_net)
            names = [v.op.name for v in graph.global_net.params]
            # its score is saved with a policy, so that neither is ever without the other
            score = tf.get_variable(_SCORE, [], tf.float64, trainable=False, use_resource=True)
            self._score = tf.placeholder(tf.float64, [])
            self._set_score = score.assign(self._score, read_value=False)
            self._saver = checkpoint.WeightSaver(run.best, [*names, _SCORE], [*net.params, score])
        self._pull = session.call([], [], pull_op)
        self._mode = session.call([net.policy.mode], [net.s])
        sequence = np.random.SeedSequence([self._config.seed or 0, 2**31])  # no worker has this number
        self._seeds = [int(seed >> 1) for seed in sequence.generate_state(len(envs))]
        self._go_on_from(state)

    def _go_on_from(self, state: RunState) -> None:
        """Evaluations after ``state`` are cut off: they will be made again."""
        begin(self._run.evaluations, ("global_step", "mean_return", "deviation", "evaluation_steps"))
        cut_back(self._run.evaluations, "evaluation_steps", state.evaluation_steps)
        self.evaluated_at = max(read_columns(self._run.evaluations, "mean_return")["global_step"], default=-1)
        kept = checkpoint.read_newest(self._run.best)
        self._best = -np.inf if kept is None else float(kept[_SCORE])

    def evaluate(self, global_step: int, steps_before: int, should_stop: Callable[[], bool]) -> int | None:
        """Measure the policy as it is now, and save it if it is the best so far.

        ``steps_before`` are the environment steps of all evaluations before; returns them with this one's,
        or None if it had to stop.
        """
        self._pull()
        played = play(lambda s: self._mode(s)[0], self._envs, self._seeds, self._config, should_stop)
        if should_stop():
            return None
        steps = steps_before + played.steps
        if played.mean >= self._best:  # of equals the later, trained with smaller steps
            self._session.run(self._set_score, {self._score: played.mean})
            self._saver.save(self._session, global_step)
            self._best = played.mean
        with writing(self._run.evaluations), self._run.evaluations.open("a", encoding="utf-8") as file:
            file.write(f"{global_step},{played.mean!r},{played.deviation!r},{steps}\n")
        self.evaluated_at = global_step
        return steps
