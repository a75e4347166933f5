"""The one door to TensorFlow's runtime: a session, and plain callables made from fetches and feeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from a3c_tf.graph.tf1 import CallableOptions, tf, tf_session

Call = Callable[..., list[Any]]

_A_DECADE_IN_MS = 10 * 365 * 24 * 3600 * 1000


class _TF1Session(tf.Session):
    _session = None
    """that it has one before its constructor has run: Ctrl-C may come within, and its destructor asks for it"""


class _AnySession:
    """What both kinds of session do by TensorFlow's public functions."""

    raw: Any

    def _public_call(self, fetches: Sequence[Any], feeds: Sequence[Any], targets: Sequence[Any]) -> Call:
        run = self.raw.make_callable([list(fetches), list(targets)], list(feeds))
        return lambda *arrays: run(*arrays)[0]

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> Any:
        """``tf.Session.run``, for what happens once."""
        return self.raw.run(fetches, feed_dict)

    def close(self) -> None:
        self.raw.close()


class Session(_AnySession):
    """A session on one graph, made for many small calls from many threads.

    One thread executes each call, the caller's own unless asked otherwise: with networks this small, handing
    pieces of a call to a pool costs more than the work. GPUs are hidden, so that their memory is left alone.
    """

    def __init__(self, graph: Any) -> None:
        settings = tf.ConfigProto(
            device_count={"GPU": 0}, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
        )
        settings.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        self.graph = graph
        self.raw = _TF1Session(graph=graph, config=settings)

    def call(
        self, fetches: Sequence[Any], feeds: Sequence[Any] = (), targets: Sequence[Any] = (), in_pool: bool = False
    ) -> Call:
        """A callable that takes an array for each of ``feeds`` and returns an array for each of ``fetches``.

        ``targets`` are operations to run beside them. Arrays must have the placeholders' dtypes and
        shapes: the fast path does not convert. Any thread may call it, several at once.

        With ``in_pool`` a thread of TensorFlow's executes the call, and the caller only waits for it: if the
        caller is kept on a CPU with others, one of them has that CPU meanwhile.
        """
        if CallableOptions and tf_session and hasattr(self.raw, "_make_callable_from_options"):
            return self._fast_call(fetches, feeds, targets, in_pool)
        return self._public_call(fetches, feeds, targets)

    def _fast_call(self, fetches: Sequence[Any], feeds: Sequence[Any], targets: Sequence[Any], in_pool: bool) -> Call:
        """TensorFlow's private callable: an eighth of what ``Session.run`` costs for an action."""
        options = CallableOptions()
        if in_pool:
            # only a call with a time limit is handed over, however long that is
            options.run_options.timeout_in_ms = _A_DECADE_IN_MS
        else:
            options.run_options.inter_op_thread_pool = -1  # the caller's thread: no hand-over, no wake-up
        options.feed.extend(tensor.name for tensor in feeds)
        options.fetch.extend(tensor.name for tensor in fetches)
        options.target.extend(operation.name for operation in targets)
        made = self.raw._make_callable_from_options(options)
        run, session, handle = tf_session.TF_SessionRunCallable, self.raw._session, made._handle

        def call(*arrays: Any, keep: Any = made) -> list[Any]:  # what made it frees it when it goes
            return run(session, handle, arrays, None)

        return call


class RemoteSession(_AnySession):
    """A session of one graph on a server elsewhere; every call ends within ``timeout`` seconds or raises.

    ``tf.errors.DeadlineExceededError`` then; connecting counts as part of the first call. TensorFlow's
    private callables are not used here: over gRPC some of their calls are never answered.
    """

    def __init__(self, target: str, graph: Any, timeout: float) -> None:
        settings = tf.ConfigProto(device_count={"GPU": 0}, operation_timeout_in_ms=int(1000 * timeout))
        self.raw = _TF1Session(target, graph=graph, config=settings)

    def call(self, fetches: Sequence[Any], feeds: Sequence[Any] = (), targets: Sequence[Any] = ()) -> Call:
        """As ``Session.call``."""
        tensors_fit = all(hasattr(tensor, "_as_tf_output") for tensor in [*fetches, *feeds])
        if tensors_fit and hasattr(tf_session, "TF_SessionRun_wrapper") and hasattr(self.raw, "_extend_graph"):
            return self._quick_call(fetches, feeds, targets)
        return self._public_call(fetches, feeds, targets)

    def _quick_call(self, fetches: Sequence[Any], feeds: Sequence[Any], targets: Sequence[Any]) -> Call:
        """What ``Session.run`` comes down to, without the quarter of a round trip that it spends in Python."""
        outputs, inputs = ([tensor._as_tf_output() for tensor in tensors] for tensors in (fetches, feeds))
        operations = [operation._c_op for operation in targets]
        run, session = tf_session.TF_SessionRun_wrapper, self.raw
        extend = session._extend_graph

        def call(*arrays: Any) -> list[Any]:
            extend()
            return run(session._session, None, dict(zip(inputs, arrays, strict=True)), outputs, operations, None)

        return call
