"""``a3c-tf cluster``: the roles of a training on several machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from a3c_tf.commands import exit_codes, train
from a3c_tf.commands.parsing import Flag, parse
from a3c_tf.errors import UsageError


@dataclasses.dataclass(frozen=True)
class ParameterServer:
    spec: str
    """cluster.json, the same on all hosts"""
    allow_open_port: Flag = False
    """needed: whoever reaches the port can run anything as you (SECURITY.md)"""

    def __call__(self) -> int:
        from a3c_tf.distributed import machines
        from a3c_tf.distributed.cluster_file import ClusterFile

        machines.serve(ClusterFile.read(self.spec), self.allow_open_port)
        return exit_codes.DONE


@dataclasses.dataclass(frozen=True)
class ClusterWorker:
    spec: str
    """cluster.json, the same on all hosts"""
    task: int
    """number of this worker process, from 0; 0 is the chief and keeps the run folder"""
    resume: Flag = False
    """--task 0: go on with the run in log_dir"""
    verbose: Flag = False
    """a line for each episode instead of the bar"""

    def __call__(self) -> int:
        from a3c_tf.distributed import machines
        from a3c_tf.distributed.cluster_file import ClusterFile

        result = machines.work(ClusterFile.read(self.spec), self.task, self.resume, "lines" if self.verbose else "auto")
        if result:
            train.report(result)
        return exit_codes.DONE


_ROLES: dict[str, Callable[..., Any]] = {"ps": ParameterServer, "worker": ClusterWorker}


def run(name: str, summary: str, arguments: Sequence[str]) -> int:
    """Run one role; returns its exit code. Raises ``UsageError`` for what it does not take."""
    role, *rest = arguments or ["--help"]
    if role in ("-h", "--help"):
        print(f"usage: a3c-tf {name} ps|worker [OPTIONS]\n\n{summary}\nEach has a --help; see docs/cluster.md.")
        return exit_codes.DONE
    if role not in _ROLES:
        raise UsageError(f"a3c-tf {name} {role}: expected ps or worker")
    return int(parse(_ROLES[role], f"{name} {role}", summary, rest)())
