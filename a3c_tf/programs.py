"""What every program of this package does alike: how an ending becomes an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from a3c_tf.config import UsageError

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130


def exit_code(main: Callable[[], int]) -> int:
    """Run ``main``: 0 it was done, 1 the run failed, 2 it was refused before training, 130 Ctrl-C.

    A refusal is one line. A failure keeps its traceback: it is the environment's or ours to mend.
    """
    try:
        return main()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
