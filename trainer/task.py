"""`python -m trainer.task`: a supervisor in the container, the training loop in its processes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from trainer import exit_codes
from trainer.config import parse
from trainer.errors import DataError, UsageError
from trainer.launch.program import TrainerProgram
from trainer.launch.rank_process import run_rank
from trainer.launch.start import start
from trainer.launch.topology import Topology, TopologyError
from trainer.structured_log import emit


def main() -> int:
    """The exit code: one of `trainer.exit_codes` for this platform, else the failed process's own."""
    try:
        config = parse()
        topology = Topology.from_env(os.environ)
        if config.print_config:
            print(json.dumps(asdict(config), indent=1))  # noqa: T201
            return exit_codes.DONE
        # Under torchrun, or if the fork server could not fork.
        if topology.per_process:
            return run_rank(config)
        return start(TrainerProgram(config, sys.argv[1:]), topology)
    except (UsageError, DataError, TopologyError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


if __name__ == "__main__":
    sys.exit(main())
