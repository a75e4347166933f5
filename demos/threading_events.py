"""Watch workers and one updater take turns by two Events: ``python demos/threading_events.py --timeline turns.png``.

The handoff itself is in ``a3c_tf/handoff.py``, the workers and the updater in ``a3c_tf/threading_demo.py``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import signal
import sys
from typing import Any, NoReturn

from a3c_tf import threading_demo
from a3c_tf.threading_demo import Lane, Result

MAX_WORKERS = 1000
# Okabe and Ito's blue and vermilion, told apart by the colour-blind; the paler of each pair waits.
COLLECTING, WAITING_ROLLING = "#0072B2", "#C9E3F4"
UPDATING, WAITING_UPDATE = "#D55E00", "#FBE0CC"
WINDOW_UPDATES = 4
"""How many updates the upper picture shows."""


class Parser(argparse.ArgumentParser):
    """Refuses in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    args = parse_args()
    if hasattr(signal, "SIGPIPE"):  # `| head` ends the demo as it ends any other program
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    import_tensorflow()
    try:
        result = threading_demo.run(
            n_workers=args.workers,
            ep_max=args.episodes,
            ep_len=args.episode_length,
            min_batch_size=args.min_batch_size,
            report=ignore if args.quiet else print,
            record=args.timeline is not None,
        )
        print(result.summary())
        if args.timeline is not None:
            draw_timeline(result, args.timeline)
            print(f"timeline: {args.timeline}")
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        return 130
    return 0


def ignore(text: str) -> None:
    """A report that nobody wants to see."""


def import_tensorflow() -> None:
    """Import TensorFlow; Ctrl-C meanwhile leaves at once, since an interrupted import has nothing useful to say."""
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    importlib.import_module("a3c_tf.tf1")
    signal.signal(signal.SIGINT, before)


def parse_args() -> argparse.Namespace:
    parser = Parser(description="Workers and one updater take turns by two Events, and report on it.")
    add = parser.add_argument
    add("--workers", type=positive, default=threading_demo.N_WORKER, help="collecting threads (%(default)s)")
    add("--episodes", type=positive, default=threading_demo.EP_MAX, help="episodes of all together (%(default)s)")
    add("--episode-length", type=positive, default=threading_demo.EP_LEN, help="steps an episode (%(default)s)")
    add(
        "--min-batch-size",
        type=positive,
        default=threading_demo.MIN_BATCH_SIZE,
        help="items before an update (%(default)s)",
    )
    add("--quiet", action="store_true", help="print the summary only")
    add("--timeline", type=picture, metavar="FILE.png", help="draw who worked and who waited when")
    args = parser.parse_args()
    if args.workers > MAX_WORKERS:
        parser.error(f"argument --workers: at most {MAX_WORKERS}, got {args.workers}")
    return args


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return value


def picture(text: str) -> pathlib.Path:
    """A .png file that can be written, found out by opening it: better to hear of it now than after the run."""
    path = pathlib.Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"a name ending in .png is needed, got {text!r}")
    there = path.exists()
    if there and not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file")
    try:
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: {error.strerror}") from None
    return path


def draw_timeline(result: Result, path: pathlib.Path) -> None:
    """Write a picture of the first few handoffs, wide enough to read, above one of the whole run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    lanes = [result.ppo.lane, *(worker.lane for worker in result.workers)]
    zero = min(lane.born for lane in lanes)
    updates = result.ppo.lane.bars
    window_end = updates[min(WINDOW_UPDATES, len(updates)) - 1][1] - zero
    height = 1.2 + 0.25 * len(lanes)
    figure, (near, far) = plt.subplots(2, 1, figsize=(13, 2 * height + 1.2), layout="constrained")
    for axes, end, edge in [(near, 1.02 * window_end, 0.8), (far, max(lane.died for lane in lanes) - zero, 0.0)]:
        draw_lanes(axes, lanes, zero, edge)
        axes.set_xlim(0, 1000 * end)
    near.set_title(f"The first {min(WINDOW_UPDATES, len(updates))} of {len(updates)} updates", loc="left")
    far.set_title("The whole run", loc="left")
    far.set_xlabel("milliseconds since the first thread began")
    colours = {
        "collecting (one bar an item)": COLLECTING,
        "waiting for ROLLING": WAITING_ROLLING,
        "updating": UPDATING,
        "waiting for UPDATE": WAITING_UPDATE,
    }
    figure.legend(handles=[Patch(color=c, label=n) for n, c in colours.items()], loc="outside lower center", ncols=4)
    figure.suptitle("Workers collect (blue) or the updater updates (orange), never both")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_lanes(axes: Any, lanes: list[Lane], zero: float, edge: float) -> None:
    for row, lane in enumerate(lanes):
        works, waits = (UPDATING, WAITING_UPDATE) if row == 0 else (COLLECTING, WAITING_ROLLING)
        life = [(lane.born, lane.died)]
        for bars, colour, width in [(life, waits, 0.0), (lane.bars, works, edge)]:
            spans = [(1000 * (begin - zero), 1000 * (end - begin)) for begin, end in bars]
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolor=colour, edgecolor="white", linewidth=width)
    axes.set_yticks(range(len(lanes)), [lane.name for lane in lanes])
    axes.set_ylim(len(lanes) - 0.4, -0.6)


if __name__ == "__main__":
    sys.exit(main())
