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
    if hasattr(signal, "SIGPIPE"):  # `| head` ends the demo as it ends any other program
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    args = parse_args()
    try:
        import_tensorflow()
        show(args)
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        leave_at_once()
    return 0


def show(args: argparse.Namespace) -> None:
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


def ignore(text: str) -> None:
    """A report that nobody wants to see."""


def import_tensorflow() -> None:
    """Import TensorFlow; Ctrl-C meanwhile leaves at once, since an interrupted import has nothing useful to say."""
    before = signal.signal(signal.SIGINT, lambda *_: leave_at_once())
    importlib.import_module("a3c_tf.graph.tf1")
    signal.signal(signal.SIGINT, before)


def leave_at_once() -> NoReturn:
    """Exit as after Ctrl-C; to take TensorFlow down in good order would take another second."""
    sys.stdout.flush()
    os._exit(130)


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
    """Write a picture of the first handoffs, wide enough to tell the items apart, above one of the whole run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    lanes = [result.ppo.lane, *(worker.lane for worker in result.workers)]
    height = min(20.0, 1.2 + 0.25 * len(lanes))
    figure, (near, far) = plt.subplots(
        2, 1, figsize=(13, 1.6 * height + 1.5), height_ratios=(1, 0.6), layout="constrained"
    )
    draw_first_handoffs(near, lanes, result.ppo.batch_sizes)
    draw_lanes(far, lanes, items_apart=False)
    far.set_title(f"The whole run (updates: {len(result.ppo.batch_sizes)})", loc="left")
    colours = {
        "collecting, one bar an item": COLLECTING,
        "waiting for ROLLING": WAITING_ROLLING,
        "updating": UPDATING,
        "waiting for UPDATE": WAITING_UPDATE,
    }
    figure.legend(handles=[Patch(color=c, label=n) for n, c in colours.items()], loc="outside lower center", ncols=4)
    figure.suptitle("The handoff: either the workers collect or the updater updates, never both", fontsize=14)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_first_handoffs(axes: Any, lanes: list[Lane], batch_sizes: list[int]) -> None:
    shown = lanes[0].bars[:WINDOW_UPDATES]
    readable = sum(batch_sizes[:WINDOW_UPDATES]) < 100 * len(lanes)
    zero = draw_lanes(axes, lanes, items_apart=readable)
    axes.set_xlim(0, 1020 * (shown[-1][1] - zero))
    axes.set_title("The first handoffs", loc="left", pad=20)
    for bar in shown:
        for moment in bar:
            axes.axvline(1000 * (moment - zero), color="black", linewidth=0.8, linestyle=":")
    if len(batch_sizes) == 1:  # then the only batch is what the stop left over: UPDATE may never have been set
        return
    for moment, text, side in [(shown[0][0], "UPDATE set", "right"), (shown[0][1], "ROLLING set", "left")]:
        axes.text(1000 * (moment - zero), -0.7, text, ha=side, va="bottom")


def draw_lanes(axes: Any, lanes: list[Lane], items_apart: bool) -> float:
    """Draw the updater's lane and the workers' below; return the second at which the axis begins."""
    zero = min(lane.born for lane in lanes)
    for row, lane in enumerate(lanes):
        works, waits = (UPDATING, WAITING_UPDATE) if row == 0 else (COLLECTING, WAITING_ROLLING)
        for bars, colour in [([(lane.born, lane.died)], waits), (lane.bars, works)]:
            spans = [(1000 * (begin - zero), 1000 * (end - begin)) for begin, end in bars]
            edge = "white" if items_apart else colour
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolor=colour, edgecolor=edge, linewidth=0.6)
    step = 1 + len(lanes) // 80
    axes.set_yticks(range(0, len(lanes), step), [lane.name for lane in lanes[::step]])
    axes.set_xlabel("milliseconds")
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlim(0, 1000 * (max(lane.died for lane in lanes) - zero))
    return zero


if __name__ == "__main__":
    sys.exit(main())
