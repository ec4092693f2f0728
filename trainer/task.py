"""`python -m trainer.task`: a supervisor in the container, the training loop in the processes it starts."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from dataclasses import asdict

from trainer.config import Config, DataError, UsageError, parse
from trainer.fork_server import die_with_parent
from trainer.init import become_init
from trainer.lines import emit
from trainer.supervisor import Supervisor
from trainer.topology import Topology, TopologyError

USAGE = 2
LOST_PEER = ("Connection reset by peer", "Connection closed by peer", "Broken pipe")
"""What gloo says, as plain text, when a process at the other end has died."""


def main() -> int:
    """0 done, 75 preempted with a checkpoint, 2 wrong usage, else the failure's own code."""
    try:
        config = parse()
        topology = Topology.from_env(os.environ)
        if config.print_config:
            print(json.dumps(asdict(config), indent=1))  # noqa: T201
            return 0
        for text in topology.warnings:
            emit("phase", text, severity="WARNING", phase="starting")
        if not topology.trains:
            text = f"this replica is a {topology.role} and takes no part in the training"
            emit("phase", text, phase="idle")
            return 0
        # Under torchrun, and in the processes that our own supervisor has forked.
        if topology.per_process:
            return _train(config)
        # As PID 1 this process only waits for a child, which goes on here.
        ended = become_init()
        if ended is not None:
            return ended
        return Supervisor(config, topology, sys.argv[1:]).run()
    except (UsageError, DataError, TopologyError) as error:
        emit("error", str(error), severity="ERROR")
        return USAGE


def _train(config: Config) -> int:
    """One process of the run, from its first import of torch to its exit code."""
    die_with_parent()
    warnings.filterwarnings("ignore")
    try:
        # torch is loaded from here on only, so that a wrong flag is told at once.
        from trainer.train import Trainer

        return Trainer(config).run()
    except (UsageError, DataError) as error:
        # Every rank of a node finds the same; one says it.
        if os.environ.get("LOCAL_RANK", "0") == "0":
            emit("error", str(error), severity="ERROR")
        return USAGE
    except Exception as error:  # noqa: BLE001 - whatever it was, it goes into the log as one entry
        emit("error", _in_a_sentence(error), severity="ERROR", traceback=traceback.format_exc())
        # At once: threads that save or upload may wait for a rank that is gone.
        sys.stderr.flush()
        os._exit(1)


def _in_a_sentence(error: Exception) -> str:
    said = f"{type(error).__name__}: {str(error) or 'no reason was given'}"
    if isinstance(error, RuntimeError) and any(word in said for word in LOST_PEER):
        # Not the cause: that is said by the process that died.
        return f"another process of the run is gone, this one can't go on: {said.split('. ', 1)[0]}"
    return said


if __name__ == "__main__":
    sys.exit(main())
