"""The original's main program, step by step, from this library's parts: read it beside the one you know.

python demos/a3c_step_by_step.py

It keeps nothing but a plot and a graph for TensorBoard. The program that people run is ``pendulum_a3c.py``: it trains
the same, and can be stopped, resumed and played.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from a3c_tf.algorithms.a3c import A3CLearner, ACNet, WorkerACNet
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.commands import exit_codes
from a3c_tf.config import Config
from a3c_tf.environments.make import make_env
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.records import Episode
from a3c_tf.training.counters import Counters
from a3c_tf.training.worker import Worker


class Global(Counters):
    """``GLOBAL_EP`` and ``GLOBAL_RUNNING_R``: what all workers count, under one lock."""

    def __init__(self, config: Config, coord: tf.train.Coordinator) -> None:
        super().__init__(config.max_episodes, config.max_steps, config.running_return_decay)
        self.should_stop = coord.should_stop
        self.worker_episodes: dict[str, int] = {}  # none: no run goes on here
        self.running_r: list[float] = []
        self.one_row = threading.Lock()  # rows stand in order, and whole

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        with self.one_row:
            count = self.finish_episode(episode.episode_return)
            self.running_r.append(count.running_return)
            print(episode.worker, "Ep:", count.episode, f"| Ep_r: {int(count.running_return)}")


def main(
    n_workers: int = 2, max_global_ep: int = 2000, seed: int = 0, log_dir: str = "runs/step-by-step"
) -> list[float]:
    """Train, and return ``GLOBAL_RUNNING_R``."""
    config = Config.preset("classic", workers=n_workers, max_episodes=max_global_ep, seed=seed)
    envs = [make_env("Pendulum-v1") for _ in range(n_workers)]
    spaces = envs[0].observation_spec, envs[0].action_spec

    with tf.Graph().as_default() as graph, tf.device("/cpu:0"), quiet_deprecations():
        tf.set_random_seed(seed)
        GLOBAL_AC = ACNet("Global_Net", *spaces, config)
        OPT = Optimizers(config, GLOBAL_AC.parts)  # RMSPropA for the actor, RMSPropC for the critic
        nets = [WorkerACNet(f"W_{i}", *spaces, config, GLOBAL_AC, OPT) for i in range(n_workers)]
        initializer = tf.global_variables_initializer()
        tf.summary.FileWriter(log_dir, graph).close()
    SESS = Session(graph)
    SESS.run(initializer)

    COORD = tf.train.Coordinator(clean_stop_exception_types=[])
    GLOBAL = Global(config, COORD)
    workers = []
    for i in range(n_workers):
        calls = worker_calls(nets[i], SESS)
        learner = A3CLearner(config, calls, lambda: GLOBAL.steps)
        workers.append(Worker(i, config, envs[i], calls, learner, GLOBAL))

    def work(worker: Worker) -> None:
        with COORD.stop_on_exception():  # the original lost a thread's exception
            worker.work()

    worker_threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in worker_threads:
        thread.start()
    COORD.join(worker_threads)
    plot(GLOBAL.running_r, Path(log_dir, "running_return.png"))
    return GLOBAL.running_r


def plot(running_r: list[float], picture: Path) -> None:
    from matplotlib.figure import Figure

    axes = (figure := Figure()).subplots()
    axes.plot(running_r)
    axes.set_xlabel("episode")
    axes.set_ylabel("running return")
    figure.savefig(picture)
    print("picture:", picture)


def program() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    main(given.workers, given.episodes, given.seed)
    return exit_codes.DONE


if __name__ == "__main__":
    sys.exit(exit_codes.exit_code(program))
