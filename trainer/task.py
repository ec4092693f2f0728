"""`python -m trainer.task`: a supervisor in the container, the training loop in its processes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from trainer import exit_codes
from trainer.config import parse
from trainer.errors import DataError, UsageError
from trainer.launch.container_init import run_as_init
from trainer.launch.rank_process import run_rank
from trainer.launch.supervisor import Supervisor
from trainer.launch.topology import Topology, TopologyError
from trainer.structured_log import emit


def main() -> int:
    """One of `trainer.exit_codes`, else the failed process's own code."""
    try:
        config = parse()
        topology = Topology.from_env(os.environ)
        if config.print_config:
            print(json.dumps(asdict(config), indent=1))  # noqa: T201
            return exit_codes.DONE
        for text in topology.warnings:
            emit("phase", text, severity="WARNING", phase="starting")
        if not topology.trains:
            text = f"this replica is a {topology.role} and takes no part in the training"
            emit("phase", text, phase="idle")
            return exit_codes.DONE
        # Under torchrun, or if the fork server could not fork.
        if topology.per_process:
            return run_rank(config)
        # PID 1 only waits for a child, which continues here.
        code = run_as_init()
        if code is not None:
            return code
        return Supervisor(config, topology, sys.argv[1:]).run()
    except (UsageError, DataError, TopologyError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


if __name__ == "__main__":
    sys.exit(main())
