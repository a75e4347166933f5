"""Reading a run's tables, also those that a kill cut short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a3c_tf.errors import UsageError
from a3c_tf.runs.tables import cut_back, read_columns
from tests.conftest import HEADER, ROWS


def test_columns_by_name(metrics_csv: Path) -> None:
    columns = read_columns(metrics_csv, "running_return")
    assert list(columns) == HEADER.strip().split(",")
    np.testing.assert_array_equal(columns["episode_return"], [-1000.0, -500.5])
    np.testing.assert_array_equal(columns["global_step"], [200, 400])
    assert columns["worker"].tolist() == ["W_0", "W_1"]
    assert columns["episode"].dtype == np.float64


def test_a_table_without_rows(metrics_csv: Path) -> None:
    metrics_csv.write_text(HEADER, encoding="utf-8")
    columns = read_columns(metrics_csv, "running_return")
    assert list(columns) == HEADER.strip().split(",")
    assert {len(column) for column in columns.values()} == {0}


def test_a_last_row_that_was_cut_short_is_left_out(metrics_csv: Path) -> None:
    metrics_csv.write_text(HEADER + ROWS + "0.9,600,2,W_", encoding="utf-8")
    assert len(read_columns(metrics_csv, "running_return")["episode"]) == 2


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "running_return\nx\n", b"\xff\xfe\x00", None])
def test_what_is_no_table_is_refused_with_its_name(metrics_csv: Path, text: str | bytes | None) -> None:
    metrics_csv.unlink()
    if text is not None:
        metrics_csv.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageError, match=r"metrics\.csv: expected a run's table with a column running_return"):
        read_columns(metrics_csv, "running_return")


@pytest.mark.parametrize(("last", "kept"), [(-1, 0), (0, 1), (1, 2), (9, 2)])
def test_rows_are_cut_back_and_a_half_row_goes_with_them(metrics_csv: Path, last: int, kept: int) -> None:
    metrics_csv.write_text(HEADER + ROWS + "0.9,600,2,W_", encoding="utf-8")
    assert cut_back(metrics_csv, "episode", last) == kept
    assert metrics_csv.read_text(encoding="utf-8") == HEADER + "".join(ROWS.splitlines(keepends=True)[:kept])
    assert [file.name for file in metrics_csv.parent.iterdir()] == ["metrics.csv"]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "episode,a\nx,2\n"])
def test_what_is_no_table_is_not_cut_back(metrics_csv: Path, text: str) -> None:
    metrics_csv.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"metrics\.csv: expected a table that a run wrote, with a column episode"):
        cut_back(metrics_csv, "episode", 1)
    assert metrics_csv.read_text(encoding="utf-8") == text
