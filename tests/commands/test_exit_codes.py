"""How an ending becomes an exit code."""

from __future__ import annotations

import pytest

from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.errors import UsageError

pytestmark = pytest.mark.usefixtures("signals_put_back")


def raising(error: BaseException) -> int:
    raise error


def test_done_is_0_and_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: 0) == 0
    assert capsys.readouterr() == ("", "")


def test_a_refusal_is_one_line_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: raising(UsageError("workers = 0: expected more"))) == 2
    assert capsys.readouterr() == ("", "error: workers = 0: expected more\n")


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: raising(KeyboardInterrupt())) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_value_that_is_no_refusal_is_a_failure() -> None:
    """A ValueError of the environment's must not pass for a refusal: it keeps its traceback."""
    with pytest.raises(ValueError, match="the environment's own"):
        exit_code(lambda: raising(ValueError("the environment's own")))
