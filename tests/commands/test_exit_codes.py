"""How an ending becomes an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import signal

import pytest

from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.errors import RunError, UsageError, mark_place


def raising(error: BaseException) -> int:
    raise error


def test_done_is_0_and_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: 0) == 0
    assert capsys.readouterr() == ("", "")


def test_a_refusal_is_one_line_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: raising(UsageError("workers = 0: expected more"))) == 2
    assert capsys.readouterr() == ("", "error: workers = 0: expected more\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_a_library_swallows_or_replaces_has_its_code_all_the_same(
    number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def swallows() -> int:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        return 0

    def replaces() -> int:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise RuntimeError("pybind11: something else") from None
        return 0

    for main in (swallows, replaces, lambda: signal.raise_signal(number) or 0):
        assert exit_code(main) == code
        assert "Traceback" not in capsys.readouterr().err


def noted(error: BaseException) -> BaseException:
    error.__notes__ = ["somebody else's note"]  # type: ignore[attr-defined]  # Python 3.10 has no add_note
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("refused"), 2), (RunError("it failed"), 1), (KeyboardInterrupt(), 130)],
    ids=["usage", "run", "interrupt"],
)
def test_a_note_of_somebody_else_changes_no_code_and_no_line(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: raising(error)) == code
    without = capsys.readouterr()
    assert exit_code(lambda: raising(noted(error))) == code
    assert capsys.readouterr() == without


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    message: str


@pytest.mark.parametrize(
    "error", [UsageError("x"), RunError("x"), KeyboardInterrupt(), SystemExit(0), ValueError("x"), FrozenError("x")]
)
@pytest.mark.parametrize("with_a_note", [False, True])
def test_whatever_a_worker_raises_is_a_failure_and_its_place_is_said(
    error: BaseException, with_a_note: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if with_a_note and not isinstance(error, FrozenError):
        noted(error)
    mark_place(error, "in worker W_0, its episode 2, step 8")
    assert exit_code(lambda: raising(error)) == 1
    told = capsys.readouterr().err
    assert type(error).__name__ in told or told == "error: in worker W_0, its episode 2, step 8: x\n"
    assert "in worker W_0, its episode 2, step 8" in error.__notes__  # type: ignore[attr-defined]


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: raising(KeyboardInterrupt())) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_value_that_is_no_refusal_is_a_failure() -> None:
    """A ValueError of the environment's must not pass for a refusal: it keeps its traceback."""
    with pytest.raises(ValueError, match="the environment's own"):
        exit_code(lambda: raising(ValueError("the environment's own")))
