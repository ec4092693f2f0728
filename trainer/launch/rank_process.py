"""A training process (a rank), from its import of torch to its exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from trainer import exit_codes
from trainer.config import Config, parse
from trainer.elastic.protocol import LINK
from trainer.errors import UsageError
from trainer.hang import agent
from trainer.prctl import die_with_parent
from trainer.structured_log import emit
from trainer.supervision.failure import ERROR_FILE, report_error


def run_rank_with(argv: Sequence[str]) -> int:
    """Train with these flags in a forked process; return the exit code."""
    try:
        return run_rank(parse(argv))
    except UsageError as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


def run_rank(config: Config, exit_code: Callable[[int], int] = int) -> int:
    """Train; report an error as one record (`supervision.failure`) and an exit code. Without a supervisor,
    `exit_code` maps the outcome to the exit code of the process."""
    die_with_parent()
    agent.start()
    warnings.filterwarnings("ignore")
    trainer: Any = None
    try:
        # Import torch only now: the launcher reports a wrong flag without the delay of this import.
        from trainer.elastic.training import ElasticTrainer
        from trainer.train import Trainer

        link = os.environ.get(LINK, "")
        if config.launch.elastic and not link and ERROR_FILE not in os.environ:
            raise UsageError("--elastic needs trainer.task on each node, and does not work below torchrun")
        trainer = ElasticTrainer(config, link) if link else Trainer(config)
        code = int(trainer.run())
    except Exception as error:  # noqa: BLE001 - every error becomes one log entry
        code = report_error(error, _where(trainer))
    code = exit_code(code)
    if code:
        # Exit immediately: threads that save or upload may wait for a lost rank or for a bucket.
        sys.stderr.flush()
        os._exit(code)
    return code


def _where(trainer: Any) -> dict[str, Any]:
    """Return where in the training the error occurred, as fields for its record; the result is empty if
    reading them fails."""
    with contextlib.suppress(Exception):
        return trainer.where() if trainer is not None else {}
    return {}
