"""`python -m trainer.task`: the supervisor in the container, the training loop in its processes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from trainer import exit_codes
from trainer.config import Config, parse
from trainer.errors import DataError, UsageError
from trainer.launch.rank_process import run_rank
from trainer.launch.start import elastic_flags, start
from trainer.launch.trainer_program import TrainerProgram
from trainer.placement.sources import find_topology
from trainer.placement.topology import Topology, TopologyError
from trainer.structured_log import emit


def main() -> int:
    """Run the command; return a code of `trainer.exit_codes` for this platform, or the process's own code."""
    try:
        config = parse()
        topology = find_topology(os.environ)
        if config.print_config:
            print(json.dumps(asdict(config), indent=1))  # noqa: T201
            return exit_codes.DONE
        if topology.variables:
            return _run_for_mpirun(config, topology)
        # This process runs below torchrun, or the fork server could not fork.
        if topology.per_process:
            return run_rank(config)
        flags = [*sys.argv[1:], *elastic_flags(config, sys.argv[1:], topology)]
        return start(TrainerProgram(parse(flags), flags), topology)
    except (UsageError, DataError, TopologyError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


def _run_for_mpirun(config: Config, topology: Topology) -> int:
    """Run one of mpirun's processes on this machine. mpirun ends with the code of the first failed
    process."""
    platform = dict(os.environ)
    os.environ.update(topology.variables)
    return run_rank(config, lambda code: exit_codes.for_platform(code, platform))


if __name__ == "__main__":
    sys.exit(main())
