"""A run on several machines: ``parameter_server.json``, the parameter server's program and the workers'.

Only the parameter server listens. Worker 0 is the chief: it keeps the run and its folder. What it and the others
say to each other lies in variables on the parameter server, a letter box for each worker, that both sides look into.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from a3c_tf.config import Config
from a3c_tf.distributed import parameter_server, worker_side
from a3c_tf.distributed.chief import Keeper, LostError, ServerGoneError, ServerLostError, WorkerProcess
from a3c_tf.distributed.parameter_server import GlobalNetwork, Mirror, Packet, number_of_workers, workers_of
from a3c_tf.distributed.processes import ProcessCrew
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.session import RemoteSession
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.training import trainer
from a3c_tf.training.crew import Spaces, Training

CONNECT_SECONDS = 60.0
"""how long a worker waits for the parameter server"""
BEAT_SECONDS = 1.0
LOST_SECONDS = 15.0
"""after this long without a sign of life a process counts as lost: longer than it lives without the server"""
SILENT_SECONDS = 8.0
"""after this long without an answer the parameter server counts as lost"""
_CALL_SECONDS = 4.0
"""for one look into a letter box; the trainer waits a second longer for a thread to end"""
_LOOK_SECONDS, _LONGEST_LOOK = 0.01, 0.2
"""between two looks into a letter box; a worker that waits long looks less often"""
_FIELDS = ("run", "ps", "settings")

_log = logging.getLogger("a3c_tf")


@dataclasses.dataclass(frozen=True)
class Spec:
    """What ``parameter_server.json`` says: ``run``, a name; ``ps``, host:port; the settings."""

    run: str
    ps: str
    config: Config

    @property
    def run_id(self) -> str:
        """The name with a hash of all the rest: who has another file does not get in."""
        told = json.dumps([self.ps, self.config.to_json()])
        return f"{self.run}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    @classmethod
    def read(cls, path: str) -> Spec:
        """Raises ``UsageError`` for a file that is none."""
        try:
            told = json.loads(Path(path).read_text(encoding="utf-8"))
            if sorted(told) != sorted(_FIELDS):
                raise ValueError(f"expected the fields {', '.join(_FIELDS)}, got {', '.join(told)}")
            settings = dict(told["settings"])
            preset = settings.pop("preset", None)
            host, _, port = str(told["ps"]).rpartition(":")
            if not (host and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError(f"ps = {told['ps']!r}: expected host:port")
            config = Config.preset(preset, **settings) if preset else Config.for_env(**settings)
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from None
        for field, needed in (("processes", config.processes), ("seed", config.seed is not None)):
            if not needed:
                raise UsageError(f"{path}: settings lack {field}, which all hosts must have alike")
        return cls(str(told["run"]), str(told["ps"]), config)


class Office:
    """The variables on the parameter server beside the global network, for one of the ``cluster`` programs.

    ``run_id`` and ``chief`` say whose it is. ``beats`` counts for each process while it lives, ``over`` is set at
    the end. ``asked`` and ``answered`` are each worker's letter boxes: a letter stays until the next replaces it.
    """

    def __init__(self, target: str, config: Config, timeout: float) -> None:
        graph, number = tf.Graph(), number_of_workers(config)
        with graph.as_default(), graph.device("/job:ps/task:0/cpu:0"), quiet_deprecations():
            with tf.variable_scope("office", use_resource=True):
                texts = [tf.get_variable(name, [], tf.string) for name in self._text_names(number)]
                beats = tf.get_variable("beats", [config.processes], tf.int64, tf.zeros_initializer())
                over = tf.get_variable("over", [], tf.int64, tf.zeros_initializer())
            text, beat = tf.placeholder(tf.string, []), tf.placeholder(tf.int64, [config.processes])
            ends = tf.stack([over.read_value()])
            writes = [variable.assign(text, read_value=False) for variable in texts]
            reads = [variable.read_value() for variable in texts]
            beat_op, end_op = beats.assign_add(beat, read_value=False), over.assign(1, read_value=False)
            life = [beats.read_value(), ends]
            start = [beats.initializer, over.initializer]
        graph.finalize()
        self.session = session = RemoteSession(target, graph, timeout)
        names = self._text_names(number)
        self.write = {
            name: parameter_server.repeatable(session.call([], [text], [op]))
            for name, op in zip(names, writes, strict=True)
        }
        self.read = {
            name: parameter_server.repeatable(session.call([op])) for name, op in zip(names, reads, strict=True)
        }
        self.beat = parameter_server.repeatable(session.call([], [beat], [beat_op]))
        self.life = parameter_server.repeatable(session.call(life))
        self.end = parameter_server.repeatable(session.call([], [], [end_op]))
        self._start = session.call([], [], start)

    @staticmethod
    def _text_names(number: int) -> list[str]:
        return ["run_id", "chief", *(f"{kind}_{i}" for i in range(number) for kind in ("asked", "answered"))]

    def open(self, run_id: str) -> None:
        """Begin, on a new server."""
        self._start()
        for name, write in self.write.items():
            write(run_id if name == "run_id" else "")

    def text(self, name: str) -> str:
        return bytes(self.read[name]()[0]).decode()


def connect(spec: Spec) -> Office:
    """Reach the parameter server and see that it is this run's. Raises ``UsageError`` that names the address."""
    deadline = time.monotonic() + CONNECT_SECONDS
    office = Office(f"grpc://{spec.ps}", spec.config, _CALL_SECONDS)
    while True:
        try:
            found = office.text("run_id")
            break
        except tf.errors.InvalidArgumentError:  # variables of other shapes
            found = "another run"
            break
        except tf.errors.OpError as error:  # also that of a server which has just started
            if time.monotonic() > deadline:
                raise UsageError(
                    f"parameter server {spec.ps}: no run there after {CONNECT_SECONDS:.0f} s ({type(error).__name__}): "
                    "start `a3c-tf cluster ps` there, and look at the address and the firewall"
                ) from None
            time.sleep(0.5)
    if found != spec.run_id:
        raise UsageError(
            f"parameter server {spec.ps}: belongs to {found}, expected {spec.run_id}: another run, or another "
            "cluster.json; stop it, or name another port"
        )
    return office


def serve(spec: Spec, allow_open_port: bool) -> None:
    """Be the parameter server until the run is over. Raises ``UsageError`` if the port is in use."""
    if not allow_open_port:
        raise UsageError(
            f"{spec.ps}: TensorFlow's server listens on all interfaces, without a password, and runs any graph sent to "
            "it:\nwhoever reaches the port owns this account; fence it in (docs/cluster.md) and give --allow-open-port"
        )
    try:
        target = parameter_server.serve(spec.ps)
    except tf.errors.OpError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{spec.ps}: the server cannot start, is the port in use? ({reason})") from None
    office = Office(target, spec.config, timeout=60)
    office.open(spec.run_id)
    _log.info("parameter server of %s at %s", spec.run_id, spec.ps)
    watch = _Watch(office, own=None)
    while not watch.over:
        time.sleep(BEAT_SECONDS)
        watch.look()
        if watch.chief_is_lost:
            raise RunError(
                f"the chief has not been heard of for {LOST_SECONDS:.0f} s; its last checkpoint is the run's"
            )


class _Watch:
    """Signs of life: gives those of process ``own``, and sees those of the chief, process 0."""

    def __init__(self, office: Office, own: int | None) -> None:
        self._office, self._seen = office, office.life()[0]
        self._since = [time.monotonic()] * len(self._seen)
        self._own = None if own is None else [int(i == own) for i in range(len(self._seen))]
        self._begun = False
        self.over = False

    def look(self) -> None:
        if self._own:
            self._office.beat(self._own)
        beats, (over,) = self._office.life()
        now = time.monotonic()
        self._since = [
            now if new != old else since for new, old, since in zip(beats, self._seen, self._since, strict=True)
        ]
        self._seen, self.over, self._begun = beats, bool(over), self._begun or beats[0] > 0

    def look_patiently(self) -> None:
        """Look until there is an answer. Raises ``tf.errors.OpError`` if the server was silent for too long."""
        begun = time.monotonic()
        while True:
            try:
                self.look()
                return
            except tf.errors.OpError:
                if time.monotonic() - begun > SILENT_SECONDS - _CALL_SECONDS:
                    raise
                time.sleep(0.2)

    def silent(self, process: int) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self._since[process]

    @property
    def chief_is_lost(self) -> bool:
        return self._begun and self.silent(0) > LOST_SECONDS


def work(spec: Spec, task: int, resume: bool, show: str) -> trainer.Result | None:
    """Be worker ``task``; the chief, 0, returns the run's result."""
    if not 0 <= task < spec.config.processes:
        raise UsageError(
            f"--task {task}: expected 0 to {spec.config.processes - 1}: parameter_server.json has as many processes"
        )
    if resume and task:
        raise UsageError("--resume is for --task 0, which keeps the run")
    office = connect(spec)
    _refuse_a_double(office, spec, task)
    if task == 0:
        return _lead(spec, office, resume, show)
    _follow(spec, office, task)
    return None


def _refuse_a_double(office: Office, spec: Spec, task: int) -> None:
    """Somebody else may be this worker, with a copy of the same file."""
    if task == 0 and (chief := office.text("chief")):
        raise UsageError(
            f"parameter server {spec.ps}: has a chief already, or had one ({chief}): start a new server for a new run, "
            "and to go on with one"
        )
    before = office.life()[0][task]
    time.sleep(2.5 * BEAT_SECONDS)
    if office.life()[0][task] != before:
        raise UsageError(f"parameter server {spec.ps}: there is a worker {task} already; name another --task")


def _who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _lead(spec: Spec, office: Office, resume: bool, show: str) -> trainer.Result:
    """The chief keeps the run, and has a process of its own to act."""
    office.write["chief"](_who())
    config, crew = spec.config, HostCrew(spec, office)
    try:
        if resume:
            if config.log_dir is None:
                raise UsageError("--resume: settings lack log_dir, the folder of the run")
            return trainer.go_on(config.log_dir, {}, lambda saved: crew, show)
        return trainer.run_new(config, crew, show)
    finally:
        with contextlib.suppress(tf.errors.OpError):
            office.end()


class HostCrew(ProcessCrew):
    """Worker 0 in a process of this machine, the others wherever they join from."""

    def __init__(self, spec: Spec, office: Office) -> None:
        self._spec, self._office = spec, office

    def check(self, config: Config) -> None:
        """Nothing is opened here."""

    def open(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        spaces = self._prepare(config, closing)
        network = GlobalNetwork(f"grpc://{self._spec.ps}", config, *spaces, worker_side.CALL_SECONDS)
        self._network = FarNetwork(self._spec.ps, network)
        self._watch = _Watch(self._office, own=0)
        return spaces

    def start(self, training: Training) -> None:
        mirror = Mirror(training.graph.shared_variables, training.session, training.config)
        state = training.state
        self._keeper = Keeper(
            self._config, self._network, mirror, self._setup["specs"], state.steps, state.worker_episodes
        )
        self._network.write(mirror.learnt())
        threading.Thread(target=self._beat, daemon=True).start()
        self._processes = [self._worker_process(0)]
        self._processes[0].join()
        for i in range(1, self._config.processes):
            self._processes.append(WorkerProcess(i, self._keeper, self._letter_boxes(i), far=True))

    def _beat(self) -> None:
        try:
            while True:
                self._watch.look_patiently()
                time.sleep(BEAT_SECONDS)
        except tf.errors.OpError as error:
            self._network.lost = error

    def _letter_boxes(self, process: int) -> Callable[[], LetterChannel]:
        workers = workers_of(process, self._config)
        channel = LetterChannel(self._office, self._watch, self._network, process, workers)
        return channel.again


class FarNetwork:
    """A global network on another machine, as a ``remote.Network``."""

    def __init__(self, address: str, network: GlobalNetwork) -> None:
        self.target = f"grpc://{address}"
        self._network = network
        self._told = False
        self.lost: Exception | None = None

    def read(self) -> Packet:
        return self._guarded(self._network.read)

    def write(self, learnt: Packet) -> None:
        self._guarded(lambda: self._network.write(learnt))

    def request_stop(self) -> None:
        self._guarded(self._network.request_stop)

    def check(self) -> None:
        if self._told:
            raise ServerGoneError
        if self.lost:
            self._tell(self.lost)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        if self._told:
            raise ServerGoneError
        try:
            return call()
        except tf.errors.OpError as error:
            self._tell(error)

    def _tell(self, error: Exception) -> NoReturn:
        if self._told:
            raise ServerGoneError
        self._told = True
        raise ServerLostError(
            f"the parameter server at {self.target} is lost ({type(error).__name__}); the run ends here"
        )


class LetterChannel:
    """The chief's way to the workers of a process elsewhere."""

    def __init__(self, office: Office, watch: _Watch, network: FarNetwork, process: int, workers: range) -> None:
        self._office, self._watch, self._network = office, watch, network
        self._process, self._workers = process, workers
        self._seen = dict.fromkeys(workers, "")
        self._number: dict[int, Any] = {}
        self._joined = False

    def again(self) -> LetterChannel:
        """Wait for the process, the first time or after it was lost."""
        self._joined = False
        return self

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        try:
            return self._look()
        except tf.errors.OpError:
            time.sleep(seconds)  # it may answer again; the thread that beats knows when it is lost
            return None

    def _look(self) -> tuple[int, list[Any]] | None:
        for worker in self._workers:
            letter = self._office.text(f"asked_{worker}")
            if letter != self._seen[worker]:
                number, *message = json.loads(letter)
                if message[0] == "hello" and self._joined:
                    raise LostError("was started again")
                self._joined |= message[0] == "hello"
                self._seen[worker], self._number[worker] = letter, number
                return worker, message
        if self._joined and self._watch.silent(self._process) > LOST_SECONDS:
            raise LostError(f"has not been heard of for {LOST_SECONDS:.0f} s")
        time.sleep(2 * _LOOK_SECONDS)
        return None

    def answer(self, worker: int, answer: Any) -> None:
        letter = json.dumps([self._number[worker], answer])
        while True:
            try:
                self._office.write[f"answered_{worker}"](letter)
                return
            except tf.errors.OpError:
                self._network.check()
                time.sleep(0.2)

    def end(self) -> None:
        """It ends by itself when it is told no, or that it was given up."""

    def where_it_hangs(self) -> str:
        return " or is out of reach"


def _follow(spec: Spec, office: Office, task: int) -> None:
    """A worker's process on any machine."""
    config = spec.config
    watch = _Watch(office, own=task)
    threading.Thread(target=_live, args=(watch, spec), daemon=True).start()
    workers = workers_of(task, config)
    asks = [_Letters(office, i) for i in workers]
    env = worker_side.make_env(config.env)
    specs = env.observation_spec, env.action_spec
    env.close()
    failures: list[BaseException] = []
    worker_side.work(config, *specs, workers, asks, failures.append)
    if failures:
        raise failures[0]


def _live(watch: _Watch, spec: Spec) -> None:
    """Give signs of life, and end this process if those of the chief or the server fail."""
    try:
        while not watch.chief_is_lost:
            watch.look_patiently()
            time.sleep(BEAT_SECONDS)
        reason = f"the chief has not been heard of for {LOST_SECONDS:.0f} s"
    except tf.errors.OpError as error:
        reason = f"the parameter server at {spec.ps} is lost ({type(error).__name__})"
    _log.error("%s; this worker ends", reason)
    os._exit(1)


class _Letters:
    """A worker's end of its letter boxes; asks as ``worker_side.work`` does."""

    def __init__(self, office: Office, worker: int) -> None:
        self._office, self._worker = office, worker
        self._first, self._number = os.urandom(4).hex(), 0

    def __call__(self, kind: str, *what: Any) -> Any:
        self._number += 1
        number = f"{self._first}-{self._number}"
        answer = None
        while answer is None:  # as long as this process lives, which ends if the server or the chief is lost
            try:
                answer = self._exchange(number, json.dumps([number, kind, *what]))
            except tf.errors.OpError:
                time.sleep(0.2)
        if answer[0] == "given up":
            raise RunError("the chief has given this worker up, after it was not heard of; start it again")
        return answer[0]

    def _exchange(self, number: str, letter: str) -> list[Any]:
        self._office.write[f"asked_{self._worker}"](letter)
        pause = _LOOK_SECONDS
        while True:
            answered, *answer = json.loads(self._office.text(f"answered_{self._worker}") or "[null]")
            if answered == number:
                return answer
            time.sleep(pause)
            pause = min(1.3 * pause, _LONGEST_LOOK)
