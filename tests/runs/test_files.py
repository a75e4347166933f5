"""Files are there whole or not at all, and a disk that does not take them is named in one line."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from a3c_tf.errors import RunError
from a3c_tf.graph.tf1 import tf
from a3c_tf.runs.files import half_written, writing, written_whole


@pytest.mark.parametrize("before", [None, "old"])
def test_a_file_appears_when_it_is_whole(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "config.json"
    if before:
        path.write_text(before)
    with written_whole(path) as new:
        new.write_text("half")
        assert (path.read_text() if path.exists() else None) == before
        new.write_text("whole")
    assert path.read_text() == "whole"
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("old")

    def fail_half_way() -> None:
        with written_whole(path) as new:
            new.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_text() == "old"


def test_what_a_kill_left_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    half_written(path).write_text("left by a kill, and longer")
    with written_whole(path) as new:
        new.write_text("new")
    assert path.read_text() == "new"


ERRORS = {
    "the system's": (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    "without a reason": (OSError(), "OSError"),
    "TensorFlow's, of several lines": (
        tf.errors.UnknownError(None, None, "run/ckpt.index; No space left on device\n\t [[node Save]]\nwhere"),
        "No space left on device",
    ),
    "TensorFlow's, with the reason further down": (
        tf.errors.UnknownError(None, None, "2 root errors\n  (0) run/ckpt; Disk quota exceeded"),
        "Disk quota exceeded",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_disk_that_takes_nothing_is_one_line(case: str) -> None:
    error, reason = ERRORS[case]
    with pytest.raises(RunError) as raised, writing(Path("run/file"), (OSError, tf.errors.OpError)):
        raise error
    assert str(raised.value) == f"run/file: cannot be written: {reason}"
    assert raised.value.__cause__ is None


def test_other_errors_come_out_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), writing(Path("run/file")):
        raise ZeroDivisionError
