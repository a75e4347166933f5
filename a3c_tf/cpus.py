"""How many CPUs this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """The CPUs of this machine, less those that the process may not run on, or has no time on by a container's quota.

    A quota of one and a half CPUs counts as 2.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(quota) for quota in _quotas())]))


def _quotas() -> Iterator[float]:
    """The CPU time per second that each control group around this process is given, where it is limited."""
    for folder in _own_cgroups():
        try:
            if (folder / "cpu.max").exists():  # version 2
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if quota != "max" and int(quota) > 0:  # -1 and max stand for no limit
                yield int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):
            continue


def _own_cgroups() -> Iterator[Path]:
    """The folders of this process's control groups and of those around them."""
    try:
        lines = _OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            root = _CGROUPS / "cpu" if controllers else _CGROUPS
            inner = PurePosixPath(path.lstrip("/"))
            yield from (root / part for part in (inner, *inner.parents))
