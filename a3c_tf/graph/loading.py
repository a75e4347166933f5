"""How TensorFlow is loaded: the settings that count only if they are made before, and what spares noise and time.

A value that the user has set stays as it is.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# Written by TensorFlow's libraries while they load, whatever the log level is.
_LOADING_NOTES = re.compile(
    rb"^(WARNING: All log messages before absl::|I0000 .*cudart_stub|E0000 .*already been registered).*\n?",
    re.MULTILINE,
)


@contextlib.contextmanager
def loading_tensorflow() -> Iterator[None]:
    """Around the import of TensorFlow: with its settings made, without noise, without delay."""
    # oneDNN's kernels are made for large tensors: with this network they double the time of a call.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    # 3 hides what a CPU-only run cannot act on (unused CPU instructions, absent GPUs); what is wrong in a
    # graph or a session arrives as a Python exception all the same.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_loading_notes(), _without_collections(), _without_keras():
        yield


@contextlib.contextmanager
def _without_loading_notes() -> Iterator[None]:
    """Hold back what native code writes to stderr, and hand it on without the loading notes."""
    try:
        stderr = os.dup(2)
    except OSError:  # a program without stderr has nothing to keep clean
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            os.write(2, _LOADING_NOTES.sub(b"", held.read()))


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Spare Python its searches for garbage while half a million objects come to stay: a fifth of the import."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # and the two after it: all objects count as old now
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Spare the second that Keras takes to load: TensorFlow does without it until a program uses it."""
    name = "keras.src.optimizers"  # what TensorFlow tries to load in advance
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say: not to be imported
    try:
        yield
    finally:
        del sys.modules[name]
