"""The documents are true: every command and every piece of Python that they show runs, in the order shown.

Trainings get a budget of a few episodes in place of the one that is written there.
"""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from a3c_tf.commands import cli
from tests.conftest import ROOT
from tests.test_layers import WINGS

DOCUMENTS = ("README.md", "docs/usage.md", "docs/environments.md", "docs/handoff.md", "docs/original.md")
NOT_RUN = {
    "make demo": "installs TensorFlow, then runs demos/pendulum_a3c.py, which is run here",
    "make test": "would run this test again",
    "pip install -r requirements.txt": "downloads",
    "pip install --no-deps -e .": "changes the environment of whoever runs the tests",
    "tensorboard --logdir runs/pendulum": "serves until it is stopped",
    ".venv/bin/tensorboard --logdir runs": "serves until it is stopped",
    'pip install -e ".[render]"': "downloads",
    'pip install "a3c-tf[gymnasium]"': "downloads",
    "a3c-tf COMMAND --help": "stands for each command: test_cli.py",
    "a3c-tf evaluate --render": "needs a screen",
}
PROGRAMS = ("make ", "pip ", "python ", "a3c-tf ", "tensorboard ", ".venv/bin/")


class Piece(NamedTuple):
    """A block of a document, or a command within its text."""

    language: str
    title: str
    text: str


def pieces(document: str) -> list[Piece]:
    """All blocks, and the commands with an option that stand within the text, in their order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for block in re.finditer(
        r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$|`([^`\n]+)`', text, re.MULTILINE | re.DOTALL
    ):
        language, title, content, inline = block.groups()
        if inline is None:
            found.append(Piece(language, title or "", content))
        elif inline.startswith(PROGRAMS) and (" --" in inline or "install" in inline):
            found.append(Piece("sh", "", inline))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with the repository's demos, where a program may do to its process what programs do."""
    (tmp_path / "demos").symlink_to(ROOT / "demos")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield tmp_path
    sys.modules.pop("thermostat", None)


def test_every_block_says_what_it_is() -> None:
    for document in DOCUMENTS[:4]:
        assert {piece.language for piece in pieces(document)} <= {"sh", "python", "text"}, document


def test_no_exception_is_out_of_date() -> None:
    shown = {line for document in DOCUMENTS for piece in pieces(document) for line in piece.text.splitlines()}
    assert set(NOT_RUN) <= shown


def test_the_chinese_readme_is_in_step() -> None:
    """Section by section: the level of the heading, blocks, code and links within the text, figures, rows of tables."""
    english, chinese = (_sections((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "README.zh.md"))
    for ours, theirs in zip(english, chinese, strict=True):
        for what, form in IN_STEP.items():
            assert _found(form, theirs) == _found(form, ours), f"{what} of {theirs.splitlines()[0]}"


IN_STEP = {
    "level": r"^#+ ",
    "blocks": r"^```.*?^```$",
    "code": r"`[^`\n]+`",
    "links": r"\]\((?!#|README)([^)]+)\)",
    "figures": r"\d[\d,.]*\d",
    "rows": r"^\|",
    "items": r"^- ",
}


def _sections(text: str) -> list[str]:
    return re.split(r"^(?=#+ )", text, flags=re.MULTILINE)[1:]


def _found(form: str, section: str) -> list[str]:
    """In any order: word order differs."""
    return sorted(re.findall(form, section, re.MULTILINE | re.DOTALL))


ALL_DOCUMENTS = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
OURS = {
    str(path.relative_to(ROOT))
    for folder in ("a3c_tf", "benchmarks", "demos", "tests", "setup.py")
    for path in ([ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"))
}
HISTORY = {"CHANGELOG.md"}
"""speaks of files as they were called then"""


@pytest.mark.parametrize("document", ALL_DOCUMENTS)
def test_what_a_document_links_to_is_there_under_the_name_it_gives(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for shown, target in re.findall(r"\[([^\[\]]*)\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if target.startswith("http"):
            continue
        path = (ROOT / document).parent / target
        assert path.exists(), f"{target}: no such file"
        if re.fullmatch(r"[\w./]+\.(py|md)", shown):
            assert str(path.resolve()).endswith(f"/{shown}"), f"{shown} is the text of a link to {target}"


@pytest.mark.parametrize("document", [document for document in ALL_DOCUMENTS if document not in HISTORY])
def test_every_file_a_document_names_is_ours(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    own = {piece.title for piece in pieces(document)}
    for name in set(re.findall(r"`([\w/]+\.py)`", text)) - own:
        assert any(f"/{path}".endswith(f"/{name}") for path in OURS), f"{name}: no such file"


def test_every_test_that_a_document_names_is_there() -> None:
    tests = "".join((ROOT / path).read_text(encoding="utf-8") for path in OURS if path.startswith("tests/"))
    for document in ALL_DOCUMENTS:
        for name in re.findall(r"`(test_\w+)`", (ROOT / document).read_text(encoding="utf-8")):
            assert f"def {name}(" in tests, f"{document}: {name}"


def test_the_map_has_every_wing_and_program() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for wing in (ROOT / "a3c_tf").glob("*/__init__.py"):
        assert f"](a3c_tf/{wing.parent.name})" in text
    for program in (ROOT / "demos").glob("*.py"):
        assert f"](demos/{program.name})" in text


def test_the_contributors_table_has_the_wings_in_their_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `?(\w+)[`:]", text, re.MULTILINE) == list(WINGS)


def test_the_algorithm_is_as_long_as_the_readme_says() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"To read the algorithm, read `([\w.]+)`, then `([\w.]+)`: (\d+) lines", text)
    assert found
    first, second, said = found.groups()
    files = (ROOT / "a3c_tf/training" / first, ROOT / "a3c_tf/algorithms" / second)
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert abs(lines - int(said)) <= 25


def test_ci_runs_on_the_oldest_and_the_newest_python_of_setup_py() -> None:
    setup, ci = ((ROOT / path).read_text(encoding="utf-8") for path in ("setup.py", ".ci/run"))
    oldest, beyond = re.findall(r'python_requires=">=3.(\d+),<3.(\d+)"', setup)[0]
    assert f"for version in 3.{oldest} 3.{int(beyond) - 1}; do" in ci


@pytest.mark.timeout(900)  # twenty programs one after the other, on a machine that may be busy
@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_shows_runs(document: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = itertools.count(3)  # a resume needs more than there was
    ran = 0
    for piece in pieces(document):
        if piece.title:
            (folder / piece.title).write_text(piece.text, encoding="utf-8")
        elif piece.language == "python":
            _run_python(piece.text, next(budgets), folder, monkeypatch)
            ran += 1
        elif piece.language == "sh":
            for line in piece.text.splitlines():
                if line not in NOT_RUN:
                    _run_command(shlex.split(line), next(budgets), monkeypatch)
                    ran += 1
    assert ran


def _run_python(text: str, budget: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program that lies in the folder."""
    text = re.sub(r"max_episodes=\d+", lambda _: f"max_episodes={budget}", text)
    with monkeypatch.context() as here:
        here.syspath_prepend(folder)
        exec(compile(text, "example", "exec"), {"__name__": "__main__"})


def _run_command(words: list[str], budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--help" not in words:
        if words[0] == "python":
            words = [*words, "--episodes", str(budget)]
        elif words[1] == "train":  # short episodes: they are also filmed
            words = [*words, "--episodes", str(budget), "--max-episode-steps", "20"]
    program, *arguments = words
    with monkeypatch.context() as here:
        here.setattr(sys, "path", [*sys.path])
        assert _exit_code(program, arguments, here) == 0, words


def _exit_code(program: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        if program == "a3c-tf":
            return cli.main(arguments)
        assert program == "python"
        monkeypatch.setattr(sys, "argv", arguments)
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    return 0
