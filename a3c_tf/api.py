"""``train`` and ``resume``: choose how the workers run, and have them trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed.processes import ProcessCrew
from a3c_tf.runs.display import check_show
from a3c_tf.training import trainer
from a3c_tf.training.crew import Crew, ThreadCrew
from a3c_tf.training.trainer import Result


def train(config: Config, show: str = "auto", processes: int | None = None, *, crew: Crew | None = None) -> Result:
    """Train until the budget of ``config`` is used; everything is left in the run folder.

    ``processes`` stands for the setting of that name. A program that starts processes needs
    ``if __name__ == "__main__":`` around the call, for each of them imports it again. ``crew`` is how the
    workers run, in place of what the settings ask for.
    ``show`` is ``auto`` (a progress bar on a terminal, else a line an episode), ``lines`` or ``none``.
    Raises ``UsageError`` for settings that cannot be run, before anything is written; whatever
    exception a worker met, with the worker's name in a note; ``KeyboardInterrupt``. The run is saved in
    each case and can be resumed.
    """
    check_show(show)
    config = (config if processes is None else config.replace(processes=processes)).settled()
    return trainer.run_new(config, crew or crew_for(config), show)


def resume(run_folder: str | Path, show: str = "auto", *, crew: Crew | None = None, **given: Any) -> Result:
    """Go on with a run from its newest good checkpoint.

    ``given`` are settings as of ``Config``: they must equal the run's, but a budget may be larger. An
    environment that was a callable must be given again. Raises as ``train`` does.
    """
    check_show(show)
    return trainer.go_on(run_folder, given, lambda config: crew or crew_for(config), show)


def crew_for(config: Config) -> Crew:
    """Processes if the settings ask for some, else threads."""
    return ProcessCrew() if config.processes else ThreadCrew()
