"""A run on several machines: the parameter server's program, the chief's and the workers'.

Worker process 0 is the chief: it keeps the run and its folder.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable

from a3c_tf.config import Config
from a3c_tf.distributed import parameter_server, worker_side
from a3c_tf.distributed.chief import Chief
from a3c_tf.distributed.cluster_channel import ClusterNetwork, MailboxChannel
from a3c_tf.distributed.cluster_file import ClusterFile
from a3c_tf.distributed.heartbeat import BEAT_SECONDS, LOST_SECONDS, Heartbeat
from a3c_tf.distributed.mailboxes import CALL_SECONDS, MailboxAsk, Mailboxes
from a3c_tf.distributed.mirror import Mirror
from a3c_tf.distributed.numbering import workers_of
from a3c_tf.distributed.parameter_server import GlobalNetwork
from a3c_tf.distributed.processes import ProcessCrew
from a3c_tf.distributed.worker_process import WorkerProcess
from a3c_tf.environments.make import make_env
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.tf1 import tf
from a3c_tf.training import trainer
from a3c_tf.training.crew import Spaces, Training

CONNECT_SECONDS = 60.0
"""how long a worker waits for the parameter server"""

_log = logging.getLogger("a3c_tf")


def serve(cluster: ClusterFile, allow_open_port: bool) -> None:
    """Be the parameter server until the run is over. Raises ``UsageError`` if the port is in use."""
    if not allow_open_port:
        raise UsageError(
            f"{cluster.ps}: TensorFlow's server listens on all interfaces, without a password, and runs any graph "
            "sent to it:\n"
            "whoever reaches the port owns this account; fence it in (docs/cluster.md) and give --allow-open-port"
        )
    try:
        target = parameter_server.serve(cluster.ps)
    except tf.errors.OpError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{cluster.ps}: the server cannot start, is the port in use? ({reason})") from None
    mailboxes = Mailboxes(target, cluster.config, timeout=60)
    mailboxes.open(cluster.run_id)
    _log.info("parameter server of %s at %s", cluster.run_id, cluster.ps)
    heartbeat = Heartbeat(mailboxes, own=None)
    while not heartbeat.over:
        time.sleep(BEAT_SECONDS)
        heartbeat.look()
        if heartbeat.chief_is_lost:
            raise RunError(
                f"the chief has not been heard of for {LOST_SECONDS:.0f} s; its last checkpoint is the run's"
            )


def work(cluster: ClusterFile, task: int, resume: bool, show: str) -> trainer.Result | None:
    """Be worker ``task``; the chief, 0, returns the run's result."""
    if not 0 <= task < cluster.config.processes:
        raise UsageError(
            f"--task {task}: expected 0 to {cluster.config.processes - 1}: cluster.json has as many processes"
        )
    if resume and task:
        raise UsageError("--resume is for --task 0, which keeps the run")
    mailboxes = connect(cluster)
    _refuse_duplicate_worker(mailboxes, cluster, task)
    if task == 0:
        return _lead(cluster, mailboxes, resume, show)
    _follow(cluster, mailboxes, task)
    return None


def connect(cluster: ClusterFile) -> Mailboxes:
    """Reach the parameter server and see that it is this run's. Raises ``UsageError`` that names the address."""
    deadline = time.monotonic() + CONNECT_SECONDS
    mailboxes = Mailboxes(f"grpc://{cluster.ps}", cluster.config, CALL_SECONDS)
    while True:
        try:
            found = mailboxes.text("run_id")
            break
        except tf.errors.InvalidArgumentError:  # variables of other shapes
            found = "another run"
            break
        except tf.errors.OpError as error:  # also that of a server which has just started
            if time.monotonic() > deadline:
                raise UsageError(
                    f"parameter server {cluster.ps}: no run there after {CONNECT_SECONDS:.0f} s "
                    f"({type(error).__name__}): start `a3c-tf cluster ps` there, and look at the address and "
                    "the firewall"
                ) from None
            time.sleep(0.5)
    if found != cluster.run_id:
        raise UsageError(
            f"parameter server {cluster.ps}: belongs to {found}, expected {cluster.run_id}: another run, or another "
            "cluster.json; stop it, or name another port"
        )
    return mailboxes


def _refuse_duplicate_worker(mailboxes: Mailboxes, cluster: ClusterFile, task: int) -> None:
    """Somebody else may be this worker, with a copy of the same file."""
    if task == 0 and (chief := mailboxes.text("chief")):
        raise UsageError(
            f"parameter server {cluster.ps}: has a chief already, or had one ({chief}): start a new server for a new "
            "run, and to go on with one"
        )
    before = mailboxes.life()[0][task]
    time.sleep(2.5 * BEAT_SECONDS)
    if mailboxes.life()[0][task] != before:
        raise UsageError(f"parameter server {cluster.ps}: there is a worker {task} already; name another --task")


def _who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _lead(cluster: ClusterFile, mailboxes: Mailboxes, resume: bool, show: str) -> trainer.Result:
    """The chief keeps the run, and has a process of its own to act."""
    mailboxes.write["chief"](_who())
    config, crew = cluster.config, ClusterCrew(cluster, mailboxes)
    try:
        if resume:
            if config.log_dir is None:
                raise UsageError("--resume: settings lack log_dir, the folder of the run")
            return trainer.go_on(config.log_dir, {}, lambda saved: crew, show)
        return trainer.run_new(config, crew, show)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            mailboxes.end()


class ClusterCrew(ProcessCrew):
    """Worker 0 in a process of this machine, the others wherever they join from."""

    def __init__(self, cluster: ClusterFile, mailboxes: Mailboxes) -> None:
        self._cluster, self._mailboxes = cluster, mailboxes

    def check(self, config: Config) -> None:
        """Opens nothing: the other machines have the environments."""

    def open(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        spaces = self._prepare(config, closing)
        network = GlobalNetwork(f"grpc://{self._cluster.ps}", config, *spaces, worker_side.CALL_SECONDS)
        self._network = ClusterNetwork(self._cluster.ps, network)
        self._heartbeat = Heartbeat(self._mailboxes, own=0)
        return spaces

    def start(self, training: Training) -> None:
        mirror = Mirror(training.graph.shared_variables, training.session, training.config)
        state = training.state
        self._chief = Chief(
            self._config, self._network, mirror, self._setup["specs"], state.steps, state.worker_episodes
        )
        self._network.write(mirror.learnt())
        threading.Thread(target=self._beat, daemon=True).start()
        self._processes = [self._worker_process(0)]
        self._processes[0].join()
        for i in range(1, self._config.processes):
            self._processes.append(WorkerProcess(i, self._chief, self._mailbox_channel(i), external=True))

    def _beat(self) -> None:
        try:
            while True:
                self._heartbeat.look_with_retries()
                time.sleep(BEAT_SECONDS)
        except tf.errors.OpError as error:
            self._network.lost = error

    def _mailbox_channel(self, process: int) -> Callable[[], MailboxChannel]:
        workers = workers_of(process, self._config)
        channel = MailboxChannel(self._mailboxes, self._heartbeat, self._network, process, workers)
        return channel.again


def _follow(cluster: ClusterFile, mailboxes: Mailboxes, task: int) -> None:
    """A worker's process on any machine."""
    config = cluster.config
    heartbeat = Heartbeat(mailboxes, own=task)
    threading.Thread(target=_keep_alive, args=(heartbeat, cluster), daemon=True).start()
    workers = workers_of(task, config)
    asks = [MailboxAsk(mailboxes, i) for i in workers]
    env = make_env(config.env)
    specs = env.observation_spec, env.action_spec
    env.close()
    failures: list[BaseException] = []
    worker_side.work(config, *specs, workers, asks, failures.append)
    if failures:
        raise failures[0]


def _keep_alive(heartbeat: Heartbeat, cluster: ClusterFile) -> None:
    """Give signs of life, and end this process if those of the chief or the server fail."""
    try:
        while not heartbeat.chief_is_lost:
            heartbeat.look_with_retries()
            time.sleep(BEAT_SECONDS)
        reason = f"the chief has not been heard of for {LOST_SECONDS:.0f} s"
    except tf.errors.OpError as error:
        reason = f"the parameter server at {cluster.ps} is lost ({type(error).__name__})"
    _log.error("%s; this worker ends", reason)
    os._exit(1)
