"""How many CPUs a process may use: its affinity, and the quotas of the control groups around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3c_tf import cpus
from a3c_tf.cpus import usable_cpus
from tests.conftest import run_python


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of eight CPUs whose control groups are files here; returns their root."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cpus, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(cpus, "_OWN_CGROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("0::/system.slice/run-1\n")
    return tmp_path / "cgroup"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_quota_the_affinity_counts(machine: Path) -> None:
    assert usable_cpus() == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("10000 100000\n", 1),
        ("900000 100000\n", 8),
        ("", 8),
        ("nonsense\n", 8),
        ("100 0\n", 8),
    ],
)
@pytest.mark.parametrize("folder", ["system.slice/run-1", "system.slice", "."])
def test_a_quota_of_version_2_wherever_it_stands(machine: Path, folder: str, text: str, expected: int) -> None:
    write(machine / folder / "cpu.max", text)
    assert usable_cpus() == expected


def test_the_smallest_of_several_quotas_counts(machine: Path) -> None:
    write(machine / "cpu.max", "600000 100000\n")
    write(machine / "system.slice" / "cpu.max", "300000 100000\n")
    write(machine / "system.slice" / "run-1" / "cpu.max", "max 100000\n")
    assert usable_cpus() == 3


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("250000", 3), ("0", 8)])
@pytest.mark.parametrize("folder", ["docker/abc", "."])
def test_a_quota_of_version_1(machine: Path, tmp_path: Path, folder: str, quota: str, expected: int) -> None:
    """Within a container its own group is the root, though it is named by its path outside."""
    (tmp_path / "own").write_text("3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n")
    write(machine / "cpu" / folder / "cpu.cfs_quota_us", f"{quota}\n")
    write(machine / "cpu" / folder / "cpu.cfs_period_us", "100000\n")
    assert usable_cpus() == expected


def test_where_there_are_no_control_groups(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "own").unlink()
    assert usable_cpus() == 8


def test_elsewhere_than_on_linux_all_cpus_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_cpus() == 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_process_that_may_run_on_one_cpu_trains_with_one_worker() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from a3c_tf import Config; print(Config().worker_count)"
    )
    assert run_python("-c", program).stdout == "1\n"
