"""The wings of the package and their order, read from the imports: an arrow goes to a lower wing only."""

from __future__ import annotations

import ast
import importlib
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_python

# From the ground up, each with the packages of others that it may import; a new wing gets its line here.
WINGS: dict[str, set[str]] = {
    "ground": {"numpy"},
    "environments": {"numpy"},
    "graph": {"numpy", "tensorflow"},
    "algorithms": {"numpy"},
    "runs": {"numpy", "filelock", "matplotlib", "tqdm"},
    "playing": {"numpy", "imageio"},
    "training": {"numpy"},
    "distributed": {"numpy"},
    "api": set(),
    "commands": {"tyro"},
}
BESIDE_COMMANDS = {"threading_demo", "__main__", "__init__"}
HEAVY = {"tensorflow", "gym", "gymnasium", "matplotlib", "tqdm", "pygame", "tyro", "imageio"}
NO_TENSORFLOW = ("ground", "environments")
NO_TENSORFLOW_EITHER = ("training.worker", "training.counters", "algorithms.returns", "runs.folder", "runs.plotting")

PACKAGE = ROOT / "a3c_tf"
SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.stem != "__init__"
}
PROGRAMS = sorted((ROOT / "demos").glob("*.py"))


def wing_of(module: str) -> str:
    """A module's wing; flat ones are the ground's, but for the API and those beside the commands."""
    first, dot, _ = module.partition(".")
    if dot or first == "api":
        return first
    return "commands" if first in BESIDE_COMMANDS else "ground"


def imports(source: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported when the file is) of each import; our own modules without the package."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    later = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.name}: imports are absolute"
            names = [_module_in(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for name in names:
            yield name.removeprefix("a3c_tf."), id(node) not in later


def _module_in(module: str, name: str) -> str:
    """``from module import name`` may name a module of ours: that one."""
    if module.partition(".")[0] != "a3c_tf":
        return module
    is_module = f"{module}.{name}".removeprefix("a3c_tf.") in SOURCES
    return f"{module}.{name}" if is_module or module == "a3c_tf" else module


OURS = {module: {name for name, _ in imports(path) if name in SOURCES} for module, path in SOURCES.items()}


def test_every_folder_is_a_wing() -> None:
    assert {wing_of(module) for module in SOURCES} == set(WINGS)


def test_every_folder_is_a_package_that_the_wheel_takes_along() -> None:
    folders = {path.parent for path in SOURCES.values()} - {PACKAGE}
    assert {path.parent for path in PACKAGE.glob("*/__init__.py")} == folders
    tests = {path.parent for path in (ROOT / "tests").glob("*/test_*.py")}
    assert {path.parent for path in (ROOT / "tests").glob("*/__init__.py")} == tests


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_an_arrow_goes_to_a_lower_wing_only(module: str) -> None:
    order = list(WINGS)
    higher = {name for name in OURS[module] if order.index(wing_of(name)) > order.index(wing_of(module))}
    assert not higher


def test_no_circle() -> None:
    left = dict(OURS)
    while free := [module for module, needs in left.items() if not needs & set(left)]:
        for module in free:
            del left[module]
    assert not left, "each of these imports another of them"


def test_each_wing_uses_its_own_packages_of_others() -> None:
    used: dict[str, set[str]] = {wing: set() for wing in WINGS}
    for module, path in SOURCES.items():
        foreign = {name.partition(".")[0] for name, _ in imports(path)} - set(sys.stdlib_module_names)
        used[wing_of(module)] |= {name for name in foreign if name != "__version__" and name not in SOURCES} - {
            name.partition(".")[0] for name in SOURCES
        }
    assert used == WINGS


def test_only_tf1_imports_tensorflow_in_the_programs_too() -> None:
    importing = {
        module
        for module, path in [*SOURCES.items(), *((path.stem, path) for path in PROGRAMS)]
        if "tensorflow" in {name.partition(".")[0] for name, _ in imports(path)}
    }
    assert importing == {"graph.tf1"}


@pytest.mark.parametrize(
    "module", [*(module for module in SOURCES if wing_of(module) in NO_TENSORFLOW), *NO_TENSORFLOW_EITHER]
)
def test_these_reach_no_tensorflow_however_far_one_follows_their_imports(module: str) -> None:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += OURS[name]
    assert "graph.tf1" not in seen


def test_environments_and_pictures_are_imported_inside_functions() -> None:
    for path in SOURCES.values():
        at_once = {name.partition(".")[0] for name, now in imports(path) if now}
        assert not at_once & {"gym", "gymnasium", "matplotlib", "pygame", "imageio"}, path.name


def test_no_keras_and_no_behaviour_switches() -> None:
    """Keras 3 has no v1 layers, and the switches change every program that imports the package."""
    banned = re.compile(
        r"\bkeras\b\s*[.(]|import keras|from keras|disable_v2_behavior|disable_eager_execution|"
        r"disable_resource_variables|disable_v2_tensorshape|InteractiveSession|tf\.(contrib|layers)\b"
    )
    for path in [*SOURCES.values(), *PROGRAMS]:
        code = ast.unparse(without_texts(ast.parse(path.read_text(encoding="utf-8"))))
        assert not banned.search(code), f"{path.name}: {banned.search(code)}"


def without_texts(tree: ast.Module) -> ast.Module:
    class Cleaner(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.Constant("") if isinstance(node.value, str) else node

    return Cleaner().visit(tree)


def test_everything_that_is_used_of_tensorflow_is_there() -> None:
    """Names inside functions too, which an import alone would not try."""
    from a3c_tf.graph.tf1 import tf

    for path in SOURCES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            chain = ast.unparse(node)
            if re.fullmatch(r"tf(\.\w+)+", chain):
                found = tf
                for name in chain.split(".")[1:]:
                    found = getattr(found, name, None)
                    assert found is not None, f"{path.name} uses {chain}, which this TensorFlow lacks"


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_every_module_can_be_imported(module: str) -> None:
    assert importlib.import_module(f"a3c_tf.{module}").__doc__


def test_importing_the_package_loads_nothing_and_changes_nothing() -> None:
    program = f"""
import os, sys, threading, signal
before = dict(os.environ), threading.active_count(), signal.getsignal(signal.SIGINT), sys.excepthook
import a3c_tf
a3c_tf.Config(); dir(a3c_tf)
after = dict(os.environ), threading.active_count(), signal.getsignal(signal.SIGINT), sys.excepthook
print(before == after, sorted({HEAVY!r} & set(sys.modules)))
"""
    done = run_python("-c", program)
    assert (done.stdout, done.stderr) == ("True []\n", "")


def test_the_packages_names_are_found_and_others_are_refused() -> None:
    import a3c_tf
    import a3c_tf.api

    assert a3c_tf.train is a3c_tf.api.train
    assert all(getattr(a3c_tf, name) is not None for name in a3c_tf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'learn'"):
        _ = a3c_tf.learn


# presets and Config are lists: as long as what they list
LISTS = {"presets", "config"}


@pytest.mark.parametrize("module", sorted(set(SOURCES) - LISTS))
def test_a_module_is_read_in_one_sitting(module: str) -> None:
    assert len(SOURCES[module].read_text(encoding="utf-8").splitlines()) <= 300


def test_functions_are_short_and_take_few_parameters() -> None:
    lengths = []
    for path in SOURCES.values():
        for function in functions(path):
            lengths.append(function.end_lineno - function.lineno + 1)
            assert lengths[-1] <= 40, f"{path.name}: {function.name} has {lengths[-1]} lines"
            arguments = function.args
            names = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
            given = [name for name in names if name not in ("self", "cls")]
            assert len(given) <= 6, f"{path.name}: {function.name} takes {len(given)} parameters"
    assert statistics.median(lengths) <= 6


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node
