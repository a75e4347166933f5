"""Ctrl-C and SIGTERM at any moment of a program: the exit code is the documented one, and nothing is spoiled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads which signals a process catches from /proc")
CODES = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
SETTINGS = (
    *("--env", "tests.faulty:Env", "--workers", "2", "--max-episodes", "6", "--seed", "1"),
    *("--actor-hidden", "8", "--critic-hidden", "8", "--verbose"),
)


def training(run: Path) -> subprocess.Popen[str]:
    """``a3c-tf train``, which ends by itself after some seconds."""
    return subprocess.Popen(
        [sys.executable, "-m", "a3c_tf", "train", *SETTINGS, "--log-dir", str(run)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_the_handlers(process: subprocess.Popen[str]) -> None:
    """Until then Python is starting, and none of the package's code has run that could answer."""
    mask, status = 1 << (signal.SIGTERM - 1), Path(f"/proc/{process.pid}/status")
    while not int(re.findall(r"SigCgt:\s*(\w+)", status.read_text())[0], 16) & mask:
        assert process.poll() is None
        time.sleep(0.001)


def ends_as_documented(process: subprocess.Popen[str], numbers: list[signal.Signals], pause: float = 0.0) -> int:
    """Send the signals, one after the other, and look how the process ends; 0 if it had ended before."""
    for number in numbers:
        process.send_signal(number)
        time.sleep(pause)
    output, errors = process.communicate(timeout=60)
    code = process.returncode
    assert code in (0, *(CODES[number][0] for number in numbers)), f"{code}\n{output}\n{errors}"
    assert "Traceback" not in errors, errors
    assert "Exception ignored" not in errors, errors
    if code and errors:  # while TensorFlow is loaded, its first lines are kept from the terminal, and so is this word
        assert errors.splitlines()[-1] in [CODES[number][1] for number in numbers], errors
    return code


def after_the_start(folder: Path, delays: list[float], number: signal.Signals) -> list[int]:
    codes = []
    for i, delay in enumerate(delays):
        process = training(folder / f"{number.name}-{i}")
        wait_for_the_handlers(process)
        time.sleep(delay)
        codes.append(ends_as_documented(process, [number]))
    return codes


def at_the_end(folder: Path, delays: list[float], number: signal.Signals) -> None:
    """After the last line that a training prints."""
    for i, delay in enumerate(delays):
        process = training(folder / f"{number.name}-{i}")
        assert process.stdout is not None
        while not process.stdout.readline().startswith("graph:"):
            pass
        time.sleep(delay)
        ends_as_documented(process, [number])


def twice(folder: Path, pauses: list[float]) -> None:
    """Two signals, the second at any moment of the good order that the first one asked for."""
    for i, pause in enumerate(pauses):
        process = training(folder / f"twice-{i}")
        while not (folder / f"twice-{i}" / "config.json").exists():
            time.sleep(0.001)
        assert ends_as_documented(process, [signal.SIGINT, signal.SIGINT], pause) == 130


@pytest.mark.parametrize("number", CODES)
def test_in_the_first_seconds(tmp_path: Path, number: signal.Signals) -> None:
    codes = after_the_start(tmp_path, [0.0, 0.05, 0.3, 0.8, 1.5, 2.5], number)
    assert codes[0] == CODES[number][0], "the test sends it in time"


@pytest.mark.parametrize("number", CODES)
def test_at_the_end(tmp_path: Path, number: signal.Signals) -> None:
    at_the_end(tmp_path, [0.0, 0.02, 0.1], number)


def test_a_second_one(tmp_path: Path) -> None:
    twice(tmp_path, [0.0, 0.05, 0.2])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_few_milliseconds(tmp_path: Path) -> None:
    for number in CODES:
        after_the_start(tmp_path / "start", [0.02 * i for i in range(150)], number)
        at_the_end(tmp_path / "end", [0.01 * i for i in range(20)], number)
    twice(tmp_path, [0.02 * i for i in range(30)])
