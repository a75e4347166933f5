"""Evaluates the policy while it is trained, and keeps the best one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from a3c_tf.algorithms.build import Graph
from a3c_tf.environments.environment import Environment
from a3c_tf.graph import sync
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.playing.evaluate import play
from a3c_tf.records import RunState
from a3c_tf.runs import checkpoint
from a3c_tf.runs.files import writing
from a3c_tf.runs.folder import RunFolder
from a3c_tf.runs.tables import begin, cut_back, read_columns

_SCORE = "mean_return"


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
