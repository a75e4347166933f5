"""Settings that must be made before TensorFlow is imported."""

from __future__ import annotations

import logging

import pytest

from tests.conftest import run_python

REPORT = (
    "import os; import a3c_tf.graph.tf1; print(os.environ['TF_ENABLE_ONEDNN_OPTS'], os.environ['TF_CPP_MIN_LOG_LEVEL'])"
)


def test_settings_are_made_where_the_user_has_made_none_and_loading_is_quiet() -> None:
    done = run_python("-c", REPORT, TF_ENABLE_ONEDNN_OPTS=None, TF_CPP_MIN_LOG_LEVEL=None)
    assert (done.stdout, done.stderr) == ("0 3\n", "")


def test_what_the_user_has_set_stays_and_stderr_is_not_swallowed() -> None:
    program = f"{REPORT}; import sys; print('still here', file=sys.stderr)"
    done = run_python("-c", program, TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="1")
    assert done.stdout == "1 1\n"
    assert done.stderr.endswith("still here\n")


def test_importing_it_switches_nothing_off() -> None:
    from a3c_tf.graph.tf1 import tf

    assert tf.executing_eagerly()


def test_keras_is_loaded_by_the_program_that_uses_it() -> None:
    done = run_python(
        "-c",
        "import a3c_tf.graph.tf1, sys; print('keras' in sys.modules)\n"
        "import tensorflow as tf\n"
        "from tensorflow.keras.layers import Dense\n"
        "print(Dense.__name__, tf.keras.optimizers.Adam.__name__, tf.optimizers.SGD.__name__)",
    )
    assert done.stdout == "False\nDense Adam SGD\n"


def test_keras_that_is_loaded_already_stays() -> None:
    done = run_python(
        "-c",
        "import keras, sys; before = sys.modules['keras.src.optimizers']\n"
        "import a3c_tf.graph.tf1; print(sys.modules['keras.src.optimizers'] is before)",
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_what_was_loaded_is_old_for_the_garbage_collector_which_is_left_as_it_was(enabled: bool, frozen: bool) -> None:
    done = run_python(
        "-c",
        f"import gc; gc.{'enable' if enabled else 'disable'}(); {'gc.freeze()' if frozen else ''}\n"
        "import a3c_tf.graph.tf1; young = len(gc.get_objects(0)) + len(gc.get_objects(1))\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 0, young < 10_000)",
    )
    assert done.stdout == f"{enabled} {frozen} {not frozen}\n"


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR])
def test_the_loggers_level_is_put_back_even_after_an_error(level: int) -> None:
    from a3c_tf.graph.tf1 import quiet_deprecations

    logger = logging.getLogger("tensorflow")
    before = logger.level
    logger.setLevel(level)
    try:
        with pytest.raises(KeyError, match="x"), quiet_deprecations():
            raise KeyError("x" if logger.level == logging.ERROR else logger.level)
        assert logger.level == level
    finally:
        logger.setLevel(before)
