"""One training process (a rank), from its first import of torch to its exit code."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from trainer import exit_codes
from trainer.config import Config, parse
from trainer.errors import DataError, PlaceUnavailableError, UsageError
from trainer.prctl import die_with_parent
from trainer.structured_log import emit

_PEER_DIED = ("Connection reset by peer", "Connection closed by peer", "Broken pipe")
"""Texts in gloo's error after the process at the other end has died."""


def run_rank_with(argv: Sequence[str]) -> int:
    """Train with these flags, in a forked process."""
    try:
        return run_rank(parse(argv))
    except UsageError as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


def run_rank(config: Config) -> int:
    """Train. Errors become one structured line and an exit code."""
    die_with_parent()
    warnings.filterwarnings("ignore")
    try:
        # torch is imported only here: the launcher reports a wrong flag at once, without it.
        from trainer.train import Trainer

        code = Trainer(config).run()
    except (UsageError, DataError, PlaceUnavailableError) as error:
        # Every rank of a node has the same problem; one reports it.
        if os.environ.get("LOCAL_RANK", "0") == "0":
            emit("error", str(error), severity="ERROR")
        unavailable = isinstance(error, PlaceUnavailableError)
        code = exit_codes.STORE_UNAVAILABLE if unavailable else exit_codes.USAGE
    except Exception as error:  # noqa: BLE001 - every error becomes one entry of the log
        emit("error", _sentence(error), severity="ERROR", traceback=traceback.format_exc())
        code = 1
    if code:
        # At once: threads that save or upload may wait for a lost rank or for a bucket.
        sys.stderr.flush()
        os._exit(code)
    return code


def _sentence(error: Exception) -> str:
    text = f"{type(error).__name__}: {str(error) or 'no reason was given'}"
    if isinstance(error, RuntimeError) and any(word in text for word in _PEER_DIED):
        # This is not the cause; the process that died reports it.
        return f"another process of the run is gone, so this one ends: {text.split('. ', 1)[0]}"
    return text
