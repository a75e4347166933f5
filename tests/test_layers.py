"""What each module may import, read from its source: numbers → graph → session door → threads."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_python

# Layer by layer, lowest first; a new module gets its line here.
LAYERS: dict[str, dict[str, set[str]]] = {
    "numbers": {
        "config": set(),
        "affinity": set(),
        "files": {"config"},
        "counters": set(),
        "returns": {"numpy"},
        "spaces": {"numpy", "config", "files"},
        "envs": {"numpy", "config", "spaces"},
        "runs": {"filelock", "config", "files"},
        "tables": {"numpy", "config", "files"},
        "plotting": {"numpy", "matplotlib", "config", "files", "runs", "tables"},
        "programs": {"config"},
        "netns": set(),
    },
    "graph": {
        "tf1": {"tensorflow"},
        "networks": {"tf1"},
        "policies": {"numpy", "spaces", "tf1", "networks"},
        "optimizers": {"config", "tf1"},
        "normalization": {"numpy", "tf1"},
        "acnet": {"normalization", "config", "spaces", "tf1", "networks", "policies", "optimizers"},
    },
    "session door": {
        "session": {"tf1"},
        "cluster": {*("numpy", "config", "spaces", "tf1", "normalization", "optimizers", "acnet", "session")},
    },
    "threads": {
        "worker": {"numpy", "config", "envs", "returns"},
        "checkpoint": {"numpy", "config", "files", "tf1", "acnet", "session"},
        "events": {"numpy", "config", "files", "counters", "runs", "tf1", "worker"},
        "metrics": {"tqdm", "config", "files", "counters", "events", "runs", "tables", "checkpoint", "worker"},
        "evaluation": {
            *("numpy", "config", "envs", "files", "runs", "spaces", "tables", "tf1", "acnet", "session", "checkpoint")
        },
        "remote": {"numpy", "config", "counters", "cluster", "worker"},
        "away": {"config", "envs", "spaces", "tf1", "cluster", "remote", "worker"},
        "child": {"config", "spaces", "netns", "cluster", "away"},
        "launcher": {"config", "counters", "netns", "spaces", "cluster", "remote", "worker"},
        "ledger": {"config", "counters", "checkpoint", "evaluation", "metrics", "worker"},
        "trainer": {
            *("numpy", "config", "envs", "files", "runs", "plotting", "spaces", "tables", "tf1"),
            *("acnet", "affinity", "session", "worker", "metrics", "checkpoint", "evaluation", "events", "ledger"),
            *("cluster", "launcher", "remote"),
        },
        "hosts": {*("config", "spaces", "tf1", "session", "cluster", "remote", "away", "launcher", "trainer")},
        "export": {"config", "policies", "spaces", "tf1", "acnet", "session", "checkpoint", "evaluation"},
        "video": {"numpy", "imageio", "config", "envs", "evaluation"},
        "handoff": set(),
        "threading_demo": {"handoff", "tf1"},
    },
    "programs": {
        "training": {"config", "programs", "plotting", "trainer"},
        "commands": {
            *("tyro", "config", "programs", "runs", "plotting", "evaluation", "export", "video", "training", "hosts")
        },
        "cli": {"__version__", "config", "programs", "commands"},
        "__main__": {"cli"},
    },
}
MAY_IMPORT = {module: allowed for layer in LAYERS.values() for module, allowed in layer.items()}
LAYER_OF = {module: number for number, layer in enumerate(LAYERS.values()) for module in layer}
HEAVY = {"tensorflow", "gym", "gymnasium", "matplotlib", "tqdm", "pygame", "tyro", "imageio"}

SOURCES = {path.stem: path for path in sorted((ROOT / "a3c_tf").glob("*.py")) if path.stem != "__init__"}
PROGRAMS = sorted((ROOT / "demos").glob("*.py"))
STANDARD = set(__import__("sys").stdlib_module_names)


def imports(source: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported when the file is) of each import; our own modules by their stem."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    at_once = {id(node) for node in ast.walk(tree)}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            at_once -= {id(node) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.name}: imports are absolute"
            names = [f"a3c_tf.{alias.name}" for alias in node.names] if node.module == "a3c_tf" else [node.module or ""]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield (parts[1] if parts[0] == "a3c_tf" else parts[0]), id(node) in at_once


def imported(module: str) -> set[str]:
    return {name for name, _ in imports(SOURCES[module]) if name not in STANDARD}


def test_every_module_has_its_line_in_the_table() -> None:
    assert set(SOURCES) == set(MAY_IMPORT)


def test_the_table_itself_goes_one_way() -> None:
    for module, allowed in MAY_IMPORT.items():
        higher = {name for name in allowed if LAYER_OF.get(name, -1) > LAYER_OF[module]}
        assert not higher, f"{module} may not import {higher}: a higher layer"


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_a_module_imports_only_what_the_table_allows(module: str) -> None:
    assert imported(module) <= MAY_IMPORT[module]


def test_the_table_allows_nothing_that_is_not_used() -> None:
    unused = {module: MAY_IMPORT[module] - imported(module) for module in SOURCES if module in MAY_IMPORT}
    assert not {module: names for module, names in unused.items() if names}


def test_only_tf1_imports_tensorflow_in_the_programs_too() -> None:
    importing = {
        path.stem for path in [*SOURCES.values(), *PROGRAMS] if "tensorflow" in {name for name, _ in imports(path)}
    }
    assert importing == {"tf1"}


@pytest.mark.parametrize("module", [*LAYERS["numbers"], "worker"])
def test_numbers_and_the_worker_know_no_tensorflow_however_far_one_follows_their_imports(module: str) -> None:
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(name) if name in SOURCES else []
    assert not seen & {"tf1", "tensorflow"}


def test_environments_and_pictures_are_imported_inside_functions() -> None:
    for path in SOURCES.values():
        at_once = {name for name, now in imports(path) if now}
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
    from a3c_tf.tf1 import tf

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
    import a3c_tf.trainer

    assert a3c_tf.train is a3c_tf.trainer.train
    assert all(getattr(a3c_tf, name) is not None for name in a3c_tf.__all__)
    with pytest.raises(AttributeError, match="no attribute 'learn'"):
        _ = a3c_tf.learn
