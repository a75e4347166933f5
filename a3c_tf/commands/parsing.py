"""Options from dataclasses, through tyro, and what is wrong with a command line in one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional

from a3c_tf.errors import UsageError

Flag = FlagCreatePairsOff[bool]
Run = Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]


def parse(kind: Callable[..., Any], name: str, summary: str, arguments: Sequence[str], *default: Any) -> Any:
    """An object of ``kind`` from ``arguments``. Raises ``UsageError`` for what it does not take."""
    command, unknown = _parsed(kind, name, summary, arguments, *default)
    if unknown:
        raise UsageError(f"a3c-tf {name}: {unknown[0]}: no such option{_nearest(unknown[0], command)}")
    return command


def parse_known(kind: Callable[..., Any], name: str, arguments: Sequence[str]) -> Any:
    """The same of the options that ``kind`` has, whatever the others are; ``--help`` is one of those."""
    return _parsed(kind, name, "", [argument for argument in arguments if argument not in ("-h", "--help")])[0]


def _parsed(
    kind: Callable[..., Any], name: str, summary: str, arguments: Sequence[str], *default: Any
) -> tuple[Any, list[str]]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                kind,
                prog=f"a3c-tf {name}",
                description=summary,
                args=list(arguments),
                return_unknown_args=True,
                **({"default": default[0]} if default else {}),
            )
    except SystemExit as leave:
        if leave.code:
            raise UsageError(f"a3c-tf {name}: {_first_sentences(said.getvalue())}") from None
        raise


def search_here(env: str | None) -> None:
    """Let Python find a module of the current folder, if a person named it.

    A run folder names an environment too, and may come from a stranger: what it names is looked for only
    where Python looks by itself.
    """
    if env and ":" in env:
        sys.path.append("")


def _first_sentences(box: str) -> str:
    """tyro's message without its frame: what stands above the first ruling, on one line."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:]]
    ruling = next((i for i, line in enumerate(lines) if re.fullmatch(r"[─╰╯]+", line)), len(lines))
    return " ".join(lines[:ruling])


def _nearest(option: str, command: Any) -> str:
    names = [
        field.name for part in (command, getattr(command, "settings", command)) for field in dataclasses.fields(part)
    ]
    near = difflib.get_close_matches(option.split("=")[0].strip("-").replace("-", "_"), names, 1)
    return (
        f"; did you mean --{near[0].replace('_', '-')}?"
        if near
        else f"; see a3c-tf {type(command).__name__.lower()} --help"
    )
